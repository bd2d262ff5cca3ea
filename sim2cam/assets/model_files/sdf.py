"""Reader of SDF, the format of Gazebo.

Reads one model: links with poses, shapes, colours and inertias; fixed, revolute, continuous and prismatic
joints. Relative poses, included or nested models, and several models raise an error. Actuators and
sensors are ignored.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree.ElementTree import Element

from scipy.spatial.transform import Rotation

from sim2cam.assets.model_files.model import (
    JOINT_KINDS,
    TENSOR,
    Hinge,
    Inertial,
    Link,
    Model,
    Rgb,
    Shape,
    attach_links,
    build_model,
    check_joint_type,
    make_joint,
    read_solid,
    to_srgb,
)
from sim2cam.assets.model_files.xml_file import (
    get_attribute,
    parse_direction,
    parse_mass,
    parse_number,
    parse_numbers,
    read_xml,
)
from sim2cam.errors import InputError
from sim2cam.geometry.poses import Pose, quaternion

_WORLD = "world"
_UNSUPPORTED = ("include", "model", "frame")
_UNLIMITED_RAD = 1e15  # larger limits mean unlimited in SDF


def read_sdf(path: Path) -> Model:
    """Read a model from an SDF file.

    Raises:
        InputError: The file is damaged, or uses an unsupported feature.
    """
    root = read_xml(path)
    if root.tag != "sdf":
        raise InputError(path, f"not SDF: the root element is <{root.tag[:40]}>, not <sdf>.")
    models = [*root.findall("model"), *root.findall("world/model")]
    if len(models) != 1:
        raise InputError(
            path, f"has {len(models)} models, not one. Save each model in its own file."
        )
    for name in _UNSUPPORTED:
        if models[0].find(name) is not None:
            raise InputError(
                path, f"<{name}> in a model is not supported. Flatten the file first (gz sdf -p)."
            )
    if any(pose.get("relative_to") or pose.get("frame") for pose in root.iter("pose")):
        raise InputError(
            path,
            "poses relative to another frame are not supported. Flatten the file first (gz sdf -p).",
        )
    links = {}
    for element in models[0].findall("link"):
        link = _read_link(element, path)
        if link.name in links:
            raise InputError(path, f"has a duplicate link '{link.name}'.")
        links[link.name] = link, _read_pose(element, path)
    hinges = [_read_hinge(element, path) for element in models[0].findall("joint")]
    return build_model(
        *attach_links(links, [hinge for hinge in hinges if hinge.parent != _WORLD]), path
    )


def _read_link(element: Element, path: Path) -> Link:
    name = get_attribute(element, "name", path)
    visuals, collisions = (
        tuple(_read_shape(shape, path) for shape in element.findall(kind))
        for kind in ("visual", "collision")
    )
    return Link(name, visuals, collisions, _read_inertial(element, name, path))


def _read_inertial(link: Element, name: str, path: Path) -> Inertial:
    element = link.find("inertial")
    if element is None:
        return Inertial()
    of_link, mass_text = f"of the link '{name}'", element.findtext("mass")
    mass = None if mass_text is None else parse_mass(mass_text, f"the mass {of_link}", path)
    inertia = element.find("inertia")
    if inertia is None:
        return Inertial(mass)
    xx, yy, zz, xy, xz, yz = (
        parse_number(inertia.findtext(key, default), f"{key} {of_link}", path)
        for key, default in zip(TENSOR, "111000", strict=True)  # defaults of SDF
    )
    return Inertial(mass, _read_pose(element, path), (xx, yy, zz, xy, xz, yz))


def _read_shape(element: Element, path: Path) -> Shape:
    solid = element.find("geometry/*")
    if solid is None:
        raise InputError(path, f"a <{element.tag}> has no geometry.")
    diffuse = element.findtext("material/diffuse")
    color: Rgb | None = None
    if diffuse is not None:
        count = len(diffuse.split())
        color = to_srgb(
            parse_numbers(diffuse, 3 if count == 3 else 4, "diffuse of a material", path)
        )
    geometry_solid = read_solid(
        solid,
        lambda name: solid.findtext(name, "").strip(),
        "uri",
        solid.findtext("scale", "1 1 1"),
        path,
    )
    return Shape(geometry_solid, _read_pose(element, path), color)


def _read_pose(element: Element, path: Path) -> Pose:
    pose = element.find("pose")
    if pose is None:
        return Pose()
    x, y, z, *angles = parse_numbers(pose.text or "", 6, f"pose of a {element.tag}", path)
    in_degrees = pose.get("degrees", "false") not in ("false", "0")
    rotation = Rotation.from_euler("xyz", angles, degrees=in_degrees)
    return Pose(quaternion(rotation), (x, y, z))


def _read_hinge(element: Element, path: Path) -> Hinge:
    name, kind = get_attribute(element, "name", path), get_attribute(element, "type", path)
    check_joint_type(name, kind, JOINT_KINDS, path)
    parent, child = (element.findtext(end, "").strip() for end in ("parent", "child"))
    limits, axis = (0.0, 0.0), (0.0, 0.0, 1.0)
    if kind != "fixed":
        limits = _read_limits(element, name, kind, path)
        axis_text = element.findtext("axis/xyz", "0 0 1")
        axis = parse_direction(axis_text, f"axis of the joint '{name}'", path)
        frame = element.findtext("axis/use_parent_model_frame", "0").strip()
        if frame not in ("0", "false") or element.find("axis/xyz[@expressed_in]") is not None:
            raise InputError(path, f"joint '{name}': the axis must be in the joint frame.")
    pose = _read_pose(element, path)
    return Hinge(make_joint(name, JOINT_KINDS[kind], pose, axis, limits, path), parent, child)


def _read_limits(element: Element, name: str, kind: str, path: Path) -> tuple[float, float]:
    where = f"limit of the joint '{name}'"
    low, high = (
        parse_number(element.findtext(f"axis/limit/{end}", str(default)), f"{end} {where}", path)
        for end, default in (("lower", -_UNLIMITED_RAD), ("upper", _UNLIMITED_RAD))
    )
    if kind == "continuous" or (kind == "revolute" and high - low >= _UNLIMITED_RAD):
        return -math.pi, math.pi
    if high - low >= _UNLIMITED_RAD:
        raise InputError(path, f"joint '{name}' has no limit.")
    return low, high
