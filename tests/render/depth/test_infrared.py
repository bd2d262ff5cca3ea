from dataclasses import replace

import numpy as np
import pytest
from render_fixtures import compute_lambertian_return

from sim2cam.errors import UsageError
from sim2cam.geometry.poses import Pose
from sim2cam.render.depth.infrared import (
    DepthCameraInput,
    check_inputs,
    compute_incidence_cosines,
    compute_returned_light,
    replace_lights_by_lamp,
)
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.renderer import Stage

VIEW = PinholeView(Pose(), 5, 3, 2.0, 2.0, 1.0)


def facing(shape=(3, 5)):
    return np.broadcast_to(np.float32([0, 0, -1]), (*shape, 3))


def test_matt_surfaces_return_light_by_lambert_and_the_squared_distance():
    depth = np.full((3, 5), 2.0, np.float32)
    light = compute_lambertian_return(VIEW, depth, np.full((3, 5), 0.5, np.float32), facing())
    slant = np.sqrt(1 + 1.0**2 + 0.5**2)  # of the corner's ray
    assert light[1, 2] == pytest.approx(0.5 / 4)
    assert light[0, 0] == pytest.approx(0.5 / slant / (2 * slant) ** 2)


def test_nothing_returns_nothing():
    empty = np.zeros((3, 5), np.float32)
    assert compute_lambertian_return(VIEW, empty, np.ones((3, 5), np.float32), facing()).max() == 0


def test_incidence_is_to_the_ray_not_to_the_axis():
    seen = DepthCameraInput(np.ones((3, 5), np.float32), np.ones((3, 5), np.float32), facing())
    assert compute_incidence_cosines(VIEW, seen)[1, 2] == 1
    assert compute_incidence_cosines(VIEW, seen)[1, 4] == pytest.approx(np.cos(np.pi / 4))
    assert (compute_incidence_cosines(VIEW, replace(seen, normals=None)) == 1).all()


def test_a_flashlit_image_has_the_light_that_matt_surfaces_return(drawing, make):
    scene, of = make.scene(), make.camera((0.1, -0.5, 0.8))
    view = make.view(of)
    stage = Stage(replace_lights_by_lamp(scene, view), drawing)
    drawn = stage.render(view, {"radiance", "depth_m"})
    up = of.pose.inverse().matrix()[:3, :3] @ [0, 0, 1]
    normals = np.broadcast_to(up.astype(np.float32), (240, 320, 3))
    expected = compute_lambertian_return(
        view, drawn["depth_m"], np.full((240, 320), make.GREY[0], np.float32), normals
    )
    found = compute_returned_light(drawn["radiance"])
    assert np.abs(found / expected - 1).mean() < 0.05


def test_polished_metal_returns_light_from_one_spot_only(drawing, make):
    mirror = replace(make.plain((0.8, 0.8, 0.8)), roughness=0.3, metallic=1.0)
    ball = replace(make.body("ball", make.sphere(0.1), (0.0, 0.0, 0.5)), material=mirror)
    of = make.camera((0.0, -0.01, 1.2))
    stage = Stage(replace_lights_by_lamp(make.scene(ball), make.view(of)), drawing)
    light = compute_returned_light(stage.render(make.view(of), {"radiance"})["radiance"])
    around = np.hypot(*np.meshgrid(np.arange(320) - 160, np.arange(240) - 120))
    assert light[around < 10].max() > 10
    assert light[(around > 25) & (around < 35)].max() < 0.02 * light[around < 10].max()


def test_infrared_is_the_best_returned_colour():
    radiance = np.float32([[[0.7, 0.02, 0.1], [0.01, 0.02, 0.03]]])
    assert compute_returned_light(radiance).tolist() == np.float32([[0.7, 0.03]]).tolist()


@pytest.mark.parametrize(
    ("name", "shape", "problem"),
    [
        (
            "depth_m",
            (3, 4),
            "depth_m has shape (3, 4), but the view is 5x3. Expected shape: (3, 5).",
        ),
        (
            "returned_light",
            (3, 5, 3),
            "returned_light has shape (3, 5, 3), but the view is 5x3. Expected shape: (3, 5).",
        ),
        (
            "normals",
            (3, 5),
            "normals has shape (3, 5), but the view is 5x3. Expected shape: (3, 5, 3).",
        ),
    ],
)
def test_arrays_of_another_size_are_refused(name, shape, problem):
    good = DepthCameraInput(np.ones((3, 5), np.float32), np.ones((3, 5), np.float32), facing())
    check_inputs(VIEW, good)
    with pytest.raises(UsageError) as caught:
        check_inputs(VIEW, replace(good, **{name: np.ones(shape, np.float32)}))
    assert str(caught.value) == problem
