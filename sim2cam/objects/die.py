"""Six-sided dice: rounded cubes with pips, labelled by the upper face. Other dice are kinds of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.objects.kind import (
    ContactFactors,
    LabelClass,
    ObjectInstance,
    ObjectKind,
    PossibleValues,
    TumblingFactors,
)
from sim2cam.objects.primitives import scale_vector
from sim2cam.objects.solid import TexelLayout, TextureMaps
from sim2cam.scene import symmetry
from sim2cam.scene.material import Color, Texture, hsv_to_linear, linear_to_srgb, mix_colors
from sim2cam.scene.parameters import Between, CategoryName, Fraction, Value, check_sizes
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.mesh import Mesh
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler

Floats = NDArray[np.float64]
Float32Array = NDArray[np.float32]

PipShape = Literal["round", "ring", "square"]
Tone = Literal["white", "black", "color"]
FACE_NORMALS: dict[str, Vec3] = {
    "1": (0.0, 0.0, 1.0),
    "2": (0.0, 1.0, 0.0),
    "3": (1.0, 0.0, 0.0),
    "4": (-1.0, 0.0, 0.0),
    "5": (0.0, -1.0, 0.0),
    "6": (0.0, 0.0, -1.0),
}
"""Outward normal of each face of a die that is not mirrored; opposite faces sum to seven."""

TILE_PX = 72
_PADDING_PX = 3
_COLUMNS, _ROWS = 3, 2
_TEXEL_SIZE = 2 / (TILE_PX - 2 * _PADDING_PX)  # in units of half an edge

_FACE_VERTICES = 12  # vertices per side of a face
_SHADOW_VERTICES = (0, 1, 2, 4, 7, 9, 10, 11)

_PIP_POSITIONS: dict[str, tuple[tuple[int, int], ...]] = {
    "1": ((0, 0),),
    "2": ((-1, -1), (1, 1)),
    "3": ((-1, -1), (0, 0), (1, 1)),
    "4": ((-1, -1), (-1, 1), (1, -1), (1, 1)),
    "5": ((-1, -1), (-1, 1), (0, 0), (1, -1), (1, 1)),
    "6": ((-1, -1), (-1, 0), (-1, 1), (1, -1), (1, 0), (1, 1)),
}
_TONES: dict[str, Color] = {"white": (0.8, 0.8, 0.76), "black": (0.02, 0.02, 0.02)}
Spread = Annotated[float, Between(0.3, 1)]


@dataclass(frozen=True)
class DieFactors(TumblingFactors, ContactFactors):
    """Shape and mechanics of one die; lengths relative to its edge except ``edge_m``.

    Attributes:
        edge_m: Edge length.
        rounding: Radius of edges.
        corner_cut: Amount of the corners cut by a concentric sphere: 0 none, 1 down to the middle of the edges.
        mirrored: Whether the chirality is reversed (faces 3 and 4 exchanged).
        pip_shape, pip_radius, pip_depth: Outline, radius and depth of pips.
        pip_spread: Distance of the outer pips from the face centre, along each side.
        pip_ace, pip_two, pip_three, pip_rows: Scales of ``Pips``.
        face_categories: Category by upward face, by default its value. ``category = { from = "upward_face", cases = {
            "1" = "low", … } }`` sets all.
    """

    edge_m: Annotated[float, Between(0.002, 0.2)]
    rounding: Annotated[float, Between(0, 0.49)]
    corner_cut: Fraction
    mirrored: bool
    pip_shape: PipShape
    pip_radius: Annotated[float, Between(0.01, 0.25)]
    pip_spread: Annotated[float, Between(0, 0.4)]
    pip_depth: Annotated[float, Between(0, 0.2)]
    pip_ace: Annotated[float, Between(0.3, 2)] = 1.0
    pip_two: Spread = 1.0
    pip_three: Spread = 1.0
    pip_rows: Spread = 1.0
    face_categories: Mapping[str, CategoryName] = field(default_factory=dict)


@dataclass(frozen=True)
class DieColorFactors:
    """Body and pip colours of one die.

    Attributes:
        body_tone, pip_tone: White, black, or the colour of ``die_surface`` and the pip colour.
        pip_hue, pip_saturation, pip_value: Colour of pips.
        pip_contrast: Minimum sRGB distance between pips and body, each channel from 0 to 1. Pips closer than
            this are moved towards white or black.
    """

    body_tone: Tone
    pip_tone: Tone
    pip_hue: float
    pip_saturation: Fraction
    pip_value: Fraction
    pip_contrast: Annotated[float, Between(0, 1.7)]


@dataclass(frozen=True)
class Pips:
    """Pips of a die.

    Attributes:
        shape: Outline.
        radius: Radius over the die's edge length.
        spread: Distance of the outer pips from the face centre, along each side, over the edge length.
        depth: Depth over the edge length.
        color: Linear RGB.
        ace: Radius of the single pip of face one, over that of the others.
        two, three: Spread on faces two and three, over that of the others.
        rows: Distance of the two rows of face six from the face centre, over the spread.
    """

    shape: PipShape
    radius: float
    spread: float
    depth: float
    color: Color
    ace: float = 1.0
    two: float = 1.0
    three: float = 1.0
    rows: float = 1.0


@dataclass(frozen=True)
class Die(ObjectKind):
    """A six-sided die; its category is the upward face, or follows from it.

    Attributes:
        edge_m: Edge length.
        rounding: Radius of edges over the edge length.
        corner_cut: As in ``DieFactors``.
        pips: Pips of the faces.
        mirrored: Whether the chirality is reversed (faces 3 and 4 exchanged).
        face_categories: Pairs of an upward face and its category; None if each face is its own category.
    """

    factors_type: ClassVar[type[Any]] = DieFactors
    group_types: ClassVar[dict[str, type[Any]]] = {"color": DieColorFactors}
    pose_properties: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        "upward_face": ("face_categories", tuple(FACE_NORMALS))
    }
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.CUBE
    side_count: ClassVar[int] = 6
    has_atlas: ClassVar[bool] = True

    edge_m: float
    rounding: float
    corner_cut: float
    pips: Pips
    mirrored: bool
    face_categories: tuple[tuple[str, str], ...] | None = None
    kind: Literal["die"] = "die"

    def __post_init__(self) -> None:
        check_sizes(self, "edge_m")

    @classmethod
    def from_instance(cls, instance: ObjectInstance[DieFactors]) -> Die:
        """Return the die; dice that share a look differ in size only."""
        look = instance.look
        pips = Pips(
            look.pip_shape,
            look.pip_radius,
            look.pip_spread,
            look.pip_depth,
            _choose_colors(instance)[1],
            look.pip_ace,
            look.pip_two,
            look.pip_three,
            look.pip_rows,
        )
        own = instance.factors
        categories = tuple(own.face_categories.items()) or None
        return cls(own.edge_m, look.rounding, look.corner_cut, pips, look.mirrored, categories)

    @classmethod
    def choose_color(cls, instance: ObjectInstance[DieFactors]) -> Color:
        """Return the colour of the body."""
        return _choose_colors(instance)[0]

    @classmethod
    def list_label_classes(cls, possible: PossibleValues) -> tuple[LabelClass, ...]:
        """Return one class with the categories of all faces."""
        categories = (possible(f"face_categories.{face}") or {face} for face in FACE_NORMALS)
        return (cls.make_label_class(set[Value]().union(*categories)),)

    @property
    def size_m(self) -> Vec3:
        """Sides of the cube."""
        return self.edge_m, self.edge_m, self.edge_m

    @property
    def volume_m3(self) -> float:
        """Volume of the cube."""
        return self.edge_m**3

    @property
    def bounding_radius_m(self) -> float:
        """Distance of the cube's corners from the centre."""
        return self.edge_m * math.sqrt(3) / 2

    def get_face_normals(self) -> dict[str, Vec3]:
        """Return the outward normal of each face in the die's frame, by value."""
        if not self.mirrored:
            return FACE_NORMALS
        return FACE_NORMALS | {"3": FACE_NORMALS["4"], "4": FACE_NORMALS["3"]}

    def find_upward_face(self, pose: Pose) -> tuple[str, float]:
        """Return the value of the upper face, and its angle to the vertical in radians."""
        faces = self.get_face_normals()
        ups = pose.rotation().apply(np.array(list(faces.values())))[:, 2]
        best = int(np.argmax(ups))
        return list(faces)[best], float(math.acos(min(1.0, ups[best])))

    def get_category(self, pose: Pose) -> str:
        """Return the category of the upper face, by default its value."""
        face = self.find_upward_face(pose)[0]
        return dict(self.face_categories or ()).get(face, face)

    def compute_tilt_rad(self, pose: Pose) -> float:
        """Return the angle between the upper face and the horizontal."""
        return self.find_upward_face(pose)[1]

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the centres of the faces, by value."""
        normals = self.get_face_normals()
        return {value: scale_vector(self.edge_m / 2, normal) for value, normal in normals.items()}

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are the values of the faces."""
        rounding = min(self.rounding, 0.49) * 2
        positive = np.array([0.2, 0.5, 0.75, 1 - rounding, 1 - 0.3 * rounding, 1.0])
        coordinates = np.concatenate([-positive, positive])
        u, v = (grid.ravel() for grid in np.meshgrid(np.sort(coordinates), np.sort(coordinates)))
        points, normals, tangents, uvs, values = [], [], [], [], []
        for value, normal in self.get_face_normals().items():
            tangent, bitangent = _compute_face_axes(np.array(normal))
            cube_points = np.array(normal) + u[:, None] * tangent + v[:, None] * bitangent
            die_points, outward = _round_cube_points(cube_points, self)
            points.append(die_points)
            normals.append(outward)
            tangents.append(np.tile(tangent, (len(u), 1)))
            uvs.append(_compute_atlas_uv(value, u, v))
            values.append(np.full(len(u), int(value), np.uint32))
        return Mesh(
            np.vstack(points),
            np.vstack(normals),
            np.vstack(tangents),
            np.vstack(uvs),
            _make_grid_faces(range(len(coordinates))),
            np.concatenate(values),
            shadow_faces=_make_grid_faces(_SHADOW_VERTICES),
        )

    def render_maps(self, texture: Texture) -> TextureMaps:
        """Render the atlas; the pattern is a solid texture, continuous across edges."""
        body = np.zeros((_ROWS * TILE_PX, _COLUMNS * TILE_PX, 3), np.float32)
        coordinates = (np.arange(TILE_PX) + 0.5 - _PADDING_PX) * _TEXEL_SIZE - 1
        color_at, half_edge_m = make_color_sampler(texture), self.edge_m / 2
        for value, normal in self.get_face_normals().items():
            tangent, bitangent = _compute_face_axes(np.array(normal))
            x, y, z = (
                half_edge_m
                * (coordinates * t if t else coordinates[:, None] * b if b else np.array([n]))
                for n, t, b in zip(normal, tangent, bitangent, strict=True)
            )
            left, top = _get_tile_corner(value)
            body[top : top + TILE_PX, left : left + TILE_PX] = color_at((x, y, z))
        coverage, height = _draw_pips(self.pips)
        colors = body + coverage[..., None] * (np.array(self.pips.color, np.float32) - body)
        normals = np.round((_compute_normals(height) + 1) * 127.5).astype(np.uint8)
        return encode_srgb(colors), normals

    def compute_texels(self) -> TexelLayout:
        """Return the layout of the texels."""
        half_edge_m = self.edge_m / 2
        coordinates = (np.arange(TILE_PX) + 0.5 - _PADDING_PX) * _TEXEL_SIZE - 1
        edge_distance = np.clip(1 - np.abs(coordinates), 0, None) * half_edge_m
        tile = np.minimum(edge_distance, edge_distance[:, None])
        return (_TEXEL_SIZE * half_edge_m,) * 2, np.tile(tile, (_ROWS, _COLUMNS))

    def make_panels(self) -> tuple[Panel, ...]:
        """Return the faces, from 1 to 6."""
        panels, side_px = [], TILE_PX - 2 * _PADDING_PX
        for value in FACE_NORMALS:
            left, top = (corner + _PADDING_PX for corner in _get_tile_corner(value))
            side_m = (self.edge_m, self.edge_m)
            panels.append(Panel(top, left, (side_px, side_px), side_m, is_bottom_up=True))
        return tuple(panels)

    def make_print_mask(self) -> Floats:
        """Return the fraction of each texel covered by pips."""
        return _draw_pips(self.pips)[0].astype(np.float64)


def _choose_colors(instance: ObjectInstance[DieFactors]) -> tuple[Color, Color]:
    """Return the linear colours of body and pips.

    Pips are moved towards white or black until their sRGB distance to the body, and to the second colour of a
    patterned body, is at least ``pip_contrast``; otherwise as far as possible.
    """
    colors: DieColorFactors = instance.groups["color"]
    texture = instance.material.texture
    body = _TONES.get(colors.body_tone) or texture.color_a
    pips = _TONES.get(colors.pip_tone) or hsv_to_linear(
        colors.pip_hue, colors.pip_saturation, colors.pip_value
    )
    backgrounds = [body]
    if texture.family != "plain":
        backgrounds.append(mix_colors(body, texture.color_b, texture.contrast))

    def compute_contrast(color: Color) -> float:
        return min(
            math.dist(linear_to_srgb(color), linear_to_srgb(background))
            for background in backgrounds
        )

    choices = [mix_colors(pips, tone, n / 4) for n in range(5) for tone in _TONES.values()]
    valid = (color for color in choices if compute_contrast(color) >= colors.pip_contrast)
    return body, next(valid, max(choices, key=compute_contrast))


def _make_grid_faces(vertex_lines: Sequence[int]) -> NDArray[np.int64]:
    """Return two triangles per cell between selected vertex lines of all six faces."""
    lines = np.array(vertex_lines)
    rows = lines[:, None] * _FACE_VERTICES
    corner, right = rows[:-1] + lines[:-1], rows[:-1] + lines[1:]
    above, across = rows[1:] + lines[:-1], rows[1:] + lines[1:]
    corners = [np.stack(c, axis=-1) for c in ((corner, right, across), (corner, across, above))]
    triangles = np.concatenate([c.reshape(-1, 3) for c in corners])
    first = np.arange(6)[:, None, None] * _FACE_VERTICES**2
    return (triangles + first).reshape(-1, 3).astype(np.int64)


def _compute_face_axes(normal: Floats) -> tuple[Floats, Floats]:
    """Return tangent and bitangent of a face, right-handed with its normal."""
    tangent = np.roll(np.abs(normal), 1)
    return tangent, np.cross(normal, tangent)


def _round_cube_points(cube_points: Floats, die: Die) -> tuple[Floats, Floats]:
    """Map points (n, 3) of the cube [-1, 1]^3 to points in metres and normals of the die."""
    rounding = min(die.rounding, 0.49) * 2
    core = np.clip(cube_points, -(1 - rounding), 1 - rounding)
    outward = cube_points - core
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    points = core + rounding * outward
    ball_radius = math.sqrt(3) - (math.sqrt(3) - math.sqrt(2)) * die.corner_cut
    radius = np.linalg.norm(points, axis=1, keepdims=True)
    is_cut = radius > ball_radius
    points = np.where(is_cut, points * ball_radius / radius, points)
    outward = np.where(is_cut, points / ball_radius, outward)
    return points * die.edge_m / 2, outward


def _get_tile_corner(value: str) -> tuple[int, int]:
    row, column = divmod(int(value) - 1, _COLUMNS)
    return column * TILE_PX, row * TILE_PX


def _compute_atlas_uv(value: str, u: Floats, v: Floats) -> Floats:
    left, top = _get_tile_corner(value)
    x = left + _PADDING_PX + (u + 1) / _TEXEL_SIZE
    y = top + _PADDING_PX + (v + 1) / _TEXEL_SIZE
    return np.stack([x / (_COLUMNS * TILE_PX), y / (_ROWS * TILE_PX)], axis=1)


def _draw_pips(pips: Pips) -> tuple[Float32Array, Float32Array]:
    """Return the pip coverage (h, w) of each texel, 0 to 1, and its height in half edges."""
    coverage = np.zeros((_ROWS * TILE_PX, _COLUMNS * TILE_PX), np.float32)
    height = np.zeros_like(coverage)
    for value, positions in _PIP_POSITIONS.items():
        radius, step_x, step_y = (2 * length for length in _compute_pip_layout(pips, value))
        reach_px = math.ceil(radius / _TEXEL_SIZE) + 1
        left, top = (corner + TILE_PX / 2 - 0.5 for corner in _get_tile_corner(value))
        for x, y in positions:
            column, row = left + step_x * x / _TEXEL_SIZE, top + step_y * y / _TEXEL_SIZE
            columns, rows = (
                np.arange(round(c) - reach_px, round(c) + reach_px + 1) for c in (column, row)
            )
            du, dv = (columns - column) * _TEXEL_SIZE, (rows[:, None] - row) * _TEXEL_SIZE
            distance = np.maximum(abs(du), abs(dv)) if pips.shape == "square" else np.hypot(du, dv)
            pip = np.clip((radius - distance) / _TEXEL_SIZE + 0.5, 0, 1)
            if pips.shape == "ring":
                pip *= np.clip((distance - 0.45 * radius) / _TEXEL_SIZE + 0.5, 0, 1)
            window = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            coverage[window] = np.maximum(coverage[window], pip)
            height[window] -= 2 * pips.depth * np.clip(1 - (distance / radius) ** 2, 0, None)
    return coverage, height


def _compute_pip_layout(pips: Pips, value: str) -> tuple[float, float, float]:
    """Return pip radius and offsets of the outer pips, across and along the rows of a six.

    All lengths are relative to the edge.
    """
    match value:
        case "1":
            return pips.radius * pips.ace, 0.0, 0.0
        case "2":
            return pips.radius, pips.spread * pips.two, pips.spread * pips.two
        case "3":
            return pips.radius, pips.spread * pips.three, pips.spread * pips.three
        case "6":
            return pips.radius, pips.spread * pips.rows, pips.spread
    return pips.radius, pips.spread, pips.spread


def _compute_normals(height: Float32Array) -> Float32Array:
    down, right = np.gradient(height, _TEXEL_SIZE)
    normals = np.stack([-right, -down, np.ones_like(height)], axis=-1)
    return np.asarray(normals / np.sqrt(right * right + down * down + 1)[..., None])
