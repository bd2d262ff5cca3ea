"""Solids: shapes with a mesh, a collider and textures, for physics, rendering and labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose, Vec3, vec3
from sim2cam.scene.material import Texture
from sim2cam.scene.shape import Shape
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.mesh import Mesh

Floats = NDArray[np.float64]
TextureMaps = tuple[NDArray[np.uint8], NDArray[np.uint8] | None]
"""Colours (sRGB) and tangent-space normals, uint8 (h, w, 3), row 0 at v = 0."""
TexelLayout = tuple[tuple[float, float], Floats]
"""Width and height of a texel in metres, and the distance (h, w) to the nearest edge of the body."""

ORIGIN: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class ConvexPart:
    """A convex part of a collider, centred on the origin of its own frame.

    Attributes:
        geometry: A box, a cylinder or capsule along z, or a sphere.
        size_m: Sides of a box; (d, d, height) of a cylinder or capsule of diameter d, where the height of a capsule
            excludes its round ends; (d, d, d) of a sphere.
        pose: Frame of the part in the frame of the object.
    """

    geometry: Literal["box", "cylinder", "capsule", "sphere"]
    size_m: Vec3
    pose: Pose = field(default_factory=Pose)

    @property
    def thickness_m(self) -> float:
        """Smallest extent."""
        return self.size_m[0] if self.geometry == "capsule" else min(self.size_m)


class Solid(Shape, ABC):
    """A shape with a mesh, a collider and textures.

    The defaults are those of an object that collides like a box and has a planar texture. A solid with a texture
    atlas, which contains each of its sides once, sets ``has_atlas`` and overrides ``render_maps``; if no two sides
    share texels, it also overrides ``compute_texels`` and ``make_panels`` and sets ``side_count``.

    Attributes:
        is_closed: Whether the mesh encloses a volume, so that back faces are never visible.
        is_compound: Whether the collider consists of several parts.
        rolling_friction_m: Rolling friction; on flat faces it makes bodies jitter.
        has_atlas: Whether the mesh's uvs refer to a texture atlas.
    """

    is_closed: ClassVar[bool] = True
    is_compound: ClassVar[bool] = False
    rolling_friction_m: ClassVar[float] = 0.0
    has_atlas: ClassVar[bool] = False

    if TYPE_CHECKING:  # a field of most subclasses, a property of the others

        @property
        def size_m(self) -> Vec3:
            """Sides of the bounding box."""

    @abstractmethod
    def build_mesh(self) -> Mesh:
        """Return the mesh, in metres, in the object frame."""

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return the convex parts that collide; rounded edges do not change the pose at rest."""
        return (ConvexPart("box", self.size_m),)

    def build_moving_collider(self, max_parts: int) -> tuple[ConvexPart, ...]:
        """Return the parts that collide while the body moves, at most ``max_parts``."""
        return self.build_collider()

    @property
    def volume_m3(self) -> float:
        """Volume by which density becomes mass; that of the bounding box, unless a kind overrides it."""
        return math.prod(self.size_m)

    @property
    def center_m(self) -> Vec3:
        """Centre of the bounding box and of the bounding sphere."""
        return ORIGIN

    @property
    def bounding_radius_m(self) -> float:
        """Radius of the bounding sphere."""
        return math.hypot(*self.size_m) / 2

    @property
    def bounds_m(self) -> tuple[Vec3, Vec3]:
        """Opposite corners of the bounding box."""
        half = np.divide(self.size_m, 2)
        return vec3(np.add(self.center_m, -half)), vec3(np.add(self.center_m, half))

    def compute_specific_moments_m2(self) -> Vec3 | None:
        """Return the moments of inertia about the axes over the mass; None to integrate the mesh."""
        return None

    def compute_tilt_rad(self, pose: Pose) -> float:
        """Return the angle by which a pose at rest makes the category ambiguous; 0 if it cannot."""
        return 0.0

    def get_keypoint_normals(self) -> dict[str, Vec3]:
        """Return the outward normal of the surface at each keypoint, of any length."""
        return self.get_keypoints()

    def get_texture_span_m(self) -> float | None:
        """Return the side of the square that a planar texture covers; None for the mesh's extent."""
        return None

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render the atlas of an unworn body."""
        raise NotImplementedError

    def compute_texels(self) -> TexelLayout | None:
        """Return the layout of the atlas's texels, for wear; None if sides share texels."""
        return None

    def make_panels(self) -> tuple[Panel, ...]:
        """Return the sides that take decals, in the atlas."""
        return ()

    def make_relief_panels(self) -> tuple[Panel, ...]:
        """Return the sides with the relief of the material, in the atlas."""
        return self.make_panels()

    def make_print_mask(self) -> Floats | float:
        """Return the fraction (h, w) of each texel with print that identifies the object; it covers decals."""
        return 0.0

    def make_coating_mask(self) -> NDArray[np.bool_] | None:
        """Return the texels (h, w) whose print hides a metal below; None if there are none."""
        return None
