"""Cartons: printed boxes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3
from sim2cam.objects.kind import (
    ContactFactors,
    ObjectInstance,
    ObjectKind,
    TumblingFactors,
)
from sim2cam.objects.primitives import make_side_keypoints
from sim2cam.objects.solid import TexelLayout, TextureMaps
from sim2cam.scene import symmetry
from sim2cam.scene.material import Texture
from sim2cam.scene.package_label import PackageLabel, PackageLabelFactors
from sim2cam.scene.parameters import Between, PrintedCategory, check_sizes
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.mesh import Mesh
from sim2cam.surfaces.package_print import (
    render_front_panel,
    render_name_panel,
    render_small_print_panel,
    resize_panel,
)
from sim2cam.surfaces.rounded_box import build_rounded_box
from sim2cam.surfaces.textures import encode_srgb

Floats = NDArray[np.float64]

_WIDTH, _HEIGHT, _TILE = 1024, 512, 256  # texels; powers of two, so that mipmaps stay aligned
_TILE_MARGIN = 2 / _TILE  # of a tile, which mipmaps may blend with neighbours
_ROUNDING = 0.01

_SIDE_AXES: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((0, -1, 0), (0, 0, -1)),
    ((0, 1, 0), (0, 0, -1)),
    ((1, 0, 0), (0, 0, -1)),
    ((-1, 0, 0), (0, 0, -1)),
    ((1, 0, 0), (0, 1, 0)),
    ((1, 0, 0), (0, -1, 0)),
)
"""Directions right and down on each side of a carton (-x, +x, -y, ...), viewed from outside."""


@dataclass(frozen=True)
class CartonFactors(TumblingFactors, ContactFactors):
    """One printed box.

    Attributes:
        category: Label and printed text, one of the recipe's categories.
        height_m: Upright side.
        width, depth: Side along the front and side from front to back, over the height.
    """

    category: PrintedCategory
    height_m: Annotated[float, Between(0.005, 1)]
    width: Annotated[float, Between(0.05, 20)]
    depth: Annotated[float, Between(0.02, 20)]


@dataclass(frozen=True)
class Carton(ObjectKind):
    """A printed box, centred on the origin, with its front at -y and its top at +z.

    Attributes:
        size_m: Sides along the axes.
        label: Print of front and back; the name above and below, small print on the sides.
        category: Category of the label.
    """

    factors_type: ClassVar[type[Any]] = CartonFactors
    group_types: ClassVar[dict[str, type[Any]]] = {"label": PackageLabelFactors}
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.CUBOID
    side_count: ClassVar[int] = 6
    has_atlas: ClassVar[bool] = True

    size_m: Vec3
    label: PackageLabel
    category: str
    kind: Literal["carton"] = "carton"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")

    @classmethod
    def from_instance(cls, instance: ObjectInstance[CartonFactors]) -> Carton:
        """Return the carton."""
        factors, height = instance.factors, instance.factors.height_m
        size = (height * factors.width, height * factors.depth, height)
        label = instance.groups["label"].to_label(factors.category, instance.images)
        return cls(size, label, factors.category)

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the centres of the sides."""
        return make_side_keypoints(self.size_m)

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are the sides (-x, +x, -y, ...)."""
        box = build_rounded_box(self.size_m, _ROUNDING)
        uvs, tangents = np.zeros_like(box.uvs), np.zeros_like(box.tangents)
        for side, axes in enumerate(_SIDE_AXES):
            mask = box.parts == side + 1
            lengths = [float(np.abs(axis) @ self.size_m) for axis in axes]
            tile_uvs = np.array(axes) @ box.vertices_m[mask].T / np.array(lengths)[:, None] + 0.5
            tile = np.array(divmod(side, _WIDTH // _TILE))[::-1]
            padded_uvs = _TILE_MARGIN + (1 - 2 * _TILE_MARGIN) * tile_uvs.T
            uvs[mask] = (tile + padded_uvs) * [_TILE / _WIDTH, _TILE / _HEIGHT]
            tangents[mask] = axes[0]
        return replace(box, uvs=uvs, tangents=tangents)

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render one tile per side."""
        x, y, z = self.size_m
        label = self.label
        front, small_print = (
            render_front_panel(label, x / z),
            render_small_print_panel(label, y / z),
        )
        name = render_name_panel(label, x / y)
        tiles = [
            resize_panel(side, _TILE, _TILE)
            for side in (small_print, small_print, front, front, name, name)
        ]
        bare = [np.ones((_TILE, _TILE, 3)) * label.background_color] * 2
        rows = [np.concatenate(tiles[:4], axis=1), np.concatenate([*tiles[4:], *bare], axis=1)]
        return encode_srgb(np.concatenate(rows)), None

    def compute_texels(self) -> TexelLayout:
        """Return mean width and height of a texel, and the distance (h, w) to the nearest edge."""
        coordinates = ((np.arange(_TILE) + 0.5) / _TILE - _TILE_MARGIN) / (1 - 2 * _TILE_MARGIN)
        edge_distance = np.clip(np.minimum(coordinates, 1 - coordinates), 0, None)
        sides = [[float(np.abs(axis) @ self.size_m) for axis in axes] for axes in _SIDE_AXES]
        tiles = [
            np.minimum(edge_distance * width, edge_distance[:, None] * height)
            for width, height in sides
        ]
        tiles += [np.full((_TILE, _TILE), np.inf)] * 2
        rows = [np.concatenate(row, axis=1) for row in (tiles[:4], tiles[4:])]
        width, height = np.mean(sides, axis=0) / _TILE
        return (float(width), float(height)), np.concatenate(rows)

    def make_panels(self) -> tuple[Panel, ...]:
        """Return the panels of the sides (-x, +x, -y, ...)."""
        margin_px = round(_TILE_MARGIN * _TILE)
        panels, shape = [], (_TILE - 2 * margin_px, _TILE - 2 * margin_px)
        for side, axes in enumerate(_SIDE_AXES):
            row, column = divmod(side, _WIDTH // _TILE)
            width, height = (float(np.abs(axis) @ self.size_m) for axis in axes)
            panels.append(
                Panel(row * _TILE + margin_px, column * _TILE + margin_px, shape, (width, height))
            )
        return tuple(panels)
