"""Wear on bodies whose sides have places of their own in a picture."""

from dataclasses import replace

import numpy as np
import pytest
from solids import EXAMPLES

from sim2cam.images import SRGB_TO_LINEAR
from sim2cam.render.meshes.texture_set import build_texture_set, make_texture_set_key
from sim2cam.render.renderer import Stage
from sim2cam.scene.material import Wear

INNER_M = {"die": 0.016, "board": 0.1, "card": 0.063, "sheet": 0.21, "carton": 0.16, "tin": 0.11}
"""Shorter side of the largest side of each."""
ASSETS = {kind: EXAMPLES[kind] for kind in INNER_M}


@pytest.fixture
def worn(make):
    def body(kind, wear, **look):
        body = make.body(kind, ASSETS[kind], (0.0, 0.0, 0.1), make.WHITE)
        return replace(body, material=replace(body.material, wear=wear, **look))

    return body


@pytest.mark.parametrize("kind", ASSETS)
def test_edges_are_as_far_as_the_body_is_wide(make, kind):
    colors, _ = ASSETS[kind].render_maps(make.ground().material.texture)
    texel_m, edge_m = ASSETS[kind].compute_texels()
    assert edge_m.shape == colors.shape[:2]
    assert edge_m.min() <= max(texel_m)
    farthest = edge_m[np.isfinite(edge_m)].max()
    assert farthest == pytest.approx(INNER_M[kind] / 2, abs=2 * max(texel_m))


@pytest.mark.parametrize("kind", ASSETS)
def test_a_new_body_keeps_its_bytes(worn, kind):
    body = worn(kind, None)
    colors, normals = body.asset.render_maps(body.material.texture)
    textures = build_texture_set(body)
    assert np.array_equal(textures.colors, colors)
    assert np.array_equal(textures.normals, normals)
    assert textures.roughness_metallic is None


@pytest.mark.parametrize("kind", ASSETS)
def test_rubbing_leaves_the_middle_and_more_of_it_reaches_further(worn, kind):
    new = build_texture_set(worn(kind, None)).colors
    edge_m = ASSETS[kind].compute_texels()[1]
    shares = []
    for amount in (0.3, 1.0):
        skin = build_texture_set(worn(kind, Wear(edges=amount)))
        changed = np.abs(SRGB_TO_LINEAR[skin.colors] - SRGB_TO_LINEAR[new]).max(axis=-1) > 0.02
        rough = skin.roughness_metallic[..., 0]
        assert not changed[edge_m > 0.0035].any()
        assert rough[edge_m < 5e-4].mean() >= rough[edge_m > 0.0035].mean()
        shares.append(changed.mean())
    assert 0 < shares[0] < shares[1]


def test_marks_of_a_worn_die_stay_cut(worn):
    """Slopes that were decoded and encoded again are those of the pips, where nothing else is."""
    new, old = (build_texture_set(worn("die", wear)) for wear in (None, Wear(edges=0.1)))
    assert np.abs(new.normals.astype(int) - old.normals.astype(int)).max() <= 1


def test_ends_of_a_metal_tin_are_metal_and_its_label_is_not(worn):
    tin = worn("tin", None, metallic=1.0, roughness=0.2)
    looks = build_texture_set(tin).roughness_metallic / 255.0
    bare = ~tin.asset.make_coating_mask()
    assert np.allclose(looks[bare], [0.2, 1.0], atol=0.01)
    assert (looks[~bare, 1] == 0).all()
    assert (looks[~bare, 0] > 0.4).all()
    assert make_texture_set_key(tin) != make_texture_set_key(
        worn("tin", None, metallic=1.0, roughness=0.3)
    )
    assert make_texture_set_key(worn("tin", None)) == make_texture_set_key(
        worn("tin", None, roughness=0.3)
    )


def test_worn_bodies_are_rendered_by_opengl(egl, make, worn):
    pictures = []
    for wear in (None, Wear(edges=1.0, dust=0.9, seed=2)):
        stage = Stage(replace(make.scene(), bodies=(make.ground(), worn("carton", wear))), egl)
        lens = {"width": 96, "height": 96, "focal_px": 90.0, "cx_px": 47.5, "cy_px": 47.5}
        view = make.view(make.camera((0.0, -0.4, 0.5), **lens))
        pictures.append(stage.render(view, ("radiance", "bodies")))
    new, old = pictures
    on_it = new["bodies"] == 2  # the ground is 1
    assert on_it.sum() > 200
    change = np.abs(new["radiance"] - old["radiance"]).max(axis=-1)
    assert (change[on_it] > 0.01).mean() > 0.5
    assert np.median(change[~on_it]) == 0
