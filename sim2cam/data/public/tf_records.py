"""TFRecord files of ``tf.train.Example``: as much of both formats as keeps bytes by name.

A record is its length (8 bytes, little-endian), the masked CRC-32C of the length, the data and the
masked CRC-32C of the data (tensorflow/core/lib/io/record_writer.h). The data are a protocol buffer,
whose fields are a key (number and wire type) and a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sim2cam.errors import InputError

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits turned round


def read_examples(path: Path) -> Iterator[dict[str, bytes]]:
    """Yields for each record what it holds as a single string of bytes, by its name.

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
        if known != masked_crc(data[at : at + 8]) or end + 4 > len(data):
            raise InputError(path, f"byte {at}: no whole record begins here. Fetch it again.")
        try:
            yield _features(data[at + 12 : end])
        except (IndexError, ValueError) as error:
            raise InputError(
                path, f"byte {at}: the record is no Example. Fetch it again."
            ) from error
        at = end + 4


def masked_crc(data: bytes) -> int:
    """Returns the checksum that TFRecord keeps: CRC-32C, turned by 15 bits and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _features(example: bytes) -> dict[str, bytes]:
    """Returns the features of an Example that are one string: Example.features.feature[name]."""
    found: dict[str, bytes] = {}
    for features in _values(example, 1):
        for entry in _values(features, 1):
            (name,) = _values(entry, 1)
            strings = [s for feature in _values(entry, 2) for s in _strings(feature)]
            if len(strings) == 1:
                found[name.decode()] = strings[0]
    return found


def _strings(feature: bytes) -> list[bytes]:
    """Returns the strings of a Feature, whose bytes_list is field 1; numbers are others."""
    return [value for listed in _values(feature, 1) for value in _values(listed, 1)]


def _values(message: bytes, wanted: int) -> list[bytes]:
    """Returns the values of a message's field that are bytes or messages."""
    found = []
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_EIGHT, _FOUR):
            length = 8 if kind == _EIGHT else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > len(message):
            raise ValueError("a field reaches beyond its message")
        if kind == _BYTES and number == wanted:
            found.append(message[at : at + length])
        at += length
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Returns a number that is written in groups of seven bits, and where it ends."""
    value = 0
    for place in range(10):
        byte = message[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a number of more than ten bytes")
