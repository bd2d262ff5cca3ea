"""Stickers and lines of print on bodies whose sides have places of their own in a picture."""

import re
from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.errors import InputError, SpecError
from sim2cam.files import write_bytes
from sim2cam.images import (
    SRGB_TO_LINEAR,
    FullDepthImage,
    compute_digest,
    encode_full_depth,
    encode_png,
)
from sim2cam.objects.board import Board
from sim2cam.objects.card import Card
from sim2cam.objects.carton import Carton
from sim2cam.objects.die import Die, Pips
from sim2cam.objects.primitives import Cuboid, Ground, Sphere
from sim2cam.objects.sheet import Sheet
from sim2cam.objects.tin import Tin
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.texture_set import build_texture_set, make_texture_set_key
from sim2cam.render.renderer import Stage
from sim2cam.scene.decal import Decal
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.package_label import PackageLabel
from sim2cam.scene.scene import Scene
from sim2cam.surfaces.decals import Panel, composite_decals

LABEL = PackageLabel("beans", 3, (0.6, 0.1, 0.1), (0.9, 0.9, 0.9), (0.1, 0.1, 0.6))
ASSETS = {
    "die": Die(0.03, 0.1, 0.3, Pips("round", 0.09, 0.25, 0.02, (0.01, 0.01, 0.01)), False),
    "board": Board("chessboard", 5, 4, 0.02, 0.7, "4x4_50", 0, 0.01, 0.004, (0.02, 0.02, 0.02)),
    "card": Card("10H", (0.063, 0.088, 0.001), 0.003, (0.1, 0.1, 0.5)),
    "sheet": Sheet((0.21, 0.297, 0.0005), LABEL),
    "carton": Carton((0.16, 0.06, 0.24), LABEL, "beans"),
    "tin": Tin(0.037, 0.11, LABEL, "beans"),
    "box": Cuboid((0.5, 0.3, 0.002)),
    "ground": Ground(4.0),
}
EVERY_SIDE = [(kind, side) for kind, asset in ASSETS.items() for side in range(asset.side_count)]
GREEN, BLACK = (0.0, 1.0, 0.0), (0.0, 0.0, 0.0)
BLANK = Decal(0, 0.5, 0.5, 0.02, 0.0, 0.0, 7, "", BLACK, GREEN)


@pytest.fixture
def body(make):
    def found(kind, *decals, **look):
        body = make.body(kind, ASSETS[kind], (0.0, 0.0, 0.2), make.WHITE)
        return replace(body, decals=decals or None, material=replace(body.material, **look))

    return found


@pytest.fixture
def quarters(tmp_path):
    """Red, green, blue and white, from the top left on, 40 x 20 pixels."""
    rgb = np.zeros((20, 40, 3), np.uint8)
    rgb[:10, :20, 0] = rgb[:10, 20:, 1] = rgb[10:, :20, 2] = rgb[10:, 20:] = 255
    path = tmp_path / "quarters.png"
    write_bytes(path, encode_png(rgb))
    return ImageFile(str(path), compute_digest(path))


def changed(new, old):
    """Which texels of two skins differ."""
    if new.colors.shape != old.colors.shape:
        old = replace(old, colors=np.broadcast_to(old.colors[0, 0], new.colors.shape))
    return (new.colors != old.colors).any(axis=-1)


def find_quarters(skin, bare):
    """The texels of each colour of the image ``quarters`` where two skins differ."""
    for color in ([255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]):
        yield changed(skin, bare) & (np.abs(skin.colors - np.array(color)).max(-1) < 3)


def on_body(asset, skin, texels):
    """Points (n, 3) of the body and its normals where the middles of texels (n, 2) lie."""
    mesh = build_mesh(asset)
    uvs = mesh.uvs * skin.uv_scale + skin.uv_offset
    at = (texels + 0.5) / skin.colors.shape[1::-1]
    a, b, c = uvs[mesh.faces].swapaxes(0, 1)
    edges = np.stack([b - a, c - a], axis=-1)
    solid = np.abs(np.linalg.det(edges)) > 1e-12
    if asset.kind == "box":  # its sides share texels: the top alone is meant
        solid &= (mesh.normals[mesh.faces][:, :, 2] > 0.9).all(axis=1)
    points, normals = [], []
    for place in at:
        inner = np.linalg.solve(edges[solid], (place - a[solid])[..., None])[..., 0]
        weights = np.column_stack([1 - inner.sum(axis=1), inner])
        best = int(weights.min(axis=1).argmax())
        assert weights[best].min() > -1e-6
        corners = mesh.faces[solid][best]
        points.append(weights[best] @ mesh.vertices_m[corners])
        normals.append(weights[best] @ mesh.normals[corners])
    return np.array(points), np.array(normals)


@pytest.mark.parametrize("kind", [kind for kind in ASSETS if ASSETS[kind].has_atlas])
def test_bodies_have_the_sides_that_they_are_said_to_have(make, kind):
    asset = ASSETS[kind]
    panels = asset.make_panels()
    assert len(panels) == asset.side_count
    shape = asset.render_maps(make.ground().material.texture)[0].shape
    whole = np.zeros(shape[:2], int)
    for panel in panels:
        whole[panel.window] += 1
    assert whole.max() == 1


@pytest.mark.parametrize(("kind", "side"), EVERY_SIDE)
def test_an_image_is_the_right_way_up_and_as_large_as_told(body, quarters, kind, side):
    """Where its four colours lie on the body is told by the body's mesh, not by its picture."""
    width = {"box": 0.1, "board": 0.06, "ground": 0.1}.get(kind, 0.02)
    sticker = replace(BLANK, side=side, width_m=width, image=quarters)
    plain, one = body(kind, roughness=0.9), body(kind, sticker)
    skin, bare = build_texture_set(one), build_texture_set(plain)
    middles = []
    for quarter in find_quarters(skin, bare):
        rows, columns = np.nonzero(quarter)
        assert len(rows) > 3
        middles.append([columns.mean(), rows.mean()])
    points, normals = on_body(one.asset, skin, np.array(middles))
    right = points[1] + points[3] - points[0] - points[2]
    down = points[2] + points[3] - points[0] - points[1]
    outward = normals.mean(axis=0)
    assert np.cross(down, right) @ outward > 0.9 * np.linalg.norm(down) * np.linalg.norm(right)
    scale = 0.35 if kind == "die" else 0.2  # pips cover some of it; texels are large
    assert np.linalg.norm(right) / 2 == pytest.approx(width / 2, rel=scale)
    assert np.linalg.norm(down) / 2 == pytest.approx(width / 4, rel=scale)


@pytest.mark.parametrize("kind", ["die", "board", "card"])
def test_what_a_label_is_read_from_stays_on_top(body, make, kind):
    new, old = body(kind, replace(BLANK, width_m=0.5)), body(kind)
    marks = new.asset.make_print_mask()
    assert (marks > 0.999).any()
    panel = new.asset.make_panels()[0]
    side = panel.window
    found, before = build_texture_set(new).colors, build_texture_set(old).colors
    inked = marks[side] > 0.999
    assert (found[side][inked] == before[side][inked]).all()
    assert ((found[side] == [0, 255, 0]).all(axis=-1) & ~inked).sum() > 100


@pytest.mark.parametrize("kind", ["carton", "tin", "box", "ground"])
def test_what_does_not_fit_is_smaller_and_whole(body, quarters, kind):
    sticker = replace(BLANK, width_m=0.9, angle_rad=0.5, x=1.0, y=0.0, image=quarters)
    skin, bare = build_texture_set(body(kind, sticker)), build_texture_set(body(kind))
    counts = [quarter.sum() for quarter in find_quarters(skin, bare)]
    assert min(counts) > 0.9 * max(counts) > 50


def test_edges_come_off_first_and_more_with_more_wear():
    side = np.zeros((256, 256, 3))
    panel = Panel(0, 0, (256, 256), (0.1, 0.1))
    sticker = replace(BLANK, width_m=0.05, text="abcd")
    covers = [
        composite_decals(side, [replace(sticker, wear=w)], [panel])[1] for w in (0.0, 0.4, 1.0)
    ]
    shares = [cover.mean() for cover in covers]
    assert shares[0] > shares[1] > shares[2] > 0
    rows, columns = np.nonzero(covers[0] == 1)
    assert np.ptp(columns) / 256 * 0.1 == pytest.approx(0.05, abs=0.002)
    middle = np.s_[int(rows.mean()), int(columns.mean())]
    assert all(cover[middle] == 1 for cover in covers)
    assert (covers[2] <= covers[1] + 1e-9).all()


def test_print_covers_where_there_is_ink_and_a_sticker_everywhere():
    side = np.ones((400, 800, 3))
    panel = Panel(0, 0, (400, 800), (0.2, 0.1))
    words = replace(
        BLANK, width_m=0.15, text="LOT 42", background_color=None, text_color=(0.9, 0.0, 0.0)
    )
    (inked, cover), (backed, whole) = (
        composite_decals(side, [decal], [panel])
        for decal in (words, replace(words, background_color=(0.0, 0.0, 1.0)))
    )
    place = whole == 1
    assert 0.1 < cover[place].mean() < 0.5
    assert inked[cover == 1] == pytest.approx(np.array([[0.9, 0.0, 0.0]] * (cover == 1).sum()))
    assert (inked[cover == 0] == 1).all()
    assert np.array_equal(np.argwhere(cover[place] == 1), np.argwhere(backed[place][:, 2] == 0))
    blank = replace(words, text="", background_color=(0.0, 0.0, 1.0))
    assert (composite_decals(side, [blank], [panel])[0][..., 0].min()) == 0


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_an_image_is_cut_out_where_it_is_transparent(tmp_path, dtype):
    """A red disc whose file has black around it, which must not darken its soft edge."""
    row, column = np.indices((60, 90)) - [[[30]], [[45]]]
    opacity = np.clip(26 - np.hypot(row, column), 0, 1)
    most = np.iinfo(dtype).max
    rgb = np.zeros((60, 90, 3), dtype)
    rgb[opacity > 0, 0] = most
    path = tmp_path / "disc.png"
    write_bytes(
        path, encode_full_depth(FullDepthImage(rgb, np.round(most * opacity).astype(dtype)))
    )
    disc = replace(BLANK, width_m=0.09, image=ImageFile(str(path), compute_digest(path)))
    for texels in (300, 150, 40):  # magnified, and shrunk
        side = np.full((texels, texels, 3), (0.0, 1.0, 0.5))
        panel = Panel(0, 0, (texels, texels), (0.1, 0.1))
        colors, cover = composite_decals(side, [disc], [panel])
        red = side + cover[..., None] * (np.array([1.0, 0.0, 0.0]) - side)
        assert np.allclose(colors, red, atol=0.02)
        assert cover.mean() * 100 == pytest.approx(np.pi * 2.55**2, rel=0.03)
        assert (cover[colors[..., 1] > 0.999] < 0.01).all()


def test_text_reads_as_opencv_writes_it():
    """Letters lie in one row, the longest word is the widest in its line."""
    side = np.zeros((400, 800, 3))
    panel = Panel(0, 0, (400, 800), (0.2, 0.1))
    for text, parts in (("IIII", 4), ("HHHHHHHHHHHH", 12)):
        decal = replace(
            BLANK, width_m=0.19, text=text, background_color=None, text_color=(1.0, 1.0, 1.0)
        )
        cover = composite_decals(side, [decal], [panel])[1]
        assert cv2.connectedComponents((cover > 0.5).astype(np.uint8))[0] - 1 == parts


def test_later_ones_lie_over_earlier_ones(body):
    below, above = BLANK, replace(BLANK, width_m=0.01, background_color=(0.0, 0.0, 1.0))
    skin = build_texture_set(body("carton", replace(below, side=2), replace(above, side=2)))
    blue, green = ((skin.colors == c).all(axis=-1).sum() for c in ([0, 0, 255], [0, 255, 0]))
    assert 0 < blue < green


def test_stickers_are_paper_also_on_metal_and_wear_with_it(body):
    sticker = replace(BLANK, width_m=0.04)
    skin = build_texture_set(body("box", sticker, metallic=1.0, roughness=0.2))
    green = (skin.colors == [0, 255, 0]).all(axis=-1)
    looks = skin.roughness_metallic / 255
    assert np.allclose(looks[green], [0.55, 0.0], atol=0.01)
    assert np.allclose(
        looks[~green & (changed(skin, build_texture_set(body("box"))) == 0)], [0.2, 1.0], atol=0.01
    )


def test_skins_follow_their_decals(body):
    none, one, other = (body("tin", *d) for d in ((), (BLANK,), (replace(BLANK, x=0.1),)))
    assert len({make_texture_set_key(each) for each in (none, one, other)}) == 3
    assert build_texture_set(none).roughness_metallic is None


def test_equal_bodies_with_other_decals_are_rendered_each_with_its_own(egl, make, body):
    wide = replace(BLANK, width_m=0.05, side=2)
    near, far = (
        body("carton", wide),
        body("carton", replace(wide, background_color=(1.0, 0.0, 0.0))),
    )
    bodies = [
        replace(
            one, name=f"carton/{i}", pose=replace(one.pose, position_m=(0.2 * i - 0.1, 0.0, 0.12))
        )
        for i, one in enumerate((near, far))
    ]
    view = make.view(make.camera((0.0, -0.9, 0.4), (0.0, 0.0, 0.1)))
    pictures = []
    for drawn in (bodies, [replace(one, decals=None) for one in bodies]):
        stage = Stage(make.scene(*drawn), egl)
        pictures.append(stage.render(view, ("radiance", "bodies", "depth_m")))
    with_them, without = pictures
    for channel in ("bodies", "depth_m"):
        assert np.array_equal(with_them[channel], without[channel])
    change = with_them["radiance"] - without["radiance"]
    for number, color in ((2, 1), (3, 0)):
        seen = change[(with_them["bodies"] == number) & (np.abs(change).max(axis=-1) > 0.05)]
        assert len(seen) > 50
        assert (np.argmax(seen, axis=-1) == color).mean() > 0.8


@pytest.mark.parametrize(("kind", "left", "far"), [("box", 0.2, 0.1), ("ground", 0.19, 0.19)])
@pytest.mark.parametrize("backend", ["egl", "tiny", "pathtraced"])
def test_every_backend_draws_them(request, make, body, backend, kind, left, far):
    """On what is wider than what repeats, one sticker is seen once, where it lies."""
    drawing = request.getfixturevalue(backend)
    mat = replace(body(kind, replace(BLANK, width_m=0.1, x=0.0, y=0.0)), is_target=False)
    mat = replace(mat, pose=replace(mat.pose, position_m=(0.0, 0.0, 0.001)))
    stage = Stage(make.scene(mat) if kind == "box" else Scene((mat,), make.sky, ()), drawing)
    size = {"width": 160, "height": 120, "focal_px": 200.0, "cx_px": 79.5, "cy_px": 59.5}
    view = make.view(make.camera((0.0, -0.001, 0.9), **size))
    rgb = stage.render(view, ("radiance",))["radiance"]
    green = (rgb[..., 1] > 2 * rgb[..., 0]) & (rgb[..., 1] > 2 * rgb[..., 2])
    _, _, stats, middles = cv2.connectedComponentsWithStats(green.astype(np.uint8))
    assert (stats[1:, cv2.CC_STAT_AREA] > 25).sum() == 1
    place = middles[1 + stats[1:, cv2.CC_STAT_AREA].argmax()]
    per_m = 200.0 / 0.898
    assert place[0] == pytest.approx(79.5 - left * per_m, abs=1.5)  # the left edge
    assert place[1] < 59.5 - far * per_m  # the far one


def test_a_scene_knows_the_images_of_its_decals(make, body, quarters):
    scene = make.scene(body("tin", replace(BLANK, image=quarters)))
    assert scene.get_file_paths() == (quarters.path,)
    moved = scene.replace_paths({quarters.path: "pictures/q.png"})
    assert moved.get_file_paths() == ("pictures/q.png",)
    assert (
        Scene.from_json(moved.to_json()).replace_paths({"pictures/q.png": quarters.path}) == scene
    )
    assert '"decals"' not in make.scene(body("tin")).to_json()


def test_an_image_that_changed_is_refused(body, quarters):
    one = body("tin", replace(BLANK, image=replace(quarters, digest="0" * 64)))
    with pytest.raises(InputError, match=r"quarters\.png"):
        build_texture_set(one)


BAD = [
    ({"text": "na\u00efve"}, "the text 'na\u00efve' of a decal is invalid. Allowed: up to 40 printable ASCII characters."),
    ({"width_m": 0.0}, "width_m of a decal is 0.0. Sizes must be finite and above 0."),
    ({"x": 1.5}, "a decal: x must be 0 to 1, not 1.5."),
    ({"wear": -1.0}, "a decal: wear must be 0 to 1, not -1."),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
def test_what_cannot_be_is_refused(change, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        replace(BLANK, **change)


def test_bodies_without_sides_of_their_own_take_none(make, body):
    ball = make.body("ball", Sphere(0.02), (0.0, 0.0, 0.02))
    message = "body 'ball', a sphere, has a decal on side 0. Number of its sides for decals: 0."
    with pytest.raises(SpecError, match=re.escape(message)):
        replace(ball, decals=(BLANK,))
    message = "body 'tin', a tin, has a decal on side 1. Number of its sides for decals: 1."
    with pytest.raises(SpecError, match=re.escape(message)):
        body("tin", replace(BLANK, side=1))


def test_colors_are_light():
    """Half covered texels are the mean of both as light, not as bytes."""
    side = SRGB_TO_LINEAR[np.full((64, 64, 3), 255, np.uint8)].astype(float)
    panel = Panel(0, 0, (64, 64), (0.064, 0.064))
    colors, cover = composite_decals(
        side, [replace(BLANK, width_m=0.0305, background_color=BLACK)], [panel]
    )
    assert colors[..., 0] == pytest.approx(1 - cover)
    assert ((cover > 0.1) & (cover < 0.9)).any()
