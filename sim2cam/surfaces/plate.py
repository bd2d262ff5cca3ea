"""Plates: thin boxes with round corners whose texture has the front at the left and the back at the right."""

from __future__ import annotations

import math
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Texture
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch, make_single_part
from sim2cam.surfaces.printing import InkPrint
from sim2cam.surfaces.textures import encode_srgb, load_linear_image, make_color_sampler

Floats = NDArray[np.float64]

_CORNER_SEGMENTS = 6


def build_plate(size_m: Vec3, corner_radius_m: float) -> Mesh:
    """Return the mesh of a plate; its parts are front (+z), back and edge."""
    width, height, thick = size_m
    angles = np.linspace(0, math.pi / 2, _CORNER_SEGMENTS + 1) + np.arange(4)[:, None] * math.pi / 2
    outward = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=-1)  # (4, n, 3)
    inner = (width / 2 - corner_radius_m, height / 2 - corner_radius_m, 0.0)
    centres = np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]]) * inner
    outline = (centres[:, None] + corner_radius_m * outward).reshape(-1, 3)
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


def render_plate_maps(
    size_m: Vec3, texture: Texture, side_px: int, *sides: InkPrint | ImageFile | None
) -> tuple[NDArray[np.uint8], None]:
    """Render the colours (sRGB) of a plate, ``side_px`` texels squared per side."""
    coordinates = (np.arange(side_px) + 0.5) / side_px - 0.5
    base_colors = make_color_sampler(texture)(
        (coordinates * size_m[0], -coordinates[:, None] * size_m[1], np.zeros(1))
    )
    blended = [_blend_side(base_colors, side) for side in sides]
    return encode_srgb(np.concatenate(blended, axis=1)), None


def _blend_side(base_colors: Floats, side: InkPrint | ImageFile | None) -> Floats:
    if side is None:
        return base_colors
    if isinstance(side, ImageFile):
        n = len(base_colors)
        return np.asarray(
            cv2.resize(load_linear_image(side, n), (n, n), interpolation=cv2.INTER_AREA)
        )
    return np.asarray(base_colors + side.coverage[..., None] * (np.array(side.ink) - base_colors))


def compute_plate_texels(size_m: Vec3, side_px: int) -> tuple[tuple[float, float], Floats]:
    """Return width and height of a texel, and the distance (h, w) to the nearest edge, in metres."""
    coordinates = (np.arange(side_px) + 0.5) / side_px
    across, down = (np.minimum(coordinates, 1 - coordinates) * side for side in size_m[:2])
    edge_m = np.minimum(across, down[:, None])
    return (size_m[0] / side_px, size_m[1] / side_px), np.concatenate([edge_m, edge_m], axis=1)


def make_plate_panels(size_m: Vec3, side_px: int) -> tuple[Panel, ...]:
    """Return front and back of a plate."""
    return tuple(Panel(0, left, (side_px, side_px), size_m[:2]) for left in (0, side_px))
