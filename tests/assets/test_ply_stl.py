"""PLY and STL as they are written: kinds of numbers, colours, encodings, and errors that name lines."""

import struct
import warnings

import numpy as np
import pytest
import trimesh
from PIL import Image

from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.errors import InputError, RepairWarning

PLACES = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
FACES = [(0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)]
CODES = {"uchar": "B", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d"}
FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


def ply(form, vertex, rows, lists, comments=(), face=(), face_rows=None):
    """A PLY file: properties (kind, name) of vertices and their rows, lists of faces, and more of faces."""
    head = ["ply", f"format {form} 1.0", *(f"comment {one}" for one in comments)]
    head += [f"element vertex {len(rows)}", *(f"property {kind} {name}" for kind, name in vertex)]
    head += [f"element face {len(lists)}", "property list uchar int vertex_indices"]
    head += [f"property {kind} {name}" for kind, name in face] + ["end_header", ""]
    face_rows = face_rows or [()] * len(lists)
    kinds = [kind for kind, _ in vertex]
    more = [kind.split()[-1] for kind, _ in face]
    if form == "ascii":
        body = "".join(" ".join(f"{v:g}" for v in row) + "\n" for row in rows)
        for indices, extra in zip(lists, face_rows, strict=True):
            words = [len(indices), *indices, *extra]
            body += " ".join(f"{v:g}" for v in words) + "\n"
        return "\n".join(head).encode("latin-1") + body.encode()
    order = FORMATS[form]
    data = b"".join(
        struct.pack(order + CODES[kind], value)
        for row in rows
        for kind, value in zip(kinds, row, strict=True)
    )
    for indices, extra in zip(lists, face_rows, strict=True):
        data += struct.pack(f"{order}B{len(indices)}i", len(indices), *indices)
        data += b"".join(struct.pack(order + CODES[k], v) for k, v in zip(more, extra, strict=True))
    return "\n".join(head).encode("latin-1") + data


def read(folder, data, name="a.ply"):
    (folder / name).write_bytes(data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        solids, _ = read_solids(folder / name, 10_000)
    return solids, [str(one.message).removeprefix(f"{folder / name}: ") for one in caught]


XYZ = [("float", "x"), ("double", "y"), ("float", "z")]


@pytest.mark.parametrize("form", FORMATS)
def test_triangles_and_polygons_are_read_in_every_form(tmp_path, form):
    notch = [(0, 0, 0), (3, 0, 0), (3, 3, 0), (2, 3, 0), (2, 1, 0), (1, 1, 0), (1, 3, 0), (0, 3, 0)]
    (solid,), _ = read(tmp_path, ply(form, XYZ, notch, [tuple(range(8)), (0, 1, 2), (0, 2, 1)]))
    a, b, c = np.moveaxis(solid.vertices[solid.faces], 1, 0)
    areas = np.cross(b - a, c - a)[:, 2] / 2
    assert areas.tolist()[6:] == [4.5, -4.5]
    assert areas[:6].sum() == 7
    assert (areas[:6] > 0).all()


KINDS = [
    ("uchar", 255),
    ("ushort", 65535),
    ("int", 255),
    ("float", 1),
    ("float", 255),
    ("double", 1),
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("kind", "most"), KINDS)
@pytest.mark.parametrize("names", ["red green blue", "diffuse_red diffuse_green diffuse_blue"])
def test_colors_are_read_whatever_their_kind_and_name(tmp_path, form, kind, most, names):
    shares = np.array([(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0.4, 0.2)])
    rows = [(*place, *share) for place, share in zip(PLACES, (shares * most).tolist(), strict=True)]
    if most > 1:
        rows = [(*row[:3], *map(round, row[3:])) for row in rows]
    (solid,), _ = read(
        tmp_path, ply(form, [*XYZ, *((kind, name) for name in names.split())], rows, FACES)
    )
    assert solid.vertex_colors.tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 102, 51]]


@pytest.mark.parametrize("form", FORMATS)
def test_faces_may_have_own_colours_and_uvs(tmp_path, form):
    Image.new("RGB", (4, 4), (9, 8, 7)).save(tmp_path / "my t.png")
    face = [("uchar", "red"), ("uchar", "green"), ("uchar", "blue")]
    colors = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (9, 9, 9)]
    (solid,), _ = read(tmp_path, ply(form, XYZ, PLACES, FACES, face=face, face_rows=colors))
    assert solid.vertex_colors[solid.faces[:, 0]].tolist() == [list(color) for color in colors]
    if form == "ascii":
        face = [("list uchar float", "texcoord")]
        rows = [(6, n, 0, n, 1, 1, 0) for n in range(4)]
        comments = ["TextureFile my t.png"]
        (solid,), said = read(
            tmp_path, ply(form, XYZ, PLACES, FACES, comments, face=face, face_rows=rows)
        )
        assert solid.image.getpixel((0, 0)) == (9, 8, 7)
        assert solid.uvs[solid.faces[3]].tolist() == [[3, 0], [3, 1], [1, 0]]
        assert said == []


def test_unused_image_is_reported(tmp_path):
    _, said = read(tmp_path, ply("ascii", XYZ, PLACES, FACES, ["TextureFile t.png"]))
    assert said == ["image 't.png' is ignored: the mesh has no texture coordinates."]


SOUND = ply("ascii", XYZ, PLACES, FACES, ["grün"])
WRONG = {
    "not PLY: the first line is not 'ply'.": SOUND[1:],
    "the PLY header has no line 'end_header'.": SOUND.replace(b"end_header", b"end"),
    "line 2: 'format text 1.0' is not a valid PLY header line.": SOUND.replace(b"ascii", b"text"),
    "line 5: 'property half x' is not a valid PLY header line.": SOUND.replace(b"float x", b"half x"),
    "line 4: 'element vertex many' is not a valid PLY header line.": SOUND.replace(b"vertex 4", b"vertex many"),
    "line 6: duplicate property 'x'.": SOUND.replace(b"double y", b"double x"),
    "line 12: 'O' is not a number.": SOUND.replace(b"\n1 0 0", b"\n1 0 O"),
    "the file is truncated: 'face' has fewer than 9 rows. Export it again.": SOUND.replace(b"face 4", b"face 9"),
    "the file is truncated: 'vertex' has fewer than 999999999999 rows. Export it again.": SOUND.replace(b"vertex 4", b"vertex 999999999999"),
    "face 2 refers to vertex 7; allowed are 0 to 3.": SOUND.replace(b"3 0 1 3", b"3 0 1 7"),
    "the vertices have no x, y and z.": SOUND.replace(b"float z", b"float w"),
    "the faces have no list 'vertex_indices'.": SOUND.replace(b"vertex_indices", b"corners"),
    "a vertex is not finite or too far away: (0, nan, 0).": SOUND.replace(b"\n0 1 0", b"\n0 nan 0"),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_errors_are_about_the_format(tmp_path, message):
    assert read(tmp_path, SOUND)[0]
    with pytest.raises(InputError) as caught:
        read(tmp_path, WRONG[message])
    assert str(caught.value) == f"{tmp_path / 'a.ply'}: {message}"


@pytest.mark.parametrize("form", ["binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("cut", [1, 20, 60, 100])
def test_binary_files_that_end_early_are_refused(tmp_path, form, cut):
    data = ply(form, XYZ, PLACES, [*FACES, (0, 1, 2, 3)])
    with pytest.raises(
        InputError, match=r"the file is truncated: '(vertex|face)' has fewer than . rows"
    ):
        read(tmp_path, data[:-cut])


def stl_text(name="büchse", break_=None):
    box = trimesh.creation.box((1, 2, 3))
    lines = [f"solid {name}"]
    for triangle in box.triangles:
        lines += ["facet normal 0 0 0", "  outer loop"]
        lines += [f"    vertex {x} {y} {z}" for x, y, z in triangle]
        lines += ["  endloop", "endfacet"]
    text = "\n".join([*lines, f"endsolid {name}"])
    return text if break_ is None else text.replace("vertex -0.5", break_, 1)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "cp1251"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_reads_text_stl_with_any_name(tmp_path, encoding, ends):
    name = "корпус" if encoding == "cp1251" else "Gehäuse"
    data = stl_text(name).replace("\n", ends).encode(encoding)
    (solid,), _ = read(tmp_path, data, "a.stl")
    assert len(solid.faces) == 12
    assert np.ptp(solid.vertices, axis=0).tolist() == [1, 2, 3]


def binary_stl(head=b"solid made by a program that writes this"):
    box = trimesh.creation.box((1, 2, 3))
    data = trimesh.exchange.stl.export_stl(box)
    return head.ljust(80) + data[80:]


def test_binary_stl_may_begin_as_text_does(tmp_path):
    (solid,), _ = read(tmp_path, binary_stl(), "a.stl")
    assert len(solid.faces) == 12


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (stl_text(break_="vertex x").encode("latin-1"), "line 4: a vertex must have 3 numbers (found 'vertex x"),
        (stl_text(break_="vertex 0 #").encode("latin-1"), "line 4: a vertex must have 3 numbers (found 'vertex 0 #"),
        (stl_text(break_="vertices").encode("latin-1"), "the file is truncated: 35 vertices are not a multiple of three."),
        (b"\0" * 60, "not STL: the file is shorter than the header."),
        (binary_stl(b"made")[:-30], "the file is truncated: it has 11 of 12 triangles. Export it again."),
        (bytes(84), "has no faces."),
    ],
)  # fmt: skip
def test_invalid_stl_raises(tmp_path, data, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, data, "a.stl")
    assert str(caught.value).startswith(f"{tmp_path / 'a.stl'}: {message}")
