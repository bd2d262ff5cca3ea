"""Shapes of bodies, in metres, in the object frame.

This module defines no object kinds: ``sim2cam.objects`` and packages of users add theirs.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from pydantic import PlainSerializer, PlainValidator, SerializationInfo, TypeAdapter

from sim2cam.errors import SpecError, suggest_name
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.scene.articulation import JointStates
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.parameters import check_sizes
from sim2cam.scene.symmetry import NO_SYMMETRIES, Symmetries

LengthUnit = Literal["m", "cm", "mm", "in"]
METRES_PER_UNIT: dict[LengthUnit, float] = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254}
"""Length of each unit in metres."""

ENTRY_POINT_GROUP = "sim2cam.objects"
"""Entry points of packages that add object kinds; each names a module."""

T = TypeVar("T")


class Shape:
    """Geometry of a body. Subclasses are frozen dataclasses with a constant field ``kind``.

    Attributes:
        kind: Name of the kind in scene files.
        side_count: Number of sides that can carry decals.
    """

    kind: str
    side_count: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            _TYPES[vars(cls)["kind"]] = cls

    def get_category(self, pose: Pose) -> str:
        """Return the category of a body with this shape and pose (object frame in the world)."""
        return self.kind

    def get_hidden_category(self, pose: Pose) -> str | None:
        """Return the category of a pose that hides what the body is, such as a card face down; None otherwise."""
        return None

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the named points of the shape, in metres."""
        return {}

    def get_symmetries(self) -> Symmetries:
        """Return the rotations that leave shape and marks unchanged, regardless of colours."""
        return NO_SYMMETRIES


_TYPES: dict[str, type[Shape]] = {}


@dataclass(frozen=True)
class MeshFile(Shape):
    """A shape from a mesh or model file, in the file's frame.

    It collides as its convex hull, or as a few convex parts if it was imported (``assets.importer``). Its colour
    is the file's texture or vertex colours, or else that of the body's material. Reflectance is always the
    material's.

    Attributes:
        path: Path of the file.
        category: Category of the label; empty for unlabelled objects.
        unit_m: Length of one unit of the file in metres.
        max_faces: Largest accepted number of triangles.
        keypoints: Named points, metres.
        digest: SHA-256 of the imported content, which must not change and may come from the cache.
        joints: States of the joints; 0 for unnamed ones.
    """

    path: str
    category: str
    unit_m: float = 1.0
    max_faces: int = 200_000
    keypoints: tuple[tuple[str, Vec3], ...] = ()
    digest: str = ""
    joints: JointStates = ()
    kind: Literal["mesh"] = "mesh"

    def __post_init__(self) -> None:
        check_sizes(self, "unit_m", "max_faces")
        if not re.fullmatch(r"([0-9a-f]{64})?", self.digest):
            raise SpecError(f"'{self.digest[:80]}' is not a SHA-256 digest.")

    def get_category(self, pose: Pose) -> str:
        """Return the category of the file."""
        return self.category

    def get_keypoints(self) -> dict[str, Vec3]:
        """Return the annotated points and the origins of moving joints."""
        return dict(self.keypoints)


File = MeshFile | ImageFile


def collect_files(value: Any) -> tuple[File, ...]:
    """Return all files in the fields of a dataclass, at any depth."""
    if isinstance(value, File):
        return (value,)
    if isinstance(value, tuple):
        return tuple(file for item in value for file in collect_files(item))
    if dataclasses.is_dataclass(value):
        return collect_files(
            tuple(getattr(value, field.name) for field in dataclasses.fields(value))
        )
    return ()


def replace_file_paths(value: T, paths: Mapping[str, str]) -> T:
    """Return a dataclass with the paths of its files replaced by a mapping, at any depth."""
    if not collect_files(value):
        return value
    if isinstance(value, File):
        return dataclasses.replace(value, path=paths.get(value.path, value.path))
    if isinstance(value, tuple):
        return cast("T", tuple(replace_file_paths(item, paths) for item in value))
    record: Any = value
    changes = {
        field.name: replace_file_paths(getattr(record, field.name), paths)
        for field in dataclasses.fields(record)
    }
    return cast("T", dataclasses.replace(record, **changes))


def list_shape_types() -> Mapping[str, type[Shape]]:
    """Return the class of each kind of shape, by ``kind``."""
    _import_kinds()
    return _TYPES


@functools.cache
def _import_kinds() -> None:
    """Import the modules of object kinds, which register their shapes."""
    package = importlib.import_module("sim2cam.objects")
    for module in pkgutil.iter_modules(package.__path__, "sim2cam.objects."):
        importlib.import_module(module.name)
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        entry_point.load()


@functools.cache
def _get_adapter(kind: str) -> TypeAdapter[Any]:
    types = list_shape_types()
    if kind not in types:
        raise ValueError(f"unknown kind of shape '{kind}'. {suggest_name(kind, types)}")
    return TypeAdapter(types[kind])


def _parse(value: Any) -> Shape:
    if isinstance(value, Shape):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("a shape must be a table with a kind")
    return cast("Shape", _get_adapter(str(value.get("kind"))).validate_python(value))


def _serialize(shape: Shape, info: SerializationInfo) -> Any:
    mode: Literal["json", "python"] = "json" if info.mode_is_json() else "python"
    return _get_adapter(shape.kind).dump_python(shape, mode=mode, exclude_none=info.exclude_none)


AnyShape = Annotated[Shape, PlainValidator(_parse), PlainSerializer(_serialize)]
"""A shape of any kind in a scene file."""
