"""glTF: its container, buffers and accessors as arrays."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from typing import Any, cast
from urllib.parse import unquote, unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh_files.companions import MAX_BYTES, CompanionFiles, is_absent
from sim2cam.errors import InputError

_COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_TYPE_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
_JSON, _BIN = 0x4E4F534A, 0x004E4942
_COMPRESSED = {
    "KHR_draco_mesh_compression": "Draco",
    "EXT_meshopt_compression": "meshopt",
    "KHR_meshopt_compression": "meshopt",
    "KHR_texture_basisu": "KTX2",
}
_SUPPORTED_EXTENSIONS = (
    "EXT_texture_webp", "KHR_mesh_quantization", "KHR_texture_transform",
    "KHR_materials_pbrSpecularGlossiness", "KHR_materials_unlit",
)  # fmt: skip
_GEOMETRY_FREE_EXTENSIONS = (
    "KHR_materials_",
    "KHR_lights_",
    "KHR_xmp",
    "KHR_animation_pointer",
    "EXT_lights_",
)
"""Beginnings of extensions that change neither shapes nor base colours."""


class GltfData:
    """The JSON of a glTF file and what its buffers hold.

    Attributes:
        files: the file and its companions.
        header: the JSON.
    """

    def __init__(self, files: CompanionFiles) -> None:
        self.files = files
        text, self._binary = _split_chunks(files)
        self.header = self._parse_header(text)
        self._buffers: dict[int, bytes] = {}
        self._check_version()

    def error(self, problem: str) -> InputError:
        """Return an error about the file."""
        return InputError(self.files.path, problem)

    def get_list(self, kind: str) -> list[Any]:
        """Return a top-level list of the JSON; empty without."""
        found = self.header.get(kind, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.error(f"'{kind}' is no list of objects.")
        return found

    def get_item(self, kind: str, index: Any) -> dict[str, Any]:
        """Return the object of a top-level list that an index names."""
        rows = self.get_list(kind)
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(rows):
            raise self.error(f"it names {kind}[{json.dumps(index)[:20]}] of {len(rows)}.")
        return cast(dict[str, Any], rows[index])

    def get_number(
        self, owner: dict[str, Any], key: str, where: str, otherwise: int | None = None
    ) -> int:
        """Return a whole number of 0 or more."""
        value = owner.get(key, otherwise)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(f"{where}: '{key}' is {json.dumps(value)[:40]}, no count.")
        return value

    def read_view(self, index: Any) -> tuple[bytes, int]:
        """Return the bytes of a buffer view, and the stride of its rows, 0 where they are tight."""
        view, where = self.get_item("bufferViews", index), f"bufferViews[{index}]"
        extensions = view.get("extensions") or {}
        start = self.get_number(view, "byteOffset", where, 0)
        length = self.get_number(view, "byteLength", where)
        data = self._read_buffer(view.get("buffer"), where, [*extensions])
        if start + length > len(data):
            raise self.error(f"{where} reaches beyond its buffer of {len(data)} bytes.")
        return data[start : start + length], self.get_number(view, "byteStride", where, 0)

    def read_accessor(self, index: Any) -> NDArray[Any]:
        """Return the values (n, width) of an accessor; normalized ones as shares of 1."""
        accessor, where = self.get_item("accessors", index), f"accessors[{index}]"
        count = self.get_number(accessor, "count", where)
        kind, width = self._get_type(accessor, where)
        if count * width * kind.itemsize > MAX_BYTES:
            raise self.error(f"{where} has {count} elements, more than can be read.")
        if "bufferView" in accessor:
            values = self._read_values(accessor, count, kind, width, where).copy()
        else:
            values = np.zeros((count, width), kind)
        if "sparse" in accessor:
            self._fill_sparse(accessor["sparse"], values, where)
        if not accessor.get("normalized"):
            return values
        if kind.kind not in "iu":
            raise self.error(f"{where} is normalized and of no whole numbers.")
        return np.maximum(values / float(np.iinfo(kind).max), -1.0)

    def _get_type(self, accessor: dict[str, Any], where: str) -> tuple[np.dtype[Any], int]:
        component, shape = accessor.get("componentType"), accessor.get("type")
        kind = _COMPONENTS.get(component) if isinstance(component, int) else None
        width = _TYPE_WIDTHS.get(shape) if isinstance(shape, str) else None
        if kind is None or width is None:
            problem = f"{where} is of the type {json.dumps([component, shape])[:60]}"
            raise self.error(f"{problem}, which glTF does not have.")
        return np.dtype(kind), width

    def _read_values(
        self, accessor: dict[str, Any], count: int, kind: np.dtype[Any], width: int, where: str
    ) -> NDArray[Any]:
        data, stride = self.read_view(accessor["bufferView"])
        start, size = self.get_number(accessor, "byteOffset", where, 0), width * kind.itemsize
        stride = stride or size
        if stride < size or (count and start + stride * (count - 1) + size > len(data)):
            raise self.error(f"{where} reaches beyond its bufferView of {len(data)} bytes.")
        if not count:
            return np.zeros((0, width), kind)
        shape, steps = (count, width), (stride, kind.itemsize)
        return np.ndarray(shape, kind, data, start, steps)

    def _fill_sparse(self, sparse: Any, values: NDArray[Any], where: str) -> None:
        """Put the values of a sparse accessor over those below."""
        if not isinstance(sparse, dict):
            raise self.error(f"{where}: 'sparse' is no object.")
        count = self.get_number(sparse, "count", where)
        indices, over = sparse.get("indices") or {}, sparse.get("values") or {}
        if indices.get("componentType") not in (5121, 5123, 5125):
            raise self.error(f"{where}: indices of 'sparse' are of no type that glTF has for them.")
        kind = np.dtype(_COMPONENTS[indices["componentType"]])
        if not {"bufferView"} <= {*indices} & {*over} or count > len(values):
            raise self.error(f"{where}: 'sparse' lacks values, or has more than the accessor.")
        rows = self._read_values(indices, count, kind, 1, where)[:, 0]
        if len(rows) and rows.max() >= len(values):
            raise self.error(f"{where}: 'sparse' names element {rows.max()} of {len(values)}.")
        values[rows] = self._read_values(over, count, values.dtype, values.shape[1], where)

    def _read_buffer(self, index: Any, where: str, extensions: list[str]) -> bytes:
        buffer = self.get_item("buffers", index)
        if index not in self._buffers:
            length = self.get_number(buffer, "byteLength", f"buffers[{index}]")
            data = (
                self._binary if index == 0 and "uri" not in buffer else self.get_uri(buffer, where)
            )
            if data is None:
                compressed = next((name for name in extensions if name in _COMPRESSED), None)
                raise (
                    self.is_compressed(compressed)
                    if compressed
                    else self.error(f"buffers[{index}] has no data.")
                )
            if len(data) < length:
                problem = f"buffers[{index}] holds {len(data)} of its {length} bytes."
                raise self.error(f"{problem} Copy the files again.")
            self._buffers[index] = data[:length]
        return self._buffers[index]

    def get_uri(self, owner: dict[str, Any], where: str) -> bytes | None:
        """Return the data of a URI; None without one.

        Raises:
            InputError: its file is missing, or its data are damaged.
        """
        uri = owner.get("uri")
        if uri is None:
            return None
        if not isinstance(uri, str):
            raise self.error(f"{where}: 'uri' is no text.")
        if uri[:5].lower() == "data:":
            return self.decode_data_uri(uri, where)
        name = self.get_file_name(uri)
        data = self.files.read_optional(name)
        if data is None:
            raise self.error(f"{is_absent(name)} Put it there.")
        return data

    def decode_data_uri(self, uri: str, where: str) -> bytes:
        """Return the data within a URI."""
        head, comma, text = uri.partition(",")
        if not comma:
            raise self.error(f"{where}: its data URI has no comma.")
        if not head.endswith(";base64"):
            return unquote_to_bytes(text)
        try:
            return base64.b64decode(unquote(text), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(f"{where}: its data URI is no base64.") from None

    def get_file_name(self, uri: str) -> str:
        """Return the name of the file of a URI; as it is written, if there is such a file."""
        return uri if self.files.location.find(uri) else unquote(uri)

    def is_compressed(self, extension: str) -> InputError:
        """Return an error about data that an extension compresses."""
        kind = _COMPRESSED[extension]
        return self.error(
            f"{extension} ({kind} compression) is not read. Export it without {kind} compression."
        )

    def _parse_header(self, text: bytes) -> dict[str, Any]:
        try:
            found = json.loads(text.decode("utf-8-sig"))
        except RecursionError:
            raise self.error("its JSON is nested too deeply.") from None
        except UnicodeDecodeError:
            raise self.error("its JSON is no UTF-8.") from None
        except ValueError as error:
            raise self.error(f"no glTF: its JSON is damaged ({error}).") from None
        if not isinstance(found, dict):
            raise self.error("no glTF: its JSON is no object.")
        return found

    def _check_version(self) -> None:
        asset = self.header.get("asset")
        version = asset.get("version") if isinstance(asset, dict) else None
        if not isinstance(version, str) or not version.startswith("2."):
            found = "no version" if version is None else f"version {json.dumps(version)[:20]}"
            raise self.error(f"no glTF 2.0: it has {found}. Convert it to glTF 2.0.")
        required = self.header.get("extensionsRequired", [])
        for name in required if isinstance(required, list) else ():
            if name in _COMPRESSED:
                raise self.is_compressed(name)
            if name not in _SUPPORTED_EXTENSIONS and not str(name).startswith(
                _GEOMETRY_FREE_EXTENSIONS
            ):
                shown = str(name)[:60]
                raise self.error(
                    f"it requires {shown}, which is not read. Export it without {shown}."
                )


def _split_chunks(files: CompanionFiles) -> tuple[bytes, bytes | None]:
    """Return the JSON of a file, and the binary chunk of a GLB.

    Raises:
        InputError: the container is damaged.
    """
    data = files.data
    if data[:4] != b"glTF":
        if files.path.suffix.lower() == ".glb":
            raise InputError(files.path, "no GLB: it does not begin with 'glTF'.")
        return data, None
    if len(data) < 20:
        raise InputError(files.path, "no whole GLB: it ends within its header.")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise InputError(files.path, f"GLB of version {version}. Convert it to glTF 2.0.")
    found: dict[int, bytes] = {}
    at = 12
    while at + 8 <= min(length, len(data)):
        size, kind = struct.unpack_from("<II", data, at)
        if at + 8 + size > len(data):
            problem = f"a chunk of {size} bytes is longer than the rest of the file."
            raise InputError(files.path, f"no whole GLB: {problem} Copy the file again.")
        found.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    if _JSON not in found:
        raise InputError(files.path, "no whole GLB: it has no JSON.")
    return found[_JSON], found.get(_BIN)
