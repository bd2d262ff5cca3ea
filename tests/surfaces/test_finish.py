from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import BackendError
from sim2cam.render.meshes.texture_set import build_texture_set, make_texture_set_key
from sim2cam.render.renderer import Stage
from sim2cam.scene.light import Environment, Lamp
from sim2cam.scene.material import Material, Texture, Wear
from sim2cam.surfaces.finish import build_material_maps

SPAN_M = 0.12
WEARS = ("dust", "scratches", "stains", "fingerprints")


def material(wear=None, *, relief=None, roughness=0.2, metallic=0.0, family="plain", scale_m=0.01):
    texture = Texture(family, (0.5, 0.1, 0.1), (0.4, 0.1, 0.1), scale_m, 0.5, 0.0, 0)
    return Material(texture, roughness, 0.04, metallic, relief=relief, wear=wear)


def test_a_new_smooth_surface_is_as_the_material_says():
    found = build_material_maps(material(metallic=0.3), SPAN_M)
    assert (found.colors == [0.5, 0.1, 0.1]).all()
    assert (found.roughness == 0.2).all()
    assert (found.metallic == 0.3).all()
    assert not found.slopes.any()


@pytest.mark.parametrize("family", ["weave", "fbm", "brushed"])
def test_slopes_are_those_of_the_pattern_as_a_height(family):
    relief, scale = 0.1, 0.01
    once = build_material_maps(material(relief=relief, family=family), SPAN_M)
    twice = build_material_maps(material(relief=2 * relief, family=family), SPAN_M)
    assert twice.slopes == pytest.approx(2 * once.slopes)
    n = len(once.slopes)
    step = SPAN_M / n
    # going along u and v adds up to heights that never leave the relief
    height = np.cumsum(once.slopes[n // 2, :, 0]) * step
    assert 0 < np.ptp(height) <= 1.1 * relief * scale
    around = once.slopes[:-1, :-1]
    curl = np.diff(once.slopes[:, :-1, 0], axis=0) - np.diff(once.slopes[:-1, :, 1], axis=1)
    assert np.abs(curl).mean() < np.abs(around).mean()


@pytest.mark.parametrize("kind", WEARS)
def test_more_wear_changes_more(kind):
    new = build_material_maps(material(), SPAN_M)
    changes = []
    for amount in (0.2, 0.9):
        worn = build_material_maps(material(Wear(**{kind: amount})), SPAN_M)
        changes.append(np.abs(worn.roughness - new.roughness).mean())
        assert (worn.colors >= 0).all()
        assert (worn.colors <= 1).all()
    assert 0 < 1.5 * changes[0] < changes[1]


def test_dust_makes_metal_matt_and_grey():
    worn = build_material_maps(material(Wear(dust=1.0), metallic=1.0), SPAN_M)
    thick = worn.metallic < 0.3
    assert thick.any()
    assert worn.roughness[thick].min() > 0.7
    assert np.ptp(worn.colors[thick].mean(axis=0)) < 0.12


def test_prints_are_visible_on_what_shines_alone():
    shiny, matt = (
        build_material_maps(material(Wear(fingerprints=1.0), roughness=r), SPAN_M).roughness
        for r in (0.1, 0.9)
    )
    assert np.ptp(shiny) > 0.2
    assert np.ptp(matt) == 0


def test_equal_seeds_wear_alike_and_others_otherwise():
    first, same, other = (
        build_material_maps(material(Wear(0.5, 0.5, 0.5, 0.5, seed)), SPAN_M).colors
        for seed in (1, 1, 2)
    )
    assert (first == same).all()
    assert (first != other).any()


def test_only_a_finish_makes_skins_follow_roughness(make):
    box = make.body("box", make.box((0.04, 0.04, 0.04)), (0.0, 0.0, 0.02))
    plain = [replace(box, material=material(roughness=r)) for r in (0.2, 0.4)]
    worn = [replace(box, material=material(Wear(dust=0.2), roughness=r)) for r in (0.2, 0.4)]
    assert make_texture_set_key(plain[0]) == make_texture_set_key(plain[1])
    assert make_texture_set_key(worn[0]) != make_texture_set_key(worn[1])
    assert build_texture_set(plain[0]).roughness_metallic is None
    assert (
        build_texture_set(worn[0]).roughness_metallic.shape[:2]
        == build_texture_set(worn[0]).colors.shape[:2]
    )


# drawn


def close(make):
    lens = {"width": 64, "height": 64, "focal_px": 140.0, "cx_px": 31.5, "cy_px": 31.5}
    return make.view(make.camera((0.0, -0.001, 0.3), **lens))


def table(make, *materials):
    return [replace(make.scene(), bodies=(replace(make.ground(), material=m),)) for m in materials]


def test_a_finish_of_nothing_is_rendered_as_none(egl, make):
    smooth, level = table(make, material(), material(Wear(dust=1e-9)))
    drawn = []
    for scene in (smooth, level):
        stage = Stage(scene, egl)
        drawn.append(stage.render(close(make), ("radiance",))["radiance"])
    assert drawn[1] == pytest.approx(drawn[0], rel=0.02)  # a normal's bytes have no middle


def test_a_ridge_is_bright_where_it_faces_the_lamp_in_every_copy(egl, make):
    """Copies beside each other are mirrored, and what faces the lamp in one does so in all."""
    lamp = Lamp((0.8, 0.0, 0.6), 0.005, (3.0, 3.0, 3.0))
    scene = table(make, material(relief=0.3, family="value", roughness=0.9, scale_m=0.06))[0]
    stage = Stage(replace(scene, environment=Environment((0.0,) * 3, (0.0,) * 3, (lamp,))), egl)
    lens = {"width": 240, "height": 40, "focal_px": 70.0, "cx_px": 119.5, "cy_px": 19.5}
    wide = stage.render(make.view(make.camera((0.0, -0.001, 0.4), **lens)), ("radiance",))[
        "radiance"
    ]
    normals, span = build_texture_set(scene.bodies[0]).normals, 0.48
    rays, eye = make.rays(make.view(make.camera((0.0, -0.001, 0.4), **lens)))
    ground = eye[:2] + rays[..., :2] * (-eye[2] / rays[..., 2:])
    turns = ground / span + 0.5
    copy = np.floor(turns)
    inside = np.where(copy % 2 == 0, turns - copy, 1 - turns + copy)
    texel = np.minimum((inside * len(normals)).astype(int), len(normals) - 1)
    slope = normals[texel[..., 1], texel[..., 0], 0] / 127.5 - 1
    slope = slope * np.where(copy[..., 0] % 2 == 0, 1, -1)
    for number in (-1, 0, 1):
        part = copy[..., 0] == number
        assert part.sum() > 500
        assert np.corrcoef(slope[part], wide[..., 0][part])[0, 1] > 0.5


def test_worn_metal_is_traced_as_it_is_rendered(egl, make):
    pytest.importorskip("mitsuba", reason="the extra 'reference' is not installed")
    from sim2cam.render.backends.mitsuba import PathTracer

    worn = material(Wear(stains=0.8), relief=0.1, family="weave", metallic=0.5, roughness=0.5)
    scene = table(make, worn)[0]
    stage = Stage(scene, egl)
    ours = stage.render(close(make), ("radiance",))["radiance"].mean(axis=-1)
    theirs = PathTracer(scene).trace(close(make), samples_per_pixel=64, seed=0).mean(axis=-1)
    assert ours.mean() == pytest.approx(theirs.mean(), rel=0.15)
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.8


def test_a_rasterizer_without_finish_raises(tiny, make):
    with pytest.raises(BackendError, match=r"supports neither relief nor wear \(body 'table'\)"):
        tiny.load(table(make, material(relief=0.1))[0])
