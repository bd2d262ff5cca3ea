"""Defaults of MJCF: what its classes say of elements that do not say otherwise, written into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element

from sim2cam.errors import InputError, suggest_name

MAIN = "main"
"""Class of all that names none."""

_BODY_ELEMENTS = ("geom", "joint")
_ASSET_ELEMENTS = ("material", "mesh")
_ORIENTATIONS = ("quat", "euler", "axisangle", "xyaxes", "zaxis")  # ways to say the same

Attributes = Mapping[str, str]
DefaultClass = Mapping[str, Attributes]
"""Attributes by the tag of the elements that they are of."""


def apply_defaults(root: Element, path: Path) -> None:
    """Give geoms, joints, meshes and materials the attributes that their classes have for them.

    A class has what that which it lies in has; an element is of the class that it names, or else of
    the nearest ``childclass`` of the bodies around it, or else of the outermost one.

    Args:
        root: of the file.
        path: of the file.

    Raises:
        InputError: a class has no name or one that is taken, or is named and not there.
    """
    classes: dict[str, DefaultClass] = {
        MAIN: {tag: {} for tag in (*_BODY_ELEMENTS, *_ASSET_ELEMENTS)}
    }
    for element in root.findall("default"):
        first = element.get("class", MAIN)
        classes[MAIN] = classes[first] = _merge_classes(classes[MAIN], element)
        for name, found in _read_classes(element, classes[MAIN], path):
            if name in classes:
                raise InputError(path, f"has the class of defaults '{name}' twice.")
            classes[name] = found
    for element, named in (*_apply_to_assets(root), *_apply_to_bodies(root)):
        if named not in classes:
            raise InputError(
                path, f"names the class of defaults '{named}'. {suggest_name(named, classes)}."
            )
        told = _merge_attributes(classes[named][element.tag], element.attrib)
        element.attrib.clear()
        element.attrib.update(told)


def _read_classes(
    element: Element, around: DefaultClass, path: Path
) -> Iterator[tuple[str, DefaultClass]]:
    pending = [(inner, around) for inner in element.findall("default")]
    while pending:
        one, outer = pending.pop()
        name = one.get("class")
        if not name:
            raise InputError(path, "has a class of defaults without a name.")
        found = _merge_classes(outer, one)
        pending += [(inner, found) for inner in one.findall("default")]
        yield name, found


def _merge_classes(around: DefaultClass, element: Element) -> dict[str, Attributes]:
    own = {tag: element.find(tag) for tag in around}
    return {
        tag: attributes
        if (told := own[tag]) is None
        else _merge_attributes(attributes, told.attrib)
        for tag, attributes in around.items()
    }


def _merge_attributes(under: Attributes, over: Attributes) -> dict[str, str]:
    """Return attributes laid over others; a turn that is told another way is told once."""
    kept = (
        {name: text for name, text in under.items() if name not in _ORIENTATIONS}
        if any(name in over for name in _ORIENTATIONS)
        else under
    )
    return {**kept, **over}


def _apply_to_assets(root: Element) -> Iterator[tuple[Element, str]]:
    """Yield the meshes and materials of a file, each with the name of its class."""
    for tag in _ASSET_ELEMENTS:
        for element in root.findall(f"asset/{tag}"):
            yield element, element.get("class", MAIN)


def _apply_to_bodies(root: Element) -> Iterator[tuple[Element, str]]:
    """Yield the geoms and joints of all bodies, each with the name of its class."""
    pending = [(world, MAIN) for world in root.findall("worldbody")]
    while pending:
        body, around = pending.pop()
        nearest = body.get("childclass", around)
        for tag in _BODY_ELEMENTS:
            for element in body.findall(tag):
                yield element, element.get("class", nearest)
        pending += [(inner, nearest) for inner in body.findall("body")]
