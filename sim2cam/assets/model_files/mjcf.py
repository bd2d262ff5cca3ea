"""Reader of MJCF, the format of MuJoCo.

Reads bodies, geoms, mesh assets, hinges and slides, ``compiler`` (angle, autolimits, meshdir), default
classes, inertias and material colours. Includes, macros such as ``replicate``, ball joints, soft bodies
and mesh offsets raise an error. Actuators, equality constraints, sensors and planes are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import Element

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.assets.model_files.mjcf_defaults import apply_defaults
from sim2cam.assets.model_files.model import (
    Capsule,
    Hinge,
    Inertial,
    Link,
    MeshPart,
    Model,
    Rgb,
    Shape,
    Solid,
    build_model,
    check_joint_type,
    make_joint,
    make_mesh_part,
    sanitize_joint_name,
    to_srgb,
)
from sim2cam.assets.model_files.xml_file import (
    convert_spec_errors,
    get_attribute,
    parse_direction,
    parse_mass,
    parse_number,
    parse_numbers,
    parse_vector,
    read_xml,
)
from sim2cam.errors import InputError, suggest_name
from sim2cam.geometry.poses import Pose, Vec3, quaternion, vec3
from sim2cam.objects.primitives import Cuboid, Cylinder, Sphere
from sim2cam.scene.articulation import Joint, JointKind

_WORLD = "world"
_KINDS: dict[str, JointKind] = {"hinge": "revolute", "slide": "prismatic"}
_GEOMS = ("box", "capsule", "cylinder", "mesh", "sphere")
_UNSUPPORTED = ("include", "composite", "flexcomp", "replicate", "frame", "attach", "model")
_ORIENTATIONS = ("quat", "euler", "axisangle")
_MESH_ORIENTATIONS = ("refpos", "refquat")
_UNSUPPORTED_ORIENTATIONS = ("xyaxes", "zaxis")
_VISIBLE_GROUPS = 3  # geoms of this group and above are collision shapes only
_GREY = "0.5 0.5 0.5 1"
_DEFAULT_RGBA = (0.5, 0.5, 0.5, 1.0)


@dataclass(frozen=True)
class _Context:
    """Settings of a file that apply to all bodies.

    Attributes:
        path: Path of the file.
        angle: Unit of angles in radians.
        autolimits: Whether a joint with a range is limited by default.
        meshes: Meshes by name.
        colors: Material colours by name.
    """

    path: Path
    angle: float
    autolimits: bool
    meshes: Mapping[str, MeshPart]
    colors: Mapping[str, Rgb]


def read_mjcf(path: Path) -> Model:
    """Read a model from an MJCF file.

    Raises:
        InputError: The file is damaged, or uses an unsupported feature.
    """
    root = read_xml(path)
    if root.tag != "mujoco":
        raise InputError(path, f"not MJCF: the root element is <{root.tag[:40]}>, not <mujoco>.")
    for name in _UNSUPPORTED:
        if root.find(f".//{name}") is not None:
            raise InputError(
                path, f"<{name}> is not supported. Save the compiled model with MuJoCo first."
            )
    apply_defaults(root, path)
    world = root.find("worldbody")
    if world is None:
        raise InputError(path, "has no worldbody.")
    for count, body in enumerate(root.iter("body")):
        body.set("name", body.get("name") or f"body_{count}")
    context = _read_context(root, path)
    links, hinges = [_read_link(world, _WORLD, (0.0, 0.0, 0.0), context)], []
    for body, parent, offset in _read_bodies(world, _WORLD, (0.0, 0.0, 0.0), context):
        steps = list(_build_hinges(body, parent, offset, context))
        hinges += [hinge for hinge, _ in steps]
        links += [link for _, link in steps]
    return build_model(links, hinges, path)


def _read_context(root: Element, path: Path) -> _Context:
    compiler = root.find("compiler")
    settings: Mapping[str, str] = {} if compiler is None else compiler.attrib
    angle = settings.get("angle", "degree")
    if angle not in ("degree", "radian"):
        raise InputError(path, f"angle of compiler is '{angle[:20]}'. Allowed: degree, radian.")
    coordinate = settings.get("coordinate", "local")
    if coordinate != "local":
        raise InputError(path, f"coordinate of compiler is '{coordinate[:20]}'. Allowed: local.")
    if settings.get("eulerseq", "xyz") != "xyz":
        raise InputError(path, f"eulerseq '{settings['eulerseq'][:20]}' is not supported. Use xyz.")
    folder = PurePosixPath(settings.get("meshdir", settings.get("assetdir", "")))
    meshes = {}
    for mesh in root.findall("asset/mesh"):
        for key in _MESH_ORIENTATIONS:
            if key in mesh.attrib:
                raise InputError(
                    path, f"'{key}' of a mesh is not supported. Transform the mesh file instead."
                )
        file = get_attribute(mesh, "file", path)
        scale = parse_vector(mesh.get("scale", "1 1 1"), "scale of a mesh", path)
        name = mesh.get("name") or PurePosixPath(file).stem
        meshes[name] = make_mesh_part((folder / file).as_posix(), scale, path)
    colors = {
        material.get("name", ""): to_srgb(
            parse_numbers(material.get("rgba", "1 1 1 1"), 4, "rgba of a material", path)
        )
        for material in root.findall("asset/material")
    }
    unit = math.radians(1) if angle == "degree" else 1.0
    return _Context(path, unit, settings.get("autolimits", "true") == "true", meshes, colors)


def _read_bodies(
    element: Element, name: str, offset: Vec3, context: _Context
) -> Iterator[tuple[Element, str, Vec3]]:
    """Yield all descendant bodies, each with its parent's name and the parent's frame offset."""
    for body in element.findall("body"):
        yield body, name, offset
        joints = body.findall("joint")
        own_offset = _read_anchor(joints[-1], context) if joints else (0.0, 0.0, 0.0)
        yield from _read_bodies(
            body, get_attribute(body, "name", context.path), own_offset, context
        )


def _read_anchor(joint: Element, context: _Context) -> Vec3:
    return parse_vector(joint.get("pos", "0 0 0"), "pos of a joint", context.path)


def _build_hinges(
    body: Element, parent: str, offset: Vec3, context: _Context
) -> Iterator[tuple[Hinge, Link]]:
    """Yield the joints of a body with their links; the last link is the body itself."""
    name, joints = get_attribute(body, "name", context.path), body.findall("joint")
    body_pose = Pose(position_m=vec3(np.negative(offset))) @ _read_pose(body.attrib, context)
    if not joints:
        yield (
            Hinge(Joint(f"{sanitize_joint_name(name)}_fixed", "fixed", 0, body_pose), parent, name),
            _read_link(body, name, offset=(0.0, 0.0, 0.0), context=context),
        )
        return
    previous_anchor: Vec3 = (0.0, 0.0, 0.0)
    for count, element in enumerate(joints):
        anchor = _read_anchor(element, context)
        step = Pose(position_m=vec3(np.subtract(anchor, previous_anchor)))
        pose = body_pose @ step if count == 0 else step
        is_last = count == len(joints) - 1
        child = name if is_last else f"{name}/{count}"
        link = _read_link(body, name, anchor, context) if is_last else Link(child)
        yield Hinge(_read_joint(element, f"{name}_{count}", pose, context), parent, child), link
        parent, previous_anchor = child, anchor


def _read_joint(element: Element, default_name: str, pose: Pose, context: _Context) -> Joint:
    attributes = element.attrib
    name, kind = attributes.get("name", default_name), attributes.get("type", "hinge")
    check_joint_type(name, kind, _KINDS, context.path)
    axis = parse_direction(
        attributes.get("axis", "0 0 1"), f"axis of the joint '{name}'", context.path
    )
    low, high = -math.pi, math.pi
    limited = attributes.get("limited", "auto")
    if "range" in attributes and (limited == "true" or (limited == "auto" and context.autolimits)):
        unit = context.angle if kind == "hinge" else 1.0
        ends = parse_numbers(attributes["range"], 2, f"range of the joint '{name}'", context.path)
        reference = parse_number(
            attributes.get("ref", "0"), f"ref of the joint '{name}'", context.path
        )
        low, high = (unit * (end - reference) for end in ends)
    elif kind == "slide":
        raise InputError(context.path, f"joint '{name}' has no range.")
    return make_joint(name, _KINDS[kind], pose, axis, (low, high), context.path)


def _read_link(element: Element, name: str, offset: Vec3, context: _Context) -> Link:
    """Read a body as a link whose frame is offset from the body frame."""
    to_link = Pose(position_m=vec3(np.negative(offset)))
    visuals, collisions, masses = [], [], []
    for geom in element.findall("geom"):
        attributes = geom.attrib
        if attributes.get("type", "sphere") == "plane":
            continue
        solid, pose = _read_shape(attributes, context)
        rgba = parse_numbers(attributes.get("rgba", _GREY), 4, "rgba of a geom", context.path)
        color = to_srgb(rgba)
        if np.array_equal(rgba, _DEFAULT_RGBA):  # other values precede the material in MuJoCo
            color = context.colors.get(attributes.get("material", ""), color)
        shape = Shape(solid, to_link @ pose, color)
        group = parse_number(attributes.get("group", "0"), "group of a geom", context.path)
        if group < _VISIBLE_GROUPS:
            visuals.append(shape)
        if attributes.get("contype", "1") != "0" or attributes.get("conaffinity", "1") != "0":
            collisions.append(shape)
        if "mass" in attributes:
            of_geom = f"the mass of a geom of '{name}'"
            masses.append(parse_mass(attributes["mass"], of_geom, context.path))
    inertial_element = element.find("inertial")
    if inertial_element is None:
        inertial = Inertial(sum(masses) if masses else None)
    else:
        inertial = _read_inertial(inertial_element, name, to_link, context)
    return Link(name, tuple(visuals), tuple(collisions), inertial)


def _read_inertial(element: Element, name: str, to_link: Pose, context: _Context) -> Inertial:
    """Read the inertial properties of a body, moved to the link frame."""
    path, of_body = context.path, f"of the body '{name}'"
    mass = parse_mass(get_attribute(element, "mass", path), f"the mass {of_body}", path)
    pose = to_link @ _read_pose(element.attrib, context)
    if "fullinertia" in element.attrib:
        xx, yy, zz, xy, xz, yz = parse_numbers(
            element.attrib["fullinertia"], 6, f"fullinertia {of_body}", path
        )
        return Inertial(mass, pose, (xx, yy, zz, xy, xz, yz))
    if "diaginertia" in element.attrib:
        xx, yy, zz = parse_vector(element.attrib["diaginertia"], f"diaginertia {of_body}", path)
        return Inertial(mass, pose, (xx, yy, zz, 0.0, 0.0, 0.0))
    return Inertial(mass)


def _read_shape(attributes: Mapping[str, str], context: _Context) -> tuple[Solid, Pose]:
    kind, path = attributes.get("type", "mesh" if "mesh" in attributes else "sphere"), context.path
    if kind not in _GEOMS:
        raise InputError(
            path, f"a geom has the unsupported type '{kind}'. {suggest_name(kind, _GEOMS)}."
        )
    if kind == "mesh":
        name = attributes.get("mesh", "")
        if name not in context.meshes:
            raise InputError(
                path,
                f"a geom refers to the missing mesh '{name}'. {suggest_name(name, context.meshes)}.",
            )
        return context.meshes[name], _read_pose(attributes, context)
    sizes = attributes.get("size", "").split()
    count = {"box": 3, "sphere": 1}.get(kind, 1 if "fromto" in attributes else 2)
    size = parse_numbers(" ".join(sizes[:count]), count, f"size of a {kind}", path)
    pose, half = _read_pose(attributes, context), size[-1]
    if "fromto" in attributes and kind in ("capsule", "cylinder"):
        ends = np.reshape(
            parse_numbers(attributes["fromto"], 6, f"fromto of a {kind}", path), (2, 3)
        )
        axis = ends[1] - ends[0]
        half = float(np.linalg.norm(axis)) / 2
        rotation = (
            Rotation.align_vectors([axis], [[0, 0, 1]])[0] if half > 0 else Rotation.identity()
        )
        pose = Pose(quaternion(rotation), vec3(ends.mean(axis=0)))
    with convert_spec_errors(path):
        match kind:
            case "box":
                return Cuboid((2 * size[0], 2 * size[1], 2 * size[2])), pose
            case "sphere":
                return Sphere(size[0]), pose
            case "cylinder":
                return Cylinder(size[0], 2 * half), pose
            case _:
                Cylinder(size[0], 2 * half)  # checks the sizes, which have the same bounds
                return Capsule(size[0], 2 * half), pose


def _read_pose(attributes: Mapping[str, str], context: _Context) -> Pose:
    path = context.path
    for name in _UNSUPPORTED_ORIENTATIONS:
        if name in attributes:
            raise InputError(
                path, f"'{name}' is not supported. {suggest_name(name, _ORIENTATIONS)}."
            )
    position = parse_vector(attributes.get("pos", "0 0 0"), "pos of a body or geom", path)
    rotation = Rotation.identity()
    if "quat" in attributes:
        w, x, y, z = parse_numbers(attributes["quat"], 4, "quat of a body or geom", path)
        if not 1e-9 < math.hypot(w, x, y, z) < math.inf:
            raise InputError(
                path,
                f"quat of a body or geom is '{attributes['quat'][:60]}', which is not a rotation.",
            )
        rotation = Rotation.from_quat((x, y, z, w))
    elif "euler" in attributes:
        angles = np.multiply(
            parse_vector(attributes["euler"], "euler of a body or geom", path), context.angle
        )
        rotation = Rotation.from_euler("XYZ", angles)
    elif "axisangle" in attributes:
        *axis, angle = parse_numbers(
            attributes["axisangle"], 4, "axisangle of a body or geom", path
        )
        text = " ".join(map(str, axis))
        direction = parse_direction(text, "axisangle of a body or geom", path)
        rotation = Rotation.from_rotvec(np.multiply(direction, angle * context.angle))
    return Pose(quaternion(rotation), position)
