"""Sheets of paper with text on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sim2cam.geometry.poses import Vec3
from sim2cam.objects.plate import Plate, Side
from sim2cam.objects.solid import TextureMaps
from sim2cam.scene.material import Texture
from sim2cam.scene.package_label import PackageLabel
from sim2cam.scene.parameters import check_sizes
from sim2cam.surfaces.package_print import render_page, resize_panel
from sim2cam.surfaces.textures import encode_srgb


@dataclass(frozen=True)
class Sheet(Plate):
    """A sheet of paper with text on both sides, centred on the origin, top at +y.

    Attributes:
        size_m: Width, height, thickness.
        label: Heading, and seed of the small print.
    """

    texture_px: ClassVar[int] = 512
    corner_radius_m: ClassVar[float] = 2e-4

    size_m: Vec3
    label: PackageLabel
    kind: Literal["sheet"] = "sheet"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")

    def make_sides(self) -> tuple[Side, Side]:
        """Return nothing: pages cover the paper."""
        return None, None

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render both pages."""
        width, height, _ = self.size_m
        pages = [render_page(self.label, width / height, page_index) for page_index in range(2)]
        tiles = [resize_panel(page, self.texture_px, self.texture_px) for page in pages]
        return encode_srgb(np.concatenate(tiles, axis=1)), None
