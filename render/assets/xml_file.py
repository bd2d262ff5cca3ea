"""XML files of strangers: bounded, without entities, and numbers in them that are finite."""

from __future__ import annotations

import io
import math
import os
import re
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

from sim2cam.errors import InputError, did_you_mean
from sim2cam.geometry.poses import Vec3
from sim2cam.render.assets.model import MeshPart
from sim2cam.render.assets.reader import MESH_SUFFIXES

_MOST_BYTES = 4 * 2**20
_MOST_DEPTH = 64
_MOST_ELEMENTS = 50_000


def read_xml(path: Path) -> Element:
    """Returns the root of an XML file.

    Raises:
        InputError: it is too large, deep or long, defines entities, or is no XML.
    """
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    if path.stat().st_size > _MOST_BYTES:
        raise InputError(path, f"larger than {_MOST_BYTES >> 20} MiB.")
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
            if depth > _MOST_DEPTH or count > 2 * _MOST_ELEMENTS:
                raise InputError(
                    path,
                    f"has more than {_MOST_ELEMENTS} elements, or more than {_MOST_DEPTH} deep.",
                )
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise InputError(
            path, f"no XML that can be read ({type(error).__name__}: {error})."
        ) from error
    assert root is not None  # an empty file is a ParseError
    return root


def attribute(element: Element, name: str, path: Path) -> str:
    """Returns an attribute that has to be there.

    Raises:
        InputError: it is not, or is empty.
    """
    found = element.get(name, "").strip()
    if not found:
        raise InputError(path, f"a <{element.tag}> has no {name}.")
    return found


def numbers(text: str, count: int, where: str, path: Path) -> tuple[float, ...]:
    """Returns so many finite numbers of a text.

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


def number(text: str, where: str, path: Path) -> float:
    """Returns one finite number of a text; raises as ``numbers`` does."""
    return numbers(text, 1, where, path)[0]


def vector(text: str, where: str, path: Path) -> Vec3:
    """Returns three finite numbers of a text; raises as ``numbers`` does."""
    x, y, z = numbers(text, 3, where, path)
    return x, y, z


def direction(text: str, where: str, path: Path) -> Vec3:
    """Returns a unit vector along that of a text.

    Raises:
        InputError: as ``numbers``, or it has no length.
    """
    x, y, z = vector(text, where, path)
    length = math.hypot(x, y, z)
    if not 1e-9 < length < math.inf:
        raise InputError(path, f"{where} is '{text.strip()[:60]}', which points nowhere.")
    return x / length, y / length, z / length


def mesh_part(name: str, scale: Vec3, path: Path) -> MeshPart:
    """Returns the mesh file that a model names, which has to lie in the model's folder or below.

    ``package://NAME/PLACE`` and ``model://NAME/PLACE`` are looked for as NAME/PLACE and as PLACE.

    Raises:
        InputError: it does not, is not there, or is of a kind that cannot be read.
    """
    scheme, sep, rest = name.partition("://")
    places = [rest, rest.partition("/")[2]] if sep else [name]
    root = Path(os.path.realpath(path.parent))
    if sep and scheme not in ("package", "model"):
        places = []
    for place in filter(None, places):
        found = Path(os.path.realpath(root / place)) if "\0" not in place else root
        if found.is_relative_to(root) and found.is_file():
            break
    else:
        raise InputError(
            path,
            f"the mesh '{name[:80]}', which it names, is not in its folder. Put it there; paths are "
            "relative, or begin with package://.",
        )
    if found.suffix.lower() not in MESH_SUFFIXES:
        raise InputError(
            path,
            f"the mesh '{name[:80]}' is of no kind that can be read ({', '.join(MESH_SUFFIXES)}).",
        )
    if not all(0 < abs(factor) < math.inf for factor in scale):
        raise InputError(path, f"the mesh '{name[:80]}' has the scale {scale}.")
    return MeshPart(found, scale)


def refuse(element: Element, what: str, allowed: tuple[str, ...], path: Path) -> InputError:
    """Returns an error that names something which is not known."""
    return InputError(
        path, f"{what} '{element.tag}' is not known. {did_you_mean(element.tag, allowed)}."
    )
