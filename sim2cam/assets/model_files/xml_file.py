"""XML files of strangers: bounded, without entities, and numbers in them that are finite."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

from sim2cam.errors import InputError, suggest_name
from sim2cam.geometry.poses import Vec3

MAX_XML_BYTES = 4 * 2**20
"""Larger models are not read."""

_MAX_DEPTH = 64
_MAX_ELEMENTS = 50_000


def read_xml(path: Path, max_bytes: int = MAX_XML_BYTES) -> Element:
    """Return the root of an XML file.

    Raises:
        InputError: it is too large, deep or long, defines entities, or is no XML.
    """
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    if path.stat().st_size > max_bytes:
        raise InputError(path, f"larger than {max_bytes >> 20} MiB.")
    # Bullet's own examples say version 0.0, of which no parser but its own knows
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
                    path,
                    f"has more than {_MAX_ELEMENTS} elements, or more than {_MAX_DEPTH} deep.",
                )
    except ParseError as error:
        raise InputError(path, f"no XML that can be read ({error}).") from error
    except DefusedXmlException as error:
        raise InputError(path, "defines entities, which are not read. Write them out.") from error
    except (ValueError, LookupError) as error:
        raise InputError(
            path, "no XML in an encoding that can be read. Save it as UTF-8."
        ) from error
    assert root is not None  # an empty file is a ParseError
    return root


def get_local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def get_attribute(element: Element, name: str, path: Path) -> str:
    """Return an attribute that has to be there.

    Raises:
        InputError: it is not, or is empty.
    """
    found = element.get(name, "").strip()
    if not found:
        raise InputError(path, f"a <{element.tag}> has no {name}.")
    return found


def parse_numbers(text: str, count: int, where: str, path: Path) -> tuple[float, ...]:
    """Return so many finite numbers of a text.

    Raises:
        InputError: naming where it stands.
    """
    try:
        found = tuple(float(word) for word in text.split())
    except ValueError:
        found = ()
    if len(found) != count or not all(map(math.isfinite, found)):
        what = "a finite number" if count == 1 else f"{count} finite numbers"
        raise InputError(path, f"{where} is '{text.strip()[:60]}'. It takes {what}.")
    return found


def parse_number(text: str, where: str, path: Path) -> float:
    """Return one finite number of a text; raises as ``numbers`` does."""
    return parse_numbers(text, 1, where, path)[0]


def parse_mass(text: str, where: str, path: Path) -> float:
    """Return the mass of a text.

    Raises:
        InputError: as ``number``, or it is below 0.
    """
    found = parse_number(text, where, path)
    if found < 0:
        raise InputError(path, f"{where} is {found:g} kg. It takes 0 or more.")
    return found


def parse_vector(text: str, where: str, path: Path) -> Vec3:
    """Return three finite numbers of a text; raises as ``numbers`` does."""
    x, y, z = parse_numbers(text, 3, where, path)
    return x, y, z


def parse_direction(text: str, where: str, path: Path) -> Vec3:
    """Return a unit vector along that of a text.

    Raises:
        InputError: as ``numbers``, or it has no length.
    """
    x, y, z = parse_vector(text, where, path)
    length = math.hypot(x, y, z)
    if not 1e-9 < length < math.inf:
        raise InputError(path, f"{where} is '{text.strip()[:60]}', which points nowhere.")
    return x / length, y / length, z / length


def refuse_element(element: Element, what: str, allowed: tuple[str, ...], path: Path) -> InputError:
    """Return an error that names something which is not known."""
    return InputError(
        path, f"{what} '{element.tag}' is not known. {suggest_name(element.tag, allowed)}."
    )
