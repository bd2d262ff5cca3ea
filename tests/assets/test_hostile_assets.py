"""Files that are damaged, huge or malicious: each gives an error or an asset, and harms nobody."""

import base64
import io
import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from sim2cam.assets.folder import list_assets
from sim2cam.assets.importer import import_assets

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
FACES = "f 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
PLY = "ply\nformat {form} 1.0\nelement vertex {n}\n{xyz}element face {m}\nproperty list {count} int vertex_indices\nend_header\n"
XYZ = "property float x\nproperty float y\nproperty float z\n"


def sound(folder: Path) -> dict[str, bytes]:
    """One sound file of each format."""
    box = trimesh.creation.box((0.1, 0.2, 0.3))
    found = {}
    for name, options in (
        ("a.obj", {}), ("a.stl", {}), ("b.stl", {"file_type": "stl_ascii"}), ("a.ply", {}),
        ("b.ply", {"encoding": "ascii"}), ("a.glb", {}),
    ):  # fmt: skip
        box.export(folder / name, **options)
        found[name] = (folder / name).read_bytes()
        (folder / name).unlink()
    return found


def damaged(sounds: dict[str, bytes]) -> dict[str, bytes]:
    """Files that end early, whose bytes are wrong, or that are something else."""
    found = {}
    for name, data in sounds.items():
        stem, suffix = name.split(".")
        for tenth in range(10):
            found[f"short{tenth}-{stem}.{suffix}"] = data[: len(data) * tenth // 10]
        for seed in range(12):
            rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
            bytes_ = bytearray(data)
            for place in rng.integers(len(bytes_), size=1 + 4 * seed):
                bytes_[place] = rng.integers(256)
            found[f"flip{seed}-{stem}.{suffix}"] = bytes(bytes_)
        for other, content in sounds.items():
            if not other.endswith(suffix):
                found[f"is-{other.replace('.', '-')}-{stem}.{suffix}"] = content
        found[f"noise-{stem}.{suffix}"] = np.random.default_rng(1).bytes(5000)
        found[f"null-{stem}.{suffix}"] = bytes(5000)
        found[f"page-{stem}.{suffix}"] = b"<html><body>404 Not Found</body></html>"
    return found


def numbers() -> dict[str, bytes]:
    """Meshes of numbers that are none, or of no place."""
    found = {}
    for bad in ("nan", "inf", "-inf", "1e308", "1e39", "x", "", "0x10", "1e-320"):
        found[f"vertex-{bad or 'none'}.obj"] = f"{TETRAHEDRON}v {bad} 0 0\nf 1 2 5\n{FACES}"
    for bad in ("0", "-9", "5", "99999999999999999999", "1.5", "a", "1/9", "1//9", "/", "nan"):
        found[f"index-{bad.replace('/', '_')}.obj"] = f"{TETRAHEDRON}f 1 2 {bad}\n"
    found["no-faces.obj"] = TETRAHEDRON
    found["no-vertices.obj"] = FACES
    found["one-place.obj"] = "v 1 1 1\nv 1 1 1\nv 1 1 1\nf 1 2 3\n"
    found["a-line.obj"] = "v 0 0 0\nv 1 1 1\nv 2 2 2\nf 1 2 3\n"
    found["flat.obj"] = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n"
    found["leaning.obj"] = "v 0 0 0\nv 1 0 0.3\nv 1 1 0.7\nv 0 1 0.4\nf 1 2 3 4\n"
    found["tiny.obj"] = "v 0 0 0\nv 1e-9 0 0\nv 0 1e-9 0\nf 1 2 3\n"
    found["huge.obj"] = "v 0 0 0\nv 1e9 0 0\nv 0 1e9 0\nf 1 2 3\n"
    found["long-line.obj"] = "v " + "1 " * 500_000 + "\n" + TETRAHEDRON + FACES
    found["fan.obj"] = TETRAHEDRON + "f " + "1 2 3 4 " * 5_000 + "\n"
    found["groups.obj"] = TETRAHEDRON + "".join(f"g {i}\nf 1 2 3\n" for i in range(3000))
    return {name: text.encode() for name, text in found.items()}


def claims() -> dict[str, bytes]:
    """Files that claim to hold more than they do."""
    found: dict[str, bytes] = {}
    for n in (10**7, 10**9, 10**12, 10**18, -1):
        for form in ("ascii", "binary_little_endian"):
            header = PLY.format(form=form, n=n, m=4, xyz=XYZ, count="uchar")
            found[f"vertices{n}-{form}.ply"] = header.encode() + bytes(100)
    listed = PLY.format(form="binary_little_endian", n=3, m=1, xyz=XYZ, count="uint")
    found["list.ply"] = listed.encode() + bytes(36) + struct.pack("<I", 2**32 - 1)
    for n in (2**20, 2**31, 2**32 - 1):
        found[f"faces{n}.stl"] = bytes(80) + struct.pack("<I", n) + bytes(50)
    for length in (0, 12, 10**6, 2**32 - 1):
        found[f"length{length}.glb"] = struct.pack(
            "<4sIIII", b"glTF", 2, length, length, 0x4E4F534A
        )
    return found


def gltf(**changes) -> bytes:
    """A glTF file of one triangle, with some parts replaced."""
    corners = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0]], "<f4").tobytes()
    data = "data:application/octet-stream;base64," + base64.b64encode(corners).decode()
    whole = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "buffers": [{"uri": data, "byteLength": 36}],
    }
    return json.dumps(whole | changes).encode()


def scenes() -> dict[str, bytes]:
    """glTF files that lead back to themselves, out of themselves, or nowhere."""
    deep = [{"children": [i + 1], "mesh": 0} for i in range(300)] + [{"mesh": 0}]
    wide = [{"children": [2 * i + 1, 2 * i + 2]} for i in range(2**8 - 1)]
    wide += [{"mesh": 0} for _ in range(2**8)]
    accessor = {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}
    return {
        "plain.gltf": gltf(),
        "cycle.gltf": gltf(nodes=[{"mesh": 0, "children": [0]}]),
        "two-cycle.gltf": gltf(nodes=[{"children": [1]}, {"mesh": 0, "children": [0]}]),
        "deep.gltf": gltf(nodes=deep),
        "wide.gltf": gltf(nodes=wide),
        "no-node.gltf": gltf(scenes=[{"nodes": [7]}]),
        "no-mesh.gltf": gltf(nodes=[{"mesh": 7}]),
        "no-accessor.gltf": gltf(meshes=[{"primitives": [{"attributes": {"POSITION": 9}}]}]),
        "count.gltf": gltf(accessors=[accessor | {"count": 10**12}]),
        "negative.gltf": gltf(accessors=[accessor | {"count": -3}]),
        "kind.gltf": gltf(accessors=[accessor | {"type": "VEC9"}]),
        "component.gltf": gltf(accessors=[accessor | {"componentType": 1}]),
        "offset.gltf": gltf(bufferViews=[{"buffer": 0, "byteOffset": 10**9, "byteLength": 36}]),
        "buffer.gltf": gltf(buffers=[{"byteLength": 10**13}]),
        "bad-data.gltf": gltf(buffers=[{"uri": "data:;base64,!!!!", "byteLength": 36}]),
        "nan-matrix.gltf": gltf(nodes=[{"mesh": 0, "matrix": [float("nan")] * 16}]),
        "short-matrix.gltf": gltf(nodes=[{"mesh": 0, "matrix": [1.0]}]),
        "words.gltf": gltf(nodes="all"),
        "null.gltf": b"null",
        "list.gltf": b"[]",
        "nest.gltf": b"[" * 200_000,
        "nest-object.gltf": b'{"a":' * 200_000,
    }


def colored() -> dict[str, bytes]:
    """glTF files of two triangles whose colours, or places in pictures, are none or far away."""
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 30, 30)).save(stream, "png")
    picture = "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
    found = {}
    numbers = {"nan": np.nan, "inf": np.inf, "far": 1e30, "wide": 5e3, "minus": -1}
    attributes = (("COLOR_0", 4), ("COLOR_0", 1), ("TEXCOORD_0", 2), ("TEXCOORD_0", 3))
    for name, number in numbers.items():
        for attribute, kind in attributes:
            corners = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0]], "<f4")
            values = np.linspace(0, 1, 3 * kind, dtype="<f4")
            values[-1] = number
            data = corners.tobytes() + values.tobytes()
            pair = [{"attributes": {"POSITION": 0, attribute: 1}, "material": n} for n in (0, 1)]
            kinds = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}
            found[f"{name}-{attribute}-{kind}.gltf"] = gltf(
                meshes=[{"primitives": pair}],
                accessors=[
                    {"bufferView": n, "componentType": 5126, "count": 3, "type": kinds[of]}
                    for n, of in enumerate((3, kind))
                ],
                bufferViews=[
                    {"buffer": 0, "byteLength": 36},
                    {"buffer": 0, "byteOffset": 36, "byteLength": len(data) - 36},
                ],
                buffers=[{"uri": "data:;base64," + base64.b64encode(data).decode(), "byteLength": len(data)}],
                materials=[
                    {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "baseColorFactor": [0.5, 1, 1, 1]}},
                    {"pbrMetallicRoughness": {"baseColorFactor": [number, 0.5, 2.0, 1.0]}},
                ],
                textures=[{"source": 0}],
                images=[{"uri": picture}],
            )  # fmt: skip
    return found


def reaching_out(outside: str) -> dict[str, bytes]:
    """Files that name what lies outside of their folder."""
    found = {}
    ways = (f"../{outside}", f"x/../../{outside}", "/etc/passwd", "file:///etc/passwd", "~/.ssh/id",
            "\\\\host\\share", "http://127.0.0.1:9/x", "link.png", "pipe.png", "/dev/zero", ".", "")  # fmt: skip
    for number, way in enumerate(ways):
        found[f"way{number}.mtl"] = f"newmtl m\nmap_Kd {way}\n".encode()
        head = f"mtllib way{number}.mtl\nvt 0 0\nvt 1 0\nvt 0 1\nusemtl m\n"
        found[f"texture{number}.obj"] = f"{head}{TETRAHEDRON}f 1/1 3/2 2/3\n{FACES}".encode()
        found[f"library{number}.obj"] = f"mtllib {way}\n{TETRAHEDRON}{FACES}".encode()
        found[f"buffer{number}.gltf"] = gltf(buffers=[{"uri": way, "byteLength": 36}])
    found["itself.obj"] = f"mtllib itself.obj\n{TETRAHEDRON}{FACES}".encode()
    return found


def bomb(path: Path) -> None:
    """A picture of 60,000 x 60,000 pixels in a few kilobytes of an OBJ's folder."""
    Image.new("RGB", (8, 8)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", 60_000, 60_000)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    path.write_bytes(bytes(data))


CARDS = (
    "category = 3", "unit = 'parsec'", "mass_kg = 0.1", "mass_kg = { low = 0, high = 1 }",
    "mass_kg = { low = nan, high = nan }", "mass_kg = { low = 2, high = 1 }", "mas_kg = 1",
    "mass_kg = { low = -1, high = 1 }", "mass_kg = { low = 1, high = inf }", "friction = []",
    "friction = { low = 0, high = 100 }", "restitution = { low = 0.5, high = 1.5 }", "= 3", "[[[",
    "keypoints = { a = [1, 2] }", "keypoints = { a = [nan, 0, 0] }", "a = " + "[" * 10_000,
    "[symmetries]\naxes = [[0, 0, 0]]", "[symmetries]\nrotations_wxyz = [[1, 2, 3]]",
    "licence = 1979-05-27", "category = ''", "x" * 2_000_000,
)  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile")
    folder = root / "assets"
    folder.mkdir()
    os.mkfifo(root / "outside.png")  # whoever opens it waits for ever
    os.mkfifo(folder / "pipe.png")
    os.mkfifo(folder / "pipe.obj")
    (folder / "link.png").symlink_to(root / "outside.png")
    (folder / "link.obj").symlink_to(root / "outside.png")
    (folder / "loop.obj").symlink_to(folder / "loop.obj")
    (folder / "folder.obj").mkdir()
    bomb(folder / "bomb.png")
    files = damaged(sound(root)) | numbers() | claims() | scenes() | colored()
    files |= reaching_out("outside.png")
    files["bomb.mtl"] = b"newmtl m\nmap_Kd bomb.png\n"
    files["bomb.obj"] = files["texture0.obj"].replace(b"way0", b"bomb")
    for number, card in enumerate(CARDS):
        files[f"card{number}.obj"] = (TETRAHEDRON + FACES).encode()
        files[f"card{number}.toml"] = card.encode()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_hostile_files_do_not_stop_import(corpus, opened_beyond):
    names = list_assets(corpus)
    assert len(names) >= 200
    assert "link.obj" not in names
    found = {}
    for one in import_assets(corpus, names):
        found[one.name] = one
        assert (one.info is None) == (one.error is not None)
        assert one.error is None or "takes more than" not in one.error, one  # MOST_SECONDS
        if one.info is None:
            assert one.error.startswith(str(corpus / one.name.removesuffix(Path(one.name).suffix)))
            assert "Traceback" not in one.error
        else:
            values = [*one.info.low_m, *one.info.high_m, one.info.radius_m, one.info.mass_kg.low]
            assert np.isfinite(values).all()
            assert one.info.mass_kg.low > 0
    assert [one for one in names if one not in found] == []
    for number, card in enumerate(CARDS):
        assert found[f"card{number}.obj"].error, card
    assert opened_beyond(corpus) == set()
    for name in ("flat.obj", "leaning.obj", "plain.gltf"):
        assert (
            found[name].error == f"{corpus / name}: is flat. Make it a solid, 0.5 mm thick or more."
        )
    assert "Error" not in "".join(one.error or "" for one in found.values())
    assert "is flat" not in found["cycle.gltf"].error
    assert "is missing" in " ".join(found["texture0.obj"].repairs)
