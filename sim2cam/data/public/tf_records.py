"""Minimal reader of TFRecord files of ``tf.train.Example`` that returns byte strings by name.

A record is its length (8 bytes, little-endian), the masked CRC-32C of the length, the data and the masked
CRC-32C of the data (tensorflow/core/lib/io/record_writer.h). The data is a protocol buffer, whose fields are a
key (number and wire type) and a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sim2cam.errors import InputError

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_POLYNOMIAL = 0x82F63B78  # CRC-32C, bit-reversed


def read_examples(path: Path) -> Iterator[dict[str, bytes]]:
    """Yield the byte string features of each record by name.

    Raises:
        InputError: If the file is missing, truncated or not a TFRecord.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    offset = 0
    while offset < len(data):
        length = int.from_bytes(data[offset : offset + 8], "little")
        expected_crc = int.from_bytes(data[offset + 8 : offset + 12], "little")
        end = offset + 12 + length
        if expected_crc != compute_masked_crc(data[offset : offset + 8]) or end + 4 > len(data):
            raise InputError(
                path, f"byte {offset}: no complete record starts here. Fetch it again."
            )
        try:
            yield _parse_features(data[offset + 12 : end])
        except (IndexError, ValueError) as error:
            raise InputError(
                path, f"byte {offset}: the record is not an Example. Fetch it again."
            ) from error
        offset = end + 4


def compute_masked_crc(data: bytes) -> int:
    """Return TFRecord's masked checksum: CRC-32C, rotated by 15 bits plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _parse_features(example: bytes) -> dict[str, bytes]:
    strings_by_name: dict[str, bytes] = {}
    for features in _parse_fields(example, 1):
        for entry in _parse_fields(features, 1):
            (name,) = _parse_fields(entry, 1)
            strings = [
                string for feature in _parse_fields(entry, 2) for string in _parse_strings(feature)
            ]
            if len(strings) == 1:
                strings_by_name[name.decode()] = strings[0]
    return strings_by_name


def _parse_strings(feature: bytes) -> list[bytes]:
    """Return the strings of a Feature's bytes_list, field 1."""
    return [
        value for bytes_list in _parse_fields(feature, 1) for value in _parse_fields(bytes_list, 1)
    ]


def _parse_fields(message: bytes, field_number: int) -> list[bytes]:
    """Return the values of a message's length-delimited field."""
    values = []
    offset = 0
    while offset < len(message):
        key, offset = _parse_varint(message, offset)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            _, offset = _parse_varint(message, offset)
            continue
        if wire_type == _LENGTH_DELIMITED:
            length, offset = _parse_varint(message, offset)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if offset + length > len(message):
            raise ValueError("a field exceeds its message")
        if wire_type == _LENGTH_DELIMITED and number == field_number:
            values.append(message[offset : offset + length])
        offset += length
    return values


def _parse_varint(message: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for index in range(10):
        byte = message[offset + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, offset + index + 1
    raise ValueError("a varint has more than ten bytes")
