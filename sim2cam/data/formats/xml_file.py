"""XML files of annotations: parsed without entities, and numbers in them."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

from sim2cam.data.parsing import read_text
from sim2cam.errors import InputError


def parse_xml(path: Path, tag: str, max_bytes: int) -> ElementTree.Element:
    """Return the root of an XML file.

    Args:
        path: the file.
        tag: name of the root.
        max_bytes: a longer file is refused before it is read.

    Raises:
        InputError: the file cannot be read, is no XML, declares entities or has another root.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        tree: ElementTree.Element = fromstring(read_text(path, max_bytes, "annotation"))
    except ElementTree.ParseError as error:
        raise InputError(path, f"not XML ({error}).") from error
    except (DefusedXmlException, ValueError) as error:
        raise InputError(path, "it declares entities, which no annotation needs.") from error
    if tree.tag != tag:
        raise InputError(path, f"its root is <{tree.tag[:40]}>, not <{tag}>.")
    return tree


def parse_number(path: Path, location: str, text: str | None) -> float:
    """Return the finite number that a text in a file is.

    Args:
        path: the file.
        location: of the text, for errors.
        text: None where the file has none.

    Raises:
        InputError: it is no number.
    """
    text = (text or "").strip()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(path, f"{location} is '{text[:40]}', not a number.")
    return value
