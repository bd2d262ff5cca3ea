"""Plates: flat solids with round corners, printed on both sides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.objects.solid import Solid, TexelLayout, TextureMaps
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Texture
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch, make_single_part
from sim2cam.surfaces.printing import InkPrint
from sim2cam.surfaces.textures import encode_srgb, load_linear_image, make_color_sampler

Floats = NDArray[np.float64]
Side = InkPrint | ImageFile | None
"""Print, image or nothing on one side of a plate."""

_CORNER_SEGMENTS = 6


class Plate(Solid):
    """A solid whose atlas has the front (+z) at the left and the back at the right.

    Attributes:
        texture_px: Texels along each side of the front.
    """

    texture_px: ClassVar[int]
    side_count: ClassVar[int] = 2
    has_atlas: ClassVar[bool] = True

    if TYPE_CHECKING:  # a field of some plates, a constant of the others

        @property
        def corner_radius_m(self) -> float:
            """Radius of the corners."""

    def make_sides(self) -> tuple[Side, Side]:
        """Return the prints or images of front and back."""
        raise NotImplementedError

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are front, back and edge."""
        width, height, thick = self.size_m
        angles = (
            np.linspace(0, math.pi / 2, _CORNER_SEGMENTS + 1) + np.arange(4)[:, None] * math.pi / 2
        )
        outward = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=-1)  # (4, n, 3)
        inner = (width / 2 - self.corner_radius_m, height / 2 - self.corner_radius_m, 0.0)
        centres = np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]]) * inner
        outline = (centres[:, None] + self.corner_radius_m * outward).reshape(-1, 3)
        outward = outward.reshape(-1, 3)
        n, up = len(outline), np.array([0.0, 0.0, thick / 2])
        fan = np.array([[n, i, (i + 1) % n] for i in range(n)])
        left = np.column_stack([outline[:, 0] / width + 0.5, 0.5 - outline[:, 1] / height]) / [2, 1]
        right = np.column_stack([1 - left[:, 0], left[:, 1]])
        ends = []
        for side, uvs, faces in ((1.0, left, fan), (-1.0, right, fan[:, ::-1])):
            x, z = side * np.eye(3)[0], side * np.eye(3)[2]
            points = np.vstack([outline, np.zeros(3)]) + side * up
            patch = make_patch(points, z, x, np.cross(z, x), faces)
            ends.append(replace(patch, uvs=np.vstack([uvs, [[0.5 - side / 4, 0.5]]])))
        ring = np.append(np.arange(n), 0)
        edge = Mesh(
            np.vstack([outline[ring] - up, outline[ring] + up]),
            np.tile(outward[ring], (2, 1)),
            np.tile(np.cross(np.eye(3)[2], outward[ring]), (2, 1)),
            np.tile(left[ring], (2, 1)),
            make_grid_faces(2, n + 1),
            make_single_part(2 * (n + 1)),
        )
        return join_meshes([*ends, edge])

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render the prints over the pattern of the material."""
        coordinates = (np.arange(self.texture_px) + 0.5) / self.texture_px - 0.5
        width, height, _ = self.size_m
        base_colors = make_color_sampler(texture)(
            (coordinates * width, -coordinates[:, None] * height, np.zeros(1))
        )
        blended = [_blend_side(base_colors, side) for side in self.make_sides()]
        return encode_srgb(np.concatenate(blended, axis=1)), None

    def compute_texels(self) -> TexelLayout:
        """Return the layout of the texels."""
        coordinates = (np.arange(self.texture_px) + 0.5) / self.texture_px
        across, down = (np.minimum(coordinates, 1 - coordinates) * side for side in self.size_m[:2])
        edge_m = np.minimum(across, down[:, None])
        return (self.size_m[0] / self.texture_px, self.size_m[1] / self.texture_px), np.concatenate(
            [edge_m, edge_m], axis=1
        )

    def make_panels(self) -> tuple[Panel, ...]:
        """Return front and back."""
        n = self.texture_px
        return tuple(Panel(0, left, (n, n), self.size_m[:2]) for left in (0, n))

    def make_print_mask(self) -> NDArray[np.float64]:
        """Return the ink on both sides; images have none."""
        blank = np.zeros((self.texture_px, self.texture_px))
        sides = self.make_sides()
        masks = [side.coverage if isinstance(side, InkPrint) else blank for side in sides]
        return np.concatenate(masks, axis=1)


def _blend_side(base_colors: Floats, side: InkPrint | ImageFile | None) -> Floats:
    if side is None:
        return base_colors
    if isinstance(side, ImageFile):
        n = len(base_colors)
        return np.asarray(
            cv2.resize(load_linear_image(side, n), (n, n), interpolation=cv2.INTER_AREA)
        )
    return np.asarray(base_colors + side.coverage[..., None] * (np.array(side.ink) - base_colors))
