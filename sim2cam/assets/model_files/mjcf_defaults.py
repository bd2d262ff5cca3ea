"""Default classes of MJCF, resolved into the attributes of elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element

from sim2cam.errors import InputError, suggest_name

MAIN = "main"
"""Class of elements without a class."""

_BODY_ELEMENTS = ("geom", "joint")
_ASSET_ELEMENTS = ("material", "mesh")
_ORIENTATIONS = ("quat", "euler", "axisangle", "xyaxes", "zaxis")  # alternatives for one rotation

Attributes = Mapping[str, str]
DefaultClass = Mapping[str, Attributes]
"""Attributes by element tag."""


def apply_defaults(root: Element, path: Path) -> None:
    """Write the default attributes of classes into geoms, joints, meshes and materials.

    A class inherits from its enclosing class. An element uses its own class, else the nearest
    ``childclass`` of its parent bodies, else the outermost class.

    Raises:
        InputError: A class has no name or a duplicate one, or is missing.
    """
    classes: dict[str, DefaultClass] = {
        MAIN: {tag: {} for tag in (*_BODY_ELEMENTS, *_ASSET_ELEMENTS)}
    }
    for element in root.findall("default"):
        outer_name = element.get("class", MAIN)
        classes[MAIN] = classes[outer_name] = _merge_classes(classes[MAIN], element)
        for name, default_class in _read_classes(element, classes[MAIN], path):
            if name in classes:
                raise InputError(path, f"has a duplicate default class '{name}'.")
            classes[name] = default_class
    for element, class_name in (*_list_assets(root), *_list_body_elements(root)):
        if class_name not in classes:
            raise InputError(
                path,
                f"refers to the missing default class '{class_name}'. {suggest_name(class_name, classes)}.",
            )
        attributes = _merge_attributes(classes[class_name][element.tag], element.attrib)
        element.attrib.clear()
        element.attrib.update(attributes)


def _read_classes(
    element: Element, outer_class: DefaultClass, path: Path
) -> Iterator[tuple[str, DefaultClass]]:
    pending = [(inner, outer_class) for inner in element.findall("default")]
    while pending:
        current, parent = pending.pop()
        name = current.get("class")
        if not name:
            raise InputError(path, "has a default class without a name.")
        merged = _merge_classes(parent, current)
        pending += [(inner, merged) for inner in current.findall("default")]
        yield name, merged


def _merge_classes(outer_class: DefaultClass, element: Element) -> dict[str, Attributes]:
    own = {tag: element.find(tag) for tag in outer_class}
    return {
        tag: attributes
        if (own_element := own[tag]) is None
        else _merge_attributes(attributes, own_element.attrib)
        for tag, attributes in outer_class.items()
    }


def _merge_attributes(under: Attributes, over: Attributes) -> dict[str, str]:
    """Merge attributes; a rotation in ``over`` replaces one in ``under`` in any notation."""
    kept = (
        {name: text for name, text in under.items() if name not in _ORIENTATIONS}
        if any(name in over for name in _ORIENTATIONS)
        else under
    )
    return {**kept, **over}


def _list_assets(root: Element) -> Iterator[tuple[Element, str]]:
    """Yield the meshes and materials of a file, each with its class name."""
    for tag in _ASSET_ELEMENTS:
        for element in root.findall(f"asset/{tag}"):
            yield element, element.get("class", MAIN)


def _list_body_elements(root: Element) -> Iterator[tuple[Element, str]]:
    """Yield the geoms and joints of all bodies, each with its class name."""
    pending = [(world, MAIN) for world in root.findall("worldbody")]
    while pending:
        body, parent_class = pending.pop()
        body_class = body.get("childclass", parent_class)
        for tag in _BODY_ELEMENTS:
            for element in body.findall(tag):
                yield element, element.get("class", body_class)
        pending += [(inner, body_class) for inner in body.findall("body")]
