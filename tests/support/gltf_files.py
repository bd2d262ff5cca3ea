"""glTF files, made part by part."""

import base64
import io
import json
import struct
import warnings

import numpy as np
from PIL import Image

from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.errors import RepairWarning

# A tetrahedron; glTF's y is up, so that (x, y, z) becomes (x, -z, y).
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]], "<f4")
FACES = np.array([[0, 1, 2], [0, 2, 3], [2, 1, 3], [1, 0, 3]], "<u2")
PLACES = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], "<f4")
COMPONENTS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}


def image_file(color, mode="RGB", kind="png"):
    """The bytes of an image of one colour, or of given pixels."""
    is_array = isinstance(color, np.ndarray)
    image = Image.fromarray(color) if is_array else Image.new(mode, (4, 4), color)
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def data_uri(data):
    return "data:application/octet-stream;base64," + base64.b64encode(data).decode()


class Maker:
    """A glTF file of one mesh, part by part."""

    def __init__(self, **header):
        self.data, self.more_buffers = b"", []
        self.json = {
            "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": []}], "accessors": [], "bufferViews": [], **header,
        }  # fmt: skip

    def view(self, data, **more):
        self.data += bytes(-len(self.data) % 4)
        told = {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data), **more}
        self.json["bufferViews"].append(told)
        self.data += data
        return len(self.json["bufferViews"]) - 1

    def accessor(self, array, *, stride=0, **more):
        rows = np.atleast_2d(array.T).T
        data = rows.tobytes()
        if stride:
            step = rows[0].nbytes
            data = b"".join(row.tobytes() + b"\xff" * (stride - step) for row in rows)
        extra = {"byteStride": stride} if stride else {}
        kind = "SCALAR" if array.ndim == 1 else f"VEC{array.shape[1]}"
        told = {
            "bufferView": self.view(data, **extra), "componentType": COMPONENTS[array.dtype.str[1:]],
            "count": len(rows), "type": kind, **more,
        }  # fmt: skip
        self.json["accessors"].append(told)
        return len(self.json["accessors"]) - 1

    def primitive(self, indices=FACES, position=None, **more):
        attributes = {"POSITION": self.accessor(CORNERS) if position is None else position}
        attributes |= more.pop("attributes", {})
        told = {"attributes": attributes, **more}
        if indices is not None:
            told["indices"] = self.accessor(indices.ravel())
        self.json["meshes"][0]["primitives"].append(told)
        return told

    def material(self, material, *images):
        """Put a material with images on the mesh."""
        self.json["materials"] = [material]
        self.json["images"] = [
            image if isinstance(image, dict) else {"uri": data_uri(image)} for image in images
        ]
        self.json.setdefault("textures", [{"source": n} for n in range(len(images))])
        if not self.json["meshes"][0]["primitives"]:
            self.primitive(attributes={"TEXCOORD_0": self.accessor(PLACES)})
        self.json["meshes"][0]["primitives"][0]["material"] = 0
        return self

    def write(self, folder, *, glb=False, uri=None):
        """Write the file; its buffer lies at ``uri``, else within."""
        path = folder / ("a.glb" if glb else "a.gltf")
        self.json["buffers"] = [{"byteLength": len(self.data)}, *self.more_buffers]
        if glb:
            text = json.dumps(self.json).encode()
            text += b" " * (-len(text) % 4)
            rest = self.data + bytes(-len(self.data) % 4)
            body = struct.pack("<II", len(text), 0x4E4F534A) + text
            body += struct.pack("<II", len(rest), 0x004E4942) + rest
            path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body)
        else:
            self.json["buffers"][0]["uri"] = uri or data_uri(self.data)
            path.write_text(json.dumps(self.json))
        return path

    def read(self, folder, *, glb=False, **options):
        """Return the meshes that are read of the file, and the warnings."""
        path = self.write(folder, glb=glb)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RepairWarning)
            solids, _ = read_solids(path, 10_000, **options)
        return solids, [str(one.message).removeprefix(f"{path}: ") for one in caught]
