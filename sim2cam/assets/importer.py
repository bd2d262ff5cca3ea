"""Bringing in assets: each file is read and measured in a child process with limits.

Files of users are damaged, huge or malicious. What breaks here breaks a child, never the parent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from sim2cam.assets import user_cache
from sim2cam.assets.decomposition import get_decomposer
from sim2cam.assets.folder import get_category, read_asset_card
from sim2cam.assets.import_process import MEASURES, ImportResponse, ImportWorker, MeshMeasurements
from sim2cam.assets.mesh_files.companions import FileLocation, read_bounded
from sim2cam.assets.mesh_files.reader import MODEL_SUFFIXES
from sim2cam.errors import InputError
from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.scene.asset_facts import ASSUMED, AssetInfo, AssetMetadata, PropertyRange
from sim2cam.scene.shape import METRES_PER_UNIT, LengthUnit, MeshFile

Floats = NDArray[np.float64]

SIZES_M = (0.001, 3.0)
"""Between which the longest side of an object has to be."""

_METRIC: LengthUnit = "m"
_METRIC_SUFFIXES = (".glb", ".gltf", ".dae", *MODEL_SUFFIXES)  # by their specifications
_MAX_SIDE_M = 3.0  # numbers beyond are millimetres, as scans and CAD have them
_DENSITIES_KG_M3 = (300.0, 1500.0)  # hollow plastic to filled
_FRICTION = PropertyRange(0.3, 0.8, ASSUMED)
_RESTITUTION = PropertyRange(0.1, 0.5, ASSUMED)
_MIN_MASS_KG = 1e-4
_MIN_THICKNESS_M = 5e-4
_MAX_OUTSIDE = 0.5  # of an object's longest side, by which a keypoint may lie outside of its box


@dataclass(frozen=True)
class ImportedAsset:
    """What became of a file.

    Attributes:
        name: within its folder.
        info: None when it cannot be used.
        error: why not; None when it can.
        repairs: what was repaired, and what is doubtful.
        guessed_unit: of its numbers, when nobody said.
    """

    name: str
    info: AssetInfo | None = None
    error: str | None = None
    repairs: tuple[str, ...] = ()
    guessed_unit: LengthUnit | None = None


def import_assets(
    folder: Path, names: Sequence[str], unit: LengthUnit | None = None
) -> Iterator[ImportedAsset]:
    """Yield what became of each file, in order; none of them can harm this process.

    What is there is remembered in the cache, with the cleaned mesh, for as long as the file and all
    that it names stay as they are.

    Args:
        folder: of assets.
        names: of files in it.
        unit: of the numbers of files that do not say themselves, as cards and glTF do; None to
            guess.
    """
    child = ImportWorker()
    try:
        for name in names:
            path = folder / name
            if not _is_text(name):
                shown = os.fsencode(name).decode("utf-8", "replace")
                yield ImportedAsset(
                    shown, error=f"{folder}/{shown}: its name is no UTF-8. Rename it."
                )
                continue
            try:
                card = read_asset_card(path)
                known = _read_cached(path, folder)
                answer = ImportResponse(known) if known else child.measure(path, folder)
                if answer.measures is None:
                    yield ImportedAsset(name, error=answer.error)
                    continue
                if known is None:
                    _write_cached(path, folder, answer.measures)
                yield _import_asset(path, name, card, answer.measures, unit)
            except InputError as error:
                yield ImportedAsset(name, error=str(error))
    finally:
        child.close()


def _is_text(name: str) -> bool:
    """Return whether the name of a file can be written down."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _import_asset(
    path: Path, name: str, card: AssetMetadata, measures: MeshMeasurements, unit: LengthUnit | None
) -> ImportedAsset:
    """Return an asset of these measures.

    Raises:
        InputError: it is too small or too large, or its card is about something else.
    """
    longest = max(high - low for low, high in zip(measures.low_m, measures.high, strict=True))
    suffix = path.suffix.lower()
    told = card.unit or (_METRIC if suffix in _METRIC_SUFFIXES else unit)
    if measures.articulation and told != _METRIC:
        raise InputError(path.with_suffix(".toml"), f"unit: a {suffix[1:].upper()} is in metres.")
    if measures.articulation and card.center_of_mass:
        problem = f"center_of_mass: a {suffix[1:].upper()} says itself where its links have theirs."
        raise InputError(path.with_suffix(".toml"), problem)
    known = told or _guess_unit(longest)
    metres = METRES_PER_UNIT[known]
    _check_size(path, longest * metres, known)
    joints = measures.articulation.get_rest_states() if measures.articulation else ()
    _check_keypoints(path, card, measures)
    points = {key: _scale(metres, point) for key, point in card.keypoints.items()}
    if measures.articulation:
        points |= measures.articulation.compute_joint_origins(joints)
    facts = AssetInfo(
        name=name,
        mesh=MeshFile(
            str(path),
            get_category(name, card),
            metres,
            keypoints=tuple(points.items()),
            digest=measures.sources.compute_digest(),
            joints=joints,
        ),
        low_m=_scale(metres, measures.low_m),
        high_m=_scale(metres, measures.high),
        center_m=_scale(metres, measures.center),
        radius_m=measures.radius * metres,
        n_faces=measures.faces,
        is_watertight=measures.is_closed,
        n_convex_parts=measures.parts,
        mass_kg=card.mass_kg or _estimate_mass(path, measures, metres),
        friction=card.friction or _FRICTION,
        restitution=card.restitution or _RESTITUTION,
        symmetries=card.symmetries,
        licence=card.licence,
        articulation=measures.articulation,
        mass_offset_m=_compute_mass_offset(path, card, measures, metres),
    )
    doubts = list(measures.repairs)
    if min(facts.size_m) < _MIN_THICKNESS_M:
        thin = min(facts.size_m) * 1e3
        doubts.append(f"only {thin:.2g} mm thick. It may sink into what it lies on.")
    return ImportedAsset(name, facts, None, tuple(doubts), None if told else known)


def _scale(length: float, vector: Vec3) -> Vec3:
    return vec3(np.multiply(vector, length))


def _guess_unit(longest: float) -> LengthUnit:
    """Return the unit of a file whose longest side is so many of it."""
    return "m" if longest <= _MAX_SIDE_M else "mm"


def _check_size(path: Path, longest_m: float, unit: LengthUnit) -> None:
    low, high = SIZES_M
    if not low <= longest_m <= high:
        kind, card = path.suffix[1:].upper(), path.with_suffix(".toml").name
        is_model = path.suffix.lower() in MODEL_SUFFIXES
        hint = (
            f"A {kind} is in metres: scale what it holds."
            if is_model
            else f'Say unit = "mm", or another, in {card}.'
        )
        raise InputError(
            path,
            f"its longest side is {longest_m:.3g} m when its numbers are in {unit}; objects of "
            f"{low:g} to {high:g} m can be thrown. {hint}",
        )


def _check_keypoints(path: Path, card: AssetMetadata, measures: MeshMeasurements) -> None:
    """Refuse keypoints far from the object, whose numbers are in another unit or frame."""
    low, high = np.array(measures.low_m), np.array(measures.high)
    most = _MAX_OUTSIDE * (high - low).max()
    for name, point in card.keypoints.items():
        if (np.subtract(point, high) > most).any() or (np.subtract(low, point) > most).any():
            raise InputError(
                path.with_suffix(".toml"),
                f"keypoint {name} lies at {point}, farther than half the object's longest side from it; "
                f"it reaches from {_format_point(low)} to {_format_point(high)}. Give it in the frame and unit of "
                f"{path.name}.",
            )


def _format_point(point: Floats) -> str:
    return f"({', '.join(f'{one:g}' for one in point)})"


def _compute_mass_offset(
    path: Path, card: AssetMetadata, measures: MeshMeasurements, metres: float
) -> Vec3 | None:
    """Return how far from the centre of its shape an object balances; None when nobody said.

    Raises:
        InputError: that is outside of the object.
    """
    if card.center_of_mass is None:
        return None
    for axis, low, at, high in zip(
        "xyz", measures.low_m, card.center_of_mass, measures.high, strict=True
    ):
        if not low <= at <= high:
            raise InputError(
                path.with_suffix(".toml"),
                f"center_of_mass: {axis} is {at:g}, outside of the object, which reaches from {low:g} "
                f"to {high:g}. Give it in the frame and unit of {path.name}.",
            )
    return _scale(metres, vec3(np.subtract(card.center_of_mass, measures.center)))


def _estimate_mass(path: Path, measures: MeshMeasurements, metres: float) -> PropertyRange:
    if measures.mass_kg > 0:
        return PropertyRange(measures.mass_kg, measures.mass_kg, path.name)
    volume_m3 = measures.volume * metres**3
    low, high = (max(_MIN_MASS_KG, volume_m3 * density) for density in _DENSITIES_KG_M3)
    return PropertyRange(
        low, high, f"{ASSUMED}: {_DENSITIES_KG_M3[0]:g} to {_DENSITIES_KG_M3[1]:g} kg/m3"
    )


def _read_cached(path: Path, folder: Path) -> MeshMeasurements | None:
    """Return the measures of a file in the cache, if all that it was read from is as it was, and
    nothing is there that was missing.
    """
    data = user_cache.read_entry(_cache_key(path, folder))
    if data is None:
        return None
    try:
        found = MEASURES.validate_json(data)
    except ValidationError:
        return None
    place = FileLocation(path, folder)
    same = all(_hash_file(path.parent / name) == sha for name, sha in found.sources.hashes.items())
    came = any(place.find_companion(name) for name in found.sources.missing)
    return found if same and not came else None


def _write_cached(path: Path, folder: Path, measures: MeshMeasurements) -> None:
    user_cache.write_entry(_cache_key(path, folder), MEASURES.dump_json(measures))


def _cache_key(path: Path, folder: Path) -> str:
    """Return the name of a file's measures in the cache."""
    facts = (os.path.relpath(path, folder), _hash_file(path), get_decomposer())
    return f"{hashlib.sha256(repr(facts).encode()).hexdigest()}.json"


def _hash_file(path: Path) -> str | None:
    try:
        data = read_bounded(path) if path.is_file() else None
    except OSError:  # the child that reads it says why
        return None
    return None if data is None else hashlib.sha256(data).hexdigest()
