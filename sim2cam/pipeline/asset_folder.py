"""Where the objects of a recipe lie, which of them it uses, and what it leaves out of them."""

from __future__ import annotations

import fnmatch
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sim2cam.assets.folder import asset_names
from sim2cam.assets.importer import import_assets
from sim2cam.data.data_folder import DATA_FOLDER_VARIABLE, locate_data_folder
from sim2cam.data.public.catalogue import PUBLIC_DATASETS
from sim2cam.errors import InputError, RecipeError, suggest_name
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.shape import LengthUnit

CLUTTER_PREFIX = "clutter/"
"""Before the names of objects that are in the way, as a folder of that name beside the others would be."""


@dataclass(frozen=True)
class ClutterFolder:
    """Where objects lie that are in the way and are not labelled, as ``[assets.clutter]`` says.

    Attributes:
        folder: as ``AssetFolder`` has it.
        files: those that are used, by their names or by patterns of them as the shell has them; without
            it all are.
        unit, licence: as ``AssetFolder`` has them.
    """

    folder: str
    files: tuple[str, ...] = ()
    unit: LengthUnit | None = None
    licence: str = ""


@dataclass(frozen=True)
class AssetFolder:
    """Where the objects of a recipe lie, as its ``[assets]`` table says.

    Attributes:
        folder: of mesh files, beside the recipe; or ``bop:NAME``, the models of a BOP data set; or
            ``pybullet_data:``, what comes with the package of that name. None where there is clutter
            alone.
        objects: categories of those that are used, by their names or by patterns of them as the
            shell has them; without it all are, by their own categories.
        unit: of the numbers of files that do not say themselves, as glTF and the TOML file beside
            them do; guessed from their size without it.
        licence: of files beside which none is written, as SPDX names it.
        clutter: where what is in the way lies.
    """

    folder: str | None = None
    unit: LengthUnit | None = None
    licence: str = ""
    objects: Mapping[str, str] = field(default_factory=dict)
    clutter: ClutterFolder | None = None


def resolve_assets_folder(location: str, path: Path, key: str) -> str:
    """Return the folder of assets that a recipe names below a key.

    Raises:
        RecipeError: it names a data set that is not there.
    """
    kind, _, data_set = location.partition(":")
    if kind == "pybullet_data":
        return str(_find_package_folder(kind, path, key) / data_set)
    if kind != "bop" or not data_set:
        return str((path.parent / location).absolute())
    folder = locate_data_folder() / data_set / "models"
    if not folder.is_dir():
        fetch = (
            f"Run sim2cam fetch {data_set}, or unpack" if data_set in PUBLIC_DATASETS else "Unpack"
        )
        raise RecipeError(
            path,
            f"'{key}': {location} is not there. {fetch} its models to {data_set}/models in a folder "
            f"that {DATA_FOLDER_VARIABLE} names.",
        )
    return str(folder)


def _find_package_folder(package: str, path: Path, key: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise RecipeError(path, f"'{key}': {package} is not installed. Run pip install pybullet.")
    return Path(found.origin).parent


def import_asset_folder(options: AssetFolder, path: Path) -> tuple[AssetInfo, ...]:
    """Return what is known of the assets of a folder and, with no category and named ``CLUTTER_PREFIX``, of clutter.

    Raises:
        RecipeError: there are none of those that are named.
        InputError: one of them cannot be used.
    """
    found: list[AssetInfo] = []
    if options.folder is not None:
        names = asset_names(Path(options.folder))
        categories = _select_assets(names, options.objects, path, "assets.objects")
        for one in _import_assets(options, options.folder, categories):
            found.append(_set_category(one, categories[one.name] or one.mesh.category))
    if (clutter := options.clutter) is not None:
        names, patterns = asset_names(Path(clutter.folder)), dict.fromkeys(clutter.files, "")
        files = _select_assets(names, patterns, path, "assets.clutter.files")
        for one in _import_assets(clutter, clutter.folder, files):
            found.append(replace(_set_category(one, ""), name=CLUTTER_PREFIX + one.name))
    return tuple(found)


def _set_category(facts: AssetInfo, category: str) -> AssetInfo:
    return replace(facts, mesh=replace(facts.mesh, category=category))


def _import_assets(
    options: AssetFolder | ClutterFolder, folder: str, names: Iterable[str]
) -> list[AssetInfo]:
    found = list(import_assets(Path(folder), list(names), options.unit))
    problems = [one.problem for one in found if one.problem]
    if problems:
        raise InputError(
            Path(folder),
            f"{len(problems)} of {len(found)} assets cannot be used: {problems[0]} "
            f"All of them: sim2cam assets {folder}",
        )
    every = [one.facts for one in found if one.facts is not None]
    return [replace(one, licence=one.licence or options.licence) for one in every]


def _select_assets(
    names: Sequence[str], patterns: Mapping[str, str], path: Path, key: str
) -> dict[str, str]:
    """Return the names of assets that are used, with their categories; empty for their own ones."""
    if not patterns:
        return dict.fromkeys(names, "")
    found: dict[str, str] = {}
    for pattern, category in patterns.items():
        fitting = [pattern] if pattern in names else fnmatch.filter(names, pattern)
        if not fitting:
            raise RecipeError(
                path, f"'{key}': there is no '{pattern}'. {suggest_name(pattern, names)}"
            )
        found |= dict.fromkeys(fitting, category)
    return dict(sorted(found.items()))


def complete_distractor_group(group: dict[str, Any], facts: Sequence[AssetInfo]) -> dict[str, Any]:
    """Return the group of distractors with what it leaves out: any of the clutter."""
    names = [one.name for one in facts if not one.mesh.category]
    return {"asset": {"kind": "choice", "options": names}} | group if names else group


def complete_object_group(
    group: dict[str, Any], facts: Sequence[AssetInfo], path: Path, group_name: str
) -> dict[str, Any]:
    """Return a group of things from files with what it leaves out: any asset, joints anywhere.

    Raises:
        RecipeError: it names a joint that none of the assets has.
    """
    joints = {
        joint.name: {"kind": "uniform", "low": 0.0, "high": 1.0}
        for one in facts
        if one.articulation
        for joint in one.articulation.free_joints
    }
    told = group.get("joints", {})
    for joint in told:
        if joint not in joints:
            hint = suggest_name(joint, joints)
            raise RecipeError(
                path, f"'domain.{group_name}.joints': no asset has a joint '{joint}'. {hint}"
            )
    any_of = {"kind": "choice", "options": [one.name for one in facts if one.mesh.category]}
    return {"asset": any_of} | group | {"joints": joints | told}
