"""Reader of URDF, the robot format of ROS.

Reads links with visuals, collisions and inertias, material colours, and fixed, revolute, continuous and
prismatic joints with limits and mimics. Transmissions and sensors are ignored; floating and planar joints
raise an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element

from scipy.spatial.transform import Rotation

from sim2cam.assets.mesh_files.raw_mesh import warn
from sim2cam.assets.model_files.model import (
    JOINT_KINDS,
    TENSOR,
    Hinge,
    Inertial,
    Link,
    Model,
    Rgb,
    Shape,
    build_model,
    check_joint_type,
    make_joint,
    read_solid,
    sanitize_joint_name,
    to_srgb,
)
from sim2cam.assets.model_files.xml_file import (
    get_attribute,
    parse_direction,
    parse_mass,
    parse_number,
    parse_numbers,
    parse_vector,
    read_xml,
)
from sim2cam.errors import InputError
from sim2cam.geometry.poses import Pose, quaternion
from sim2cam.scene.articulation import Mimic


def read_urdf(path: Path) -> Model:
    """Read a model from a URDF file.

    Raises:
        InputError: The file is damaged, or uses an unsupported feature.
    """
    root = read_xml(path)
    if root.tag != "robot":
        raise InputError(path, f"not URDF: the root element is <{root.tag[:40]}>, not <robot>.")
    if any(str(element.tag).startswith("{") and "xacro" in element.tag for element in root.iter()):
        raise InputError(path, "contains xacro elements. Run xacro first.")
    materials = {
        material.get("name", ""): _read_color(material, path)
        for material in root.findall("material")
    }
    for material in root.findall("link/visual/material"):  # materials may be defined where used
        if material.find("color") is not None:
            materials.setdefault(material.get("name", ""), _read_color(material, path))
    if root.find(".//material/texture") is not None:
        warn(path, "material textures are not supported; only mesh textures are used.")
    links = [_read_link(element, materials, path) for element in root.findall("link")]
    hinges = [_read_hinge(element, path) for element in root.findall("joint")]
    return build_model(links, hinges, path)


def _read_link(element: Element, materials: Mapping[str, Rgb | None], path: Path) -> Link:
    name = get_attribute(element, "name", path)
    return Link(
        name,
        tuple(_read_shape(visual, materials, path) for visual in element.findall("visual")),
        tuple(_read_shape(collision, {}, path) for collision in element.findall("collision")),
        _read_inertial(element, name, path),
    )


def _read_inertial(link: Element, name: str, path: Path) -> Inertial:
    element = link.find("inertial")
    if element is None:
        return Inertial()
    mass, inertia = element.find("mass"), element.find("inertia")
    of_link = f"of the link '{name}'"
    mass_kg = (
        None if mass is None else parse_mass(mass.get("value", ""), f"the mass {of_link}", path)
    )
    if inertia is None:
        return Inertial(mass_kg)
    xx, yy, zz, xy, xz, yz = (
        parse_number(inertia.get(key, "0"), f"{key} {of_link}", path) for key in TENSOR
    )
    return Inertial(mass_kg, _read_origin(element, path), (xx, yy, zz, xy, xz, yz))


def _read_shape(element: Element, materials: Mapping[str, Rgb | None], path: Path) -> Shape:
    geometry = element.find("geometry")
    solid = None if geometry is None else next(iter(geometry), None)
    if solid is None:
        raise InputError(path, f"a <{element.tag}> has no geometry.")
    material = element.find("material")
    color = None
    if material is not None:
        color = _read_color(material, path) or materials.get(material.get("name", ""))
    geometry_solid = read_solid(
        solid,
        lambda name: get_attribute(solid, name, path),
        "filename",
        solid.get("scale", "1 1 1"),
        path,
    )
    return Shape(geometry_solid, _read_origin(element, path), color)


def _read_origin(element: Element, path: Path) -> Pose:
    origin = element.find("origin")
    if origin is None:
        return Pose()
    where = f"origin of a {element.tag}"
    roll, pitch, yaw = parse_vector(origin.get("rpy", "0 0 0"), f"rpy of the {where}", path)
    rotation = Rotation.from_euler("xyz", (roll, pitch, yaw))
    return Pose(
        quaternion(rotation), parse_vector(origin.get("xyz", "0 0 0"), f"xyz of the {where}", path)
    )


def _read_color(material: Element, path: Path) -> Rgb | None:
    color = material.find("color")
    if color is None:
        return None
    return to_srgb(parse_numbers(get_attribute(color, "rgba", path), 4, "rgba of a color", path))


def _read_hinge(element: Element, path: Path) -> Hinge:
    name = get_attribute(element, "name", path)
    kind = get_attribute(element, "type", path)
    check_joint_type(name, kind, JOINT_KINDS, path)
    ends = [element.find(end) for end in ("parent", "child")]
    parent, child = ("" if end is None else end.get("link", "") for end in ends)
    limits = _read_limits(element, name, kind, path)
    axis = element.find("axis")
    axis_text = "1 0 0" if axis is None else get_attribute(axis, "xyz", path)
    direction = (
        parse_direction(axis_text, f"axis of the joint '{name}'", path)
        if kind != "fixed"
        else (1.0, 0.0, 0.0)
    )
    mimic_element = element.find("mimic")
    mimic = None if mimic_element is None else _read_mimic(mimic_element, name, path)
    pose = _read_origin(element, path)
    joint = make_joint(name, JOINT_KINDS[kind], pose, direction, limits, path, mimic)
    return Hinge(joint, parent, child)


def _read_limits(element: Element, name: str, kind: str, path: Path) -> tuple[float, float]:
    if kind == "fixed":
        return 0.0, 0.0
    if kind == "continuous":
        return -math.pi, math.pi
    limit = element.find("limit")
    if limit is None:
        raise InputError(path, f"joint '{name}' has no limit.")
    low, high = (
        parse_number(limit.get(end, "0"), f"{end} limit of the joint '{name}'", path)
        for end in ("lower", "upper")
    )
    return low, high


def _read_mimic(element: Element, name: str, path: Path) -> Mimic:
    factor, offset = (
        parse_number(element.get(key, default), f"{key} of the mimic of '{name}'", path)
        for key, default in (("multiplier", "1"), ("offset", "0"))
    )
    return Mimic(sanitize_joint_name(get_attribute(element, "joint", path)), factor, offset)
