"""The inside of a sports hall: walls with boards, posters and people, and a ceiling with lamps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3
from sim2cam.objects.solid import ConvexPart, Solid, TextureMaps
from sim2cam.scene.material import Texture, hsv_to_linear
from sim2cam.scene.parameters import check_sizes
from sim2cam.seeds import derive_rng
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_patch
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler

Canvas = NDArray[np.float32]
"""Linear colours (h, w, 3) of a wall; row 0 is at the top."""

_WALL_PX, _CEILING_PX = (256, 1024), (512, 2048)
_ATLAS_PX = (2 * _WALL_PX[0] + _CEILING_PX[0], 2 * _WALL_PX[1])
_TILES = (*((row, column, *_WALL_PX) for row in (0, _WALL_PX[0]) for column in (0, _WALL_PX[1])),
          (2 * _WALL_PX[0], 0, *_CEILING_PX))  # fmt: skip
"""First row and column, height and width of the four walls and of the ceiling in the atlas."""
_INWARD = ((-1.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, -1.0))
_WORDS = (
    "LEAGUE",
    "ROBOTS",
    "CUP",
    "ACME",
    "TEAM 7",
    "OPEN",
    "FINALS",
    "TECH",
    "2031",
    "FAIR PLAY",
)
_NO_FACES = np.zeros((0, 3), np.int64)


@dataclass(frozen=True)
class Hall(Solid):
    """Walls and ceiling around the origin, which is at floor level; visible from inside only.

    They neither collide nor cast shadows. Colours are darker by ``lamp_level``, so that lamps, which are white, are
    brighter than walls: the emission of the material is that level times the radiance of a white wall.

    Attributes:
        size_m: Length, width and height.
        board_m: Height of the white boards around the floor; 0 for none.
        posters: Number of posters per wall.
        people: People per metre of wall.
        lamps: Lamps along the length of the ceiling.
        lamp_level: Radiance of lamps over that of a white wall.
        ceiling: Brightness of the ceiling over that of the walls.
        seed: Seed of everything on walls and ceiling.
    """

    is_compound: ClassVar[bool] = True
    has_atlas: ClassVar[bool] = True

    size_m: Vec3
    board_m: float
    posters: int
    people: float
    lamps: int
    lamp_level: float
    ceiling: float
    seed: int
    kind: Literal["hall"] = "hall"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m", "lamp_level")

    @property
    def center_m(self) -> Vec3:
        """Centre of the bounding box."""
        return 0.0, 0.0, self.size_m[2] / 2

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return nothing."""
        return ()

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are the walls (+x, -x, +y, -y) and the ceiling."""
        half = np.array([self.size_m[0] / 2, self.size_m[1] / 2, self.size_m[2] / 2])
        patches = []
        for normal, tile in zip(np.array(_INWARD), _TILES, strict=True):
            tangent = np.array([1.0, 0.0, 0.0]) if normal[2] else np.cross([0.0, 0.0, 1.0], normal)
            bitangent = np.cross(normal, tangent)
            corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
            points = (corners[:, :1] * tangent + corners[:, 1:] * bitangent - normal) * half
            points[:, 2] += half[2]
            patch = make_patch(points, normal, tangent, bitangent, [[0, 1, 2], [0, 2, 3]])
            top, left, height, width = tile
            inside = np.clip((corners + 1) / 2 * [width, height], 1, [width - 1, height - 1])
            patches.append(replace(patch, uvs=(inside + np.array([left, top])) / _ATLAS_PX[::-1]))
        return replace(join_meshes(patches), shadow_faces=_NO_FACES)

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Draw walls and ceiling; the walls have the pattern of the material."""
        atlas = np.zeros((*_ATLAS_PX, 3))
        length, width, height = self.size_m
        sides = (width, width, length, length)
        for index, ((top, left, *shape), side) in enumerate(zip(_TILES, sides, strict=False)):
            rng = derive_rng(self.seed, f"wall/{index}")
            wall = _draw_wall(self, rng, texture, (side, height))
            atlas[top : top + shape[0], left : left + shape[1]] = wall[::-1] / self.lamp_level
        ceiling = _draw_ceiling(self, derive_rng(self.seed, "ceiling"), texture)
        atlas[_TILES[-1][0] :] = ceiling[::-1]
        return encode_srgb(atlas), None


def _draw_wall(
    hall: Hall, rng: np.random.Generator, texture: Texture, size_m: tuple[float, float]
) -> Canvas:
    """Return the linear colours of a wall, from the background to the foreground."""
    rows, columns = _WALL_PX
    across, up = size_m[0] / columns, size_m[1] / rows
    x = np.asarray((np.arange(columns) + 0.5) * across, np.float64)
    z = np.asarray((rows - np.arange(rows) - 0.5)[:, None] * up, np.float64)
    canvas = make_color_sampler(texture)((x, np.zeros((1, 1)), z)).astype(np.float32)
    if rng.random() < 0.5:  # corrugated sheets
        canvas *= 1 + 0.3 * np.sin(2 * math.pi * z / rng.uniform(0.12, 0.5))[..., None]
    brush = _Brush(canvas, rng, (1 / across, 1 / up))
    for position in np.arange(rng.uniform(0, 4), size_m[0], rng.uniform(2.5, 7)):
        brush.fill((position, 0.0), (rng.uniform(0.1, 0.4), size_m[1]), brush.pick_color(0.5))
    if rng.random() < 0.25:
        brush.fill(
            (rng.uniform(0, size_m[0]), rng.uniform(0, 1.5)), rng.uniform(0.8, 3, 2),
            np.full(3, hall.lamp_level * rng.uniform(0.05, 0.6)),
        )  # fmt: skip
    if hall.board_m > 0 and rng.random() < 0.8:
        _draw_boards(brush, hall.board_m, size_m[0])
    for _ in range(hall.posters):
        _draw_poster(brush, size_m)
    for _ in range(rng.poisson(0.15 * size_m[0])):  # furniture
        corner = rng.uniform(0, size_m[0]), rng.choice([0.0, 0.0, 0.7])
        brush.fill(corner, rng.uniform(0.05, 1.2, 2), brush.pick_color(0.3))
    for _ in range(rng.poisson(hall.people * size_m[0])):
        _draw_person(brush, rng.uniform(0, size_m[0]))
    if rng.random() < 0.2:
        brush.draw_net(size_m)
    return canvas


def _draw_boards(brush: _Brush, board_m: float, width_m: float) -> None:
    """Draw white boards with a dark base and words on them."""
    rng = brush.rng
    start = rng.uniform(0, 0.5 * width_m) if rng.random() < 0.4 else 0.0
    white = np.array(hsv_to_linear(rng.random(), rng.uniform(0, 0.12), rng.uniform(0.6, 1)))
    brush.fill((start, 0.0), (width_m, board_m), white)
    brush.fill((start, 0.0), (width_m, rng.uniform(0, 0.2)), 0.05 * white)
    for x in np.arange(start, width_m, rng.uniform(1, 2.5)):
        if rng.random() < 0.6:
            height = min(0.8 * board_m, rng.uniform(0.15, 0.4))
            brush.write((x, rng.uniform(0, board_m - height)), height, brush.pick_color(0.6))


def _draw_poster(brush: _Brush, size_m: tuple[float, float]) -> None:
    """Draw a rectangle with words and discs."""
    rng = brush.rng
    width, height = np.exp(rng.uniform(math.log(0.4), math.log(3), 2))
    x, z = rng.uniform(-0.5, size_m[0]), rng.uniform(0.2, max(0.3, 0.6 * size_m[1]))
    brush.fill((x, z), (width, height), brush.pick_color(1.0))
    for _ in range(rng.integers(1, 6)):
        if rng.random() < 0.5:
            position = x + rng.uniform(0, 0.5) * width, z + rng.uniform(0, 0.9) * height
            brush.write(
                position, rng.uniform(0.1, 0.35) * min(width, height), brush.pick_color(1.0)
            )
        else:
            center = x + rng.uniform(0.2, 0.8) * width, z + rng.uniform(0.2, 0.8) * height
            radii = rng.uniform(0.05, 0.3, 2) * min(width, height)
            brush.fill_ellipse(center, radii, brush.pick_color(1.0))


def _draw_person(brush: _Brush, x: float) -> None:
    """Draw a standing or sitting person: legs, body and head."""
    rng = brush.rng
    tall = rng.uniform(1.1, 1.9)
    brush.fill((x - 0.12, 0.0), (0.24, 0.5 * tall), brush.pick_color(0.3))
    brush.fill_ellipse((x, 0.65 * tall), (0.22, 0.22 * tall), brush.pick_color(0.7))
    skin = np.array(
        hsv_to_linear(rng.uniform(0.02, 0.08), rng.uniform(0.3, 0.6), rng.uniform(0.3, 0.95))
    )
    brush.fill_ellipse((x, 0.93 * tall), (0.09, 0.12), skin)


def _draw_ceiling(hall: Hall, rng: np.random.Generator, texture: Texture) -> Canvas:
    """Return the linear colours of the ceiling, in units of the lamps."""
    rows, columns = _CEILING_PX
    length, width, _ = hall.size_m
    base = np.array(texture.color_a) * hall.ceiling / hall.lamp_level
    y = np.arange(rows)[:, None, None] / rows * width
    ripple = 1 + 0.3 * np.sin(2 * math.pi * y / rng.uniform(0.2, 0.6))
    canvas = np.ascontiguousarray(np.broadcast_to(base * ripple, (rows, columns, 3)), np.float32)
    brush = _Brush(canvas, rng, (columns / length, rows / width))
    for x in np.arange(0, length, rng.uniform(2, 6)):
        brush.fill((x, 0.0), (rng.uniform(0.15, 0.5), width), base * rng.uniform(0.2, 4))
    for _ in range(rng.integers(0, 6)):  # ducts and cables
        brush.fill(
            (0.0, rng.uniform(0, width)),
            (length, rng.uniform(0.05, 0.5)),
            base * rng.uniform(0.3, 5),
        )
    if hall.lamps == 0:
        return canvas
    step = length / hall.lamps
    size = (rng.uniform(0.1, 0.35), rng.uniform(0.6, 1.6))[:: rng.choice([-1, 1])]
    is_round, share = rng.random() < 0.3, rng.uniform(0.6, 1)
    for x in np.arange(step / 2, length, step):
        for y_lamp in np.arange(step / 2, width, step):
            level = rng.uniform(0.4, 1) if rng.random() < share else 0.0
            tint = level * np.array(hsv_to_linear(rng.uniform(0, 1), 0.08, 1.0))
            if is_round or rng.random() < 0.15:
                brush.fill_ellipse((x + 0.5, y_lamp), (0.2, 0.2), tint)
            else:
                brush.fill((x, y_lamp), size, tint)
    return canvas


@dataclass(frozen=True)
class _Brush:
    """A canvas with positions in metres from its lower left corner."""

    canvas: Canvas
    rng: np.random.Generator
    px_per_m: tuple[float, float]

    def to_px(self, position_m: tuple[float, float]) -> tuple[int, int]:
        """Return the column and row of a position."""
        return (
            round(position_m[0] * self.px_per_m[0]),
            len(self.canvas) - round(position_m[1] * self.px_per_m[1]),
        )

    def pick_color(self, value: float) -> NDArray[np.float64]:
        """Return a random linear colour up to a value of HSV; a third are grey."""
        saturation = self.rng.uniform(0, 1) * (self.rng.random() > 0.33)
        return np.array(hsv_to_linear(self.rng.random(), saturation, self.rng.uniform(0, value)))

    def fill(self, corner: tuple[float, float], size: object, color: NDArray[np.float64]) -> None:
        """Fill a rectangle with this lower left corner and size."""
        width, height = np.asarray(size, float)
        low, high = self.to_px(corner), self.to_px((corner[0] + width, corner[1] + height))
        cv2.rectangle(self.canvas, low, high, color.tolist(), cv2.FILLED)

    def fill_ellipse(
        self, center: tuple[float, float], radii: object, color: NDArray[np.float64]
    ) -> None:
        """Fill an ellipse with radii across and up."""
        axes = np.maximum(np.round(np.asarray(radii, float) * self.px_per_m), 1).astype(int)
        cv2.ellipse(
            self.canvas, self.to_px(center), axes.tolist(), 0, 0, 360, color.tolist(), cv2.FILLED
        )

    def write(
        self, corner: tuple[float, float], height_m: float, color: NDArray[np.float64]
    ) -> None:
        """Write a random word."""
        height_px, font = max(4, round(height_m * self.px_per_m[1])), cv2.FONT_HERSHEY_DUPLEX
        word, thick = str(self.rng.choice(_WORDS)), max(1, round(0.15 * height_px))
        scale = cv2.getFontScaleFromHeight(font, height_px, 1)
        (width, height), depth = cv2.getTextSize(word, font, scale, thick)
        stencil = np.zeros((height + depth, width), np.uint8)  # letters are drawn on bytes only
        cv2.putText(stencil, word, (0, height), font, scale, 255, thick)
        column, row = self.to_px(corner)
        left, top = max(column, 0), max(row - height, 0)
        window = self.canvas[top : row + depth, left : left + width]
        inside = (
            stencil[top - row + height :, left - column :][: window.shape[0], : window.shape[1]] > 0
        )
        window[: inside.shape[0], : inside.shape[1]][inside] = color

    def draw_net(self, size_m: tuple[float, float]) -> None:
        """Draw a net of thin grey strands."""
        grey = np.full(3, self.rng.uniform(0.2, 0.6)).tolist()
        step = self.rng.uniform(0.1, 0.25)
        for x in np.arange(0, size_m[0], step):
            cv2.line(self.canvas, self.to_px((x, 0.0)), self.to_px((x, size_m[1])), grey)
        for z in np.arange(1.0, size_m[1], step):
            cv2.line(self.canvas, self.to_px((0.0, z)), self.to_px((size_m[0], z)), grey)
