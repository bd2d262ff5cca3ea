"""Models: links with their shapes, and the joints between them, as files of robots have them.

What the formats have in common; each has a module of its own that reads it (``urdf``, ``sdf``,
``mjcf``). Metres; poses of shapes in the frames of their links.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from sim2cam.assets.mesh_files.reader import MESH_SUFFIXES
from sim2cam.errors import InputError
from sim2cam.geometry.inertia import Floats, tensor_to_pseudo_inertia
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.scene.articulation import Joint, JointKind
from sim2cam.scene.shape import Cuboid, Cylinder, Sphere

T = TypeVar("T")
Rgb = tuple[int, int, int]
Moments = tuple[float, float, float, float, float, float]

MAX_LINKS = 256
MAX_SHAPES = 1024

SHAPES = ("box", "cylinder", "sphere", "mesh")
"""What links of URDF and SDF are made of."""
TENSOR = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
"""What URDF and SDF call the moments and products of inertia."""
JOINT_KINDS: dict[str, JointKind] = {
    "fixed": "fixed",
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
}
"""How joints move, by what URDF and SDF call them."""


@dataclass(frozen=True)
class Capsule:
    """A cylinder along z with half balls at its ends; its height is that between their middles."""

    radius_m: float
    height_m: float


@dataclass(frozen=True)
class MeshPart:
    """A mesh file by the name that a model has for it, scaled along each axis."""

    name: str
    scale: Vec3 = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Shape:
    """A piece of a link.

    Attributes:
        solid: what it is.
        pose: where it is, in the link's frame.
        color: sRGB; None when the file says none.
    """

    solid: Cuboid | Cylinder | Sphere | Capsule | MeshPart
    pose: Pose = field(default_factory=Pose)
    color: Rgb | None = None


@dataclass(frozen=True)
class Inertial:
    """What a file says of the mass of a link; it need not be true.

    Attributes:
        mass_kg: None when it says none.
        pose: the frame of its moments, with the centre of the mass for its origin, in the link's.
        moments_kg_m2: xx, yy, zz, xy, xz and yz of its tensor of inertia; None when it says none.
    """

    mass_kg: float | None = None
    pose: Pose = field(default_factory=Pose)
    moments_kg_m2: Moments | None = None

    def compute_inertia(self) -> Floats | None:
        """Return how the mass is spread (4, 4), in the link's frame; None when the file does not say."""
        if not self.mass_kg or self.moments_kg_m2 is None:
            return None
        xx, yy, zz, xy, xz, yz = self.moments_kg_m2
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        with np.errstate(all="ignore"):  # whoever wrote the file may have put anything there
            return tensor_to_pseudo_inertia(self.mass_kg, tensor, self.pose)


@dataclass(frozen=True)
class Link:
    """A rigid part of a model.

    Attributes:
        name: unique in it.
        visuals: what is seen of it.
        collisions: as what it collides; as what is seen of it when there are none.
        inertial: its mass.
    """

    name: str
    visuals: tuple[Shape, ...] = ()
    collisions: tuple[Shape, ...] = ()
    inertial: Inertial = field(default_factory=Inertial)


@dataclass(frozen=True)
class Model:
    """Links, each after the one that it hangs on; joint *i* carries link *i* + 1."""

    links: tuple[Link, ...]
    joints: tuple[Joint, ...]


@dataclass(frozen=True)
class Hinge:
    """A joint before the links have numbers: between which two it is, by their names."""

    joint: Joint
    parent: str
    child: str


def make_mesh_part(name: str, scale: Vec3, path: Path) -> MeshPart:
    """Return the mesh file that a model names.

    Raises:
        InputError: it is of a kind that cannot be read, or its scale is none.
    """
    if not name.strip().lower().endswith(MESH_SUFFIXES):
        raise InputError(
            path,
            f"the mesh '{name[:80]}' is of no kind that can be read ({', '.join(MESH_SUFFIXES)}).",
        )
    if not all(0 < abs(factor) < math.inf for factor in scale):
        raise InputError(path, f"the mesh '{name[:80]}' has the scale {scale}.")
    return MeshPart(name.strip(), scale)


def check_joint_name(name: str) -> str:
    """Return the name of a joint as recipes can write it, with ``_`` for what a path may not hold."""
    return re.sub(r"[^\w:-]", "_", name)


def to_srgb(shares: Sequence[float]) -> Rgb:
    """Return a colour of shares, red, green and blue first, as bytes."""
    red, green, blue = (round(255 * min(max(share, 0.0), 1.0)) for share in shares[:3])
    return red, green, blue


@dataclass(frozen=True)
class PlacedLink:
    """A link, and where it is in the model."""

    link: Link
    pose: Pose


def build_model(links: Sequence[Link], hinges: Sequence[Hinge], path: Path) -> Model:
    """Return the model of these links and joints.

    Raises:
        InputError: they are no tree, or too many, or a name is not there or twice.
    """
    _check_counts(links, path)
    by_name = _index_by_name(((link.name, link) for link in links), "link", path)
    _index_by_name(((hinge.joint.name, hinge) for hinge in hinges), "joint", path)
    for hinge in hinges:
        for end in (hinge.parent, hinge.child):
            if end not in by_name:
                raise InputError(
                    path, f"joint '{hinge.joint.name}' names the link '{end}', which it lacks."
                )
    carried = _index_by_name(
        ((hinge.child, hinge) for hinge in hinges), "link carried by a joint", path
    )
    roots = [name for name in by_name if name not in carried]
    if len(roots) != 1:
        found = ", ".join(f"'{root}'" for root in roots[:3]) or "none"
        raise InputError(
            path, f"needs one link that hangs on no other, and has {len(roots)} ({found})."
        )
    order = _order_from_root(roots[0], hinges)
    if len(order) < len(by_name):
        lost = next(name for name in by_name if name not in order)
        raise InputError(path, f"link '{lost}' hangs on itself.")
    joints = (
        replace(carried[name].joint, parent=order.index(carried[name].parent)) for name in order[1:]
    )
    model = Model(tuple(by_name[name] for name in order), tuple(joints))
    _check_mimics(model, path)
    return model


def _check_counts(links: Sequence[Link], path: Path) -> None:
    shapes = sum(len(link.visuals) + len(link.collisions) for link in links)
    for count, most, what in ((len(links), MAX_LINKS, "links"), (shapes, MAX_SHAPES, "shapes")):
        if count > most:
            raise InputError(path, f"has {count} {what}, more than {most}.")
    if not any(link.visuals for link in links):
        raise InputError(path, "has no link of which anything is seen.")


def _index_by_name(entries: Iterable[tuple[str, T]], what: str, path: Path) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, entry in entries:
        if name in found:
            raise InputError(path, f"has the {what} '{name}' twice.")
        found[name] = entry
    return found


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
                f"joint '{joint.name}' follows '{joint.mimic.joint}', which is no joint that moves by "
                "itself.",
            )


def attach_links(
    links: Mapping[str, PlacedLink], hinges: Sequence[Hinge]
) -> tuple[list[Link], list[Hinge]]:
    """Return links and joints with the frame of each link where its joint is, as trees have them.

    Args:
        links: where they are in the model with all joints at 0.
        hinges: their joints, posed in the frames of the links that they carry.
    """
    frames = {name: Pose() for name in links}  # a root's is the model's
    frames |= {
        hinge.child: links[hinge.child].pose @ hinge.joint.pose
        for hinge in hinges
        if hinge.child in links
    }
    moved = [_move_link(placed, frames[name].inverse()) for name, placed in links.items()]
    hung = [
        replace(
            hinge,
            joint=replace(hinge.joint, pose=frames[hinge.parent].inverse() @ frames[hinge.child]),
        )
        for hinge in hinges
        if hinge.parent in links and hinge.child in links
    ]
    lost = [hinge for hinge in hinges if hinge.parent not in links or hinge.child not in links]
    return moved, [*hung, *lost]


def _move_link(placed: PlacedLink, to_frame: Pose) -> Link:
    def shapes(found: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return tuple(replace(one, pose=to_frame @ placed.pose @ one.pose) for one in found)

    link = placed.link
    inertial = replace(link.inertial, pose=to_frame @ placed.pose @ link.inertial.pose)
    return replace(
        link,
        visuals=shapes(link.visuals),
        collisions=shapes(link.collisions),
        inertial=inertial,
    )
