"""What is known of a file's object besides its shape: its size, how heavy and how smooth it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.scene.articulation import Articulation
from sim2cam.scene.shape import LengthUnit, MeshFile
from sim2cam.scene.symmetry import Symmetries

ASSUMED = "assumed"

_UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True)
class PropertyRange:
    """Between which numbers a physical property lies.

    Attributes:
        low, high: the numbers, 0 or more.
        source: who measured it, or ``assumed``.
    """

    low: float
    high: float
    source: str = ASSUMED

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high < math.inf:
            raise SpecError(
                f"an interval needs finite numbers with 0 <= low <= high, not {self.low} to {self.high}"
            )

    def interpolate(self, fraction: float) -> float:
        """Return the number so far on the way from low (0) to high (1)."""
        return self.low + fraction * (self.high - self.low)


@dataclass(frozen=True)
class AssetMetadata:
    """What people write about an object, in the TOML file beside its mesh; all of it may be left out.

    Attributes:
        category: what it is labelled as; otherwise the name of its folder, or of its file.
        unit: of the file's numbers; otherwise guessed from its size.
        licence: of the file, as SPDX names it.
        mass_kg, friction, restitution: as they were measured; otherwise assumed.
        center_of_mass: where it balances, in the file's own frame and unit; otherwise as its shape says.
        keypoints: named points, in the file's own frame and unit.
        symmetries: turns about the origin of the file's frame after which it looks the same.
    """

    category: str | None = None
    unit: LengthUnit | None = None
    licence: str = ""
    mass_kg: PropertyRange | None = None
    friction: PropertyRange | None = None
    restitution: PropertyRange | None = None
    center_of_mass: Vec3 | None = None
    keypoints: Mapping[str, Vec3] = field(default_factory=dict)
    symmetries: Symmetries = field(default_factory=Symmetries)

    def __post_init__(self) -> None:
        if self.category == "":
            raise SpecError("a category needs a name")
        for name, point in self.keypoints.items():
            if not all(map(math.isfinite, point)):
                raise SpecError(f"keypoint {name} lies at {point}")
        for vector in (*self.symmetries.axes, *self.symmetries.rotations_wxyz):
            if not abs(math.hypot(*vector) - 1) < _UNIT_TOLERANCE:
                raise SpecError(f"a symmetry's axis or rotation {vector} has not the length 1")
        if self.center_of_mass is not None and not all(map(math.isfinite, self.center_of_mass)):
            raise SpecError(f"center_of_mass lies at {self.center_of_mass}")
        if self.mass_kg is not None and self.mass_kg.low <= 0:
            raise SpecError(f"mass_kg has to be above 0, not {self.mass_kg.low}")
        for name, most in (("friction", 2.0), ("restitution", 1.0)):
            interval = getattr(self, name)
            if interval is not None and interval.high > most:
                raise SpecError(f"{name} can be at most {most:g}, not {interval.high:g}")


@dataclass(frozen=True)
class AssetInfo:
    """An object from a file, as scenes throw it.

    Attributes:
        name: of its file, within the folder of assets.
        mesh: where it is, what it holds, its category and its keypoints.
        low_m, high_m: opposite corners of its box, in its own frame.
        center_m: of its mass, spread as its shape or its file says.
        radius_m: from there to its farthest point.
        n_faces: triangles.
        is_watertight: whether it is the skin of a solid.
        n_convex_parts: convex solids as which it collides; 1 is its hull.
        mass_kg, friction, restitution: between which they are drawn.
        symmetries: turns after which it looks the same.
        licence: of the file; empty when nobody said.
        articulation: its links and joints; None of a file without.
        mass_offset_m: from ``center_m`` to where it was found to balance; None when nobody said.
    """

    name: str
    mesh: MeshFile
    low_m: Vec3
    high_m: Vec3
    center_m: Vec3
    radius_m: float
    n_faces: int
    is_watertight: bool
    n_convex_parts: int
    mass_kg: PropertyRange
    friction: PropertyRange
    restitution: PropertyRange
    symmetries: Symmetries = field(default_factory=Symmetries)
    licence: str = ""
    articulation: Articulation | None = None
    mass_offset_m: Vec3 | None = None

    @property
    def size_m(self) -> Vec3:
        """Sides of its box."""
        (a, b, c), (d, e, f) = self.low_m, self.high_m
        return d - a, e - b, f - c

    def compute_link_spheres(self) -> tuple[tuple[Vec3, float], ...]:
        """Return a ball around each link that is seen, in its own frame; none without links."""
        found = (
            self.articulation.compute_link_corners(self.mesh.joints) if self.articulation else ()
        )
        middles = [corners.mean(axis=0) for corners in found]
        return tuple(
            (vec3(middle), float(np.linalg.norm(corners - middle, axis=1).max()))
            for corners, middle in zip(found, middles, strict=True)
        )

    def pose_joints(self, fractions: Mapping[str, float]) -> AssetInfo:
        """Return it with its joints so far on their ways, 0 to 1 each; the origins of joints that
        move become keypoints, and box and radius are those around the boxes of its links.
        """
        if self.articulation is None or not self.articulation.free_joints:
            return self
        states = self.articulation.interpolate_states(fractions)
        own = [
            pair
            for pair in self.mesh.keypoints
            if pair[0] not in self.articulation.compute_joint_origins(())
        ]
        points = (*own, *self.articulation.compute_joint_origins(states).items())
        corners = np.vstack(self.articulation.compute_link_corners(states))
        low, high = corners.min(axis=0), corners.max(axis=0)
        center = (low + high) / 2
        return replace(
            self,
            mesh=replace(self.mesh, joints=states, keypoints=points),
            low_m=vec3(low),
            high_m=vec3(high),
            center_m=vec3(center),
            radius_m=float(np.linalg.norm(corners - center, axis=1).max()),
        )
