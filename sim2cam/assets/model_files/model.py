"""Articulated models: links with shapes, and the joints between them.

Common representation of URDF, SDF and MJCF. Lengths are in metres; shapes are posed in link frames.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from xml.etree.ElementTree import Element

import numpy as np

from sim2cam.assets.mesh_files.reader import MESH_SUFFIXES
from sim2cam.assets.model_files.xml_file import convert_spec_errors, parse_number, parse_vector
from sim2cam.errors import InputError, suggest_name
from sim2cam.geometry.inertia import Floats, tensor_to_pseudo_inertia
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.objects.primitives import Cuboid, Cylinder, Sphere
from sim2cam.scene.articulation import Joint, JointKind, Mimic

T = TypeVar("T")
Rgb = tuple[int, int, int]
Moments = tuple[float, float, float, float, float, float]

_SHAPES = ("box", "cylinder", "mesh", "sphere")
MAX_LINKS = 256
MAX_SHAPES = 1024

TENSOR = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
"""Names of the moments and products of inertia in URDF and SDF."""
JOINT_KINDS: dict[str, JointKind] = {
    "fixed": "fixed",
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
}
"""Joint kinds by their names in URDF and SDF."""


@dataclass(frozen=True)
class Capsule:
    """Cylinder along z with hemispherical ends; the height excludes the hemispheres."""

    radius_m: float
    height_m: float


@dataclass(frozen=True)
class MeshPart:
    """Reference to a mesh file, with a scale for each axis."""

    name: str
    scale: Vec3 = (1.0, 1.0, 1.0)


Solid = Cuboid | Cylinder | Sphere | Capsule | MeshPart


@dataclass(frozen=True)
class Shape:
    """Visual or collision shape of a link.

    Attributes:
        solid: Primitive or mesh.
        pose: Pose in the link frame.
        color: sRGB; None if the file gives none.
    """

    solid: Solid
    pose: Pose = field(default_factory=Pose)
    color: Rgb | None = None


@dataclass(frozen=True)
class Inertial:
    """Unchecked inertial properties of a link.

    Attributes:
        mass_kg: None if the file gives none.
        pose: Inertial frame in the link frame; its origin is the centre of mass.
        moments_kg_m2: xx, yy, zz, xy, xz and yz of the inertia tensor; None if the file gives none.
    """

    mass_kg: float | None = None
    pose: Pose = field(default_factory=Pose)
    moments_kg_m2: Moments | None = None

    def compute_inertia(self) -> Floats | None:
        """Return the pseudo-inertia matrix (4, 4) in the link frame; None if the file gives none."""
        if not self.mass_kg or self.moments_kg_m2 is None:
            return None
        xx, yy, zz, xy, xz, yz = self.moments_kg_m2
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        with np.errstate(all="ignore"):  # the values are unchecked
            return tensor_to_pseudo_inertia(self.mass_kg, tensor, self.pose)


@dataclass(frozen=True)
class Link:
    """Rigid part of a model.

    Attributes:
        name: Unique name in the model.
        visuals: Visual shapes.
        collisions: Collision shapes; if empty, the visual shapes are used.
        inertial: Inertial properties.
    """

    name: str
    visuals: tuple[Shape, ...] = ()
    collisions: tuple[Shape, ...] = ()
    inertial: Inertial = field(default_factory=Inertial)


@dataclass(frozen=True)
class Model:
    """Links in tree order, parents first; joint *i* carries link *i* + 1."""

    links: tuple[Link, ...]
    joints: tuple[Joint, ...]


@dataclass(frozen=True)
class Hinge:
    """Joint with the names of its parent and child links, before links are numbered."""

    joint: Joint
    parent: str
    child: str


def make_mesh_part(name: str, scale: Vec3, path: Path) -> MeshPart:
    """Return a reference to a mesh file.

    Raises:
        InputError: The format is not supported, or the scale is invalid.
    """
    if not name.strip().lower().endswith(MESH_SUFFIXES):
        raise InputError(
            path, f"mesh '{name[:80]}' is not in a supported format ({', '.join(MESH_SUFFIXES)})."
        )
    if not all(0 < abs(factor) < math.inf for factor in scale):
        raise InputError(path, f"mesh '{name[:80]}' has the invalid scale {scale}.")
    return MeshPart(name.strip(), scale)


def read_solid(
    element: Element, get_text: Callable[[str], str], mesh_key: str, scale: str, path: Path
) -> Solid:
    """Read a shape of URDF or SDF.

    Args:
        element: Element of the shape.
        get_text: Function from the name of a parameter to its text.
        mesh_key: Name of the parameter with the mesh file.
        scale: Text of the scale of a mesh.
        path: Path of the file, for errors.

    Raises:
        InputError: The shape is not supported, or a parameter is invalid.
    """
    tag = element.tag

    def length(name: str) -> float:
        return parse_number(get_text(name), f"{name} of a {tag}", path)

    with convert_spec_errors(path):
        match tag:
            case "box":
                return Cuboid(parse_vector(get_text("size"), "size of a box", path))
            case "cylinder":
                return Cylinder(length("radius"), length("length"))
            case "sphere":
                return Sphere(length("radius"))
            case "mesh":
                factors = parse_vector(scale, "scale of a mesh", path)
                return make_mesh_part(get_text(mesh_key), factors, path)
    raise InputError(path, f"the shape '{tag}' is not supported. {suggest_name(tag, _SHAPES)}.")


def check_joint_type(name: str, kind: str, allowed: Iterable[str], path: Path) -> None:
    """Raise InputError if a reader does not support the type of a joint."""
    if kind not in allowed:
        raise InputError(
            path,
            f"joint '{name}' has the unsupported type '{kind}'. {suggest_name(kind, allowed)}.",
        )


def make_joint(
    name: str,
    kind: JointKind,
    pose: Pose,
    axis: Vec3,
    limits: tuple[float, float],
    path: Path,
    mimic: Mimic | None = None,
) -> Joint:
    """Return a joint whose parent is set later; ``limits`` are in radians or metres.

    Raises:
        InputError: The limits are invalid.
    """
    with convert_spec_errors(path):
        return Joint(sanitize_joint_name(name), kind, 0, pose, axis, *limits, mimic)


def sanitize_joint_name(name: str) -> str:
    """Replace characters that recipe keys do not allow in a joint's name by ``_``."""
    return re.sub(r"[^\w:-]", "_", name)


def to_srgb(shares: Sequence[float]) -> Rgb:
    """Convert red, green and blue in 0 to 1 to bytes; ignore further channels."""
    red, green, blue = (round(255 * min(max(share, 0.0), 1.0)) for share in shares[:3])
    return red, green, blue


def build_model(links: Sequence[Link], hinges: Sequence[Hinge], path: Path) -> Model:
    """Build a model from links and joints.

    Raises:
        InputError: The links form no tree or are too many, or a name is missing or duplicate.
    """
    _check_counts(links, path)
    by_name = _index_by_name(((link.name, link) for link in links), "link", path)
    _index_by_name(((hinge.joint.name, hinge) for hinge in hinges), "joint", path)
    for hinge in hinges:
        for end in (hinge.parent, hinge.child):
            if end not in by_name:
                raise InputError(
                    path, f"joint '{hinge.joint.name}' refers to the missing link '{end}'."
                )
    hinge_by_child = _index_by_name(
        ((hinge.child, hinge) for hinge in hinges), "link carried by a joint", path
    )
    roots = [name for name in by_name if name not in hinge_by_child]
    if len(roots) != 1:
        root_names = ", ".join(f"'{root}'" for root in roots[:3]) or "none"
        raise InputError(path, f"must have exactly one root link, not {len(roots)} ({root_names}).")
    order = _order_from_root(roots[0], hinges)
    if len(order) < len(by_name):
        missing = next(name for name in by_name if name not in order)
        raise InputError(path, f"link '{missing}' is part of a cycle.")
    joints = (
        replace(hinge_by_child[name].joint, parent=order.index(hinge_by_child[name].parent))
        for name in order[1:]
    )
    model = Model(tuple(by_name[name] for name in order), tuple(joints))
    _check_mimics(model, path)
    return model


def _check_counts(links: Sequence[Link], path: Path) -> None:
    shapes = sum(len(link.visuals) + len(link.collisions) for link in links)
    for count, max_count, kind in (
        (len(links), MAX_LINKS, "links"),
        (shapes, MAX_SHAPES, "shapes"),
    ):
        if count > max_count:
            raise InputError(path, f"has {count} {kind}; at most {max_count} are allowed.")
    if not any(link.visuals for link in links):
        raise InputError(path, "has no visual shapes.")


def _index_by_name(entries: Iterable[tuple[str, T]], kind: str, path: Path) -> dict[str, T]:
    entry_by_name: dict[str, T] = {}
    for name, entry in entries:
        if name in entry_by_name:
            raise InputError(path, f"has a duplicate {kind} '{name}'.")
        entry_by_name[name] = entry
    return entry_by_name


def _order_from_root(root: str, hinges: Sequence[Hinge]) -> list[str]:
    order = [root]
    for name in order:
        order += [hinge.child for hinge in hinges if hinge.parent == name]
    return order


def _check_mimics(model: Model, path: Path) -> None:
    free = {joint.name for joint in model.joints if joint.is_free}
    for joint in model.joints:
        if joint.mimic and joint.mimic.joint not in free:
            raise InputError(
                path,
                f"joint '{joint.name}' mimics '{joint.mimic.joint}', which is not a free joint.",
            )


def attach_links(
    links: Mapping[str, tuple[Link, Pose]], hinges: Sequence[Hinge]
) -> tuple[list[Link], list[Hinge]]:
    """Move the frame of each link to its joint, and pose each joint in its parent's frame.

    Args:
        links: Links by name, posed in the model with all joints at 0.
        hinges: Joints, posed in the frames of their child links.

    Returns:
        Links with shapes in the new frames, and joints; joints with missing links are unchanged.
    """
    frames = {name: Pose() for name in links}  # a root keeps the model's frame
    frames |= {
        hinge.child: links[hinge.child][1] @ hinge.joint.pose
        for hinge in hinges
        if hinge.child in links
    }
    moved_links = [
        _move_link(link, frames[name].inverse() @ pose) for name, (link, pose) in links.items()
    ]
    attached = [
        replace(
            hinge,
            joint=replace(hinge.joint, pose=frames[hinge.parent].inverse() @ frames[hinge.child]),
        )
        for hinge in hinges
        if hinge.parent in links and hinge.child in links
    ]
    dangling = [hinge for hinge in hinges if hinge.parent not in links or hinge.child not in links]
    return moved_links, [*attached, *dangling]


def _move_link(link: Link, to_frame: Pose) -> Link:
    def move_shapes(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return tuple(replace(s, pose=to_frame @ s.pose) for s in shapes)

    inertial = replace(link.inertial, pose=to_frame @ link.inertial.pose)
    return replace(
        link,
        visuals=move_shapes(link.visuals),
        collisions=move_shapes(link.collisions),
        inertial=inertial,
    )
