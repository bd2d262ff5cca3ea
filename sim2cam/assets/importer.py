"""Import of assets: each file is read and measured in a child process with limits.

User files may be damaged, huge or malicious; a crash ends the child process only.
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
"""Allowed range of an object's longest side."""

_METRIC: LengthUnit = "m"
_METRIC_SUFFIXES = (".glb", ".gltf", ".dae", *MODEL_SUFFIXES)  # by their specifications
_MAX_SIDE_M = 3.0  # larger numbers are millimetres, the unit of scans and CAD
_DENSITIES_KG_M3 = (300.0, 1500.0)  # hollow plastic to filled
_FRICTION = PropertyRange(0.3, 0.8, ASSUMED)
_RESTITUTION = PropertyRange(0.1, 0.5, ASSUMED)
_MIN_MASS_KG = 1e-4
_MIN_THICKNESS_M = 5e-4
_MAX_OUTSIDE = 0.5  # distance of a keypoint from the box, as a fraction of the longest side


@dataclass(frozen=True)
class ImportedAsset:
    """Result of importing one file.

    Attributes:
        name: Path relative to the folder.
        info: Properties of the asset; None if it cannot be used.
        error: Reason why it cannot be used; None otherwise.
        repairs: Messages about repairs and warnings.
        guessed_unit: Length unit, if neither the file nor the user gives one.
    """

    name: str
    info: AssetInfo | None = None
    error: str | None = None
    repairs: tuple[str, ...] = ()
    guessed_unit: LengthUnit | None = None


def import_assets(
    folder: Path, names: Sequence[str], unit: LengthUnit | None = None
) -> Iterator[ImportedAsset]:
    """Yield the import result of each file, in order.

    Measurements and repaired meshes are cached until the file or one of its companions changes.

    Args:
        folder: Folder of the assets.
        names: Paths of the files relative to the folder.
        unit: Length unit of files whose card and format give none; None guesses it.
    """
    worker = ImportWorker()
    try:
        for name in names:
            path = folder / name
            if not _is_text(name):
                shown_name = os.fsencode(name).decode("utf-8", "replace")
                yield ImportedAsset(
                    shown_name,
                    error=f"{folder}/{shown_name}: the file name is not UTF-8. Rename the file.",
                )
                continue
            try:
                card = read_asset_card(path)
                cached = _read_cached(path, folder)
                response = ImportResponse(cached) if cached else worker.measure(path, folder)
                if response.measures is None:
                    yield ImportedAsset(name, error=response.error)
                    continue
                if cached is None:
                    data = MEASURES.dump_json(response.measures)
                    user_cache.write_entry(_cache_key(path, folder), data)
                yield _import_asset(path, name, card, response.measures, unit)
            except InputError as error:
                yield ImportedAsset(name, error=str(error))
    finally:
        worker.close()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _import_asset(
    path: Path, name: str, card: AssetMetadata, measures: MeshMeasurements, unit: LengthUnit | None
) -> ImportedAsset:
    """Build an asset from its measurements.

    Raises:
        InputError: The size is out of range, or the card does not fit the file.
    """
    longest = max(high - low for low, high in zip(measures.low, measures.high, strict=True))
    suffix = path.suffix.lower()
    given_unit = card.unit or (_METRIC if suffix in _METRIC_SUFFIXES else unit)
    card_path, files = path.with_suffix(".toml"), f"{suffix[1:].upper()} files"
    if measures.articulation and given_unit != _METRIC:
        raise InputError(card_path, f"unit: {files} are in metres. Remove the key.")
    if measures.articulation and card.center_of_mass:
        problem = f"center_of_mass: {files} define it for each link. Remove the key."
        raise InputError(card_path, problem)
    length_unit = given_unit or ("m" if longest <= _MAX_SIDE_M else "mm")
    unit_m = METRES_PER_UNIT[length_unit]
    if card.longest_side_m is not None and suffix not in MODEL_SUFFIXES:
        unit_m = card.longest_side_m / longest
    _check_size(path, longest * unit_m, length_unit)
    joints = measures.articulation.get_rest_states() if measures.articulation else ()
    _check_keypoints(path, card, measures)
    points = {key: _scale(unit_m, point) for key, point in card.keypoints.items()}
    if measures.articulation:
        points |= measures.articulation.compute_joint_origins(joints)
    info = AssetInfo(
        name=name,
        mesh=MeshFile(
            str(path),
            get_category(name, card),
            unit_m,
            keypoints=tuple(points.items()),
            digest=measures.sources.compute_digest(),
            joints=joints,
        ),
        low_m=_scale(unit_m, measures.low),
        high_m=_scale(unit_m, measures.high),
        center_m=_scale(unit_m, measures.center),
        radius_m=measures.radius * unit_m,
        n_faces=measures.faces,
        is_watertight=measures.is_closed,
        n_convex_parts=measures.parts,
        mass_kg=card.mass_kg or _estimate_mass(path, measures, unit_m),
        friction=card.friction or _FRICTION,
        restitution=card.restitution or _RESTITUTION,
        symmetries=card.symmetries,
        licence=card.licence,
        credit=card.credit,
        articulation=measures.articulation,
        mass_offset_m=_compute_mass_offset(path, card, measures, unit_m),
    )
    warnings = list(measures.repairs)
    if min(info.size_m) < _MIN_THICKNESS_M:
        thin = min(info.size_m) * 1e3
        warnings.append(f"only {thin:.2g} mm thick. It may sink into its support.")
    is_guessed = given_unit is None and card.longest_side_m is None
    return ImportedAsset(name, info, None, tuple(warnings), length_unit if is_guessed else None)


def _scale(length: float, vector: Vec3) -> Vec3:
    return vec3(np.multiply(vector, length))


def _check_size(path: Path, longest_m: float, unit: LengthUnit) -> None:
    low, high = SIZES_M
    if not low <= longest_m <= high:
        kind, card = path.suffix[1:].upper(), path.with_suffix(".toml").name
        is_model = path.suffix.lower() in MODEL_SUFFIXES
        hint = f'Set unit = "mm" (or another unit) in {card}.'
        if is_model:
            hint = f"{kind} files are in metres: scale the model."
        raise InputError(
            path,
            f"the longest side is {longest_m:.3g} m (unit: {unit}); {low:g} to {high:g} m is allowed. "
            f"{hint}",
        )


def _check_keypoints(path: Path, card: AssetMetadata, measures: MeshMeasurements) -> None:
    """Raise InputError if a keypoint lies far from the object (wrong unit or frame)."""
    low, high = np.array(measures.low), np.array(measures.high)
    max_distance = _MAX_OUTSIDE * (high - low).max()
    for name, point in card.keypoints.items():
        if max(np.subtract(point, high).max(), np.subtract(low, point).max()) > max_distance:
            raise InputError(
                path.with_suffix(".toml"),
                f"keypoint {name} lies at {point}, too far from the object's box "
                f"({_format_point(low)} to {_format_point(high)}). Use the frame and unit of {path.name}.",
            )


def _format_point(point: Floats) -> str:
    return f"({', '.join(f'{value:g}' for value in point)})"


def _compute_mass_offset(
    path: Path, card: AssetMetadata, measures: MeshMeasurements, unit_m: float
) -> Vec3 | None:
    """Return the offset (metres) of the card's centre of mass; None if the card gives none.

    Raises:
        InputError: The centre of mass lies outside the object's box.
    """
    if card.center_of_mass is None:
        return None
    for axis, low, value, high in zip(
        "xyz", measures.low, card.center_of_mass, measures.high, strict=True
    ):
        if not low <= value <= high:
            raise InputError(
                path.with_suffix(".toml"),
                f"center_of_mass: {axis} is {value:g}, outside the object ({low:g} to {high:g}). "
                f"Use the frame and unit of {path.name}.",
            )
    return _scale(unit_m, vec3(np.subtract(card.center_of_mass, measures.center)))


def _estimate_mass(path: Path, measures: MeshMeasurements, unit_m: float) -> PropertyRange:
    if measures.mass_kg > 0:
        return PropertyRange(measures.mass_kg, measures.mass_kg, path.name)
    volume_m3 = measures.volume * unit_m**3
    low, high = (max(_MIN_MASS_KG, volume_m3 * density) for density in _DENSITIES_KG_M3)
    return PropertyRange(
        low, high, f"{ASSUMED}: {_DENSITIES_KG_M3[0]:g} to {_DENSITIES_KG_M3[1]:g} kg/m3"
    )


def _read_cached(path: Path, folder: Path) -> MeshMeasurements | None:
    """Return cached measurements; None if a source file changed or a missing one appeared."""
    data = user_cache.read_entry(_cache_key(path, folder))
    if data is None:
        return None
    try:
        measures = MEASURES.validate_json(data)
    except ValidationError:
        return None
    location = FileLocation(path, folder)
    is_unchanged = all(
        _hash_file(path.parent / name) == digest for name, digest in measures.sources.hashes.items()
    )
    has_new_files = any(location.find_companion(name) for name in measures.sources.missing)
    return measures if is_unchanged and not has_new_files else None


def _cache_key(path: Path, folder: Path) -> str:
    fields = (os.path.relpath(path, folder), _hash_file(path), get_decomposer())
    return f"{hashlib.sha256(repr(fields).encode()).hexdigest()}.json"


def _hash_file(path: Path) -> str | None:
    try:
        data = read_bounded(path) if path.is_file() else None
    except OSError:  # the child process reports it
        return None
    return None if data is None else hashlib.sha256(data).hexdigest()
