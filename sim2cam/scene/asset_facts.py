"""Metadata of assets from files: size, physical properties, symmetries and licence."""

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
    """Range of a physical property.

    Attributes:
        low, high: Limits, 0 or more.
        source: Reference of the measurement, or ``assumed``.
    """

    low: float
    high: float
    source: str = ASSUMED

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high < math.inf:
            raise SpecError(
                f"a property range must be finite with 0 <= low <= high, not {self.low} to {self.high}"
            )

    def interpolate(self, fraction: float) -> float:
        """Return the value at a fraction between low (0) and high (1)."""
        return self.low + fraction * (self.high - self.low)


@dataclass(frozen=True)
class AssetMetadata:
    """Metadata from the optional TOML file next to a mesh; all entries are optional.

    Attributes:
        category: Category; by default the name of the folder or file.
        unit: Length unit of the file; by default guessed from its size.
        longest_side_m: Longest side of the box, instead of a unit.
        licence: SPDX identifier of the file's licence.
        credit: Author and source of the file.
        mass_kg, friction, restitution: Measured ranges; assumed by default.
        center_of_mass: Centre of mass in the file's frame and unit; by default that of the shape.
        keypoints: Named points in the file's frame and unit.
        symmetries: Rotations about the file's origin that leave the appearance unchanged.
    """

    category: str | None = None
    unit: LengthUnit | None = None
    longest_side_m: float | None = None
    licence: str = ""
    credit: str | None = None
    mass_kg: PropertyRange | None = None
    friction: PropertyRange | None = None
    restitution: PropertyRange | None = None
    center_of_mass: Vec3 | None = None
    keypoints: Mapping[str, Vec3] = field(default_factory=dict)
    symmetries: Symmetries = field(default_factory=Symmetries)

    def __post_init__(self) -> None:
        if self.category == "":
            raise SpecError("category is empty. Give it a name")
        for name, point in self.keypoints.items():
            if not all(map(math.isfinite, point)):
                raise SpecError(f"keypoint {name} is at {point}. It must be finite")
        for vector in (*self.symmetries.axes, *self.symmetries.rotations_wxyz):
            if not abs(math.hypot(*vector) - 1) < _UNIT_TOLERANCE:
                raise SpecError(f"the symmetry axis or rotation {vector} must have length 1")
        if self.center_of_mass is not None and not all(map(math.isfinite, self.center_of_mass)):
            raise SpecError(f"center_of_mass is {self.center_of_mass}. It must be finite")
        self._check_ranges()

    def _check_ranges(self) -> None:
        if self.longest_side_m is not None and not 0 < self.longest_side_m < math.inf:
            raise SpecError(f"longest_side_m must be above 0, not {self.longest_side_m}")
        if self.mass_kg is not None and self.mass_kg.low <= 0:
            raise SpecError(f"mass_kg must be above 0, not {self.mass_kg.low}")
        for name, maximum in (("friction", 2.0), ("restitution", 1.0)):
            property_range = getattr(self, name)
            if property_range is not None and property_range.high > maximum:
                raise SpecError(f"{name} must be at most {maximum:g}, not {property_range.high:g}")


@dataclass(frozen=True)
class AssetInfo:
    """An object from a file, prepared for scenes.

    Attributes:
        name: File name within the asset folder.
        mesh: File, category and keypoints.
        low_m, high_m: Corners of the box in the object frame.
        center_m: Centre of mass by shape or file.
        radius_m: Distance from the centre to the farthest point.
        n_faces: Number of triangles.
        is_watertight: Whether the surface is closed.
        n_convex_parts: Number of convex collision parts; 1 is the convex hull.
        mass_kg, friction, restitution: Ranges from which values are sampled.
        symmetries: Rotations that leave the appearance unchanged.
        licence: Licence of the file; empty if unknown.
        articulation: Links and joints; None without them.
        mass_offset_m: Offset from ``center_m`` to the measured centre of mass; None if not measured.
        credit: Author and source of the file; None if unknown.
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
    credit: str | None = None

    @property
    def size_m(self) -> Vec3:
        """Sides of the box."""
        (a, b, c), (d, e, f) = self.low_m, self.high_m
        return d - a, e - b, f - c

    def fit_size(self, range_m: tuple[float, float]) -> AssetInfo:
        """Return the object with its longest side scaled into a range; unchanged if it is inside or has joints."""
        longest = max(self.size_m)
        factor = min(max(longest, range_m[0]), range_m[1]) / longest
        if factor == 1 or self.articulation is not None:
            return self
        keypoints = tuple((name, _scale(factor, point)) for name, point in self.mesh.keypoints)
        return replace(
            self,
            mesh=replace(self.mesh, unit_m=factor * self.mesh.unit_m, keypoints=keypoints),
            low_m=_scale(factor, self.low_m),
            high_m=_scale(factor, self.high_m),
            center_m=_scale(factor, self.center_m),
            radius_m=factor * self.radius_m,
            mass_kg=replace(
                self.mass_kg, low=factor**3 * self.mass_kg.low, high=factor**3 * self.mass_kg.high
            ),
            mass_offset_m=None
            if self.mass_offset_m is None
            else _scale(factor, self.mass_offset_m),
        )

    def compute_link_spheres(self) -> tuple[tuple[Vec3, float], ...]:
        """Return centre and radius of a bounding sphere of each link with geometry, in the object frame."""
        link_corners = (
            self.articulation.compute_link_corners(self.mesh.joints) if self.articulation else ()
        )
        centers = [corners.mean(axis=0) for corners in link_corners]
        return tuple(
            (vec3(center), float(np.linalg.norm(corners - center, axis=1).max()))
            for corners, center in zip(link_corners, centers, strict=True)
        )

    def pose_joints(self, fractions: Mapping[str, float]) -> AssetInfo:
        """Return the object with its joints at fractions (0 to 1) between their limits.

        The origins of moving joints become keypoints. Box and radius bound the boxes of the links.
        """
        if self.articulation is None or not self.articulation.free_joints:
            return self
        states = self.articulation.interpolate_states(fractions)
        mesh_keypoints = [
            keypoint
            for keypoint in self.mesh.keypoints
            if keypoint[0] not in self.articulation.compute_joint_origins(())
        ]
        keypoints = (*mesh_keypoints, *self.articulation.compute_joint_origins(states).items())
        corners = np.vstack(self.articulation.compute_link_corners(states))
        low, high = corners.min(axis=0), corners.max(axis=0)
        center = (low + high) / 2
        return replace(
            self,
            mesh=replace(self.mesh, joints=states, keypoints=keypoints),
            low_m=vec3(low),
            high_m=vec3(high),
            center_m=vec3(center),
            radius_m=float(np.linalg.norm(corners - center, axis=1).max()),
        )


def _scale(factor: float, vector: Vec3) -> Vec3:
    return vec3(np.multiply(vector, factor))
