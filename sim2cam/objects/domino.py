"""Dominoes, labelled by their pair of pip counts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.objects.kind import (
    ColorFactors,
    ContactFactors,
    LabelClass,
    ObjectInstance,
    ObjectKind,
    PossibleValues,
    TumblingFactors,
)
from sim2cam.objects.plate import Plate, Side
from sim2cam.scene import symmetry
from sim2cam.scene.material import Color, hsv_to_linear
from sim2cam.scene.parameters import Between, check_sizes
from sim2cam.surfaces.printing import InkPrint, downsample_coverage

DOMINO_BACK = "back"
"""Category of a domino that lies face down."""

_MAX_PIPS = 6
_SUPERSAMPLING = 4
_LINE_WIDTH = 0.03  # over the width
_PIP_GRID: dict[int, tuple[tuple[int, int], ...]] = {
    0: (),
    1: ((0, 0),),
    2: ((-1, -1), (1, 1)),
    3: ((-1, -1), (0, 0), (1, 1)),
    4: ((-1, -1), (-1, 1), (1, -1), (1, 1)),
    5: ((-1, -1), (-1, 1), (0, 0), (1, -1), (1, 1)),
    6: ((-1, -1), (-1, 0), (-1, 1), (1, -1), (1, 0), (1, 1)),
}

PipCount = Annotated[int, Between(0, _MAX_PIPS)]


@dataclass(frozen=True)
class DominoFactors(TumblingFactors, ContactFactors):
    """One domino.

    Attributes:
        first, second: Pips of its halves.
        width_m: Short side; the long side is twice as long.
        thickness, corner: Thickness and corner radius, over the width.
        pip_radius, pip_spread: Radius of pips, and distance of the outer ones from the centre of their half, over
            the width.
    """

    first: PipCount
    second: PipCount
    width_m: Annotated[float, Between(0.005, 0.1)]
    thickness: Annotated[float, Between(0.1, 0.6)]
    corner: Annotated[float, Between(0.01, 0.2)]
    pip_radius: Annotated[float, Between(0.02, 0.12)]
    pip_spread: Annotated[float, Between(0.15, 0.35)]


@dataclass(frozen=True)
class Domino(Plate, ObjectKind):
    """A domino, face at +z, its first half at +y.

    Attributes:
        pips: Pips of the first and the second half.
        size_m: Width, height, thickness.
        corner_radius_m: Radius of the corners.
        pip_radius_m, pip_spread_m: Radius of pips, and distance of the outer ones from the centre of their half.
        pip_color: Linear RGB of pips and line.
    """

    factors_type: ClassVar[type[Any]] = DominoFactors
    group_types: ClassVar[dict[str, type[Any]]] = {"pip": ColorFactors}
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.CUBOID
    texture_px: ClassVar[int] = 256

    pips: tuple[int, int]
    size_m: Vec3
    corner_radius_m: float
    pip_radius_m: float
    pip_spread_m: float
    pip_color: Color
    kind: Literal["domino"] = "domino"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m", "corner_radius_m", "pip_radius_m", "pip_spread_m")
        if not all(0 <= count <= _MAX_PIPS for count in self.pips):
            raise SpecError(f"a domino has {self.pips} pips. Allowed: 0 to {_MAX_PIPS} per half.")

    @classmethod
    def from_instance(cls, instance: ObjectInstance[DominoFactors]) -> Domino:
        """Return the domino."""
        factors, width = instance.factors, instance.factors.width_m
        color: ColorFactors = instance.groups["pip"]
        return cls(
            (factors.first, factors.second),
            (width, 2 * width, width * factors.thickness),
            width * factors.corner,
            width * factors.pip_radius,
            width * factors.pip_spread,
            hsv_to_linear(color.hue, color.saturation, color.value),
        )

    @classmethod
    def list_label_classes(cls, possible: PossibleValues) -> tuple[LabelClass, ...]:
        """Return the doubles, which have a half-turn symmetry, and the others with the back."""
        first, second = (
            range(int(min(values)), int(max(values)) + 1)
            for values in (possible("first"), possible("second"))
        )
        pairs = list(itertools.product(first, second))
        doubles = {_name_pair(a, b) for a, b in pairs if a == b}
        others = {_name_pair(a, b) for a, b in pairs if a != b}
        return (
            cls.make_label_class(others | cls.list_hidden_categories(possible)),
            cls.make_label_class(doubles, "double domino", symmetry.HALF_TURN),
        )

    @classmethod
    def list_hidden_categories(cls, possible: PossibleValues) -> set[str]:
        """Return the back."""
        return {DOMINO_BACK}

    def get_category(self, pose: Pose) -> str:
        """Return the pip counts, the smaller first, or ``back``."""
        return self.get_hidden_category(pose) or _name_pair(*self.pips)

    def get_hidden_category(self, pose: Pose) -> str | None:
        """Return ``back`` if the domino lies face down."""
        return DOMINO_BACK if pose.rotation().apply((0.0, 0.0, 1.0))[2] < 0 else None

    def get_symmetries(self) -> symmetry.Symmetries:
        """Return the half-turn symmetry of doubles."""
        is_double = self.pips[0] == self.pips[1]
        return symmetry.HALF_TURN if is_double else symmetry.NO_SYMMETRIES

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the four corners of the face, seen with the first half at the top."""
        x, y, z = (side / 2 for side in self.size_m)
        return {
            "top left": (-x, y, z),
            "top right": (x, y, z),
            "bottom right": (x, -y, z),
            "bottom left": (-x, -y, z),
        }

    def get_keypoint_normals(self) -> dict[str, Vec3]:
        """Return the normal of the face."""
        return dict.fromkeys(self.get_keypoints(), (0.0, 0.0, 1.0))

    def make_print(self) -> InkPrint:
        """Return the pips and the line between the halves."""
        width_px = self.texture_px * _SUPERSAMPLING
        canvas = np.zeros((2 * width_px, width_px), np.uint8)
        scale = width_px / self.size_m[0]
        for half, count in enumerate(self.pips):
            for x, y in _PIP_GRID[count]:
                _draw_disc(
                    canvas,
                    width_px / 2 + x * self.pip_spread_m * scale,
                    (half + 0.5) * width_px + y * self.pip_spread_m * scale,
                    self.pip_radius_m * scale,
                )
        margin, half_line = round(0.1 * width_px), round(_LINE_WIDTH / 2 * width_px)
        canvas[width_px - half_line : width_px + half_line, margin:-margin] = 255
        return InkPrint(downsample_coverage(canvas, self.texture_px), self.pip_color)

    def make_sides(self) -> tuple[Side, Side]:
        """Return the print; the back is bare."""
        return self.make_print(), None


def _name_pair(first: int, second: int) -> str:
    return f"{min(first, second)}-{max(first, second)}"


def _draw_disc(canvas: NDArray[np.uint8], x: float, y: float, radius: float) -> None:
    cv2.circle(canvas, (round(x), round(y)), round(radius), 255, cv2.FILLED)
