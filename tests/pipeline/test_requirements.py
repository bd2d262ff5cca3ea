"""Requirements: measured, rejected, counted, balanced and exhausted."""

import itertools
import json
import math
import re
from dataclasses import replace

import pytest

from sim2cam.data.card import build_card
from sim2cam.data.reader import read_scenes
from sim2cam.data.sample import ObjectLabel
from sim2cam.errors import SceneError
from sim2cam.experiments.factor_extremes import render_factor_extremes
from sim2cam.pipeline import generation, scene_sampling
from sim2cam.pipeline.generation import generate, render_preview
from sim2cam.pipeline.recipe import Recipe, RenderOptions, load_recipe
from sim2cam.pipeline.requirements import (
    MEASURES,
    Requirement,
    collect_camera_labels,
    measure_scene,
)
from sim2cam.pipeline.scene_records import read_settled_scene
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.counterfactual import Intervention
from sim2cam.randomize.distributions import Constant, Same, Uniform
from sim2cam.randomize.domain_survey import sample_factor_histograms
from sim2cam.render.renderer import Stage, get_renderer

PLAIN = load_recipe("dice")
FEW = {"layout/die_count": Constant(2), "layout/distractor_count": Constant(0)}
RECIPE = replace(
    PLAIN,
    domain=PLAIN.domain.replace_factors(FEW),
    render=RenderOptions(width=96, height=80, views=1),
)
WARMTH = Requirement(((0.0, 2.0),), value=Same("light/warmth"))
SIXES = Requirement(((0.0, 0.0), (1.0, 99.0)), measure="count/6")


def needing(**require):
    return replace(RECIPE, require=require)


def sixes(settled):
    return measure_scene("count/6", settled.scene, [])


def label(side, fraction):
    return ObjectLabel("6", (5.0, 5.0, 5.0 + side, 5.0 + side), side**2, visible_fraction=fraction)


def test_measures_use_the_camera_with_smallest_value():
    scene = simulate_scene(RECIPE, 0, 0).scene
    seen = [[label(10, 1.0), label(20, 0.5)], [label(8, 0.9)]]
    found = {name: measure_scene(name, scene, seen) for name in MEASURES}
    assert found == {
        "objects": 1,
        "min_visible_fraction": 0.5,
        "mean_visible_fraction": 0.75,
        "min_box_px": 8.0,
    }
    nothing = {name: measure_scene(name, scene, [*seen, []]) for name in MEASURES}
    assert nothing.pop("objects") == 0
    assert all(math.isnan(value) for value in nothing.values())


def test_measured_labels_equal_written_labels():
    scene = simulate_scene(RECIPE, 0, 1).scene
    (labels,) = collect_camera_labels(scene)
    assert (
        labels == Stage(scene, get_renderer().rasterizer).shoot(scene.cameras[0], ("ids",)).objects
    )


def test_required_value_is_sampled_until_valid():
    recipe = needing(warm=WARMTH)
    found = [simulate_scene(recipe, 0, index) for index in range(6)]
    assert all(0 <= settled.sampled_values.values["light/warmth"] <= 2 for settled in found)
    why = [text for settled in found for text in settled.rejections]
    assert any(re.fullmatch(r"warm: its value is -0\.\d+, not 0 to 2", text) for text in why)
    assert all(settled.attempt == len(settled.rejections) for settled in found)
    free = simulate_scene(RECIPE, 0, 0)
    if free.sampled_values.values["light/warmth"] >= 0:  # the requirement rejected no scene
        assert found[0] == free


def test_requirement_without_effect_changes_nothing():
    always = Requirement(((-1.0, 1e9),), measure="objects")
    found = simulate_scene(needing(any=always), 0, 2)
    assert replace(found, requirement_values={}) == simulate_scene(RECIPE, 0, 2)


def test_requirement_results_are_recorded_and_counted(tmp_path):
    few, many = (0.0, 1.0), (2.0, 99.0)
    recipe = needing(crowd=Requirement((few, many), measure="objects", budget=500), warm=WARMTH)
    dataset = generate(recipe, tmp_path / "d", count=4, seed=0)
    shown = {0: [], 1: []}
    for scene in read_scenes(tmp_path / "d"):
        (sample,) = [s for s in dataset.samples if s.scene_index == scene.scene_index]
        assert set(scene.requirement_values) == {"crowd"}
        assert scene.requirement_values["crowd"].value == len(sample.objects)
        shown[int(scene.requirement_values["crowd"].required_range == many)].append(
            len(sample.objects)
        )
    assert [len(counts) for counts in shown.values()] == [2, 2]
    assert max(shown[0]) < 2 <= min(shown[1])
    card = build_card(dataset)
    assert card.requirement_scenes == {"crowd, 0 to 1": 2, "crowd, 2 to 99": 2}
    assert card.requirement_ranges["crowd, 2 to 99"].low == min(shown[1])
    assert (
        simulate_scene(recipe, 0, 1).requirement_values
        == read_settled_scene(tmp_path / "d", recipe, 1).requirement_values
    )


def test_ranges_alternate_by_index():
    found = [sixes(simulate_scene(needing(balance=SIXES), 0, index)) for index in range(8)]
    for start in range(0, 8, 2):
        assert sorted(count > 0 for count in found[start : start + 2]) == [False, True]
    assert found[5] == sixes(simulate_scene(needing(balance=SIXES), 0, 5))


def test_visible_objects_are_measured_on_labels():
    both = Requirement(((2.0, 2.0),), measure="objects")
    recipe = needing(both=both)
    for index in range(4):
        (labels,) = collect_camera_labels(simulate_scene(recipe, 0, index).scene)
        assert len(labels) == 2


LARGE = needing(large=Requirement(((200.0, 400.0),), measure="min_box_px", budget=10))
LARGE = replace(
    LARGE,
    domain=LARGE.domain.replace_factors(
        {
            "layout/die_count": Constant(1),
            "layout/speed_m_s": Constant(0.0),
            "layout/spin_rad_s": Constant(0.0),
            "view/die_px": Constant(220.0),
            "view/aim_radius": Constant(0.0),
        }
    ),
    render=RenderOptions(width=640, height=640, views=2),
)


def test_preview_shows_scenes_of_the_dataset(tmp_path, monkeypatch):
    monkeypatch.setattr(generation, "SAMPLES_PER_SHARD", 2)
    small = render_preview(LARGE, tmp_path / "d", seed=0)
    assert [sample.width for sample in small.samples] == [240, 240]
    for sample in small.samples:
        large = collect_camera_labels(simulate_scene(LARGE, 0, sample.scene_index).scene)[0]
        for one, other in zip(sample.objects, large, strict=True):
            assert one.category == other.category
            assert one.box_xyxy == pytest.approx([240 / 640 * x for x in other.box_xyxy], abs=1.5)


def test_preview_of_sequences_shows_scenes_at_rest(tmp_path, monkeypatch):
    monkeypatch.setattr(generation, "SAMPLES_PER_SHARD", 1)
    (still,) = render_preview(load_recipe("dice-film"), tmp_path / "d", seed=0).samples
    assert still.frame_info.frame_index == 0
    assert still.channels == {}


def test_preview_shows_keypoints(tmp_path, monkeypatch):
    monkeypatch.setattr(generation, "SAMPLES_PER_SHARD", 2)
    samples = render_preview(load_recipe("chessboard"), tmp_path / "d", seed=0).samples
    points = [p for s in samples for label in s.objects for p in label.keypoints]
    assert any(point.visibility == 2 for point in points)


def test_preview_starts_no_scene_after_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr(generation.time, "process_time", itertools.count().__next__)
    preview = render_preview(load_recipe("chessboard"), tmp_path / "d", seed=0, max_cpu_s=1.5)
    assert [sample.scene_index for sample in preview.samples] == [0, 1]
    assert len(list(read_scenes(tmp_path / "d"))) == 2


def test_factor_extremes_use_full_size_requirements():
    (tilt,) = [
        one
        for one in sample_factor_histograms(LARGE.domain, 0, count=1, views=1)
        if one.factor == "tilt_rad"
    ]
    assert None not in list(render_factor_extremes(LARGE, 0, [tilt]))


def test_exhausted_budget_lists_all_failures():
    never = Requirement(((5.0, 9.0),), measure="objects", budget=3)
    warm = replace(WARMTH, budget=50)
    with pytest.raises(SceneError) as caught:
        simulate_scene(needing(warm=warm, crowd=never), 0, 0)
    assert re.fullmatch(
        r"scene 0 of recipe 'dice' failed its requirement 'crowd' 3 times \(last: objects is \d, "
        r"not 5 to 9\)\. Also, \d+ candidates? failed 'warm'(, \d+ candidates? had invalid bodies or cameras)?\. "
        r"Widen its range, raise its budget, or change the domain\.",
        str(caught.value),
    ) or re.search(
        r"Also, \d+ candidates? had invalid bodies or cameras, \d+ candidates? failed 'warm'",
        str(caught.value),
    )


def test_unsettled_candidates_count_consecutively(monkeypatch):
    drafts = itertools.count(1)
    monkeypatch.setattr(
        scene_sampling,
        "find_unprojectable_corner",
        lambda _: None if next(drafts) % 6 == 0 else "the lens folds back",
    )
    never = Requirement(((5.0, 9.0),), measure="objects", budget=5)
    found = r"requirement 'crowd' 5 times .* Also, (2[5-9]|3\d) candidates had invalid bodies or cameras\."
    with pytest.raises(SceneError, match=found):
        simulate_scene(needing(crowd=never), 0, 0)


def test_counterfactuals_meet_requirements():
    recipe = needing(warm=WARMTH)
    pair = simulate_scene(recipe, 0, 1, Intervention({"light": 1}))
    assert pair.sampled_values.values["light/warmth"] >= 0
    with pytest.raises(SceneError, match=r"values that are set: warm: its value is -0\.5"):
        simulate_scene(recipe, 0, 1, Intervention(settings={"light/warmth": -0.5}))


def test_rejections_are_recorded(tmp_path):
    recipe = needing(warm=WARMTH)
    generate(recipe, tmp_path / "d", count=4, seed=0)
    lines = (tmp_path / "d/shards/000000/scenes.jsonl").read_text().splitlines()
    for index, line in enumerate(lines):
        expected = simulate_scene(recipe, 0, index).rejections
        assert tuple(json.loads(line)["rejections"]) == expected


def test_recipe_with_requirements_has_its_own_digest(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text(
        'base = "dice"\n[require.balance]\nmeasure = "count/6"\nwithin = [[0, 0], [1, 99]]\n'
        "[require.warm]\nwithin = [[0, 2]]\nvalue = { kind = 'same', factor = 'light/warmth' }\n"
    )
    recipe = load_recipe(str(path))
    assert recipe.require == {"balance": SIXES, "warm": WARMTH}
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert recipe.digest() != PLAIN.digest()
    assert "require" not in PLAIN.collect_rendering_settings()


BAD = [
    ("measure = 'objets'\nwithin = [[1, 2]]", "'require.r.measure' cannot be 'objets'. Did you mean 'objects'? Allowed: count/1, count/2, count/3, count/4, count/5, count/6, mean_visible_fraction, min_box_px, min_visible_fraction, objects."),
    ("measure = 'count/7'\nwithin = [[1, 2]]", "'require.r.measure' cannot be 'count/7'. Did you mean "),
    ("measure = 'objects'\nwithin = [[2, 1]]", "a requirement needs ranges [low, high] with low <= high, not ((2.0, 1.0),)"),
    ("measure = 'objects'\nwithin = []", "a requirement needs ranges [low, high] with low <= high, not ()"),
    ("within = [[1, 2]]", "a requirement needs either measure or value"),
    ("measure = 'objects'\nvalue = 1\nwithin = [[1, 2]]", "a requirement needs either measure or value"),
    ("measure = 'objects'\nwithin = [[1, 2]]\nbudget = 0", "budget must be 1 to 10000, not 0"),
    ("measure = 'objects'\nwithin = [[1, 2]]\nshares = [1, 2]", "within has 1 strata but 2 shares"),
    ("measure = 'objects'\nwithin = [[1, 2]]\nbudgte = 9", "unknown key 'require.r.budgte'. Did you mean 'budget'? Allowed: budget, measure, shares, value, within"),
    ("value = { kind = 'same', factor = 'layout/surface' }\nwithin = [[1, 2]]", "'require.r.value' needs a number, and can be 'table'."),
    ("value = { kind = 'same', factor = 'lamp/*/level' }\nwithin = [[1, 2]]", "'require.r.value' has no instances, so 'lamp/*/level' needs a number for *."),
    ("value = { kind = 'same', factor = 'lmap/0/level' }\nwithin = [[1, 2]]", "'require.r.value': unknown group 'lmap'. Did you mean 'lamp'?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[m[:60] for _, m in BAD])
def test_bad_requirement_is_refused(tmp_path, text, message):
    path = tmp_path / "r.toml"
    path.write_text(f'base = "dice"\n[require.r]\n{text}\n')
    with pytest.raises(Exception, match=re.escape(message)) as caught:
        load_recipe(str(path))
    assert str(caught.value).startswith(f"{path}: ")


def test_required_value_depends_on_no_other_factor():
    uniform = Requirement(((0.0, 0.5),), value=Uniform(0.0, 1.0))
    settled = simulate_scene(needing(half=uniform), 0, 0)
    assert settled.attempt == len(settled.rejections)
