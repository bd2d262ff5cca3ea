"""Meshes from files: what every format gives, what is repaired and what is refused."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import trimesh
from PIL import Image

from sim2cam.assets.mesh import read_mesh_file
from sim2cam.assets.mesh_cache import pack, unpack
from sim2cam.assets.unwrap import MAX_TEXTURE_PX
from sim2cam.errors import InputError, RepairWarning, SpecError
from sim2cam.geometry.poses import Pose
from sim2cam.render.meshes.mesh import compute_extent
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.renderer import Stage
from sim2cam.scene.scene import Scene
from sim2cam.scene.shape import MeshFile

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*has no normals")

# A tetrahedron with its right angles at the origin, outwards.
CORNERS = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
FACES = ("1 3 2", "1 2 4", "2 3 4", "1 4 3")
PLACES = "vt 0 0\nvt 1 0\nvt 0 1\nvt 0.4 0.4\n"


def obj(folder, *, corners=CORNERS, faces=FACES, head="", name="a.obj"):
    """An OBJ file; its faces are those given."""
    lines = "".join(f"f {face}\n" for face in faces)
    (folder / name).write_text(f"{head}{corners}{lines}")
    return MeshFile(str(folder / name), "thing")


def textured(folder, picture="t.png", size=(16, 16), places=PLACES):
    """An OBJ with a picture that is red on the right and blue on the left, dark at its bottom."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[:, size[0] // 2 :, 0] = 255
    pixels[:, : size[0] // 2, 2] = 255
    pixels[size[1] // 2 :] //= 2
    Image.fromarray(pixels).save(folder / "t.png")
    (folder / "a.mtl").write_text(f"newmtl m\nmap_Kd {picture}\n")
    head = f"mtllib a.mtl\n{places}usemtl m\n"
    return obj(folder, head=head, faces=[" ".join(f"{i}/{i}" for i in f.split()) for f in FACES])


def quiet(asset):
    """The content, with every warning an error but that there are no normals."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepairWarning)
        warnings.filterwarnings("ignore", "(?s).*has no normals")
        return read_mesh_file(asset)


def placed(solid, suffix):
    """The solid as a format has it upright."""
    if suffix in ("glb", "gltf"):
        solid.apply_transform(trimesh.transformations.rotation_matrix(-np.pi / 2, (1, 0, 0)))
    return solid


def volume(mesh):
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    return float((a * np.cross(b, c)).sum() / 6)


@pytest.mark.parametrize("suffix", ["obj", "ply", "stl", "glb", "gltf"])
def test_every_format_gives_the_same_solid(tmp_path, suffix):
    box = trimesh.creation.box((0.2, 0.3, 0.4))
    placed(box, suffix).export(tmp_path / f"box.{suffix}")
    mesh = quiet(MeshFile(str(tmp_path / f"box.{suffix}"), "box", unit_m=0.1)).mesh
    assert volume(mesh) == pytest.approx(0.02 * 0.03 * 0.04, rel=1e-6)
    assert np.allclose(np.ptp(mesh.vertices_m, axis=0), (0.02, 0.03, 0.04), rtol=1e-6)
    assert np.allclose(np.linalg.norm(mesh.normals, axis=1), 1)
    assert np.allclose(np.linalg.norm(mesh.tangents, axis=1), 1)
    assert np.abs((mesh.normals * mesh.tangents).sum(axis=1)).max() < 1e-9


def test_objects_keep_their_placement(tmp_path):
    picture = trimesh.visual.material.PBRMaterial(baseColorTexture=Image.new("RGB", (8, 8), "red"))
    both = trimesh.Scene()
    for x, is_pictured in ((0.0, True), (0.5, False)):
        box = trimesh.creation.box((0.2, 0.2, 0.2))
        if is_pictured:
            box.visual = trimesh.visual.TextureVisuals(np.zeros((8, 2)), picture)
        place = np.eye(4)
        place[0, 3] = x
        both.add_geometry(box, transform=place)
    both.export(tmp_path / "two.glb")
    found = quiet(MeshFile(str(tmp_path / "two.glb"), "thing"))
    assert volume(found.mesh) == pytest.approx(2 * 0.2**3)
    assert found.mesh.vertices_m[:, 0].max() == pytest.approx(0.6)
    right = found.mesh.vertices_m[:, 0] > 0.3
    height, width = found.colors.shape[:2]
    texels = (found.mesh.uvs * (width, height)).astype(int).clip(0, [width - 1, height - 1])
    colors = found.colors[texels[:, 1], texels[:, 0]].astype(int)
    assert (colors[~right] - [255, 0, 0] == 0).all()
    assert np.ptp(colors[right], axis=1).max() < 10  # grey


def test_normals_are_smooth_up_to_creases(tmp_path):
    ball, box = trimesh.creation.icosphere(3, 0.5), trimesh.creation.box((1, 1, 1))
    for solid in (ball, box):
        trimesh.Trimesh(solid.vertices, solid.faces, process=False).export(tmp_path / "a.ply")
        read_mesh_file.cache_clear()
        mesh = quiet(MeshFile(str(tmp_path / "a.ply"), "thing")).mesh
        if solid is ball:
            outward = mesh.vertices_m / np.linalg.norm(mesh.vertices_m, axis=1, keepdims=True)
            assert (mesh.normals * outward).sum(axis=1).min() > 0.999
        else:
            assert np.allclose(np.sort(np.abs(mesh.normals), axis=1), [0, 0, 1])


def test_normals_of_the_file_are_kept(tmp_path):
    head = "vn 0 0 -1\nvn 0 -0.6 -0.8\n"
    asset = obj(tmp_path, head=head, faces=["1//1 3//2 2//1"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        normals = read_mesh_file(asset).mesh.normals
    assert sorted(map(tuple, normals.round(6))) == [(0, -0.6, -0.8), (0, 0, -1), (0, 0, -1)]


@pytest.mark.parametrize("make", [textured, obj])
def test_tangents_follow_increasing_u(tmp_path, make):
    mesh = quiet(make(tmp_path)).mesh
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    p, q, r = mesh.uvs[mesh.faces].swapaxes(0, 1)
    steps, changes = np.stack([b - a, c - a], axis=1), np.stack([q - p, r - p], axis=1)
    for corner in range(3):
        tangents = mesh.tangents[mesh.faces[:, corner]]
        along = np.linalg.solve(changes, steps)[:, 0]
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        assert np.allclose(tangents, along)


def test_uvs_without_image_are_in_metres(tmp_path):
    mesh = quiet(replace(obj(tmp_path), unit_m=0.05)).mesh
    for i, j in ((0, 1), (1, 2), (2, 0)):
        ends = mesh.faces[:3, [i, j]]
        in_space = np.linalg.norm(np.diff(mesh.vertices_m[ends], axis=1)[:, 0], axis=1)
        in_picture = np.linalg.norm(np.diff(mesh.uvs[ends], axis=1)[:, 0], axis=1)
        level = np.isclose(np.abs(mesh.normals[mesh.faces[:3, i]]).max(axis=1), 1)
        assert level.sum() >= 2
        assert np.allclose(in_space[level], in_picture[level])


def test_image_row_0_is_v_0(tmp_path):
    found = quiet(textured(tmp_path))
    assert found.colors[0, -1].tolist() == [127, 0, 0]
    assert found.colors[-1, 0].tolist() == [0, 0, 255]


def test_repeated_image_is_tiled(tmp_path):
    found = quiet(textured(tmp_path, places="vt -1 0\nvt 2 0\nvt 0 2\nvt 0.5 0.5\n"))
    assert found.colors.shape == (32, 48, 3)
    assert np.array_equal(found.colors[:16, :16], found.colors[16:, 32:])
    assert found.mesh.uvs.min() >= 0
    assert found.mesh.uvs.max() <= 1


@pytest.mark.parametrize(("backend", "tolerance"), [("tiny", 0.1), ("pathtraced", 0.3)])
def test_colour_is_equal_in_every_renderer(request, egl, make, tmp_path, backend, tolerance):
    asset = replace(textured(tmp_path), unit_m=0.06)
    scene = make.scene(make.body("thing", asset, (-0.02, -0.02, 0.0), make.GREY))
    lens = {"focal_px": 150.0, "cx_px": 47.5, "cy_px": 35.5}
    of = make.camera((0.15, 0.2, 0.25), (0.0, 0.0, 0.01), width=96, height=72, **lens)
    means = []
    for drawing in (egl, request.getfixturevalue(backend)):
        stage = Stage(scene, drawing)
        drawn = stage.render(make.view(of), ("radiance", "bodies"))
        seen = drawn["bodies"] == 2
        assert seen.sum() > 300
        means.append(drawn["radiance"][seen].mean(axis=0))
    red, green, blue = means[0]
    assert green < 0.3 * max(red, blue)
    assert np.allclose(means[1], means[0], rtol=tolerance, atol=0.2 * tolerance)


def test_label_is_category(egl, make, tmp_path):
    asset = replace(textured(tmp_path), unit_m=0.06)
    scene = make.scene(make.body("thing", asset, (0.0, 0.0, 0.0)))
    stage = Stage(scene, egl)
    (label,) = stage.shoot(make.camera(), ()).objects
    assert label.category == "thing"
    assert label.extent_m == compute_extent(asset)
    assert Scene.from_json(scene.to_json()) == scene


def test_falls_and_rests_on_hull(make, tmp_path):
    box = trimesh.creation.box((0.04, 0.03, 0.02))
    box.apply_translation((0.1, 0.2, 0.3))  # far from its frame's origin
    box.export(tmp_path / "box.ply")
    asset = MeshFile(str(tmp_path / "box.ply"), "box")
    turned = Pose((0.9, 0.1, 0.2, 0.37), (0.0, 0.0, 0.0))
    body = make.body("box", asset, tuple(0.08 * np.eye(3)[2] - turned.apply(np.array([[0.1, 0.2, 0.3]]))[0]),
                     rotation=turned.rotation_wxyz)  # fmt: skip
    settled, certificate = simulate(make.scene(body))
    assert certificate.rejection is None
    corners = settled.bodies[1].pose.apply(np.array(box.vertices))
    assert corners[:, 2].min() == pytest.approx(0, abs=5e-4)
    assert np.ptp(corners[:, 2]) == pytest.approx(0.02, abs=5e-4)
    assert np.abs(corners[:, :2].mean(axis=0)).max() < 0.05  # it did not swing around its origin


def textured_without(folder, name):
    asset = textured(folder)
    (folder / name).unlink()
    return asset


def elsewhere(folder):
    textured(folder)
    (folder / "inner").mkdir()
    asset = textured(folder / "inner", picture="../t.png")
    (folder / "inner" / "t.png").unlink()
    return asset


FLIPPED = "of 4 faces are inverted. They are flipped and all normals recomputed."
REPAIRED = {
    "no normals": (obj, "has no normals. They are computed from the faces."),
    "one face inside out": (lambda folder: obj(folder, faces=("1 2 3", *FACES[1:])), f"1 {FLIPPED}"),
    "all inside out": (lambda folder: obj(folder, faces=[face[::-1] for face in FACES]), f"4 {FLIPPED}"),
    "degenerate": (lambda folder: obj(folder, faces=(*FACES, "1 2 2", "1 1 1")), "2 of 6 faces are degenerate (no area) and removed."),
    "16k texture": (lambda folder: textured(folder, size=(16384, 8)), "the texture of 16384 x 8 pixels is scaled down to 4096."),
    "missing texture": (lambda folder: textured_without(folder, "t.png"), "file 't.png' is missing. It is ignored."),
    "missing material": (lambda folder: textured_without(folder, "a.mtl"), "file 'a.mtl' is missing. It is ignored."),
    "texture elsewhere": (elsewhere, "file '../t.png' is missing. It is ignored."),
}  # fmt: skip


@pytest.mark.parametrize("flaw", REPAIRED)
def test_flaws_are_repaired_with_warning(tmp_path, flaw):
    make, message = REPAIRED[flaw]
    asset = make(tmp_path)
    with pytest.warns(RepairWarning, match=f"^{re.escape(f'{asset.path}: {message}')}$"):
        found = read_mesh_file(asset)
    assert volume(found.mesh) == pytest.approx(1 / 6)
    assert len(found.mesh.faces) == 4
    assert (found.colors is None) == (flaw != "16k texture")
    if found.colors is not None:
        assert max(found.colors.shape) == MAX_TEXTURE_PX


def written(name, data):
    def make(folder):
        (folder / name).write_bytes(data)
        return MeshFile(str(folder / name), "thing")

    return make


def damaged_picture(folder):
    asset = textured(folder, size=(64, 64))
    data = (folder / "t.png").read_bytes()
    (folder / "t.png").write_bytes(data[: len(data) // 2])
    return asset


REFUSED = {
    "no file": (lambda folder: MeshFile(str(folder / "a.obj"), "thing"), "no such file. Check the path."),
    "another kind": (
        written("a.blend", b"BLENDER"),
        "is not in a supported format (.obj, .ply, .stl, .glb, .gltf, .dae, .urdf, .sdf, .mjcf, .xml).",
    ),
    "nan": (lambda folder: obj(folder, corners=CORNERS.replace("v 1 0 0", "v nan 0 0")), "line 2: a vertex is not finite: (nan, 0, 0)."),
    "infinite": (lambda folder: obj(folder, corners=CORNERS.replace("v 1 0 0", "v 0 inf 0")), "line 2: a vertex is not finite: (0, inf, 0)."),
    "no faces": (lambda folder: obj(folder, faces=()), "has no faces."),
    "too many": (
        lambda folder: replace(obj(folder), max_faces=3),
        "has 4 faces, more than 3. Simplify the mesh.",
    ),
    "one place": (lambda folder: obj(folder, corners="v 1 1 1\n" * 4), "all vertices are at the same position."),
    "a line": (lambda folder: obj(folder, faces=("1 2 2", "1 1 2")), "all 2 faces are degenerate (no area)."),
    "damaged picture": (damaged_picture, "damaged image (image file is truncated). Copy the file again."),
    "no glb": (written("a.glb", b"glTF but not really"), "the GLB header is truncated. Copy the file again."),
    "no ply": (written("a.ply", b"ply\nformat ascii 1.0\nelement vertex x\n"), "the PLY header has no line 'end_header'."),
    "no stl": (written("a.stl", b"\0" * 90), "has no faces."),
    "empty": (written("a.obj", b""), "has no faces."),
}  # fmt: skip


@pytest.mark.parametrize("flaw", REFUSED)
def test_invalid_mesh_raises(tmp_path, flaw):
    make, message = REFUSED[flaw]
    asset = make(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        with pytest.raises(InputError) as caught:
            read_mesh_file(asset)
    text = str(caught.value)
    assert text == f"{asset.path}: {message}"


def test_invalid_sizes_raise():
    message = "unit_m of a meshfile is 0.0. Sizes must be finite and above 0."
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        MeshFile("a.obj", "thing", unit_m=0.0)


def texel_colors(content, corners):
    """What the picture shows at points of faces (m, 3, 2), interpolated as renderers do."""
    height, width = content.colors.shape[:2]
    places = corners * (width, height) - 0.5
    low = np.floor(places + 1e-9).astype(int)
    share = places - low
    total = 0.0
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
        weight = np.prod(np.where((dx, dy), share, 1 - share), axis=-1)
        x, y = (np.add(low, (dx, dy))[..., i].clip(0, (width, height)[i] - 1) for i in (0, 1))
        total = total + weight[..., None] * content.colors[y, x]
    return total


@pytest.mark.parametrize("suffix", ["ply", "obj"])
def test_vertex_colors_are_interpolated(tmp_path, suffix):
    ball = trimesh.creation.icosphere(3, 0.1)
    colors = np.round((ball.vertices / 0.1 * 0.5 + 0.5) * 255).astype(np.uint8)
    ball.visual.vertex_colors = np.column_stack([colors, np.full(len(colors), 255)])
    ball.export(tmp_path / f"a.{suffix}")
    content = quiet(MeshFile(str(tmp_path / f"a.{suffix}"), "thing"))
    mesh = content.mesh
    for weights in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]):
        points = np.einsum("c,fcd->fd", weights, mesh.vertices_m[mesh.faces])
        places = np.einsum("c,fcd->fd", weights, mesh.uvs[mesh.faces])
        expected = (points / 0.1 * 0.5 + 0.5) * 255
        assert np.abs(texel_colors(content, places) - expected).max() < 1.1


def test_neighbouring_faces_are_neighbours_in_texture(tmp_path):
    ball = trimesh.creation.icosphere(3, 0.1)
    ball.visual.vertex_colors = np.full((len(ball.vertices), 4), 255, np.uint8)
    ball.export(tmp_path / "a.ply")
    mesh = quiet(MeshFile(str(tmp_path / "a.ply"), "thing")).mesh
    middle = mesh.vertices_m[mesh.faces].mean(axis=1)
    place = mesh.uvs[mesh.faces].mean(axis=1)
    near = np.linalg.norm(place[:, None] - place[None], axis=-1) < 0.035
    apart = np.linalg.norm(middle[:, None] - middle[None], axis=-1)
    assert np.median(apart[near]) < 0.3 * np.median(apart)


@pytest.mark.parametrize(
    ("told", "is_clear"),
    [("d 1.0", False), ("d 0.4", True), ("d -halo 0.4", True), ("Tr 0", False), ("Tr 0.6", True),
     ("d nan", False), ("d glass", False)],
)  # fmt: skip
def test_transparent_mtl_material_is_reported(tmp_path, told, is_clear):
    (tmp_path / "a.mtl").write_text(f"newmtl m\nKd 1 0 0\n{told}\n")
    asset = obj(tmp_path, head="mtllib a.mtl\nusemtl m\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        read_mesh_file(asset)
    said = f"{asset.path}: has transparent materials. They are rendered opaque."
    assert (said in [str(one.message) for one in caught]) is is_clear


@pytest.mark.parametrize(
    ("options", "moves"),
    [("-s 1 1 1 -o 0 0 0 ", ""), ("-S 1.0 -clamp on -bm 2 -mm 0 1 ", ""), ("-s 1 1 7 -type sphere ", ""),
     ("-blendu off -s 2 2 1 ", "-s 2 2 1"), ("-o .5 ", "-o .5"), ("-o 0 1e-1 -s 3 ", "-o 0 1e-1")],
)  # fmt: skip
def test_image_options_are_not_part_of_names(tmp_path, options, moves):
    asset = textured(tmp_path, picture=f"{options}my t.png")
    (tmp_path / "t.png").rename(tmp_path / "my t.png")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        assert read_mesh_file(asset).colors.shape == (16, 16, 3)
    said = [str(one.message) for one in caught if "no normals" not in str(one.message)]
    told = f"{asset.path}: the image option '{moves}' is not supported and ignored."
    assert said == ([told] if moves else [])


def test_winding_follows_majority(tmp_path):
    ball = trimesh.creation.icosphere(3, 0.1)
    rng = np.random.default_rng(0)
    for share in (0.05, 0.6):  # the more, the sooner those that stay are the wrong ones
        turned = rng.random(len(ball.faces)) < share
        faces = np.where(turned[:, None], ball.faces[:, ::-1], ball.faces)
        trimesh.Trimesh(ball.vertices, faces, process=False).export(tmp_path / "a.ply")
        read_mesh_file.cache_clear()
        with pytest.warns(RepairWarning, match=f"{turned.sum()} of {len(faces)} faces are"):
            mesh = read_mesh_file(MeshFile(str(tmp_path / "a.ply"), "thing")).mesh
        assert volume(mesh) == pytest.approx(ball.volume, rel=1e-5)


def test_pack_and_unpack_round_trip(tmp_path):
    content = quiet(textured(tmp_path))
    again = unpack(pack(content))
    assert again.is_closed == content.is_closed
    assert np.array_equal(again.colors, content.colors)
    for name, value in vars(content.mesh).items():
        assert np.array_equal(getattr(again.mesh, name), value), name
    assert unpack(pack(content)[:-40]) is None
    assert unpack(b"") is None
