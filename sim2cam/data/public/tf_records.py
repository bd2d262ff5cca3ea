"""TFRecord files of ``tf.train.Example``: as much of both formats as keeps bytes by name.

A record is its length (8 bytes, little-endian), the masked CRC-32C of the length, the data and the
masked CRC-32C of the data (tensorflow/core/lib/io/record_writer.h). The data are a protocol buffer,
whose fields are a key (number and wire type) and a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sim2cam.errors import InputError

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits turned round


def read_examples(path: Path) -> Iterator[dict[str, bytes]]:
    """Yield for each record what it holds as a single string of bytes, by its name.

    Raises:
        InputError: the file is missing, truncated or no TFRecord.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        known = int.from_bytes(data[at + 8 : at + 12], "little")
        end = at + 12 + length
        if known != compute_masked_crc(data[at : at + 8]) or end + 4 > len(data):
            raise InputError(path, f"byte {at}: no whole record begins here. Fetch it again.")
        try:
            yield _parse_features(data[at + 12 : end])
        except (IndexError, ValueError) as error:
            raise InputError(
                path, f"byte {at}: the record is no Example. Fetch it again."
            ) from error
        at = end + 4


def compute_masked_crc(data: bytes) -> int:
    """Return the checksum that TFRecord keeps: CRC-32C, turned by 15 bits and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _parse_features(example: bytes) -> dict[str, bytes]:
    """Return the features of an Example that are one string: Example.features.feature[name]."""
    found: dict[str, bytes] = {}
    for features in _parse_fields(example, 1):
        for entry in _parse_fields(features, 1):
            (name,) = _parse_fields(entry, 1)
            strings = [s for feature in _parse_fields(entry, 2) for s in _parse_strings(feature)]
            if len(strings) == 1:
                found[name.decode()] = strings[0]
    return found


def _parse_strings(feature: bytes) -> list[bytes]:
    """Return the strings of a Feature, whose bytes_list is field 1; numbers are others."""
    return [value for listed in _parse_fields(feature, 1) for value in _parse_fields(listed, 1)]


def _parse_fields(message: bytes, field_number: int) -> list[bytes]:
    """Return the values of a message's field that are bytes or messages."""
    found = []
    at = 0
    while at < len(message):
        key, at = _parse_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, at = _parse_varint(message, at)
            continue
        if kind == _LENGTH_DELIMITED:
            length, at = _parse_varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > len(message):
            raise ValueError("a field reaches beyond its message")
        if kind == _LENGTH_DELIMITED and number == field_number:
            found.append(message[at : at + length])
        at += length
    return found


def _parse_varint(message: bytes, offset: int) -> tuple[int, int]:
    """Return a number that is written in groups of seven bits, and where it ends."""
    value = 0
    for place in range(10):
        byte = message[offset + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, offset + place + 1
    raise ValueError("a number of more than ten bytes")
