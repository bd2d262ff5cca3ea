"""Kinds of labelled objects: how sampled factors become a solid with a category.

A kind is one module with one subclass of ``ObjectKind``. Importing the module registers it. Modules of this package
are found automatically, those of other packages by an entry point of the group ``sim2cam.objects``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Quaternion, quaternion
from sim2cam.objects.solid import Solid
from sim2cam.scene.image_facts import TextureImageInfo
from sim2cam.scene.material import Color, Material
from sim2cam.scene.parameters import Between, Fraction, Positive, Value
from sim2cam.scene.shape import list_shape_types
from sim2cam.scene.symmetry import NO_SYMMETRIES, Symmetries

F = TypeVar("F", bound="DropFactors")

PossibleValues = Callable[[str], set[Value]]
"""Function from a factor of a kind to its values, or to its extremes if it is a number."""

CenterOffset = Annotated[float, Between(-0.45, 0.45)]
Coordinate = Annotated[float, Between(-10, 10)]


@dataclass(frozen=True)
class DropFactors:
    """Initial position, motion and mass of one object.

    Attributes:
        throw_angle_rad, throw_radius: Position in the drop region, polar; the radius over ``layout.region_m``.
        azimuth_rad, share: Direction of motion, and fraction of the layout's speed and spin.
        mass_offset_x, mass_offset_y, mass_offset_z: Offset of the centre of mass from the centre, over the side
            along the same axis.
        drag, spin_drag: Fraction of linear and angular velocity lost per second.
        x_m, y_m, z_m: Position in a ``placed`` layout: origin in x and y, lowest point above the table in z. In a
            ``scatter`` layout, z raises an object above the table.
    """

    throw_angle_rad: float
    throw_radius: Annotated[float, Between(0, 5)]
    azimuth_rad: float
    share: Fraction
    mass_offset_x: CenterOffset = field(default=0.0, kw_only=True)
    mass_offset_y: CenterOffset = field(default=0.0, kw_only=True)
    mass_offset_z: CenterOffset = field(default=0.0, kw_only=True)
    drag: Fraction = field(default=0.0, kw_only=True)
    spin_drag: Fraction = field(default=0.0, kw_only=True)
    x_m: Coordinate = field(default=0.0, kw_only=True)
    y_m: Coordinate = field(default=0.0, kw_only=True)
    z_m: Coordinate = field(default=0.0, kw_only=True)

    @property
    def is_held(self) -> bool:
        """Whether the object is fixed in its initial pose, as if held by a person."""
        return False

    def compute_rotation(self) -> Quaternion:
        """Return the initial rotation."""
        raise NotImplementedError


@dataclass(frozen=True)
class TumblingFactors(DropFactors):
    """Drop of an object in any orientation.

    Attributes:
        rotation_a, rotation_b, rotation_c: Three numbers that define a uniform rotation (Shoemake 1992, "Uniform
            random rotations").
        yaw_rad: Rotation about the vertical instead; the object stands upright in its own frame.
    """

    rotation_a: Fraction
    rotation_b: Fraction
    rotation_c: Fraction
    yaw_rad: float | None = field(default=None, kw_only=True)

    def compute_rotation(self) -> Quaternion:
        """Return the yaw rotation, or else the uniform rotation."""
        if self.yaw_rad is not None:
            return compute_yaw_rotation(self.yaw_rad)
        outer, inner = math.sqrt(self.rotation_a), math.sqrt(1 - self.rotation_a)
        b, c = 2 * math.pi * self.rotation_b, 2 * math.pi * self.rotation_c
        return (outer * math.cos(c), inner * math.sin(b), inner * math.cos(b), outer * math.sin(c))


@dataclass(frozen=True)
class FlatFactors(DropFactors):
    """Drop of a flat object with its upper side up, or nearly so.

    Attributes:
        yaw_rad: Rotation about the vertical.
        lean_rad, lean_angle_rad: Tilt off the vertical, and its direction.
    """

    yaw_rad: float
    lean_rad: Annotated[float, Between(0, math.pi / 2)]
    lean_angle_rad: float

    def compute_rotation(self) -> Quaternion:
        """Return the yaw rotation followed by the tilt."""
        axis = np.array([-math.sin(self.lean_angle_rad), math.cos(self.lean_angle_rad), 0.0])
        yaw = Rotation.from_euler("z", self.yaw_rad)
        return quaternion(Rotation.from_rotvec(self.lean_rad * axis) * yaw)


@dataclass(frozen=True)
class ContactFactors:
    """Mechanics of one object of uniform density.

    Attributes:
        density_kg_m3: Density.
        friction, restitution: Coefficients; those of two bodies multiply.
    """

    density_kg_m3: Positive
    friction: Annotated[float, Between(0, 2)]
    restitution: Fraction


@dataclass(frozen=True)
class ColorFactors:
    """A colour by hue, saturation and value.

    Attributes:
        hue: Hue; repeats after 1.
        saturation: Saturation.
        value: Value of HSV, the largest of red, green and blue.
    """

    hue: float
    saturation: Fraction
    value: Fraction


@dataclass(frozen=True)
class ObjectInstance(Generic[F]):
    """Sampled values of one object.

    Attributes:
        factors: Its own factors.
        look: Factors of the object whose look it shares; usually its own.
        groups: Values of the kind's further groups, by suffix.
        material: Material of its surface group.
        images: Texture images of the recipe, by name.
    """

    factors: F
    look: F
    groups: Mapping[str, Any]
    material: Material
    images: Mapping[str, TextureImageInfo] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelClass:
    """Labels with the same symmetries.

    Attributes:
        name: Name in datasets.
        categories: Categories of its objects.
        symmetries: Symmetries of shape and marks, regardless of the material's colours.
        shape_symmetries: Symmetries of the shape alone, as visible in depth.
    """

    name: str
    categories: tuple[str, ...]
    symmetries: Symmetries
    shape_symmetries: Symmetries


class ObjectKind(Solid):
    """A solid that recipes can sample and that is labelled.

    Attributes:
        factors_type: Dataclass of the factors, a ``DropFactors`` with ``ContactFactors``.
        group_types: Dataclasses of further groups per object, by suffix: ``color`` for ``die_color``.
        derived_factors: Texts that follow from a factor, which other factors can refer to: name to factor and
            function.
        pose_properties: Texts that follow from the pose at rest and from which the category can follow: name to the
            factor with the category of each text, and the texts.
        symmetries, shape_symmetries: Symmetries of most objects, as in ``LabelClass``.
    """

    factors_type: ClassVar[type[Any]]
    group_types: ClassVar[Mapping[str, type[Any]]] = {}
    derived_factors: ClassVar[Mapping[str, tuple[str, Callable[[str], str]]]] = {}
    pose_properties: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {}
    symmetries: ClassVar[Symmetries] = NO_SYMMETRIES
    shape_symmetries: ClassVar[Symmetries] = NO_SYMMETRIES

    @classmethod
    def from_instance(cls, instance: ObjectInstance[Any]) -> Self:
        """Return the object with sampled values."""
        raise NotImplementedError

    @classmethod
    def choose_color(cls, instance: ObjectInstance[Any]) -> Color | None:
        """Return the linear RGB that replaces the first colour of the surface; None to keep it."""
        return None

    @classmethod
    def list_label_classes(cls, possible: PossibleValues) -> tuple[LabelClass, ...]:
        """Return the label classes of the objects that a domain can sample."""
        return (cls.make_label_class(possible("category") or {cls.kind}),)

    @classmethod
    def list_hidden_categories(cls, possible: PossibleValues) -> set[str]:
        """Return the categories of poses that hide what an object is, as ``back``."""
        return set()

    @classmethod
    def make_label_class(
        cls, categories: Collection[Value], name: str = "", symmetries: Symmetries | None = None
    ) -> LabelClass:
        """Return a label class, by default with the name and symmetries of the kind."""
        return LabelClass(
            name or cls.kind,
            tuple(sorted(map(str, categories))),
            cls.symmetries if symmetries is None else symmetries,
            cls.shape_symmetries,
        )

    @classmethod
    def find_problem(
        cls, possible: PossibleValues, image_names: Collection[str]
    ) -> tuple[str, str] | None:
        """Return a factor that contradicts others or needs missing images, and the problem; None without one."""
        return None

    def get_category(self, pose: Pose) -> str:
        """Return the field ``category``, if there is one, or else the kind."""
        return str(getattr(self, "category", self.kind))

    def get_symmetries(self) -> Symmetries:
        """Return the symmetries of shape and marks."""
        return self.symmetries


def list_kinds() -> Mapping[str, type[ObjectKind]]:
    """Return the kinds of labelled objects by name, sorted."""
    types = sorted(list_shape_types().items())
    return {name: kind for name, kind in types if issubclass(kind, ObjectKind)}


def compute_yaw_rotation(yaw_rad: float) -> Quaternion:
    """Return the rotation about the vertical."""
    return math.cos(yaw_rad / 2), 0.0, 0.0, math.sin(yaw_rad / 2)
