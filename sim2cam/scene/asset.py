"""Shapes as specs; render turns them into meshes. Metres, in the object's own frame."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3
from sim2cam.scene.material import Color

PipShape = Literal["round", "ring", "square"]
LengthUnit = Literal["m", "cm", "mm", "in"]
METRES: dict[LengthUnit, float] = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254}
"""How long each unit is."""

DIE_FACES: dict[str, tuple[float, float, float]] = {
    "1": (0.0, 0.0, 1.0),
    "2": (0.0, 1.0, 0.0),
    "3": (1.0, 0.0, 0.0),
    "4": (-1.0, 0.0, 0.0),
    "5": (0.0, -1.0, 0.0),
    "6": (0.0, 0.0, -1.0),
}
"""Outward normal of each face in the frame of a die that is not mirrored; opposites sum to seven."""


@dataclass(frozen=True)
class Pips:
    """The marks of a die.

    Attributes:
        shape: outline.
        radius: over the die's edge.
        spread: distance of the outer marks from the centre of the face, over the die's edge.
        depth: how deep they are cut, over the die's edge.
        color: linear RGB.
    """

    shape: PipShape
    radius: float
    spread: float
    depth: float
    color: Color


@dataclass(frozen=True)
class Die:
    """A six-sided die; its category is the face that lies up.

    Attributes:
        edge_m: side length.
        rounding: radius of edges, over the side length.
        corner_cut: how much of the corners a concentric sphere takes away, 0 none, 1 down to the
            middle of the edges.
        mirrored: the other chirality (faces 3 and 4 exchanged).
    """

    edge_m: float
    rounding: float
    corner_cut: float
    pips: Pips
    mirrored: bool
    kind: Literal["die"] = "die"

    def __post_init__(self) -> None:
        _check_sizes(self, "edge_m")

    def face_normals(self) -> dict[str, tuple[float, float, float]]:
        """Returns the outward normal of each face, by its value, in the die's frame."""
        if not self.mirrored:
            return DIE_FACES
        return DIE_FACES | {"3": DIE_FACES["4"], "4": DIE_FACES["3"]}


@dataclass(frozen=True)
class Box:
    """A cuboid with sides along the axes, centred on the origin."""

    size_m: tuple[float, float, float]
    kind: Literal["box"] = "box"

    def __post_init__(self) -> None:
        _check_sizes(self, "size_m")


@dataclass(frozen=True)
class Cylinder:
    """A cylinder along z, centred on the origin."""

    radius_m: float
    height_m: float
    kind: Literal["cylinder"] = "cylinder"

    def __post_init__(self) -> None:
        _check_sizes(self, "radius_m", "height_m")


@dataclass(frozen=True)
class Sphere:
    """A ball around the origin."""

    radius_m: float
    kind: Literal["sphere"] = "sphere"

    def __post_init__(self) -> None:
        _check_sizes(self, "radius_m")


@dataclass(frozen=True)
class Ground:
    """An endless table: the plane z = 0, drawn as a square of this side."""

    side_m: float
    kind: Literal["ground"] = "ground"

    def __post_init__(self) -> None:
        _check_sizes(self, "side_m")


@dataclass(frozen=True)
class MeshFile:
    """A shape from a file, in the file's own frame: OBJ with its MTL, PLY, STL, GLB or glTF.

    It collides as its convex hull; a concave one that was brought in (``render.asset_import``) as a few
    convex parts. Its colour is the file's texture or that of its vertices, of the
    body's material where the file has neither; how it shines is the material's always.

    Attributes:
        path: of the file.
        category: what it is labelled as.
        unit_m: metres that one unit of the file stands for.
        max_faces: a file with more triangles is refused.
        keypoints: named points of it, metres.
        digest: of what the file holds, as it was brought in; what is there may then be taken from
            the cache, and has to be just that.
    """

    path: str
    category: str
    unit_m: float = 1.0
    max_faces: int = 200_000
    keypoints: tuple[tuple[str, Vec3], ...] = ()
    digest: str = ""
    kind: Literal["mesh"] = "mesh"

    def __post_init__(self) -> None:
        _check_sizes(self, "unit_m", "max_faces")
        if not re.fullmatch(r"([0-9a-f]{64})?", self.digest):
            raise SpecError(f"'{self.digest[:80]}' is no SHA-256.")


Asset = Annotated[Die | Box | Cylinder | Sphere | Ground | MeshFile, Field(discriminator="kind")]


def _check_sizes(asset: object, *names: str) -> None:
    """Refuses sizes that are not finite and above 0."""
    for name in names:
        value = getattr(asset, name)
        sizes = value if isinstance(value, tuple) else (value,)
        if not all(0 < size < math.inf for size in sizes):
            raise SpecError(
                f"{name} of a {type(asset).__name__.lower()} is {value}. It takes finite sizes above 0."
            )
