from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.reader import read_dataset
from sim2cam.data.sample import Dataset, SourceDataset
from sim2cam.data.set_operations import hold_out, merge_datasets, select_boxes, split_by_scene
from sim2cam.errors import UsageError
from tests.support.errors import error_text


def rng():
    return np.random.default_rng(0)


@pytest.fixture
def many(native):
    """Forty samples of twenty scenes, in mixed order."""
    sample = read_dataset(native).samples[0]
    samples = tuple(
        replace(sample, name=f"{n}", scene_index=n * 7 % 20, digest=f"{n}") for n in range(40)
    )
    return Dataset(native, ("square", "disc"), samples)


def test_whole_boxes_stand_for_those_of_what_is_seen(many):
    whole, known = (0.0, 1.0, 90.0, 80.0), many.samples[0].objects[0]
    hidden, unknown = replace(known, box_amodal_xyxy=whole), replace(known, box_amodal_xyxy=None)
    first, photo, *rest = many.samples
    samples = (replace(first, objects=(hidden, unknown)), replace(photo, objects=None), *rest)
    data = replace(many, samples=samples)
    assert select_boxes(data, amodal=False) == data
    found = select_boxes(data, amodal=True).samples
    assert [o.box_xyxy for o in found[0].objects] == [whole, known.box_xyxy]
    assert replace(found[0].objects[0], box_xyxy=known.box_xyxy) == hidden
    assert found[1].objects is None
    assert "ids" in first.channels
    assert found[0].channels == first.channels


def test_parts_are_disjoint_whole_and_of_their_size(many):
    parts = split_by_scene(many, {"train": 0.7, "val": 0.1, "test": 0.2}, rng())
    assert [len(part.samples) for part in parts.values()] == [28, 4, 8]
    scenes = [{s.scene_index for s in part.samples} for part in parts.values()]
    assert sum(map(len, scenes)) == len(set.union(*scenes)) == 20
    assert {s.name for part in parts.values() for s in part.samples} == {
        s.name for s in many.samples
    }
    for part in parts.values():
        places = [many.samples.index(sample) for sample in part.samples]
        assert places == sorted(places)


def test_chance_decides_and_a_seed_repeats_it(many):
    shares = {"a": 0.5, "b": 0.5}
    once, again = split_by_scene(many, shares, rng()), split_by_scene(many, shares, rng())
    assert once == again
    assert once != split_by_scene(many, shares, np.random.default_rng(1))


def test_one_part_is_everything(many):
    assert split_by_scene(many, {"train": 1.0}, rng()) == {"train": many}


@pytest.mark.parametrize(
    ("shares", "problem"),
    [
        ({"a": 0.5, "b": 0.6}, "fractions a=0.5, b=0.6 are invalid. Each must be above 0, and their sum 1."),
        ({"a": 1.5, "b": -0.5}, "fractions a=1.5, b=-0.5 are invalid. Each must be above 0, and their sum 1."),
        ({"a": 0.99, "b": 0.01}, "{root} has 20 scenes, too few for b=0.01."),
    ],
)  # fmt: skip
def test_impossible_shares_are_refused(many, shares, problem):
    message = error_text(lambda: split_by_scene(many, shares, rng()), error=UsageError)
    assert message == problem.replace("{root}", str(many.root))


def test_a_scene_and_its_translations_are_one(native, adapted):
    sim, translated = read_dataset(native), read_dataset(adapted)
    merged = merge_datasets([sim, translated])
    names = [f"{part}-{n:06d}" for part in ("native", "adapted") for n in range(4)]
    assert [sample.name for sample in merged.samples] == names
    assert [sample.scene_index for sample in merged.samples] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert merged.sources == (
        SourceDataset(native, {0: 0, 1: 1}),
        SourceDataset(adapted, {0: 0, 1: 1}),
    )
    assert {s.origin for s in merged.samples} == {"sim", "adapted"}


def test_translations_of_one_scene_are_one_without_it_too(native, adapted, tiny, tmp_path):
    other = tiny.write_adapted(tmp_path / "other", native)
    merged = merge_datasets([read_dataset(adapted), read_dataset(other)])
    assert [sample.scene_index for sample in merged.samples] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_scenes_of_strangers_are_apart(native, many):
    merged = merge_datasets([read_dataset(native), many])
    scenes = defaultdict(set)
    for sample in merged.samples:
        scenes[sample.scene_index].add(sample.name.split("-")[0])
    assert len(scenes) == 2 + 20
    assert {len(found) for found in scenes.values()} == {1}


def test_categories_are_united_and_folders_of_one_name_numbered(native):
    one = read_dataset(native)
    two = replace(one, categories=("ring", "disc", "square"))
    merged = merge_datasets([one, two])
    assert merged.categories == ("square", "disc", "ring")
    assert merged.samples[0].name == "native-1-000000"
    assert merged.samples[-1].name == "native-2-000003"


def test_one_is_left_alone_and_none_is_refused(native):
    one = read_dataset(native)
    assert merge_datasets([one]) is one
    with pytest.raises(UsageError, match="no dataset to merge"):
        merge_datasets([])


def test_nothing_is_held_out_of_nothing():
    with pytest.raises(UsageError, match="no dataset to merge"):
        hold_out([], 0.1)


def test_what_is_set_aside_is_a_share_of_whole_scenes(many):
    (kept,), aside = hold_out([many], 0.12)
    assert len({s.scene_index for s in aside.samples}) == 2  # of 20, rounded down
    assert len(aside.samples) == 4
    assert not {s.scene_index for s in kept.samples} & {s.scene_index for s in aside.samples}
    assert [s for s in many.samples if s in kept.samples] == list(kept.samples)
    assert {s.name for s in (*kept.samples, *aside.samples)} == {s.name for s in many.samples}


def test_the_same_scenes_are_set_aside_of_pictures_made_anew(many):
    anew = tuple(replace(s, digest=f"anew-{s.name}") for s in reversed(many.samples))
    _, aside = hold_out([many], 0.5)
    _, later = hold_out([replace(many, samples=anew)], 0.5)
    names = {s.name for s in aside.samples}
    assert names == {s.name for s in later.samples}
    halves = {s.name for s in many.samples[:20]}, {s.name for s in many.samples[20:]}
    assert names not in halves


def test_what_a_detector_labelled_is_not_set_aside(many):
    told = replace(
        many, samples=tuple(replace(s, origin="pseudo-labelled", digest="") for s in many.samples)
    )
    (first, second), aside = hold_out([many, told], 0.5)
    assert aside.samples
    assert {s.origin for s in aside.samples} == {"sim"}
    alone = hold_out([many], 0.5)[1].samples
    assert [s.name for s in aside.samples] == [f"{many.root.name}-1-{s.name}" for s in alone]
    assert second == told
    assert len(first.samples) + len(aside.samples) == len(many.samples)


def test_translations_are_set_aside_with_their_scene(many):
    translated = replace(
        many,
        samples=tuple(
            replace(s, digest=f"t{s.name}", parent=s.digest, scene_index=99 - s.scene_index)
            for s in many.samples[:30]
        ),
    )
    (first, second), aside = hold_out([many, translated], 0.5)
    assert aside.samples
    digests = {s.digest for s in first.samples}
    assert all(s.parent in digests for s in second.samples)
    parents = {s.parent or s.digest for s in aside.samples}
    assert not parents & digests
    assert len(first.samples) + len(second.samples) + len(aside.samples) == 70


def test_nothing_set_aside_is_everything_kept(many):
    kept, aside = hold_out([many], 0.0)
    assert kept == (many,)
    assert aside.samples == ()


@pytest.mark.parametrize("name", "abcde")  # of which some would be set aside among the first
def test_of_every_data_set_a_scene_stays(many, name):
    photo = replace(many, samples=(replace(many.samples[0], name=name, digest="x", scene_index=0),))
    empty = replace(many, samples=())
    (renders, photos, nothing), aside = hold_out([many, photo, empty], 0.99)
    assert photos == photo
    assert nothing == empty
    assert {s.scene_index for s in renders.samples}
    assert len(renders.samples) + len(aside.samples) == len(many.samples)
    (alone,), aside = hold_out([photo], 0.99)
    assert (alone, aside.samples) == (photo, ())
