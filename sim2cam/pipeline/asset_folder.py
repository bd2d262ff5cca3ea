"""Asset folders of a recipe: where objects are, which are used, and defaults of object groups."""

from __future__ import annotations

import fnmatch
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sim2cam.assets.folder import list_assets
from sim2cam.assets.furniture_library import FURNITURE_SUFFIX, unpack_furniture
from sim2cam.assets.importer import SIZES_M, import_assets
from sim2cam.assets.package_files import (
    SWEETHOME3D,
    find_furniture_libraries,
)
from sim2cam.data.data_folder import DATA_FOLDER_VARIABLE, locate_data_folder
from sim2cam.data.environment import PYBULLET
from sim2cam.data.public.catalogue import PUBLIC_DATASETS
from sim2cam.errors import InputError, RecipeError, suggest_name
from sim2cam.pipeline.background_images import BACKGROUNDS, IMAGES_FOLDER, MAPS_FOLDER
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.shape import LengthUnit

CLUTTER_PREFIX = "clutter/"
"""Prefix of the names of clutter assets."""


_IMAGE_FACTOR = "picture"
"""Factor of a group that chooses images of a folder."""


@dataclass(frozen=True)
class ClutterFolder:
    """Unlabelled objects from files, which occlude others: the ``[assets.clutter]`` table of a recipe.

    Attributes:
        folder: folder of mesh files, as that of ``[assets]``.
        files: names or shell patterns of the used files; empty for all.
        unit, licence: length unit and licence of the files, as those of ``[assets]``.
        size_m: range of the longest side, into which other objects are scaled; unscaled if missing.
    """

    folder: str
    files: tuple[str, ...] = ()
    unit: LengthUnit | None = None
    licence: str = ""
    size_m: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if (
            self.size_m is not None
            and not SIZES_M[0] <= self.size_m[0] <= self.size_m[1] <= SIZES_M[1]
        ):
            raise ValueError(
                f"size_m must be (low, high) within {SIZES_M[0]} to {SIZES_M[1]}, not {self.size_m}"
            )


@dataclass(frozen=True)
class AssetFolder:
    """Meshes and models of objects, from files: the ``[assets]`` table of a recipe.

    Attributes:
        folder: folder of mesh files, relative to the recipe; or ``bop:NAME``, the models of a BOP
            dataset; or ``pybullet_data:``, the files of that package; or ``sweethome3d:``, the household
            meshes of Debian's sweethome3d-furniture, or ``sweethome3d:NAME``, one of its libraries; or a
            furniture library (.sh3f). None with clutter only.
        objects: categories of the used assets, by name or shell pattern; empty for all assets with
            their own categories.
        unit: length unit of files that do not define it, unlike glTF and files with a TOML file;
            guessed from the size if missing.
        licence: SPDX name of the licence of files without their own.
        clutter: folder of clutter.
    """

    folder: str | None = None
    unit: LengthUnit | None = None
    licence: str = ""
    objects: Mapping[str, str] = field(default_factory=dict)
    clutter: ClutterFolder | None = None


def resolve_assets_folder(location: str, path: Path, key: str) -> str:
    """Return the path of the asset folder that a recipe names.

    Raises:
        RecipeError: if the dataset or package is missing.
    """
    kind, _, dataset = location.partition(":")
    if kind == "pybullet_data":
        return str(_find_package_folder(kind, path, key) / dataset)
    if kind == "sweethome3d":
        return str(unpack_furniture(_find_furniture(dataset, path, key)))
    if location.endswith(FURNITURE_SUFFIX):
        library = (path.parent / location).absolute()
        if not library.is_file():
            raise RecipeError(path, f"'{key}': {location} is missing. Check the path.")
        return str(unpack_furniture((library,)))
    if kind != "bop" or not dataset:
        return str((path.parent / location).absolute())
    folder = locate_data_folder() / dataset / "models"
    if not folder.is_dir():
        fetch = (
            f"Run sim2cam fetch {dataset}, or unpack" if dataset in PUBLIC_DATASETS else "Unpack"
        )
        raise RecipeError(
            path,
            f"'{key}': {location} is missing. {fetch} its models to {dataset}/models in the folder "
            f"of {DATA_FOLDER_VARIABLE}.",
        )
    return str(folder)


def resolve_image_folder(location: str, path: Path, section: str) -> str:
    """Return the path of the image folder that ``[skies]`` or ``[pictures]`` of a recipe names.

    Raises:
        RecipeError: if fetched images are missing.
    """
    kind, _, name = location.partition(":")
    if kind != "fetched":
        return str((path.parent / location).absolute())
    folder = locate_data_folder() / name / (MAPS_FOLDER if section == "skies" else IMAGES_FOLDER)
    if not name or not folder.is_dir():
        raise RecipeError(
            path,
            f"'{section}.folder': {location} is missing. Run sim2cam fetch {name or BACKGROUNDS}.",
        )
    return str(folder)


def _find_furniture(name: str, path: Path, key: str) -> tuple[Path, ...]:
    """Return the installed furniture libraries, or the one of a name."""
    libraries = {library.stem: library for library in find_furniture_libraries()}
    if not libraries:
        raise RecipeError(
            path,
            f"'{key}': {SWEETHOME3D} (Debian) is in no folder of XDG_DATA_DIRS. Run apt-get install {SWEETHOME3D}.",
        )
    if name and name not in libraries:
        raise RecipeError(
            path, f"'{key}': no library '{name}' in {SWEETHOME3D}. {suggest_name(name, libraries)}"
        )
    return (libraries[name],) if name else tuple(libraries.values())


def _find_package_folder(package: str, path: Path, key: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise RecipeError(path, f"'{key}': {package} is not installed. Run pip install {PYBULLET}.")
    return Path(spec.origin).parent


def import_asset_folder(options: AssetFolder, path: Path) -> tuple[AssetInfo, ...]:
    """Import the assets of a folder, and its clutter.

    Clutter has no category, and names with ``CLUTTER_PREFIX``.

    Raises:
        RecipeError: if a named asset is missing.
        InputError: if an asset is unusable.
    """
    assets: list[AssetInfo] = []
    if options.folder is not None:
        names = list_assets(Path(options.folder))
        categories = _select_assets(names, options.objects, path, "assets.objects")
        for asset in _import_assets(options, options.folder, categories):
            assets.append(_set_category(asset, categories[asset.name] or asset.mesh.category))
    if (clutter := options.clutter) is not None:
        names, patterns = list_assets(Path(clutter.folder)), dict.fromkeys(clutter.files, "")
        files = _select_assets(names, patterns, path, "assets.clutter.files")
        for asset in _import_assets(clutter, clutter.folder, files):
            fitted = asset if clutter.size_m is None else asset.fit_size(clutter.size_m)
            assets.append(replace(_set_category(fitted, ""), name=CLUTTER_PREFIX + asset.name))
    return tuple(assets)


def _set_category(asset: AssetInfo, category: str) -> AssetInfo:
    return replace(asset, mesh=replace(asset.mesh, category=category))


def _import_assets(
    options: AssetFolder | ClutterFolder, folder: str, names: Iterable[str]
) -> list[AssetInfo]:
    imported = list(import_assets(Path(folder), list(names), options.unit))
    problems = [entry.error for entry in imported if entry.error]
    if problems:
        raise InputError(
            Path(folder),
            f"{len(problems)} of {len(imported)} assets are unusable: {problems[0]} "
            f"List all with: sim2cam assets {folder}",
        )
    assets = [entry.info for entry in imported if entry.info is not None]
    return [replace(asset, licence=asset.licence or options.licence) for asset in assets]


def _select_assets(
    names: Sequence[str], patterns: Mapping[str, str], path: Path, key: str
) -> dict[str, str]:
    """Return the categories of the used assets by name; empty for their own categories."""
    if not patterns:
        return dict.fromkeys(names, "")
    categories: dict[str, str] = {}
    for pattern, category in patterns.items():
        matches = [pattern] if pattern in names else fnmatch.filter(names, pattern)
        if not matches:
            raise RecipeError(
                path, f"'{key}': there is no '{pattern}'. {suggest_name(pattern, names)}"
            )
        categories |= dict.fromkeys(matches, category)
    return dict(sorted(categories.items()))


def complete_distractor_group(group: dict[str, Any], assets: Sequence[AssetInfo]) -> dict[str, Any]:
    """Return a distractor group with its default: any clutter asset."""
    names = [asset.name for asset in assets if not asset.mesh.category]
    return {"asset": {"kind": "choice", "options": names}} | group if names else group


def complete_object_group(
    group: dict[str, Any], assets: Sequence[AssetInfo], path: Path, group_name: str
) -> dict[str, Any]:
    """Return an object group with its defaults: any asset, joints over their full range.

    Raises:
        RecipeError: if no asset has a named joint.
    """
    joints = {
        joint.name: {"kind": "uniform", "low": 0.0, "high": 1.0}
        for asset in assets
        if asset.articulation
        for joint in asset.articulation.free_joints
    }
    own_joints = group.get("joints", {})
    for joint in own_joints:
        if joint not in joints:
            hint = suggest_name(joint, joints)
            raise RecipeError(
                path, f"'domain.{group_name}.joints': no asset has a joint '{joint}'. {hint}"
            )
    names = [asset.name for asset in assets if asset.mesh.category]
    default = {"asset": {"kind": "choice", "options": names}}
    return default | group | {"joints": joints | own_joints}


def expand_image_patterns(group: Any, names: Sequence[str], path: Path, group_name: str) -> Any:
    """Return a group of the domain whose ``picture`` chooses images instead of shell patterns.

    The images of a pattern share its weight.

    Raises:
        RecipeError: if no image matches a pattern.
    """
    factor = group.get(_IMAGE_FACTOR) if isinstance(group, dict) else None
    options = factor.get("options") if isinstance(factor, dict) else None
    if not isinstance(options, list) or factor is None:
        return group
    patterns = [o for o in options if isinstance(o, str) and o not in names and set(o) & set("*?[")]
    weights = factor.get("weights") or [1.0] * len(options)
    is_valid = isinstance(weights, list) and len(weights) == len(options)
    if not patterns or not is_valid or not all(isinstance(w, int | float) for w in weights):
        return group  # the validation reports wrong weights
    expanded: list[tuple[Any, float]] = []
    for option, weight in zip(options, weights, strict=True):
        matches = fnmatch.filter(names, option) if option in patterns else [option]
        if not matches:
            hint = suggest_name(option, names)
            raise RecipeError(
                path, f"'domain.{group_name}.{_IMAGE_FACTOR}': no image '{option}'. {hint}"
            )
        expanded += [(match, weight / len(matches)) for match in matches]
    choice = {"options": [o for o, _ in expanded], "weights": [w for _, w in expanded]}
    return group | {_IMAGE_FACTOR: factor | choice}
