"""Splits by day: disjoint adaptation and test photos, each test photo scored once."""

from dataclasses import replace
from pathlib import Path

import days
import pytest
from days import BY_DAY, DAYS, get_site, score
from hidden import HIDDEN
from sites import Site

from sim2cam.data.formats.predictions import DETECTION_ROWS
from sim2cam.data.real_images import RealImageSplits
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.experiments.ablation import locate_result

BOX = (10.0, 10.0, 40.0, 40.0)


def photos(part, numbers):
    """Two photos of a part for each number, one of each day."""
    label = ObjectLabel(category="1", box_xyxy=BOX, area_px=900.0)
    names = [f"{part}/IMG_{day}_{number}.jpg" for number in numbers for day in DAYS]
    samples = (Sample(name, Path(name), 64, 64, (label,), "real") for name in names)
    return Dataset(Path("dice"), ("1",), tuple(samples))


@pytest.fixture
def captures():
    return RealImageSplits(photos("train", (1, 2, 3)), photos("test", (4,)), photos("train", (5,)))


@pytest.fixture
def sites(captures, tmp_path, monkeypatch):
    monkeypatch.setattr(days, "RESULTS", tmp_path / "results")
    return [get_site(day, captures, tmp_path / "work") for day in DAYS]


def names(dataset):
    return {sample.name for sample in dataset.samples}


def write_found(plan, site, arm, seed, *, sure):
    found = {name: [["1", *BOX, sure]] for name in names(site.captures.test)}
    facts = {
        "variant": arm.name,
        "seed": seed,
        "config": plan.config.to_json(),
        "data": [{"name": site.root.name, "digest": ""}],
    }
    write_json(locate_result(site.predictions, arm, seed), facts | {DETECTION_ROWS: found})


def test_what_is_learned_from_is_of_one_day_and_what_is_scored_of_the_other(sites, captures):
    for day, site in zip(DAYS, sites, strict=True):
        own = names(site.captures.style) | names(site.captures.dev)
        assert own == {n for n in names(captures.style) | names(captures.dev) if day in n}
        assert len(names(site.captures.test)) == 4
        assert not any(day in name for name in names(site.captures.test))
    both = [name for site in sites for name in names(site.captures.test)]
    assert sorted(both) == sorted(names(captures.style) | names(captures.test))


def test_arms_are_scored_on_the_photos_of_both_ways_where_both_were_run(sites):
    plan = replace(BY_DAY, variants=BY_DAY.variants[:3], seeds=(0,))
    with pytest.raises(InputError, match="no predictions of the variant 'randomized' yet"):
        score(plan, sites)
    first, second, third = plan.variants
    for site, sure in zip(sites, (0.9, 0.4), strict=True):
        write_found(plan, site, first, 0, sure=sure)
        write_found(plan, site, second, 0, sure=sure)
    write_found(plan, sites[0], third, 0, sure=0.9)
    found = score(plan, sites)
    assert [arm["name"] for arm in found["variants"]] == [first.name, second.name]
    assert found["protocol"]["test_images"] == 8
    assert found["variants"][0]["ap50"]["value"] == 1.0


def test_only_what_learns_from_no_photo_is_made_once(tmp_path, captures):
    site = Site(captures, tmp_path / "site", tmp_path / "shared", tmp_path / "found")
    for plan in (BY_DAY, HIDDEN):
        shared = [arm.name for arm in plan.variants if site.get_folder(arm) == site.shared]
        assert shared == ["randomized"]
        assert "+ self-labelled photos" in [arm.name for arm in plan.variants]
