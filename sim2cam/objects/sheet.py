"""Sheets of paper with text on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sim2cam.geometry.poses import Vec3
from sim2cam.objects.solid import Solid, TexelLayout, TextureMaps
from sim2cam.scene.material import Texture
from sim2cam.scene.package_label import PackageLabel
from sim2cam.scene.parameters import check_sizes
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.mesh import Mesh
from sim2cam.surfaces.package_print import render_page, resize_panel
from sim2cam.surfaces.plate import build_plate, compute_plate_texels, make_plate_panels
from sim2cam.surfaces.textures import encode_srgb

_CORNER_RADIUS_M = 2e-4
_TEXTURE_PX = 512


@dataclass(frozen=True)
class Sheet(Solid):
    """A sheet of paper with text on both sides, centred on the origin, top at +y.

    Attributes:
        size_m: Width, height, thickness.
        label: Heading, and seed of the small print.
    """

    side_count: ClassVar[int] = 2
    has_atlas: ClassVar[bool] = True

    size_m: Vec3
    label: PackageLabel
    kind: Literal["sheet"] = "sheet"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")

    def build_mesh(self) -> Mesh:
        """Return the mesh of a plate."""
        return build_plate(self.size_m, _CORNER_RADIUS_M)

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render both pages."""
        width, height, _ = self.size_m
        pages = [render_page(self.label, width / height, page_index) for page_index in range(2)]
        tiles = [resize_panel(page, _TEXTURE_PX, _TEXTURE_PX) for page in pages]
        return encode_srgb(np.concatenate(tiles, axis=1)), None

    def compute_texels(self) -> TexelLayout:
        """Return the layout of the texels."""
        return compute_plate_texels(self.size_m, _TEXTURE_PX)

    def make_panels(self) -> tuple[Panel, ...]:
        """Return front and back."""
        return make_plate_panels(self.size_m, _TEXTURE_PX)
