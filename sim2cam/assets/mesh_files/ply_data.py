"""Parser of PLY headers and of text and binary elements."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError

Numbers = NDArray[np.generic]

_KINDS = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "f4": "f", "f8": "d"}
_FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_END_HEADER = re.compile(rb"^end_header[ \t]*\n", re.MULTILINE)
_MAX_HEADER_BYTES = 2**16


@dataclass(frozen=True)
class Property:
    """Property of an element: NumPy type, and the type of the count if it is a list."""

    name: str
    kind: str
    count_kind: str = ""


@dataclass(frozen=True, eq=False)
class ListColumn:
    """Lists of variable length, one for each row of an element.

    Attributes:
        values: Concatenated values (k,) of all rows.
        counts: Number of values (n,) of each row.
    """

    values: Numbers
    counts: NDArray[np.int64]


@dataclass
class Element:
    """Element of a PLY file.

    Attributes:
        count: Number of rows.
        properties: Properties in file order.
        columns: Values (n,) of scalar properties by name.
        lists: Values of list properties by name.
    """

    count: int
    properties: list[Property] = field(default_factory=list)
    columns: dict[str, Numbers] = field(default_factory=dict)
    lists: dict[str, ListColumn] = field(default_factory=dict)


@dataclass(frozen=True)
class PlyData:
    """Content of a PLY file: elements by name, and comments."""

    elements: dict[str, Element]
    comments: tuple[str, ...]


def read_ply_data(data: bytes, path: Path) -> PlyData:
    """Parse a PLY file.

    Raises:
        InputError: The header is invalid, or the file is truncated.
    """
    end = _END_HEADER.search(
        data[:_MAX_HEADER_BYTES].replace(b"\r\n", b"\n\n").replace(b"\r", b"\n")
    )
    if not data[:3].lower() == b"ply":
        raise InputError(path, "not PLY: the first line is not 'ply'.")
    if end is None:
        raise InputError(path, "the PLY header has no line 'end_header'.")
    start = end.end() + (data[end.end() - 1 : end.end() + 1] == b"\r\n")
    header = data[:start].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    order, elements, comments = _parse_header(header.split("\n"), path)
    if order:
        body: _BinaryReader | _TextReader = _BinaryReader(data, start, order, path)
    else:
        body = _TextReader(data, start, path)
    for name, element in elements.items():
        body.read_element(name, element)
    return PlyData(elements, comments)


def _parse_header(lines: list[str], path: Path) -> tuple[str, dict[str, Element], tuple[str, ...]]:
    elements: dict[str, Element] = {}
    comments: list[str] = []
    order: str | None = None
    current: Element | None = None
    for number, line in enumerate(lines[1:], 2):
        match line.split():
            case ["format", word, *_] if word in _FORMATS:
                order = _FORMATS[word]
            case ["element", name, count] if count.isdecimal() and name not in elements:
                current = elements[name] = Element(int(count[:19]))
            case ["property", *_, name] if current and any(
                p.name == name for p in current.properties
            ):
                raise InputError(path, f"line {number}: duplicate property '{name[:40]}'.")
            case ["property", "list", size, kind, name] if current and {size, kind} <= {*_KINDS}:
                current.properties.append(Property(name, _KINDS[kind], _KINDS[size]))
            case ["property", kind, name] if current and kind in _KINDS:
                current.properties.append(Property(name, _KINDS[kind]))
            case ["comment" | "obj_info", *_]:
                comments.append(line.strip().partition(" ")[2])
            case [] | ["end_header"]:
                pass
            case _:
                shown = line.strip()[:60]
                raise InputError(path, f"line {number}: '{shown}' is not a valid PLY header line.")
    if order is None:
        raise InputError(path, "the PLY header does not define the format.")
    return order, elements, tuple(comments)


def _make_truncation_error(path: Path, name: str, element: Element) -> InputError:
    return InputError(
        path,
        f"the file is truncated: '{name}' has fewer than {element.count} rows. Export it again.",
    )


class _TextReader:
    """Reader of the elements of a text PLY file."""

    def __init__(self, data: bytes, start: int, path: Path) -> None:
        self._path, self._position = path, 0
        words = data[start:].split()
        try:
            self._numbers = np.array(words, "S").astype(np.float64) if words else np.zeros(0)
        except ValueError:
            raise _make_number_error(data, start, path) from None

    def read_element(self, name: str, element: Element) -> None:
        """Read all rows of an element; raises like ``read_ply_data``."""
        if element.count * len(element.properties) > len(self._numbers) - self._position:
            raise _make_truncation_error(self._path, name, element)
        starts = self._find_row_starts(name, element)
        for start, prop in zip(starts, element.properties, strict=True):
            if not prop.count_kind:
                element.columns[prop.name] = self._numbers[start]
                continue
            counts = self._numbers[start].astype(np.int64)
            first = np.repeat(start + 1 - (np.cumsum(counts) - counts), counts)
            values = self._numbers[first + np.arange(len(first))]
            element.lists[prop.name] = ListColumn(values, counts)

    def _find_row_starts(self, name: str, element: Element) -> NDArray[np.int64]:
        """Return the start (k, n) of each property in each row."""
        numbers, position = self._numbers, self._position
        if not any(p.count_kind for p in element.properties):
            width = len(element.properties)
            self._position += element.count * width
            return position + np.arange(width)[:, None] + width * np.arange(element.count)
        starts = np.zeros((element.count, len(element.properties)), np.int64)
        try:
            for row in range(element.count):
                for column, prop in enumerate(element.properties):
                    starts[row, column] = position
                    position += 1 + (_parse_count(numbers[position]) if prop.count_kind else 0)
        except (IndexError, ValueError, OverflowError):
            position = len(numbers) + 1
        if position > len(numbers):
            raise _make_truncation_error(self._path, name, element)
        self._position = position
        return starts.T


def _parse_count(number: float) -> int:
    if not 0 <= number == int(number):
        raise ValueError
    return int(number)


def _make_number_error(data: bytes, start: int, path: Path) -> InputError:
    """Return the error for the first word that is not a number."""
    first = data[:start].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    body = data[start:].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for number, line in enumerate(body.split(b"\n"), first):
        for word in line.split():
            try:
                float(word)
            except ValueError:
                shown = word[:40].decode("utf-8", "replace")
                return InputError(path, f"line {number}: '{shown}' is not a number.")
    return InputError(path, "a value after the header is not a number.")


class _BinaryReader:
    """Reader of the elements of a binary PLY file."""

    def __init__(self, data: bytes, start: int, order: str, path: Path) -> None:
        self._data, self._position, self._order, self._path = data, start, order, path

    def read_element(self, name: str, element: Element) -> None:
        """Read all rows of an element; raises like ``read_ply_data``."""
        if not element.count or not element.properties:
            return
        try:
            if not self._read_fixed_rows(element):
                self._read_row_by_row(element)
        except (struct.error, ValueError):
            raise _make_truncation_error(self._path, name, element) from None

    def _read_fixed_rows(self, element: Element) -> bool:
        """Read rows at once if all lists have equal lengths; return whether they have."""
        at, parts = self._position, []
        for prop in element.properties:
            kind = self._order + prop.kind
            if not prop.count_kind:
                parts.append((prop.name, kind, 1))
                at += np.dtype(kind).itemsize
                continue
            size = self._order + prop.count_kind
            (count,) = struct.unpack_from(self._order + _CODES[prop.count_kind], self._data, at)
            parts += [(f"{prop.name}/count", size, 1), (prop.name, kind, max(0, int(count)))]
            at += np.dtype(size).itemsize + np.dtype(kind).itemsize * max(0, int(count))
            if at > len(self._data):
                raise ValueError
        row = np.dtype([(name, kind, (count,)) for name, kind, count in parts])
        if row.itemsize * element.count > len(self._data) - self._position:
            if any(p.count_kind for p in element.properties):
                return False
            raise ValueError
        table = np.frombuffer(self._data, row, element.count, self._position)
        lists = {p.name for p in element.properties if p.count_kind}
        if any((table[f"{name}/count"] != table[f"{name}/count"][0]).any() for name in lists):
            return False
        for prop in element.properties:
            if prop.name in lists:
                counts = table[f"{prop.name}/count"][:, 0].astype(np.int64)
                element.lists[prop.name] = ListColumn(table[prop.name].ravel(), counts)
            else:
                element.columns[prop.name] = table[prop.name][:, 0]
        self._position += row.itemsize * element.count
        return True

    def _read_row_by_row(self, element: Element) -> None:
        values: list[list[float]] = [[] for _ in element.properties]
        counts: list[list[int]] = [[] for _ in element.properties]
        at, data, order = self._position, self._data, self._order
        for _ in range(element.count):
            for column, prop in enumerate(element.properties):
                count = 1
                if prop.count_kind:
                    code = _CODES[prop.count_kind]
                    count = int(struct.unpack_from(order + code, data, at)[0])
                    at += struct.calcsize(order + code)
                if not 0 <= count <= len(data) - at:
                    raise ValueError
                format_string = f"{order}{count}{_CODES[prop.kind]}"
                values[column] += struct.unpack_from(format_string, data, at)
                counts[column].append(count)
                at += struct.calcsize(format_string)
        for column, prop in enumerate(element.properties):
            column_values = np.array(values[column], prop.kind)
            if prop.count_kind:
                element.lists[prop.name] = ListColumn(
                    column_values, np.array(counts[column], np.int64)
                )
            else:
                element.columns[prop.name] = column_values
        self._position = at
