import numpy as np
import pytest

from sim2cam.objects.primitives import Cuboid, Cylinder, Ground, Sphere
from sim2cam.render.meshes.texture_set import build_texture_set


def test_a_die_wears_its_atlas_once(make):
    skin = build_texture_set(make.body("die", make.die(), (0.0, 0.0, 0.0)))
    assert skin.uv_scale == 1.0
    assert skin.colors.shape == skin.normals.shape


@pytest.mark.parametrize(
    ("asset", "span_m"),
    [
        (Cuboid((0.1, 0.3, 0.02)), 0.3),
        (Cylinder(0.02, 0.1), 0.1),
        (Cylinder(0.06, 0.1), 0.12),
        (Sphere(0.05), 0.1),
        (Ground(6.0), 0.48),
        (Cuboid((1.0, 0.3, 0.02)), 0.48),
    ],
)
def test_other_shapes_wear_a_square_as_long_as_they_are(make, asset, span_m):
    skin = build_texture_set(make.body("thing", asset, (0.0, 0.0, 0.0), make.WHITE))
    assert skin.uv_scale == pytest.approx(1 / span_m)
    assert skin.normals is None
    assert np.unique(skin.colors).tolist() == [231]  # 0.8 in sRGB
