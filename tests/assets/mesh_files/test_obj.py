"""OBJ as its specification has it: spellings, relative numbers, materials, and errors that name lines."""

import re
import warnings

import numpy as np
import pytest
from PIL import Image

from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.errors import InputError, RepairWarning

CORNERS = ["v 0 0 0", "v 1 0 0", "v 0 1 0", "v 0 0 1"]
FACES = ["f 1 3 2", "f 1 2 4", "f 2 3 4", "f 1 4 3"]


def read(folder, lines, name="a.obj", **options):
    """The meshes of an OBJ file, and the warnings about it."""
    text = lines if isinstance(lines, bytes) else "\n".join(lines).encode()
    (folder / name).write_bytes(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        solids, _ = read_solids(folder / name, 10_000, **options)
    return solids, [str(one.message).removeprefix(f"{folder / name}: ") for one in caught]


def corners_of(solids):
    """The corners of all faces (n, 3, 3)."""
    return np.concatenate([solid.vertices[solid.faces] for solid in solids])


PLAIN = "\n".join([*CORNERS, *FACES])
SPELLINGS = {
    "tabs": PLAIN.replace(" ", "\t"),
    "spaces": re.sub("^", "   ", PLAIN.replace(" ", "  "), flags=re.MULTILINE),
    "comments": re.sub("$", "  # f 1 2 3", PLAIN, flags=re.MULTILINE),
    "carriage returns": PLAIN.replace("\n", "\r"),
    "windows": PLAIN.replace("\n", "\r\n"),
    "latin-1": f"# gr\xfcn\n{PLAIN}".encode("latin-1"),
    "byte order mark": "\ufeff" + PLAIN,
    "continued": PLAIN.replace("f 1 3 2", "f 1 \\\n3 \\\n 2"),
    "before": "\n".join([*FACES, *CORNERS]),
    "relative": PLAIN.replace("f 1 3 2", "f -4 -2 -3"),
    "slashes": PLAIN.replace("f 1 3 2", "f 1// 3/ 2"),
    "other lines": f"o x\ng y\ns off\nl 1 2\np 1\nvp 0 0\ncstype bezier\n{PLAIN}\nend",
    "weights": PLAIN.replace("v 1 0 0", "v 1 0 0 1.0"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_same_solid_in_every_spelling(tmp_path, spelling):
    expected = corners_of(read(tmp_path, PLAIN.encode())[0])
    text = SPELLINGS[spelling]
    solids, said = read(tmp_path, text if isinstance(text, bytes) else [text])
    assert np.array_equal(corners_of(solids), expected)
    assert said == []


def test_negative_indices_count_back(tmp_path):
    moved = ["v 5 0 0", "v 6 0 0", "v 5 1 0", "v 5 0 1"]
    relative = ["f -4 -2 -3", "f -4 -3 -1", "f -3 -2 -1", "f -4 -1 -2"]
    whole = [f"f {' '.join(str(int(n) + 4) for n in face.split()[1:])}" for face in FACES]
    absolute, _ = read(tmp_path, [*CORNERS, *moved, *FACES, *whole])
    interleaved, _ = read(tmp_path, [*CORNERS, *relative, *moved, *relative])
    assert np.array_equal(corners_of(interleaved), corners_of(absolute))
    assert np.ptp(corners_of(interleaved)[..., 0]) == 6


def test_concave_polygons_of_a_file_keep_their_notch(tmp_path):
    ring = [(0, 0), (3, 0), (3, 3), (2, 3), (2, 1), (1, 1), (1, 3), (0, 3)]
    solids, _ = read(tmp_path, [*(f"v {x} {y} 0" for x, y in ring), "f 1 2 3 4 5 6 7 8"])
    a, b, c = np.moveaxis(corners_of(solids), 1, 0)
    assert np.cross(b - a, c - a)[:, 2].sum() / 2 == 7
    assert (np.cross(b - a, c - a)[:, 2] > 0).all()


WRONG = {
    "f 1 2 9": "line 5: a face refers to vertex 9 of 4.",
    "f 1 2 0": "line 5: a face refers to vertex 0; 4 are defined before it.",
    "f 1 2 -5": "line 5: a face refers to vertex -5; 4 are defined before it.",
    "f 1/1 2 3": "line 5: a face refers to texture coordinate 1 of 0.",
    "f 1//2 2 3": "line 5: a face refers to normal 2 of 0.",
    "f 1 2 99999999999999999999": "line 5: a face refers to vertex 99999999999999999999; 4 are defined before it.",
    "f 1 2 1.5": "line 5: a corner must have the form 1, 1/1, 1//1 or 1/1/1 (found '1.5').",
    "f 1 2 /": "line 5: a corner must have the form 1, 1/1, 1//1 or 1/1/1 (found '/').",
    "v 1 x 0": "line 5: 'v' needs at least 3 numbers (found '1 x 0').",
    "v 1 2": "line 5: 'v' needs at least 3 numbers (found '1 2').",
    "vn 1 2": "line 5: 'vn' needs at least 3 numbers (found '1 2').",
    "vt": "line 5: 'vt' needs at least 1 numbers (found '').",
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_an_error_names_the_line(tmp_path, line):
    with pytest.raises(InputError) as caught:
        read(tmp_path, [*CORNERS, line, *FACES])
    assert str(caught.value) == f"{tmp_path / 'a.obj'}: {WRONG[line]}"


def test_faces_with_two_corners_are_reported(tmp_path):
    solids, said = read(tmp_path, [*CORNERS, *FACES, "f 1 2", "f 3"])
    assert len(corners_of(solids)) == 4
    assert said == ["2 faces with fewer than three corners are ignored."]


def test_unused_vertices_are_removed(tmp_path):
    solids, _ = read(tmp_path, [*CORNERS, "v nan 0 0", "v 900 0 0", *FACES])
    assert len(solids[0].vertices) == 4


@pytest.mark.parametrize("most", [1, 255])
def test_colors_of_vertices_reach_to_1_or_255(tmp_path, most):
    shares = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0.4, 0.2)]
    told = [
        f"{corner} {' '.join(f'{most * c:g}' for c in share)}"
        for corner, share in zip(CORNERS, shares, strict=True)
    ]
    (solid,), _ = read(tmp_path, [*told, *FACES])
    of = {
        tuple(v): tuple(c)
        for v, c in zip(solid.vertices, solid.vertex_colors.tolist(), strict=True)
    }
    assert of[0, 0, 0] == (255, 0, 0)
    assert of[0, 0, 1] == (255, 102, 51)


RED, GREEN = "newmtl red\nKd 1 0 0\n", "newmtl green\nKd 0 1 0\n"
HALVES = ["usemtl red", *FACES[:2], "usemtl green", *FACES[2:]]


@pytest.mark.parametrize(
    ("libraries", "said"),
    [
        (["mtllib a.mtl", "mtllib b.mtl"], []),
        (["mtllib a.mtl b.mtl"], []),
        (["mtllib a.mtl my b.mtl"], []),
        (["mtllib a.mtl"], ["material 'green' is missing in the MTL files."]),
        (["mtllib a.mtl no.mtl"], ["file 'no.mtl' is missing. It is ignored."]),
    ],
)  # fmt: skip
def test_materials_come_from_all_libraries(tmp_path, libraries, said):
    (tmp_path / "a.mtl").write_text(RED)
    (tmp_path / "b.mtl").write_text(GREEN)
    (tmp_path / "my b.mtl").write_text(GREEN)
    solids, found = read(tmp_path, [*libraries, *CORNERS, *HALVES])
    assert [solid.color for solid in solids] == [(255, 0, 0), None if said else (0, 255, 0)]
    assert found == said


PLACED = ["vt 0 0", "vt 1 0", "vt 0 1", "f 1/1 3/3 2/2", "f 1/1 2/2 4/3", "f 2/1 3/2 4/3", "f 1/1 4/2 3/3"]  # fmt: skip


def pictured(folder, told, lines=(), picture=None, faces=PLACED):
    """The meshes of an OBJ with a material that has these lines."""
    (folder / "textures").mkdir(exist_ok=True)
    Image.new("RGB", (4, 4), (200, 10, 10)).save(folder / "textures/Red.png")
    if picture is not None:
        (folder / "t.png").write_bytes(picture)
    (folder / "a.mtl").write_text("\n".join(["newmtl m", told, *lines]))
    return read(folder, ["mtllib a.mtl", *CORNERS, "usemtl m", *faces])


@pytest.mark.parametrize(
    "name",
    ["textures/Red.png", "textures\\Red.png", ".\\textures\\Red.png", "TEXTURES/red.PNG", '"textures/Red.png"',
     "textures\\RED.png", "textures/../textures/red.png", "C:\\work\\BESIDE.png", "/home/me/beside.png"],
)  # fmt: skip
def test_resolves_image_names(tmp_path, name):
    Image.new("RGB", (4, 4), (200, 10, 10)).save(tmp_path / "beside.png")
    (solid,), said = pictured(tmp_path, f"map_Kd {name}")
    assert solid.image.getpixel((0, 0)) == (200, 10, 10)
    assert said == []


def test_ambiguous_case_is_not_resolved(tmp_path):
    (tmp_path / "textures").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "textures/RED.png")
    (solid,), said = pictured(tmp_path, "map_Kd textures/red.png", ["Kd 0 0 1"])
    assert solid.image is None
    assert solid.color == (0, 0, 255)
    assert said == ["file 'textures/red.png' is missing. It is ignored."]


def test_unsupported_image_is_reported(tmp_path):
    (solid,), said = pictured(tmp_path, "map_Kd t.png", picture=b"\xabKTX 20\xbb\r\n\x1a\n" * 9)
    assert solid.image is None
    assert said == ["image 't.png' has an unsupported format and is ignored."]


def test_image_without_uvs_is_reported(tmp_path):
    (solid,), said = pictured(tmp_path, "map_Kd textures/Red.png", faces=FACES)
    assert solid.image is None
    assert said == ["image 'textures/Red.png' is ignored: its faces have no texture coordinates."]


def test_faces_without_uvs_have_material_colour(tmp_path):
    faces = [*PLACED[:5], *FACES[2:]]
    solids, said = pictured(tmp_path, "map_Kd textures/Red.png", ["Kd 0 0 1"], faces=faces)
    assert [(solid.image is None, len(solid.faces)) for solid in solids] == [(False, 2), (True, 2)]
    assert solids[1].color == (0, 0, 255)
    assert len(said) == 1


def test_non_colour_images_are_reported(tmp_path):
    told = [
        "map_Ka ambient.png",
        "map_Bump -bm 0.5 bump map.png",
        "map_Ks spec.png",
        "norm n.png",
        "map_d d.png",
    ]
    _, said = pictured(tmp_path, "Kd 1 1 1", told)
    assert said == [
        "images 'bump map.png', 'spec.png', 'n.png' and 1 more are ignored: only colour images are supported."
    ]


def test_greys_of_16_bits_keep_their_brightness(tmp_path):
    from sim2cam.assets.mesh import read_mesh_file
    from sim2cam.scene.shape import MeshFile

    Image.fromarray(np.full((4, 4), 100 * 257, np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "a.mtl").write_text("newmtl m\nmap_Kd deep.png\n")
    text = "\n".join(["mtllib a.mtl", *CORNERS, "usemtl m", *PLACED])
    (tmp_path / "a.obj").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepairWarning)
        colors = read_mesh_file(MeshFile(str(tmp_path / "a.obj"), "a")).colors
    assert (colors == 100).all()


def test_meshes_are_read_without_their_colours(tmp_path):
    (tmp_path / "a.mtl").mkdir()
    solids, said = read(tmp_path, ["mtllib a.mtl", *CORNERS, "usemtl m", *FACES], colored=False)
    assert len(corners_of(solids)) == 4
    assert said == []
