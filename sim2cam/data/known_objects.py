"""Objects of known size: what their pose can be found with, from the labels of data sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sim2cam.data.parsing import format_validation_error
from sim2cam.data.reader import find_rendered_ancestor, read_header
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import HEADER
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import compute_box_corners
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.metrics.pose_errors import compute_symmetry_transforms
from sim2cam.scene.symmetry import Symmetries

Floats = NDArray[np.float64]

_SIZE_TOLERANCE = 1e-3  # of the size, by which two objects of one kind may differ
_ROTATION_TOLERANCE = 1e-6  # by which their turns may, which machines round otherwise


@dataclass(frozen=True)
class ObjectGeometry:
    """An object of which all are alike.

    Attributes:
        extent_m: two opposite corners, low and high, of its box in its own frame.
        symmetries: turns after which it looks the same.
    """

    extent_m: tuple[Vec3, Vec3]
    symmetries: Symmetries = field(default_factory=Symmetries)

    def compute_corners_m(self) -> Floats:
        """Return the corners (8, 3) of its box in its own frame."""
        return compute_box_corners(*self.extent_m)

    def matches(self, other: ObjectGeometry) -> bool:
        """Return whether another one is as large and looks the same after the same turns."""
        return _have_same_symmetries(self.symmetries, other.symmetries) and _have_same_size(
            self.extent_m, other.extent_m
        )

    @property
    def max_coordinate_m(self) -> float:
        """The largest coordinate that a point of it has in its own frame, of either sign."""
        return float(np.abs(self.extent_m).max())

    def compute_symmetry_rotations(self) -> Floats:
        """Return the rotations (s, 3, 3) that change nothing, first none.

        Those about an axis are many; ``pose_errors.symmetry_transforms`` has the step.
        """
        transforms = compute_symmetry_transforms(
            [Pose(turn).matrix() for turn in self.symmetries.rotations_wxyz],
            [(np.array(axis), np.zeros(3)) for axis in self.symmetries.axes],
        )
        return np.asarray(transforms[:, :3, :3])


@dataclass(frozen=True)
class _ObjectKindEntry:
    """An entry of ``objects`` in ``dataset.json``, which the channel ``symmetries`` asks for."""

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
        """Yield categories with what is known of them; those of files always are, but for clutter's."""
        for asset in self.recipe.assets:
            if asset.mesh.category:
                yield asset.mesh.category, asset.symmetries
        for kind in self.objects.values():
            for category in kind.categories:
                yield category, kind.symmetries


_HEADER: TypeAdapter[_Header] = TypeAdapter(_Header)


def stack_symmetry_rotations(objects: Iterable[ObjectGeometry]) -> Floats:
    """Return the ``turns`` (n, s, 3, 3) of several; where one has fewer, its first repeats."""
    each = [one.compute_symmetry_rotations() for one in objects]
    most = max(map(len, each))
    return np.stack([np.concatenate([t, t[:1].repeat(most - len(t), axis=0)]) for t in each])


def read_object_geometries(datasets: Sequence[Dataset]) -> dict[str, ObjectGeometry]:
    """Return the object of each category, by its name, in the order of the categories.

    Labels without a pose or a size, as those of photos, tell nothing.

    Args:
        datasets: of the same categories.

    Raises:
        InputError: objects of a category are of several sizes or symmetries, or all rotations leave
            them as they are, or either is not known.
    """
    extents = _collect_extents(datasets)
    symmetries = _read_symmetries(datasets)
    found = {}
    for category in datasets[0].categories:
        if category not in extents:
            raise InputError(
                datasets[0].root,
                f"no object of category '{category}' has a pose and a size, so its pose cannot be "
                "learned. Add rendered data sets that show it, or train without poses.",
            )
        root, extent = extents[category]
        if category not in symmetries:
            raise InputError(
                root,
                f"does not say after which turns objects of category '{category}' look the same. "
                "Render it again with the channel symmetries among --channels.",
            )
        if len(symmetries[category].axes) > 1:
            raise InputError(
                root,
                f"objects of category '{category}' look the same however they are turned, so they "
                "have no pose to learn. Train without poses.",
            )
        found[category] = ObjectGeometry(extent, symmetries[category])
    return found


def _collect_extents(datasets: Sequence[Dataset]) -> dict[str, tuple[Path, tuple[Vec3, Vec3]]]:
    """Return where the size of each category's objects was found first, and that size."""
    found: dict[str, tuple[Path, tuple[Vec3, Vec3]]] = {}
    labels = ((d.root, o) for d in datasets for s in d.samples for o in s.objects or ())
    for root, label in labels:
        if label.pose is None or label.extent_m is None:
            continue
        _, first = found.setdefault(label.category, (root, label.extent_m))
        if not _have_same_size(first, label.extent_m):
            raise InputError(
                root,
                f"objects of category '{label.category}' are of different sizes: "
                f"{_format_size(first)} and {_format_size(label.extent_m)}. Poses are learned of objects that are "
                "all alike: give each size a category, or train without poses.",
            )
    return found


def _have_same_size(first: tuple[Vec3, Vec3], second: tuple[Vec3, Vec3]) -> bool:
    size = np.ptp(np.array(first), axis=0)
    return bool(np.abs(np.subtract(second, first)).max() <= _SIZE_TOLERANCE * size.max())


def _have_same_symmetries(first: Symmetries, second: Symmetries) -> bool:
    pairs = (first.rotations_wxyz, second.rotations_wxyz), (first.axes, second.axes)
    return all(
        len(one) == len(other) and np.allclose(one, other, rtol=0, atol=_ROTATION_TOLERANCE)
        for one, other in pairs
    )


def _read_symmetries(datasets: Sequence[Dataset]) -> dict[str, Symmetries]:
    found: dict[str, Symmetries] = {}
    for root in (find_rendered_ancestor(s.root) for d in datasets for s in d.list_sources()):
        if not (root / HEADER).is_file():
            continue
        try:
            header = _HEADER.validate_python(read_header(root))
        except ValidationError as error:
            raise InputError(
                root / HEADER, f"{format_validation_error(error)}. Render the data set again."
            ) from error
        for category, symmetries in header.iterate_symmetries():
            if not _have_same_symmetries(found.setdefault(category, symmetries), symmetries):
                raise InputError(
                    root,
                    f"objects of category '{category}' look the same after different turns. Poses "
                    "are learned of objects that are all alike: give each kind a category, or train "
                    "without poses.",
                )
    return found


def _format_size(extent: tuple[Vec3, Vec3]) -> str:
    return " x ".join(f"{1e3 * side:.4g}" for side in np.ptp(np.array(extent), axis=0)) + " mm"
