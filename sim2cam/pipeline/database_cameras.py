"""Recipe keys ``sensor`` and ``lens``: cameras sampled from installed databases of measured cameras.

A fixed sample of the database becomes columns of two tables of the domain, so each rendered camera has the noise of one
real camera, and the lens of one real lens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import TypeAdapter

from sim2cam.data.camera_databases.installed import (
    DATABASE_LICENCES,
    LENS_PROFILES,
    NOISE_PROFILES,
    CameraDatabase,
    find_lens_database,
    find_noise_database,
)
from sim2cam.data.camera_databases.lens_conversion import (
    ConvertedLens,
    compute_focal_px,
    convert_lens,
)
from sim2cam.data.camera_databases.lens_profiles import (
    LensProfile,
    Vignetting,
    read_lens_profiles,
)
from sim2cam.data.camera_databases.noise_profiles import NoiseProfile, read_noise_profiles
from sim2cam.errors import RecipeError
from sim2cam.randomize.distributions import Distribution, Values
from sim2cam.seeds import derive_rng

CAMERA_COUNT = 256
"""Number of sampled sensors, and of lenses, in a recipe."""

_MAX_TRIES = 20 * CAMERA_COUNT
_SENSOR_TABLE, _LENS_TABLE = "sensor_database", "lens_database"
_COEFFICIENTS = ("k1", "k2", "k3", "k4", "k5", "k6")
_KEPT_LENS_FACTORS = ("shift_x", "shift_y")
Row = Mapping[str, float | str]
Profile = TypeVar("Profile", NoiseProfile, LensProfile)


@dataclass(frozen=True)
class SensorDatabase:
    """Sensors of real cameras, from the noise profiles of an installed darktable.

    Attributes:
        kind: Source of the cameras.
        model: Pattern of maker and model; ``*`` is any text.
        iso: Lowest and highest sensitivity.
        sha256: SHA-256 of the database; another one is refused. Rendered datasets record it.
    """

    kind: Literal["database"] = "database"
    model: str = "*"
    iso: tuple[float, float] = (100.0, 6400.0)
    sha256: str = ""


@dataclass(frozen=True)
class LensDatabase:
    """Rectilinear lenses of real cameras, from an installed database of Lensfun.

    Their field of view is in the range of ``domain.view.fov_rad``.

    Attributes:
        kind: Source of the cameras.
        model: Pattern of maker and model; ``*`` is any text.
        sha256: SHA-256 of the database; another one is refused. Rendered datasets record it.
    """

    kind: Literal["database"] = "database"
    model: str = "*"
    sha256: str = ""


@dataclass(frozen=True)
class _DatabaseKeys:
    sensor: SensorDatabase | None = None
    lens: LensDatabase | None = None


_NAMES = ("sensor", "lens")
_KEYS: TypeAdapter[_DatabaseKeys] = TypeAdapter(_DatabaseKeys)
_DISTRIBUTION: TypeAdapter[Distribution] = TypeAdapter(Distribution)


def collect_database_licences(
    sensor: SensorDatabase | None, lens: LensDatabase | None
) -> dict[str, str]:
    """Return the licences of the databases that a recipe samples, by their names."""
    used = {NOISE_PROFILES: sensor, LENS_PROFILES: lens}
    return {name: DATABASE_LICENCES[name] for name, options in used.items() if options is not None}


def apply_camera_databases(
    tables: dict[str, Any], size: tuple[int, int], path: Path
) -> dict[str, Any]:
    """Return recipe tables with sensors and lenses sampled from the databases that they name.

    Args:
        tables: Merged tables of the recipe.
        size: Width and height of its images in pixels.
        path: Recipe, for errors.

    Raises:
        BackendError: If a database is not installed.
        InputError: If a database is broken.
        RecipeError: If nothing in a database matches, or the recipe names the digest of another one.
    """
    keys = _KEYS.validate_python({name: tables[name] for name in _NAMES if name in tables})
    domain = tables.get("domain")
    if not isinstance(domain, dict) or not all(isinstance(g, dict) for g in domain.values()):
        return tables  # the validation of the domain reports it
    if keys.sensor is not None:
        tables = _apply_sensors(tables, keys.sensor, path)
    if keys.lens is not None:
        tables = _apply_lenses(tables, keys.lens, size, path)
    return tables


def _apply_sensors(tables: dict[str, Any], options: SensorDatabase, path: Path) -> dict[str, Any]:
    database = find_noise_database()
    digest = _check_digest(database, options.sha256, path, "sensor")
    rows = _sample_sensors(read_noise_profiles(database.files[0]), options, path)
    return tables | {
        "sensor": asdict(replace(options, sha256=digest)),
        "domain": _replace_sensor(tables["domain"], rows),
    }


def _apply_lenses(
    tables: dict[str, Any], options: LensDatabase, size: tuple[int, int], path: Path
) -> dict[str, Any]:
    database = find_lens_database()
    digest = _check_digest(database, options.sha256, path, "lens")
    domain = tables["domain"]
    fov_range = _read_fov_range(domain, path)
    rows = _sample_lenses(read_lens_profiles(database.files), options, size, fov_range, path)
    return tables | {
        "lens": asdict(replace(options, sha256=digest)),
        "domain": _replace_lens(domain, rows),
    }


def _check_digest(database: CameraDatabase, expected: str, path: Path, key: str) -> str:
    digest = database.compute_digest()
    if expected and expected != digest:
        raise RecipeError(
            path,
            f"'{key}.sha256' is {expected[:80]}, but the installed {database.name} have {digest}. Install that version, "
            "or remove the key.",
        )
    return digest


def _sample_sensors(
    profiles: Iterable[NoiseProfile], options: SensorDatabase, path: Path
) -> list[Row]:
    """Return one row for each sampled sensor: a random sensitivity of a random camera."""
    low, high = options.iso
    matching = [profile for profile in profiles if low <= profile.iso <= high]
    groups = _group_by_model(matching, options.model, lambda profile: profile.camera)
    if not groups:
        raise RecipeError(
            path,
            f"'sensor': no camera in the database matches '{options.model[:80]}' with an ISO of {low:g} to {high:g}. "
            "Change 'model' or 'iso'.",
        )
    rng = derive_rng(0, _SENSOR_TABLE)
    sampled = [_choose(rng, _choose(rng, groups)) for _ in range(CAMERA_COUNT)]
    return [
        {"sensor": f"{profile.camera}, ISO {profile.iso:g}", **profile.to_sensor_factors()}
        for profile in sampled
    ]


def _sample_lenses(
    profiles: Iterable[LensProfile],
    options: LensDatabase,
    size: tuple[int, int],
    fov_range: tuple[float, float],
    path: Path,
) -> list[Row]:
    """Return one row for each sampled lens: a random focal length and aperture of a random lens."""
    low, high = fov_range
    matching = [profile for profile in profiles if low <= _compute_fov_rad(profile, size) <= high]
    groups = _group_by_model(matching, options.model, lambda profile: profile.model)
    rng = derive_rng(0, _LENS_TABLE)
    rows: list[Row] = []
    for _ in range(_MAX_TRIES if groups else 0):
        profile = _choose(rng, _choose(rng, groups))
        vignetting = _choose(rng, profile.vignettings)
        converted = convert_lens(profile, vignetting, *size)
        if converted is not None:
            rows.append(_make_lens_row(profile, vignetting, converted, size))
        if len(rows) == CAMERA_COUNT:
            return rows
    raise RecipeError(
        path,
        f"'lens': no usable lens in the database matches '{options.model[:80]}' with a field of view of {low:.3g} to "
        f"{high:.3g} rad. Change 'model' or 'domain.view.fov_rad'.",
    )


def _make_lens_row(
    profile: LensProfile, vignetting: Vignetting, converted: ConvertedLens, size: tuple[int, int]
) -> Row:
    falloff = converted.falloff
    return {
        "lens": f"{profile.model}, {profile.focal_mm:g} mm, f/{vignetting.f_number:g}",
        "fov_rad": _compute_fov_rad(profile, size),
        **{name: getattr(converted.lens, name) for name in _COEFFICIENTS},
        "red": converted.lateral_color.red,
        "blue": converted.lateral_color.blue,
        "falloff_k1": falloff.k1,
        "falloff_k2": falloff.k2,
        "falloff_k3": falloff.k3,
    }


def _compute_fov_rad(profile: LensProfile, size: tuple[int, int]) -> float:
    return 2 * math.atan(size[0] / 2 / compute_focal_px(profile, *size))


def _group_by_model(
    profiles: Iterable[Profile], pattern: str, get_model: Callable[[Profile], str]
) -> list[list[Profile]]:
    """Return the profiles whose model matches a pattern, of each model."""
    groups: dict[str, list[Profile]] = {}
    for profile in profiles:
        model = get_model(profile)
        if fnmatchcase(model.casefold(), pattern.casefold()):
            groups.setdefault(model, []).append(profile)
    return list(groups.values())


def _choose(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def _replace_sensor(domain: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    factors = {name: _make_column(_SENSOR_TABLE, rows, name) for name in rows[0]}
    model = {"sensor": factors.pop("sensor")}
    return _merge_groups(domain, {"sensor": factors, "camera_model": model})


def _replace_lens(domain: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    columns = {name: _make_column(_LENS_TABLE, rows, name) for name in rows[0]}
    kept = domain.get("lens", {})
    lens = {name: kept[name] for name in _KEPT_LENS_FACTORS if name in kept}
    lens |= {name: columns[name] for name in _COEFFICIENTS} | {"p1": 0.0, "p2": 0.0}
    groups = {
        "view": {"fov_rad": columns["fov_rad"]},
        "lateral_color": {name: columns[name] for name in ("red", "blue")},
        "falloff": {name: columns[f"falloff_{name}"] for name in ("k1", "k2", "k3")},
        "sensor": {"vignetting": 0.0},
        "camera_model": {"lens": columns["lens"]},
    }
    remaining = {name: group for name, group in domain.items() if name != "fisheye"}
    return _merge_groups(remaining, groups) | {"lens": lens}


def _merge_groups(domain: Mapping[str, Any], groups: Mapping[str, Any]) -> dict[str, Any]:
    return dict(domain) | {name: domain.get(name, {}) | group for name, group in groups.items()}


def _make_column(table: str, rows: Sequence[Row], name: str) -> dict[str, Any]:
    return {"kind": "column", "table": table, "values": [row[name] for row in rows]}


def _read_fov_range(domain: Mapping[str, Any], path: Path) -> tuple[float, float]:
    """Return the smallest and the largest field of view of the recipe."""

    def refuse(factor: str) -> Values:
        raise RecipeError(
            path, f"'domain.view.fov_rad' must not follow '{factor}' with a 'lens' from a database."
        )

    if "fov_rad" not in domain.get("view", {}):
        raise RecipeError(path, "key 'domain.view.fov_rad' is missing.")
    values = _DISTRIBUTION.validate_python(domain["view"]["fov_rad"])
    extremes = [float(value) for value in values.compute_extremes(refuse)]
    return min(extremes), max(extremes)
