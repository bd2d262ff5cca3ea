"""MJCF, the format of MuJoCo, as far as bodies, geoms, mesh assets, hinges and slides go.

Read: ``compiler`` (angle, autolimits, meshdir), defaults and their classes, inertias, materials'
colours. Included files and what makes bodies out of others are refused by name, as are balls, soft things
and meshes moved as they are read; what drives, ties or measures is passed over. Planes are left out:
there is a table.
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
    build_model,
    check_joint_name,
    make_mesh_part,
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
from sim2cam.errors import InputError, SpecError, suggest_name
from sim2cam.geometry.poses import Pose, Vec3, quaternion, vec3
from sim2cam.scene.articulation import Joint, JointKind
from sim2cam.scene.shape import Cuboid, Cylinder, Sphere

_WORLD = "world"
_KINDS: dict[str, JointKind] = {"hinge": "revolute", "slide": "prismatic"}
_GEOMS = ("box", "capsule", "cylinder", "mesh", "sphere")
_UNKNOWN = ("include", "composite", "flexcomp", "replicate", "frame", "attach", "model")
_ORIENTATIONS = ("quat", "euler", "axisangle")
_MESH_ORIENTATIONS = ("refpos", "refquat")
_UNSUPPORTED_ORIENTATIONS = ("xyaxes", "zaxis")
_VISIBLE_GROUPS = 3  # geoms of this group and above are what bodies collide as
_GREY = "0.5 0.5 0.5 1"


@dataclass(frozen=True)
class _Context:
    """What a file says once for all bodies.

    Attributes:
        path: of the file.
        angle: radians of one unit of its angles.
        autolimits: whether a joint with a range has limits, if it does not say.
        meshes: by their names.
        colors: of materials, by their names.
    """

    path: Path
    angle: float
    autolimits: bool
    meshes: Mapping[str, MeshPart]
    colors: Mapping[str, Rgb]


def read_mjcf(path: Path) -> Model:
    """Return the model of an MJCF file.

    Raises:
        InputError: the file is damaged, or asks for what is not known.
    """
    root = read_xml(path)
    if root.tag != "mujoco":
        raise InputError(path, f"no MJCF: it begins with <{root.tag[:40]}>, not with <mujoco>.")
    for name in _UNKNOWN:
        if root.find(f".//{name}") is not None:
            raise InputError(
                path, f"<{name}> is not known. Let MuJoCo save the compiled model first."
            )
    apply_defaults(root, path)
    world = root.find("worldbody")
    if world is None:
        raise InputError(path, "has no worldbody.")
    for count, body in enumerate(root.iter("body")):
        body.set("name", body.get("name") or f"body_{count}")
    context = _read_context(root, path)
    links, hinges = [_read_link(world, _WORLD, (0.0, 0.0, 0.0), context)], []
    for body, parent, off in _read_bodies(world, _WORLD, (0.0, 0.0, 0.0), context):
        steps = list(_build_hinges(body, parent, off, context))
        hinges += [hinge for hinge, _ in steps]
        links += [link for _, link in steps]
    return build_model(links, hinges, path)


def _read_context(root: Element, path: Path) -> _Context:
    compiler = root.find("compiler")
    told: Mapping[str, str] = {} if compiler is None else compiler.attrib
    angle = told.get("angle", "degree")
    if angle not in ("degree", "radian") or told.get("coordinate", "local") != "local":
        raise InputError(path, "angle takes degree or radian, and coordinate takes local.")
    if told.get("eulerseq", "xyz") != "xyz":
        raise InputError(path, f"eulerseq '{told['eulerseq'][:20]}' is not known. It takes xyz.")
    folder = PurePosixPath(told.get("meshdir", told.get("assetdir", "")))
    meshes = {}
    for mesh in root.findall("asset/mesh"):
        for key in _MESH_ORIENTATIONS:
            if key in mesh.attrib:
                raise InputError(path, f"'{key}' of a mesh is not known. Move the mesh itself.")
        file = get_attribute(mesh, "file", path)
        scale = parse_vector(mesh.get("scale", "1 1 1"), "scale of a mesh", path)
        name = mesh.get("name") or PurePosixPath(file).stem
        meshes[name] = make_mesh_part((folder / file).as_posix(), scale, path)
    colors = {
        one.get("name", ""): to_srgb(
            parse_numbers(one.get("rgba", "1 1 1 1"), 4, "rgba of a material", path)
        )
        for one in root.findall("asset/material")
    }
    unit = math.radians(1) if angle == "degree" else 1.0
    return _Context(path, unit, told.get("autolimits", "true") == "true", meshes, colors)


def _read_bodies(
    element: Element, name: str, off: Vec3, context: _Context
) -> Iterator[tuple[Element, str, Vec3]]:
    """Yield every body below one, the name of that, and where its frame is off its joint's."""
    for body in element.findall("body"):
        yield body, name, off
        joints = body.findall("joint")
        own = _read_anchor(joints[-1], context) if joints else (0.0, 0.0, 0.0)
        yield from _read_bodies(body, get_attribute(body, "name", context.path), own, context)


def _read_anchor(joint: Element, context: _Context) -> Vec3:
    return parse_vector(joint.get("pos", "0 0 0"), "pos of a joint", context.path)


def _build_hinges(
    body: Element, parent: str, off: Vec3, context: _Context
) -> Iterator[tuple[Hinge, Link]]:
    """Yield the joints of a body, each with the link that it carries; the last of them is the body."""
    name, joints = get_attribute(body, "name", context.path), body.findall("joint")
    place = Pose(position_m=vec3(np.negative(off))) @ _read_pose(body, context)
    if not joints:
        yield (
            Hinge(Joint(f"{check_joint_name(name)}_fixed", "fixed", 0, place), parent, name),
            _read_link(body, name, off=(0.0, 0.0, 0.0), context=context),
        )
        return
    before: Vec3 = (0.0, 0.0, 0.0)
    for count, element in enumerate(joints):
        anchor = _read_anchor(element, context)
        step = Pose(position_m=vec3(np.subtract(anchor, before)))
        pose = place @ step if count == 0 else step
        is_last = count == len(joints) - 1
        child = name if is_last else f"{name}/{count}"
        link = _read_link(body, name, anchor, context) if is_last else Link(child)
        yield Hinge(_read_joint(element, f"{name}_{count}", pose, context), parent, child), link
        parent, before = child, anchor


def _read_joint(element: Element, otherwise: str, pose: Pose, context: _Context) -> Joint:
    told = element.attrib
    name, kind = told.get("name", otherwise), told.get("type", "hinge")
    if kind not in _KINDS:
        raise InputError(
            context.path, f"joint '{name}' is of the type '{kind}'. {suggest_name(kind, _KINDS)}."
        )
    axis = parse_direction(told.get("axis", "0 0 1"), f"axis of the joint '{name}'", context.path)
    low, high = -math.pi, math.pi
    limited = told.get("limited", "auto")
    if "range" in told and (limited == "true" or (limited == "auto" and context.autolimits)):
        unit = context.angle if kind == "hinge" else 1.0
        ends = parse_numbers(told["range"], 2, f"range of the joint '{name}'", context.path)
        drawn_at = parse_number(told.get("ref", "0"), f"ref of the joint '{name}'", context.path)
        low, high = (unit * (end - drawn_at) for end in ends)
    elif kind == "slide":
        raise InputError(context.path, f"joint '{name}' has no range.")
    try:
        return Joint(check_joint_name(name), _KINDS[kind], 0, pose, axis, low, high)
    except SpecError as error:
        raise InputError(context.path, str(error)) from error


def _read_link(element: Element, name: str, off: Vec3, context: _Context) -> Link:
    """Return a body as a link whose frame is so far off the body's."""
    back = Pose(position_m=vec3(np.negative(off)))
    visuals, collisions, masses = [], [], []
    for geom in element.findall("geom"):
        told = geom.attrib
        if told.get("type", "sphere") == "plane":
            continue
        solid, pose = _read_shape(told, context)
        color = context.colors.get(told.get("material", "")) or to_srgb(
            parse_numbers(told.get("rgba", _GREY), 4, "rgba of a geom", context.path)
        )
        shape = Shape(solid, back @ pose, color)
        group = parse_number(told.get("group", "0"), "group of a geom", context.path)
        if group < _VISIBLE_GROUPS:
            visuals.append(shape)
        if told.get("contype", "1") != "0" or told.get("conaffinity", "1") != "0":
            collisions.append(shape)
        if "mass" in told:
            of_geom = f"the mass of a geom of '{name}'"
            masses.append(parse_mass(told["mass"], of_geom, context.path))
    weighed = element.find("inertial")
    if weighed is None:
        inertial = Inertial(sum(masses) if masses else None)
    else:
        inertial = _read_inertial(weighed, name, back, context)
    return Link(name, tuple(visuals), tuple(collisions), inertial)


def _read_inertial(element: Element, name: str, back: Pose, context: _Context) -> Inertial:
    """Return what a body says of its mass, moved back from the body's frame to its link's."""
    path, of_body = context.path, f"of the body '{name}'"
    mass = parse_mass(get_attribute(element, "mass", path), f"the mass {of_body}", path)
    pose = back @ _read_pose(element, context)
    if "fullinertia" in element.attrib:
        xx, yy, zz, xy, xz, yz = parse_numbers(
            element.attrib["fullinertia"], 6, f"fullinertia {of_body}", path
        )
        return Inertial(mass, pose, (xx, yy, zz, xy, xz, yz))
    if "diaginertia" in element.attrib:
        xx, yy, zz = parse_vector(element.attrib["diaginertia"], f"diaginertia {of_body}", path)
        return Inertial(mass, pose, (xx, yy, zz, 0.0, 0.0, 0.0))
    return Inertial(mass)


def _read_shape(
    attributes: Mapping[str, str], context: _Context
) -> tuple[Cuboid | Cylinder | Sphere | Capsule | MeshPart, Pose]:
    kind, path = attributes.get("type", "mesh" if "mesh" in attributes else "sphere"), context.path
    if kind not in _GEOMS:
        raise InputError(path, f"a geom is of the type '{kind}'. {suggest_name(kind, _GEOMS)}.")
    if kind == "mesh":
        name = attributes.get("mesh", "")
        if name not in context.meshes:
            raise InputError(
                path, f"a geom names the mesh '{name}'. {suggest_name(name, context.meshes)}."
            )
        return context.meshes[name], _read_orientation(attributes, context)
    sizes = attributes.get("size", "").split()
    count = {"box": 3, "sphere": 1}.get(kind, 1 if "fromto" in attributes else 2)
    size = parse_numbers(" ".join(sizes[:count]), count, f"size of a {kind}", path)
    pose, half = _read_orientation(attributes, context), size[-1]
    if "fromto" in attributes and kind in ("capsule", "cylinder"):
        ends = np.reshape(
            parse_numbers(attributes["fromto"], 6, f"fromto of a {kind}", path), (2, 3)
        )
        along = ends[1] - ends[0]
        half = float(np.linalg.norm(along)) / 2
        turn = Rotation.align_vectors([along], [[0, 0, 1]])[0] if half > 0 else Rotation.identity()
        pose = Pose(quaternion(turn), vec3(ends.mean(axis=0)))
    try:
        match kind:
            case "box":
                return Cuboid((2 * size[0], 2 * size[1], 2 * size[2])), pose
            case "sphere":
                return Sphere(size[0]), pose
            case "cylinder":
                return Cylinder(size[0], 2 * half), pose
            case _:
                Cylinder(size[0], 2 * half)  # whose sizes are held against the same bounds
                return Capsule(size[0], 2 * half), pose
    except SpecError as error:
        raise InputError(path, str(error)) from error


def _read_pose(element: Element, context: _Context) -> Pose:
    return _read_orientation(element.attrib, context)


def _read_orientation(attributes: Mapping[str, str], context: _Context) -> Pose:
    path = context.path
    for name in _UNSUPPORTED_ORIENTATIONS:
        if name in attributes:
            raise InputError(path, f"'{name}' is not known. {suggest_name(name, _ORIENTATIONS)}.")
    place = parse_vector(attributes.get("pos", "0 0 0"), "pos of a body or geom", path)
    turn = Rotation.identity()
    if "quat" in attributes:
        w, x, y, z = parse_numbers(attributes["quat"], 4, "quat of a body or geom", path)
        if not 1e-9 < math.hypot(w, x, y, z) < math.inf:
            raise InputError(
                path, f"quat of a body or geom is '{attributes['quat'][:60]}', which is no turn."
            )
        turn = Rotation.from_quat((x, y, z, w))
    elif "euler" in attributes:
        angles = np.multiply(
            parse_vector(attributes["euler"], "euler of a body or geom", path), context.angle
        )
        turn = Rotation.from_euler("XYZ", angles)
    elif "axisangle" in attributes:
        *axis, angle = parse_numbers(
            attributes["axisangle"], 4, "axisangle of a body or geom", path
        )
        text = " ".join(map(str, axis))
        towards = parse_direction(text, "axisangle of a body or geom", path)
        turn = Rotation.from_rotvec(np.multiply(towards, angle * context.angle))
    return Pose(quaternion(turn), place)
