"""Safe parsing of untrusted XML files, and of the numbers in them."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

from sim2cam.errors import InputError, SpecError
from sim2cam.geometry.poses import Vec3

MAX_XML_BYTES = 4 * 2**20
"""Maximum size of a model file."""

_MAX_DEPTH = 64
_MAX_ELEMENTS = 50_000


def read_xml(path: Path, max_bytes: int = MAX_XML_BYTES) -> Element:
    """Parse an XML file and return the root element.

    Raises:
        InputError: The file is invalid, too large, too deep or too long, or defines entities.
    """
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    if path.stat().st_size > max_bytes:
        raise InputError(path, f"is larger than {max_bytes >> 20} MiB.")
    # Bullet's examples have version 0.0, which standard parsers reject
    text = re.sub(
        rb"\A\s*<\?xml\s+version\s*=\s*[\"']0\.0[\"']", b'<?xml version="1.0"', path.read_bytes()
    )
    depth = count = 0
    root: Element | None = None
    try:
        for event, element in iterparse(io.BytesIO(text.lstrip()), events=("start", "end")):
            root = element if root is None else root
            depth, count = depth + (1 if event == "start" else -1), count + 1
            if depth > _MAX_DEPTH or count > 2 * _MAX_ELEMENTS:
                raise InputError(
                    path, f"has more than {_MAX_ELEMENTS} elements, or more than {_MAX_DEPTH} deep."
                )
    except ParseError as error:
        raise InputError(path, f"is not valid XML ({error}).") from error
    except DefusedXmlException as error:
        raise InputError(path, "defines entities, which are not supported. Expand them.") from error
    except (ValueError, LookupError) as error:
        raise InputError(path, "has an unsupported encoding. Save it as UTF-8.") from error
    assert root is not None  # an empty file is a ParseError
    return root


def get_local_name(element: Element) -> str:
    """Return the tag of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def get_attribute(element: Element, name: str, path: Path) -> str:
    """Return a required attribute.

    Raises:
        InputError: The attribute is missing or empty.
    """
    value = element.get(name, "").strip()
    if not value:
        raise InputError(path, f"a <{element.tag}> has no {name}.")
    return value


def parse_numbers(text: str, count: int, where: str, path: Path) -> tuple[float, ...]:
    """Parse ``count`` finite numbers separated by whitespace; ``where`` names the value in errors.

    Raises:
        InputError: The text does not consist of ``count`` finite numbers.
    """
    try:
        numbers = tuple(float(word) for word in text.split())
    except ValueError:
        numbers = ()
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        expected = "a finite number" if count == 1 else f"{count} finite numbers"
        raise InputError(path, f"{where} is '{text.strip()[:60]}'. It must be {expected}.")
    return numbers


def parse_number(text: str, where: str, path: Path) -> float:
    """Parse one finite number; raises like ``parse_numbers``."""
    return parse_numbers(text, 1, where, path)[0]


def parse_mass(text: str, where: str, path: Path) -> float:
    """Parse a mass in kilograms.

    Raises:
        InputError: The text is not a finite number of at least 0.
    """
    mass_kg = parse_number(text, where, path)
    if mass_kg < 0:
        raise InputError(path, f"{where} is {mass_kg:g} kg. It must be at least 0.")
    return mass_kg


def parse_vector(text: str, where: str, path: Path) -> Vec3:
    """Parse three finite numbers; raises like ``parse_numbers``."""
    x, y, z = parse_numbers(text, 3, where, path)
    return x, y, z


def parse_direction(text: str, where: str, path: Path) -> Vec3:
    """Parse a vector and normalize it.

    Raises:
        InputError: The text is not a finite vector with a length above 0.
    """
    x, y, z = parse_vector(text, where, path)
    length = math.hypot(x, y, z)
    if not 1e-9 < length < math.inf:
        raise InputError(path, f"{where} is '{text.strip()[:60]}', which has no direction.")
    return x / length, y / length, z / length


@contextmanager
def convert_spec_errors(path: Path) -> Iterator[None]:
    """Convert a SpecError, about an invalid value, to an InputError about a file."""
    try:
        yield
    except SpecError as error:
        raise InputError(path, str(error)) from error
