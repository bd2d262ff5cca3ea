"""Safe parsing of XML annotation files and their numbers."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

from sim2cam.data.parsing import read_text
from sim2cam.errors import InputError


def parse_xml(
    path: Path, tag: str, max_bytes: int, content: str = "annotation"
) -> ElementTree.Element:
    """Return the root of an XML file.

    Args:
        path: File.
        tag: Tag of the root.
        max_bytes: Limit of the size.
        content: What the file holds, for errors.

    Raises:
        InputError: the file cannot be read, is not XML, declares entities or has another root.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        tree: ElementTree.Element = fromstring(read_text(path, max_bytes, content))
    except ElementTree.ParseError as error:
        raise InputError(path, f"not XML ({error}).") from error
    except (DefusedXmlException, ValueError) as error:
        raise InputError(path, "declares entities, which are not allowed.") from error
    if tree.tag != tag:
        raise InputError(path, f"the root is <{tree.tag[:40]}>, not <{tag}>.")
    return tree


def parse_number(path: Path, location: str, text: str | None) -> float:
    """Return a finite number from a text.

    Raises:
        InputError: the text is not a finite number.
    """
    text = (text or "").strip()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(path, f"{location} is '{text[:40]}', not a number.")
    return value
