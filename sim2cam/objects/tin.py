"""Tins: cylinders with a printed label around them and bare rimmed ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3
from sim2cam.objects.kind import (
    ContactFactors,
    ObjectInstance,
    ObjectKind,
    TumblingFactors,
)
from sim2cam.objects.primitives import compute_cylinder_moments_m2, make_end_keypoints
from sim2cam.objects.solid import ConvexPart, TexelLayout, TextureMaps
from sim2cam.scene import symmetry
from sim2cam.scene.material import Texture
from sim2cam.scene.package_label import PackageLabel, PackageLabelFactors
from sim2cam.scene.parameters import Between, PrintedCategory, check_sizes
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.lathe import build_disc, build_frustum
from sim2cam.surfaces.mesh import Mesh, join_meshes
from sim2cam.surfaces.package_print import (
    render_front_panel,
    render_small_print_panel,
    resize_panel,
)
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler

Floats = NDArray[np.float64]

_MIN_ASPECT, _MAX_ASPECT = 0.1, 10.0  # height to width
_RIM_FRACTION = 0.06  # of the radius
_WIDTH, _HEIGHT = 1024, 512  # texels; powers of two, so that mipmaps stay aligned
_LABEL_FRACTION = 0.75  # of the height of the texture; bare metal is below
_LABEL_HEIGHT = round(_LABEL_FRACTION * _HEIGHT)
_FRONT_WIDTH = 320  # of each of the two fronts; small print is between them
_END_FRACTION = 0.9  # width of an end over the bare part of the texture


@dataclass(frozen=True)
class TinFactors(TumblingFactors, ContactFactors):
    """One tin.

    Attributes:
        category: Label and printed text, one of the recipe's categories.
        radius_m: Radius.
        height: Height over diameter.
    """

    category: PrintedCategory
    radius_m: Annotated[float, Between(0.005, 0.5)]
    height: Annotated[float, Between(0.15, 8)]


@dataclass(frozen=True)
class Tin(ObjectKind):
    """A tin along z, centred on the origin, with a label around it and bare rimmed ends.

    Attributes:
        radius_m, height_m: Outer size.
        label: Print around it, with the front twice.
        category: Category of the label.
    """

    factors_type: ClassVar[type[Any]] = TinFactors
    group_types: ClassVar[dict[str, type[Any]]] = {"label": PackageLabelFactors}
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.CYLINDER
    rolling_friction_m: ClassVar[float] = 5e-4
    side_count: ClassVar[int] = 1
    has_atlas: ClassVar[bool] = True

    radius_m: float
    height_m: float
    label: PackageLabel
    category: str
    kind: Literal["tin"] = "tin"

    def __post_init__(self) -> None:
        check_sizes(self, "radius_m", "height_m")
        ratio = self.height_m / (2 * self.radius_m)
        if not _MIN_ASPECT <= ratio <= _MAX_ASPECT:
            raise SpecError(
                f"a tin is {ratio:.3g} times as high as wide. Allowed: {_MIN_ASPECT:g} to {_MAX_ASPECT:g} times."
            )

    @classmethod
    def from_instance(cls, instance: ObjectInstance[TinFactors]) -> Tin:
        """Return the tin."""
        factors = instance.factors
        label = instance.groups["label"].to_label(factors.category, instance.images)
        height_m = 2 * factors.radius_m * factors.height
        return cls(factors.radius_m, height_m, label, factors.category)

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        return 2 * self.radius_m, 2 * self.radius_m, self.height_m

    @property
    def volume_m3(self) -> float:
        """Volume of the cylinder."""
        return math.pi * self.radius_m**2 * self.height_m

    @property
    def bounding_radius_m(self) -> float:
        """Radius of the bounding sphere."""
        return math.hypot(self.radius_m, self.height_m / 2)

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return a cylinder."""
        return (ConvexPart("cylinder", self.size_m),)

    def compute_specific_moments_m2(self) -> Vec3:
        """Return the moments of a cylinder."""
        return compute_cylinder_moments_m2(self.radius_m, self.height_m)

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the centres of the ends."""
        return make_end_keypoints(self.height_m)

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are lower end, upper end and side."""
        radius, top = self.radius_m, self.height_m / 2
        rim_m = min(_RIM_FRACTION * radius, 0.1 * self.height_m)
        inner_m, sunk_z_m = radius - 2 * rim_m, top - rim_m
        upper_parts = [
            build_frustum((radius, radius - rim_m), (top - rim_m, top)),
            build_frustum((radius - rim_m, inner_m), (top, top)),
            build_frustum((inner_m, inner_m - rim_m / 2), (top, sunk_z_m)),
            build_disc(inner_m - rim_m / 2, sunk_z_m, 1),
        ]
        upper_end = [_map_end_uvs(self, mesh) for mesh in upper_parts]
        side = build_frustum((radius, radius), (rim_m - top, top - rim_m))
        side_uvs = np.column_stack(
            [
                side.uvs[:, 0] / (2 * math.pi * radius),
                _LABEL_FRACTION * (0.5 - side.uvs[:, 1] / (2 * (top - rim_m))),
            ]
        )
        lower_end = [_flip_mesh(mesh) for mesh in upper_end]
        joined = join_meshes([*lower_end, *upper_end, replace(side, uvs=side_uvs)])
        counts = [
            sum(len(mesh.parts) for mesh in meshes) for meshes in (lower_end, upper_end, [side])
        ]
        return replace(joined, parts=np.repeat(np.arange(1, 4, dtype=np.uint32), counts))

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render the label, and bare metal below."""
        label_height, front_width = _LABEL_HEIGHT, _FRONT_WIDTH
        print_width = _WIDTH // 2 - front_width
        texel = 2 * math.pi * self.radius_m / _WIDTH / self.height_m  # over the height of the label
        panels = [
            render_front_panel(self.label, front_width * texel),
            render_small_print_panel(self.label, print_width * texel),
        ]
        label_tiles = [
            resize_panel(panel, width, label_height)
            for panel, width in zip(panels, (front_width, print_width), strict=True)
        ] * 2
        coordinates = (
            (np.arange(_HEIGHT - label_height) + 0.5) / (_HEIGHT - label_height) * 2 * self.radius_m
        )
        bare = np.resize(
            make_color_sampler(texture)((coordinates, coordinates[:, None], np.zeros(1))),
            (len(coordinates), len(coordinates), 3),
        )
        bare_row = np.concatenate([bare] * (_WIDTH // len(coordinates)), axis=1)
        return encode_srgb(np.concatenate([np.concatenate(label_tiles, axis=1), bare_row])), None

    def make_coating_mask(self) -> NDArray[np.bool_]:
        """Return the texels of the label."""
        return np.repeat(np.arange(_HEIGHT) < _LABEL_HEIGHT, _WIDTH).reshape(_HEIGHT, _WIDTH)

    def compute_texels(self) -> TexelLayout:
        """Return width and height of a texel of the label, and the distance (h, w) to its end.

        Bare texels are at infinite distance.
        """
        height_fraction = (np.arange(_HEIGHT) + 0.5) / _LABEL_HEIGHT
        edge_distance_m = np.where(
            height_fraction < 1,
            np.minimum(height_fraction, 1 - height_fraction) * self.height_m,
            np.inf,
        )
        texel = (2 * math.pi * self.radius_m / _WIDTH, self.height_m / _LABEL_HEIGHT)
        return texel, np.repeat(edge_distance_m[:, None], _WIDTH, axis=1)

    def make_panels(self) -> tuple[Panel, ...]:
        """Return the panel of the label."""
        size_m = 2 * math.pi * self.radius_m, self.height_m
        return (Panel(0, 0, (_LABEL_HEIGHT, _WIDTH), size_m),)

    def make_relief_panels(self) -> tuple[Panel, ...]:
        """Return the panel of the texture shared by both ends."""
        n, side_m = _HEIGHT - _LABEL_HEIGHT, 2 * self.radius_m / _END_FRACTION
        return (Panel(_LABEL_HEIGHT, 0, (n, n), (side_m, side_m), is_bottom_up=True),)


def _map_end_uvs(tin: Tin, end: Mesh) -> Mesh:
    """Return a part of an end with uvs in the lower left of the texture, viewed from above."""
    position = (end.vertices_m[:, :2] / tin.radius_m + 1) / 2
    v = _LABEL_FRACTION + (1 - _LABEL_FRACTION) * (0.05 + _END_FRACTION * position[:, 1])
    return replace(
        end,
        uvs=np.column_stack(
            [(1 - _LABEL_FRACTION) / 2 * (0.05 + _END_FRACTION * position[:, 0]), v]
        ),
    )


def _flip_mesh(end: Mesh) -> Mesh:
    """Return a part rotated by half a turn about x."""
    flip = np.array([1.0, -1.0, -1.0])
    return replace(
        end,
        vertices_m=end.vertices_m * flip,
        normals=end.normals * flip,
        tangents=end.tangents * flip,
    )
