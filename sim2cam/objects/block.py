"""Blocks: cuboids with rounded edges and a category of their own, such as their colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Vec3
from sim2cam.objects.kind import (
    ContactFactors,
    LabelClass,
    ObjectInstance,
    ObjectKind,
    PossibleValues,
    TumblingFactors,
)
from sim2cam.objects.primitives import make_side_keypoints
from sim2cam.scene import symmetry
from sim2cam.scene.parameters import Between, CategoryName, check_sizes
from sim2cam.surfaces.mesh import Mesh
from sim2cam.surfaces.rounded_box import build_rounded_box

Ratio = Annotated[float, Between(0.05, 20)]


@dataclass(frozen=True)
class BlockFactors(TumblingFactors, ContactFactors):
    """One cuboid block.

    Attributes:
        category: Label, one of the recipe's categories. Colours and sides can depend on it with ``given``.
        length_m: First side.
        width, height: Other sides, over the first.
        rounding: Edge radius, over the shortest side.
    """

    category: CategoryName
    length_m: Annotated[float, Between(0.002, 0.5)]
    width: Ratio
    height: Ratio
    rounding: Annotated[float, Between(0, 0.49)]


@dataclass(frozen=True)
class Block(ObjectKind):
    """A labelled cuboid, centred on the origin.

    Attributes:
        size_m: Sides along the axes.
        rounding: Radius of edges over the shortest side.
        category: Category of the label.
    """

    factors_type: ClassVar[type[Any]] = BlockFactors
    symmetries: ClassVar[symmetry.Symmetries] = symmetry.CUBOID
    shape_symmetries: ClassVar[symmetry.Symmetries] = symmetry.CUBOID

    size_m: Vec3
    rounding: float
    category: str
    kind: Literal["block"] = "block"

    def __post_init__(self) -> None:
        check_sizes(self, "size_m")
        if not 0 <= self.rounding < 0.5:
            raise SpecError(f"rounding of a block is {self.rounding}. Allowed: 0 to below 0.5.")

    @classmethod
    def from_instance(cls, instance: ObjectInstance[BlockFactors]) -> Block:
        """Return the block."""
        factors = instance.factors
        length = factors.length_m
        size = (length, length * factors.width, length * factors.height)
        return cls(size, factors.rounding, factors.category)

    @classmethod
    def list_label_classes(cls, possible: PossibleValues) -> tuple[LabelClass, ...]:
        """Return one class, ``cube`` if all sides are equal."""
        label_class = cls.make_label_class(possible("category"))
        if possible("width") == possible("height") == {1}:
            return (LabelClass("cube", label_class.categories, symmetry.CUBE, symmetry.CUBE),)
        return (label_class,)

    def build_mesh(self) -> Mesh:
        """Return the mesh; its parts are the sides (-x, +x, -y, ...)."""
        return build_rounded_box(self.size_m, self.rounding)

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the centres of the sides."""
        return make_side_keypoints(self.size_m)

    def get_symmetries(self) -> symmetry.Symmetries:
        """Return the symmetries of a cube or cuboid."""
        return symmetry.CUBE if len(set(self.size_m)) == 1 else symmetry.CUBOID

    def get_texture_span_m(self) -> float:
        """Return the longest side."""
        return max(self.size_m)
