"""Objects of known size: what their pose can be found with, from the labels of data sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sim2cam.data.parsing import first_problem
from sim2cam.data.reader import first_parent, read_header
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import HEADER
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import corners_in_space
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.metrics.pose_errors import symmetry_transforms
from sim2cam.scene.symmetry import Symmetries

Floats = NDArray[np.float64]

_SAME_SIZE = 1e-3  # of the size, by which two objects of one kind may differ
_SAME_TURN = 1e-6  # by which their turns may, which machines round otherwise


@dataclass(frozen=True)
class KnownObject:
    """An object of which all are alike.

    Attributes:
        extent_m: two opposite corners, low and high, of its box in its own frame.
        symmetries: turns after which it looks the same.
    """

    extent_m: tuple[Vec3, Vec3]
    symmetries: Symmetries = field(default_factory=Symmetries)

    def corners_m(self) -> Floats:
        """Returns the corners (8, 3) of its box in its own frame."""
        return corners_in_space(*self.extent_m)

    def is_like(self, other: KnownObject) -> bool:
        """Returns whether another one is as large and looks the same after the same turns."""
        return _same_turns(self.symmetries, other.symmetries) and _same_size(
            self.extent_m, other.extent_m
        )

    @property
    def reach_m(self) -> float:
        """The largest coordinate that a point of it has in its own frame, of either sign."""
        return float(np.abs(self.extent_m).max())

    def turns(self) -> Floats:
        """Returns the rotations (s, 3, 3) that change nothing, first none.

        Those about an axis are many; ``pose_errors.symmetry_transforms`` has the step.
        """
        transforms = symmetry_transforms(
            [Pose(turn).matrix() for turn in self.symmetries.rotations_wxyz],
            [(np.array(axis), np.zeros(3)) for axis in self.symmetries.axes],
        )
        return np.asarray(transforms[:, :3, :3])


@dataclass(frozen=True)
class _Kind:
    """An entry of ``objects`` in ``dataset.json``, which the channel ``symmetries`` asks for."""

    categories: tuple[str, ...]
    symmetries: Symmetries


@dataclass(frozen=True)
class _Mesh:
    category: str


@dataclass(frozen=True)
class _Asset:
    mesh: _Mesh
    symmetries: Symmetries = field(default_factory=Symmetries)


@dataclass(frozen=True)
class _Recipe:
    assets: tuple[_Asset, ...] = ()


@dataclass(frozen=True)
class _Header:
    objects: Mapping[str, _Kind] = field(default_factory=dict)
    recipe: _Recipe = field(default_factory=_Recipe)

    def symmetries(self) -> Iterator[tuple[str, Symmetries]]:
        """Yields categories with what is known of them; those of files always are, but for clutter's."""
        for asset in self.recipe.assets:
            if asset.mesh.category:
                yield asset.mesh.category, asset.symmetries
        for kind in self.objects.values():
            for category in kind.categories:
                yield category, kind.symmetries


_HEADER: TypeAdapter[_Header] = TypeAdapter(_Header)


def turns_of(objects: Iterable[KnownObject]) -> Floats:
    """Returns the ``turns`` (n, s, 3, 3) of several; where one has fewer, its first repeats."""
    each = [one.turns() for one in objects]
    most = max(map(len, each))
    return np.stack([np.concatenate([t, t[:1].repeat(most - len(t), axis=0)]) for t in each])


def known_objects(datasets: Sequence[Dataset]) -> dict[str, KnownObject]:
    """Returns the object of each category, by its name, in the order of the categories.

    Labels without a pose or a size, as those of photos, tell nothing.

    Args:
        datasets: of the same categories.

    Raises:
        InputError: objects of a category are of several sizes or symmetries, or all rotations leave
            them as they are, or either is not known.
    """
    extents = _extents(datasets)
    symmetries = _symmetries(datasets)
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
        found[category] = KnownObject(extent, symmetries[category])
    return found


def _extents(datasets: Sequence[Dataset]) -> dict[str, tuple[Path, tuple[Vec3, Vec3]]]:
    """Returns where the size of each category's objects was found first, and that size."""
    found: dict[str, tuple[Path, tuple[Vec3, Vec3]]] = {}
    labels = ((d.root, o) for d in datasets for s in d.samples for o in s.objects or ())
    for root, label in labels:
        if label.pose is None or label.extent_m is None:
            continue
        _, first = found.setdefault(label.category, (root, label.extent_m))
        if not _same_size(first, label.extent_m):
            raise InputError(
                root,
                f"objects of category '{label.category}' are of different sizes: "
                f"{_told(first)} and {_told(label.extent_m)}. Poses are learned of objects that are "
                "all alike: give each size a category, or train without poses.",
            )
    return found


def _same_size(first: tuple[Vec3, Vec3], second: tuple[Vec3, Vec3]) -> bool:
    size = np.ptp(np.array(first), axis=0)
    return bool(np.abs(np.subtract(second, first)).max() <= _SAME_SIZE * size.max())


def _same_turns(first: Symmetries, second: Symmetries) -> bool:
    pairs = (first.rotations_wxyz, second.rotations_wxyz), (first.axes, second.axes)
    return all(
        len(one) == len(other) and np.allclose(one, other, rtol=0, atol=_SAME_TURN)
        for one, other in pairs
    )


def _symmetries(datasets: Sequence[Dataset]) -> dict[str, Symmetries]:
    found: dict[str, Symmetries] = {}
    for root in (first_parent(s.root) for d in datasets for s in d.origins()):
        if not (root / HEADER).is_file():
            continue
        try:
            header = _HEADER.validate_python(read_header(root))
        except ValidationError as error:
            raise InputError(
                root / HEADER, f"{first_problem(error)}. Render the data set again."
            ) from error
        for category, symmetries in header.symmetries():
            if not _same_turns(found.setdefault(category, symmetries), symmetries):
                raise InputError(
                    root,
                    f"objects of category '{category}' look the same after different turns. Poses "
                    "are learned of objects that are all alike: give each kind a category, or train "
                    "without poses.",
                )
    return found


def _told(extent: tuple[Vec3, Vec3]) -> str:
    return " x ".join(f"{1e3 * side:.4g}" for side in np.ptp(np.array(extent), axis=0)) + " mm"
