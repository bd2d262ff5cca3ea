"""Hidden cameras differ from the shipped one, and a small run of the benchmark."""

import json
from dataclasses import replace

import hidden
import numpy as np
import pytest
from hidden import CAMERAS, HIDDEN, STANDIN, Arguments, format_hidden_recipe, main, write_measured

from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene


def cameras(path):
    domain = load_recipe(str(path)).domain
    return [
        build_scene(sample_factors(domain, 0, i, views=1), domain, 384, 384).cameras[0]
        for i in range(2)
    ]


def test_each_hidden_camera_is_one_camera_and_another_than_the_others(tmp_path):
    found = [cameras(STANDIN)]
    for number in range(CAMERAS):
        path = tmp_path / f"{number}.toml"
        path.write_text(format_hidden_recipe(number))
        found.append(cameras(path))
        assert load_recipe(str(path)).categories == load_recipe("dice").categories
    for first, second in found[1:]:
        assert first.lens == second.lens
        assert first.sensor.full_well_e == second.sensor.full_well_e
        assert first.sensor.exposure_ev != second.sensor.exposure_ev
    assert len({one.lens for one, _ in found}) == CAMERAS + 1
    assert len({one.sensor.tone_contrast for one, _ in found}) == CAMERAS + 1


def test_without_time_and_pictures_what_was_measured_before_stays(tmp_path):
    (tmp_path / "hidden.json").write_text("before")
    main(Arguments(work=tmp_path / "work", minutes=0.0, out=tmp_path))
    assert (tmp_path / "hidden.json").read_text() == "before"


def test_cameras_that_are_not_measured_now_stay_as_they_were(tmp_path):
    path = tmp_path / "hidden.json"
    for number, ap50 in ((2, 0.5), (0, 0.6), (2, 0.7)):
        write_measured(path, {"camera": number, "ap50": ap50})
    assert json.loads(path.read_text())["cameras"] == [
        {"camera": 0, "ap50": 0.6},
        {"camera": 2, "ap50": 0.7},
    ]


def test_a_camera_that_is_none_is_told(tmp_path):
    with pytest.raises(SystemExit, match=r"^--cameras: unknown cameras: 3, 7\.$"):
        main(Arguments((0, 7, 3), tmp_path, out=tmp_path))
    with pytest.raises(SystemExit, match="--arms: unknown variants: none"):
        main(Arguments(work=tmp_path, out=tmp_path, arms=("none",)))


@pytest.mark.slow
def test_it_makes_trains_and_scores_and_goes_on(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mitsuba")
    import make_standin

    monkeypatch.setattr(hidden, "IMAGE_COUNTS", {"style": 20, "test": 3})
    monkeypatch.setattr(hidden, "SIZE_PX", (96, 96))
    monkeypatch.setattr(make_standin, "SAMPLES", 1)
    config = replace(HIDDEN.config, steps=2, batch=2, crop_px=64)
    recipe = tmp_path / "dice.toml"
    recipe.write_text(
        'base = "dice"\n[adapt.translator]\npreset = "demo"\nsteps = 2\npatch_px = 64\n'
    )
    plan = replace(HIDDEN, image_count=10, config=config, recipe=str(recipe))
    arguments = Arguments((0,), tmp_path / "work", at_once=1, out=tmp_path)
    main(arguments, plan)
    found = json.loads((tmp_path / "hidden.json").read_text())
    (camera,) = found["cameras"]
    fit = ["randomized + camera fit", "randomized + camera fit, translated"]
    names = ["randomized", *fit, "+ transfer", "+ translated"]
    assert [arm["name"] for arm in camera["variants"]] == [
        *names[:4],
        "+ self-labelled photos",
        names[4],
    ]
    assert camera["protocol"]["test_images"] == 3
    assert set(camera["isp_gaps"]) == set(names)
    values = [gap["value"] for gap in camera["isp_gaps"]["randomized"].values()]
    assert values
    assert np.isfinite(values).all()
    assert "camera 0: randomized AP50" in capsys.readouterr().out
    main(replace(arguments, minutes=0.0), plan)
    again = json.loads((tmp_path / "hidden.json").read_text())
    assert again["cameras"] == found["cameras"]
