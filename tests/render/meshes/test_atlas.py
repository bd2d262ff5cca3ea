"""Wear on bodies whose sides have places of their own in a picture."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.images import SRGB_TO_LINEAR
from sim2cam.objects.board import Board
from sim2cam.objects.card import Card
from sim2cam.objects.carton import Carton
from sim2cam.objects.packages import make_bare_tin_mask
from sim2cam.objects.sheet import Sheet
from sim2cam.objects.tin import Tin
from sim2cam.render.meshes.atlas import ATLAS_SPECS, build_atlas_maps
from sim2cam.render.meshes.texture_set import build_texture_set, make_texture_set_key
from sim2cam.render.renderer import Stage
from sim2cam.scene.material import Wear
from sim2cam.scene.package_label import PackageLabel

LABEL = PackageLabel("beans", 3, (0.6, 0.1, 0.1), (0.9, 0.9, 0.9), (0.1, 0.1, 0.6))
PLATE = (0.063, 0.088, 0.001)
ASSETS = {
    "board": Board("chessboard", 5, 4, 0.02, 0.7, "4x4_50", 0, 0.01, 0.004, (0.02, 0.02, 0.02)),
    "card": Card("10H", PLATE, 0.003, (0.1, 0.1, 0.5)),
    "sheet": Sheet((0.21, 0.297, 0.0005), LABEL),
    "carton": Carton((0.16, 0.06, 0.24), LABEL, "beans"),
    "tin": Tin(0.037, 0.11, LABEL, "beans"),
}
NARROWEST_M = {
    "die": 0.016,
    "board": 0.1,
    "card": 0.063,
    "sheet": 0.21,
    "carton": 0.06,
    "tin": 0.11,
}


@pytest.fixture
def worn(make):
    def body(kind, wear, **look):
        asset = make.die() if kind == "die" else ASSETS[kind]
        body = make.body(kind, asset, (0.0, 0.0, 0.1), make.WHITE)
        return replace(body, material=replace(body.material, wear=wear, **look))

    return body


@pytest.mark.parametrize("kind", NARROWEST_M)
def test_edges_are_as_far_as_the_body_is_wide(make, kind):
    asset = make.die() if kind == "die" else ASSETS[kind]
    narrowest = asset.edge_m if kind == "die" else NARROWEST_M[kind]
    colors, _ = ATLAS_SPECS[kind].render_maps(asset, make.ground().material.texture)
    texel_m, edge_m = ATLAS_SPECS[kind].compute_texels(asset)
    assert edge_m.shape == colors.shape[:2]
    assert edge_m.min() <= max(texel_m)
    farthest = edge_m[np.isfinite(edge_m)].max()
    if kind == "carton":  # the middle of its front is farther from an edge than that of its side
        assert farthest == pytest.approx(0.08, abs=2 * max(texel_m))
    else:
        assert farthest == pytest.approx(narrowest / 2, abs=2 * max(texel_m))


@pytest.mark.parametrize("kind", NARROWEST_M)
def test_what_is_new_keeps_its_bytes(worn, make, kind):
    body = worn(kind, None)
    colors, normals = ATLAS_SPECS[kind].render_maps(body.asset, body.material.texture)
    assert build_atlas_maps(body.asset, body.material) is None
    assert np.array_equal(build_texture_set(body).colors, colors)
    assert normals is None or np.array_equal(build_texture_set(body).normals, normals)


@pytest.mark.parametrize("kind", NARROWEST_M)
def test_rubbing_leaves_the_middle_and_more_of_it_reaches_further(worn, kind):
    new = build_texture_set(worn(kind, None)).colors
    edge_m = ATLAS_SPECS[kind].compute_texels(worn(kind, None).asset)[1]
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
    bare = make_bare_tin_mask()
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
