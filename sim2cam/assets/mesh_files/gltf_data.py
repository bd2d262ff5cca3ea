"""Container, buffers and accessors of glTF files."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from typing import Any, cast
from urllib.parse import unquote, unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh_files.companions import MAX_BYTES, CompanionFiles, format_missing_file
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
"""Prefixes of extensions that change neither geometry nor base colours."""


class GltfData:
    """JSON and binary data of a glTF file.

    Attributes:
        files: File and companions.
        header: Parsed JSON.
    """

    def __init__(self, files: CompanionFiles) -> None:
        self.files = files
        text, self._binary = _split_chunks(files)
        self.header = self._parse_header(text)
        self._buffers: dict[int, bytes] = {}
        self._check_version()

    def error(self, problem: str) -> InputError:
        """Return an InputError about the file."""
        return InputError(self.files.path, problem)

    def get_list(self, kind: str) -> list[Any]:
        """Return a top-level list of objects; empty if missing."""
        rows = self.header.get(kind, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self.error(f"'{kind}' must be a list of objects.")
        return rows

    def get_item(self, kind: str, index: Any) -> dict[str, Any]:
        """Return an object of a top-level list by index."""
        rows = self.get_list(kind)
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(rows):
            raise self.error(f"{kind}[{json.dumps(index)[:20]}] is missing (length {len(rows)}).")
        return cast(dict[str, Any], rows[index])

    def get_number(
        self, owner: dict[str, Any], key: str, where: str, default: int | None = None
    ) -> int:
        """Return a non-negative integer."""
        value = owner.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(
                f"{where}: '{key}' is {json.dumps(value)[:40]}, not a non-negative integer."
            )
        return value

    def read_view(self, index: Any) -> tuple[bytes, int]:
        """Return the bytes of a buffer view and its stride; stride 0 means tightly packed."""
        view, where = self.get_item("bufferViews", index), f"bufferViews[{index}]"
        extensions = view.get("extensions") or {}
        start = self.get_number(view, "byteOffset", where, 0)
        length = self.get_number(view, "byteLength", where)
        data = self._read_buffer(view.get("buffer"), where, [*extensions])
        if start + length > len(data):
            raise self.error(f"{where} exceeds its buffer of {len(data)} bytes.")
        return data[start : start + length], self.get_number(view, "byteStride", where, 0)

    def read_accessor(self, index: Any) -> NDArray[Any]:
        """Return the values (n, width) of an accessor; normalized integers as floats."""
        accessor, where = self.get_item("accessors", index), f"accessors[{index}]"
        count = self.get_number(accessor, "count", where)
        kind, width = self._get_type(accessor, where)
        if count * width * kind.itemsize > MAX_BYTES:
            raise self.error(f"{where} has too many elements ({count}).")
        if "bufferView" in accessor:
            values = self._read_values(accessor, count, kind, width, where).copy()
        else:
            values = np.zeros((count, width), kind)
        if "sparse" in accessor:
            self._fill_sparse(accessor["sparse"], values, where)
        if not accessor.get("normalized"):
            return values
        if kind.kind not in "iu":
            raise self.error(f"{where} is normalized but not of an integer type.")
        return np.maximum(values / float(np.iinfo(kind).max), -1.0)

    def _get_type(self, accessor: dict[str, Any], where: str) -> tuple[np.dtype[Any], int]:
        component, shape = accessor.get("componentType"), accessor.get("type")
        kind = _COMPONENTS.get(component) if isinstance(component, int) else None
        width = _TYPE_WIDTHS.get(shape) if isinstance(shape, str) else None
        if kind is None or width is None:
            raise self.error(f"{where} has the invalid type {json.dumps([component, shape])[:60]}.")
        return np.dtype(kind), width

    def _read_values(
        self, accessor: dict[str, Any], count: int, kind: np.dtype[Any], width: int, where: str
    ) -> NDArray[Any]:
        data, stride = self.read_view(accessor["bufferView"])
        start, size = self.get_number(accessor, "byteOffset", where, 0), width * kind.itemsize
        stride = stride or size
        if stride < size or (count and start + stride * (count - 1) + size > len(data)):
            raise self.error(f"{where} exceeds its bufferView of {len(data)} bytes.")
        if not count:
            return np.zeros((0, width), kind)
        shape, steps = (count, width), (stride, kind.itemsize)
        return np.ndarray(shape, kind, data, start, steps)

    def _fill_sparse(self, sparse: Any, values: NDArray[Any], where: str) -> None:
        """Apply the sparse values of an accessor in place."""
        if not isinstance(sparse, dict):
            raise self.error(f"{where}: 'sparse' must be an object.")
        count = self.get_number(sparse, "count", where)
        indices, over = sparse.get("indices") or {}, sparse.get("values") or {}
        if indices.get("componentType") not in (5121, 5123, 5125):
            raise self.error(f"{where}: the indices of 'sparse' have an invalid type.")
        kind = np.dtype(_COMPONENTS[indices["componentType"]])
        if not {"bufferView"} <= {*indices} & {*over} or count > len(values):
            raise self.error(f"{where}: 'sparse' has no values, or more than the accessor.")
        rows = self._read_values(indices, count, kind, 1, where)[:, 0]
        if len(rows) and rows.max() >= len(values):
            raise self.error(f"{where}: 'sparse' refers to element {rows.max()} of {len(values)}.")
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
                    self.make_compression_error(compressed)
                    if compressed
                    else self.error(f"buffers[{index}] has no data.")
                )
            if len(data) < length:
                problem = f"buffers[{index}] has {len(data)} of {length} bytes."
                raise self.error(f"{problem} Copy the files again.")
            self._buffers[index] = data[:length]
        return self._buffers[index]

    def get_uri(self, owner: dict[str, Any], where: str) -> bytes | None:
        """Return the data at an object's URI; None without one.

        Raises:
            InputError: The file is missing, or the data are damaged.
        """
        uri = owner.get("uri")
        if uri is None:
            return None
        if not isinstance(uri, str):
            raise self.error(f"{where}: 'uri' must be a string.")
        if uri[:5].lower() == "data:":
            return self.decode_data_uri(uri, where)
        name = self.get_file_name(uri)
        data = self.files.read_optional(name)
        if data is None:
            raise self.error(f"{format_missing_file(name)} Copy it to the folder of the glTF file.")
        return data

    def decode_data_uri(self, uri: str, where: str) -> bytes:
        """Decode a data URI."""
        head, comma, text = uri.partition(",")
        if not comma:
            raise self.error(f"{where}: the data URI has no comma.")
        if not head.endswith(";base64"):
            return unquote_to_bytes(text)
        try:
            return base64.b64decode(unquote(text), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(f"{where}: the data URI is not valid base64.") from None

    def get_file_name(self, uri: str) -> str:
        """Return the file name of a URI, percent-decoded unless the literal name exists."""
        return uri if self.files.location.find(uri) else unquote(uri)

    def make_compression_error(self, extension: str) -> InputError:
        """Return an InputError about unsupported compression."""
        kind = _COMPRESSED[extension]
        return self.error(f"{extension} is not supported. Export without {kind} compression.")

    def _parse_header(self, text: bytes) -> dict[str, Any]:
        try:
            header = json.loads(text.decode("utf-8-sig"))
        except RecursionError:
            raise self.error("the JSON is nested too deeply.") from None
        except UnicodeDecodeError:
            raise self.error("the JSON is not UTF-8.") from None
        except ValueError as error:
            raise self.error(f"not glTF: the JSON is invalid ({error}).") from None
        if not isinstance(header, dict):
            raise self.error("not glTF: the JSON must be an object.")
        return header

    def _check_version(self) -> None:
        asset = self.header.get("asset")
        version = asset.get("version") if isinstance(asset, dict) else None
        if not isinstance(version, str) or not version.startswith("2."):
            version_text = (
                "no version" if version is None else f"version {json.dumps(version)[:20]}"
            )
            raise self.error(f"not glTF 2.0: the file has {version_text}. Convert it to glTF 2.0.")
        required = self.header.get("extensionsRequired", [])
        for name in required if isinstance(required, list) else ():
            if name in _COMPRESSED:
                raise self.make_compression_error(name)
            if name not in _SUPPORTED_EXTENSIONS and not str(name).startswith(
                _GEOMETRY_FREE_EXTENSIONS
            ):
                extension = str(name)[:60]
                raise self.error(
                    f"the required extension {extension} is not supported. Export without it."
                )


def _split_chunks(files: CompanionFiles) -> tuple[bytes, bytes | None]:
    """Return the JSON and the binary chunk (GLB only) of a file.

    Raises:
        InputError: The container is damaged.
    """
    data = files.data
    if data[:4] != b"glTF":
        if files.path.suffix.lower() == ".glb":
            raise InputError(files.path, "not GLB: the file does not begin with 'glTF'.")
        return data, None
    if len(data) < 20:
        raise InputError(files.path, "the GLB header is truncated. Copy the file again.")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise InputError(files.path, f"has GLB version {version}. Convert it to glTF 2.0.")
    chunks: dict[int, bytes] = {}
    offset = 12
    while offset + 8 <= min(length, len(data)):
        size, kind = struct.unpack_from("<II", data, offset)
        if offset + 8 + size > len(data):
            problem = f"a GLB chunk of {size} bytes is truncated. Copy the file again."
            raise InputError(files.path, problem)
        chunks.setdefault(kind, data[offset + 8 : offset + 8 + size])
        offset += 8 + size
    if _JSON not in chunks:
        raise InputError(files.path, "the GLB has no JSON chunk.")
    return chunks[_JSON], chunks.get(_BIN)
