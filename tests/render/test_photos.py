"""Ordinary photos as backgrounds: flat on the table, and upright behind the scene."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import RecipeError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.objects.primitives import Ground
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.sampling import sample_factors
from sim2cam.render.lighting.beams import find_ground_color
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.renderer import Stage
from sim2cam.scene.light import Environment

EVEN = Environment((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ())
TEXT = """\
base = "dice"
name = "before-photos"
[pictures]
folder = "photos"
[domain.layout]
die_count = 2
distractor_count = 0
surface = "table"
"""
BEHIND = """
[domain.backdrop]
picture = "quarters.png"
width_m = 1.6
distance_m = 0.8
height_m = 0.3
azimuth_rad = { kind = "same", factor = "view/0/azimuth_rad" }
"""


@pytest.fixture
def recipe(tmp_path):
    """Red, green, blue and white quarters of a photo twice as wide as high, from the top left on."""
    rgb = np.zeros((40, 80, 3), np.uint8)
    rgb[:20, :40, 0] = rgb[:20, 40:, 1] = rgb[20:, :40, 2] = rgb[20:, 40:] = 255
    write_bytes(tmp_path / "photos/quarters.png", encode_png(rgb))
    (tmp_path / "photos/quarters.toml").write_text('licence = "CC0-1.0"\n')

    def load(text):
        (tmp_path / "mine.toml").write_text(TEXT + text)
        return load_recipe(str(tmp_path / "mine.toml"))

    return load


def hue(rgb):
    """Which of the quarters a colour is from."""
    r, g, b = rgb / rgb.max()
    if min(r, g, b) > 0.6:
        return "white"
    return ("red", "green", "blue")[int(np.argmax([r, g, b]))]


def seen(stage, view, points):
    """The quarters that points in the world show in a view."""
    rgb = stage.render(view, ("radiance",))["radiance"]
    places = view.pose.inverse().apply(np.array(points, float))
    columns = view.cx_px + view.focal_px * places[:, 0] / places[:, 2]
    rows = view.cy_px + view.focal_px * places[:, 1] / places[:, 2]
    return [hue(rgb[round(row), round(column)]) for row, column in zip(rows, columns, strict=True)]


def test_a_wide_photo_lies_once_with_its_middle_in_that_of_the_table(drawing, make, recipe):
    mine = recipe("[domain.table]\npicture = 'quarters.png'\npicture_m = 1.2\nspecular = 0\n")
    table = mine.compose_scene(sample_factors(mine.domain, 0, 0, views=1)).bodies[0]
    stage = Stage(replace(make.scene(), bodies=(table,), environment=EVEN), drawing)
    view = make.view(make.camera((0.0, -0.001, 1.4), focal_px=150.0))
    corners = [(-0.3, 0.15, 0), (0.3, 0.15, 0), (-0.3, -0.15, 0), (0.3, -0.15, 0)]
    assert seen(stage, view, corners) == ["red", "green", "blue", "white"]
    # beyond its edges its mirror image
    assert seen(stage, view, [(-0.3, 0.4, 0), (-0.3, -0.4, 0), (0.8, 0.15, 0)]) == [
        "red",
        "blue",
        "green",
    ]


def test_a_backdrop_stands_behind_what_the_camera_sees(drawing, make, recipe):
    mine = recipe(BEHIND)
    drawn = sample_factors(mine.domain, 0, 0, views=1)
    (behind,) = (b for b in mine.compose_scene(drawn).bodies if b.name == "backdrop")
    turn = drawn.get_float("view/0/azimuth_rad")
    towards = np.array([np.cos(turn), np.sin(turn), 0.0])
    right = np.array([-np.sin(turn), np.cos(turn), 0.0])
    up = np.array([0.0, 0.0, 1.0])
    assert behind.pose.rotation().as_matrix()[:, 2] == pytest.approx(towards)
    bodies = (replace(behind, material=replace(behind.material, specular=0.0)),)
    stage = Stage(replace(make.scene(), bodies=bodies, environment=EVEN), drawing)
    eye, middle = 1.2 * towards + 0.3 * up, -0.8 * towards + 0.3 * up
    view = make.view(make.camera(tuple(eye), tuple(middle), focal_px=250.0))
    corners = [middle + 0.4 * x * right + 0.2 * z * up for z in (1, -1) for x in (-1, 1)]
    assert seen(stage, view, corners) == ["red", "green", "blue", "white"]
    depth = stage.render(view, ("depth_m",))["depth_m"]
    assert depth[120, 160] == pytest.approx(2.0, abs=1e-3)


def test_a_backdrop_is_labelled_by_nobody_and_lights_nothing(make, recipe):
    with_it, without = recipe(BEHIND), recipe("")
    scenes = [
        one.compose_scene(sample_factors(one.domain, 0, 0, views=1)) for one in (with_it, without)
    ]
    assert not next(b for b in scenes[0].bodies if b.name == "backdrop").is_target
    assert tuple(b for b in scenes[0].bodies if b.name != "backdrop") == scenes[1].bodies
    centre = np.array([0.0, 0.0, 0.05])
    assert (find_ground_color(scenes[0], centre) == find_ground_color(scenes[1], centre)).all()


def test_things_come_to_rest_before_it(recipe):
    mine = recipe(BEHIND.replace("0.8", "0.3"))
    scene, certificate = simulate(mine.compose_scene(sample_factors(mine.domain, 0, 1, views=1)))
    assert certificate.rejection is None
    wall = next(body for body in scene.bodies if body.name == "backdrop")
    for body in scene.bodies:
        if not isinstance(body.asset, Ground):
            assert wall.pose.inverse().apply(np.array([body.pose.position_m]))[0, 2] > 0


def test_it_is_recorded_with_its_licence_and_may_be_left_out(recipe):
    some = BEHIND.replace(
        '"quarters.png"', '{ kind = "choice", options = ["none", "quarters.png"] }'
    )
    mine = recipe(some)
    found = set()
    for index in range(8):
        drawn = sample_factors(mine.domain, 0, index, views=1)
        scene = mine.compose_scene(drawn)
        names = [mine.map_file_names()[path] for path in scene.get_file_paths()]
        wanted = drawn.get_str("backdrop/picture")
        assert names == ([] if wanted == "none" else ["pictures/quarters.png"])
        found.add(wanted)
    assert found == {"none", "quarters.png"}
    assert mine.collect_licences() == {"pictures/quarters.png": "CC0-1.0"}


BAD = [
    (BEHIND.replace("1.6", "0.1"), "'domain.backdrop.width_m' cannot be 0.1. Allowed: numbers from 0.5 to 10."),
    (BEHIND.replace("quarters", "oak"), "'domain.backdrop.picture' cannot be 'oak.png'. Allowed: none, quarters.png."),
    (BEHIND.replace("height_m", "hight_m"), "unknown key 'domain.backdrop.hight_m'. Did you mean 'height_m'?"),
    (BEHIND.replace("view/0/", "view/*/"), "'domain.backdrop.azimuth_rad' has no instances, so 'view/*/azimuth_rad' needs a number for *."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_what_cannot_be_is_refused(recipe, text, message):
    with pytest.raises(RecipeError, match=re.escape(message)):
        recipe(text)


def test_photos_are_traced_as_they_are_rendered(egl, make, recipe):
    pytest.importorskip("mitsuba", reason="the extra 'reference' is not installed")
    from sim2cam.render.backends.mitsuba import PathTracer

    mine = recipe(BEHIND + "[domain.table]\npicture = 'quarters.png'\npicture_m = 1.2\n")
    drawn = sample_factors(mine.domain, 0, 0, views=1)
    bodies = [b for b in mine.compose_scene(drawn).bodies if b.name in ("table", "backdrop")]
    scene = replace(make.scene(), bodies=tuple(bodies), environment=EVEN)
    turn = drawn.get_float("view/0/azimuth_rad")
    eye = (1.2 * np.cos(turn), 1.2 * np.sin(turn), 0.6)
    lens = {"width": 64, "height": 48, "focal_px": 40.0, "cx_px": 31.5, "cy_px": 23.5}
    view = make.view(make.camera(eye, (0.0, 0.0, 0.1), **lens))
    stage = Stage(scene, egl)
    ours = stage.render(view, ("radiance",))["radiance"]
    theirs = PathTracer(scene).trace(view, samples_per_pixel=64, seed=0)
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.8
