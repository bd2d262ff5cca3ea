"""Size and symmetries of object categories, read from dataset labels, for pose estimation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sim2cam.data.parsing import convert_validation_errors
from sim2cam.data.reader import find_rendered_ancestor, read_header
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import HEADER
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import compute_box_corners
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.metrics.pose_errors import compute_symmetry_transforms
from sim2cam.scene.symmetry import Symmetries

Floats = NDArray[np.float64]

_SIZE_TOLERANCE = 1e-3  # relative difference allowed within a category
_ROTATION_TOLERANCE = 1e-6  # rounding differs between machines


@dataclass(frozen=True)
class ObjectGeometry:
    """Size and symmetries that all objects of a category share."""

    extent_m: tuple[Vec3, Vec3]
    symmetries: Symmetries = field(default_factory=Symmetries)

    def compute_corners_m(self) -> Floats:
        """Return the box corners (8, 3) in the object frame."""
        return compute_box_corners(*self.extent_m)

    def matches(self, other: ObjectGeometry) -> bool:
        """Return whether another object has the same size and symmetries."""
        return _have_same_symmetries(self.symmetries, other.symmetries) and _have_same_size(
            self.extent_m, other.extent_m
        )

    @property
    def max_coordinate_m(self) -> float:
        """Largest absolute coordinate of the box in the object frame, in metres."""
        return float(np.abs(self.extent_m).max())

    def compute_symmetry_rotations(self) -> Floats:
        """Return the symmetry rotations (s, 3, 3), the identity first.

        Rotations about an axis are discretized by ``compute_symmetry_transforms``.
        """
        transforms = compute_symmetry_transforms(
            [Pose(rotation).matrix() for rotation in self.symmetries.rotations_wxyz],
            [(np.array(axis), np.zeros(3)) for axis in self.symmetries.axes],
        )
        return np.asarray(transforms[:, :3, :3])


@dataclass(frozen=True)
class _ObjectKindEntry:
    """An entry of ``objects`` in ``dataset.json``, written with the channel ``symmetries``."""

    categories: tuple[str, ...]
    symmetries: Symmetries


@dataclass(frozen=True)
class _MeshEntry:
    category: str


@dataclass(frozen=True)
class _AssetEntry:
    mesh: _MeshEntry
    symmetries: Symmetries = field(default_factory=Symmetries)


@dataclass(frozen=True)
class _RecipeEntry:
    assets: tuple[_AssetEntry, ...] = ()


@dataclass(frozen=True)
class _Header:
    objects: Mapping[str, _ObjectKindEntry] = field(default_factory=dict)
    recipe: _RecipeEntry = field(default_factory=_RecipeEntry)

    def iterate_symmetries(self) -> Iterator[tuple[str, Symmetries]]:
        """Yield categories and their symmetries; assets without a category are clutter."""
        for asset in self.recipe.assets:
            if asset.mesh.category:
                yield asset.mesh.category, asset.symmetries
        for kind in self.objects.values():
            for category in kind.categories:
                yield category, kind.symmetries


_HEADER: TypeAdapter[_Header] = TypeAdapter(_Header)


def stack_symmetry_rotations(objects: Iterable[ObjectGeometry]) -> Floats:
    """Return the symmetry rotations (n, s, 3, 3) of several objects, padded with the identity."""
    rotations = [geometry.compute_symmetry_rotations() for geometry in objects]
    max_count = max(map(len, rotations))
    return np.stack(
        [np.concatenate([r, r[:1].repeat(max_count - len(r), axis=0)]) for r in rotations]
    )


def read_object_geometries(datasets: Sequence[Dataset]) -> dict[str, ObjectGeometry]:
    """Return the geometry of each category, in the order of the categories.

    Labels without pose or size, as those of photos, are ignored.

    Args:
        datasets: Datasets with the same categories.

    Raises:
        InputError: If the objects of a category differ in size or symmetries, are rotationally symmetric about
            several axes, or lack size or symmetries.
    """
    extents = _collect_extents(datasets)
    symmetries = _read_symmetries(datasets)
    geometries = {}
    for category in datasets[0].categories:
        if category not in extents:
            raise InputError(
                datasets[0].root,
                f"no object of category '{category}' has a pose and a size. "
                "Add rendered datasets that show it, or train without poses.",
            )
        root, extent = extents[category]
        if category not in symmetries:
            raise InputError(
                root,
                f"symmetries of category '{category}' are not recorded. "
                "Render it again with the channel symmetries among --channels.",
            )
        if len(symmetries[category].axes) > 1:
            raise InputError(
                root,
                f"objects of category '{category}' look the same in every orientation and have no "
                "pose to estimate. Train without poses.",
            )
        geometries[category] = ObjectGeometry(extent, symmetries[category])
    return geometries


def _collect_extents(datasets: Sequence[Dataset]) -> dict[str, tuple[Path, tuple[Vec3, Vec3]]]:
    extents: dict[str, tuple[Path, tuple[Vec3, Vec3]]] = {}
    labels = (
        (dataset.root, label)
        for dataset in datasets
        for sample in dataset.samples
        for label in sample.objects or ()
    )
    for root, label in labels:
        if label.pose is None or label.extent_m is None:
            continue
        _, first = extents.setdefault(label.category, (root, label.extent_m))
        if not _have_same_size(first, label.extent_m):
            raise InputError(
                root,
                f"objects of category '{label.category}' differ in size: {_format_size(first)} and "
                f"{_format_size(label.extent_m)}. Pose estimation needs one size per category. Give each size a "
                "category, or train without poses.",
            )
    return extents


def _have_same_size(first: tuple[Vec3, Vec3], second: tuple[Vec3, Vec3]) -> bool:
    size = np.ptp(np.array(first), axis=0)
    return bool(np.abs(np.subtract(second, first)).max() <= _SIZE_TOLERANCE * size.max())


def _have_same_symmetries(first: Symmetries, second: Symmetries) -> bool:
    pairs = (first.rotations_wxyz, second.rotations_wxyz), (first.axes, second.axes)
    return all(
        len(left) == len(right) and np.allclose(left, right, rtol=0, atol=_ROTATION_TOLERANCE)
        for left, right in pairs
    )


def _read_symmetries(datasets: Sequence[Dataset]) -> dict[str, Symmetries]:
    symmetries_by_category: dict[str, Symmetries] = {}
    sources = (source for dataset in datasets for source in dataset.list_sources())
    for root in (find_rendered_ancestor(source.root) for source in sources):
        if not (root / HEADER).is_file():
            continue
        with convert_validation_errors(root / HEADER, "Render the dataset again."):
            header = _HEADER.validate_python(read_header(root))
        for category, symmetries in header.iterate_symmetries():
            if not _have_same_symmetries(
                symmetries_by_category.setdefault(category, symmetries), symmetries
            ):
                raise InputError(
                    root,
                    f"objects of category '{category}' differ in symmetries. Pose estimation needs the "
                    "same symmetries throughout a category. Give each kind a category, or train without "
                    "poses.",
                )
    return symmetries_by_category


def _format_size(extent: tuple[Vec3, Vec3]) -> str:
    return " x ".join(f"{1e3 * side:.4g}" for side in np.ptp(np.array(extent), axis=0)) + " mm"
