"""Recipes: the one configuration file, as frozen values."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from sim2cam.adapt.calibration.camera_fit import read_camera
from sim2cam.adapt.calibration.domain_ranges import make_recipe_tables, remove_camera_factors
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.store import ParameterFreeMethod
from sim2cam.adapt.translator.config import PRESETS, TranslatorConfig
from sim2cam.assets.finish import check_own_texels
from sim2cam.assets.image_folder import import_pictures, import_skies
from sim2cam.data.channels import CHANNELS, EXTRAS, OutputName
from sim2cam.data.parsing import find_category_problem, is_file, read_toml
from sim2cam.data.writer import SAMPLES_PER_SHARD
from sim2cam.errors import InputError, RecipeError, UsageError, suggest_name
from sim2cam.models.training.config import TrainConfig
from sim2cam.pipeline.asset_folder import (
    AssetFolder,
    complete_distractor_group,
    complete_object_group,
    import_asset_folder,
    resolve_assets_folder,
)
from sim2cam.pipeline.renamed_keys import check_renamed_keys
from sim2cam.pipeline.requirements import Requirement, check_requirement
from sim2cam.randomize.distributions import Constant, Distribution
from sim2cam.randomize.domain import Domain, iterate_factors
from sim2cam.randomize.limits import check_domain
from sim2cam.randomize.material_families import expand_families
from sim2cam.randomize.materials import FINISH_FACTORS
from sim2cam.randomize.sampling import FactorValues
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.render.physics.simulation import RestCriterion
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.image_facts import EnvironmentMapInfo, TextureImageInfo
from sim2cam.scene.scene import Scene
from sim2cam.scene.shape import DIE_FACE_NORMALS

RECIPES_FOLDER = Path(__file__).parents[1] / "recipes"

NetworkMethod = Literal["translator"] | ReferenceMethod
AdaptMethod = NetworkMethod | ParameterFreeMethod

_CHANNEL_GROUPS = {
    "sensor_depth": "depth_camera",
    "right": "stereo",
    "disparity": "stereo",
    "shared": "stereo",
    "raw": "mosaic",
}
_PINHOLE_CHANNELS = ("disparity", "shared")
_SHIFT_FACTORS = ("shift_x", "shift_y")
_MAX_RECIPE_BYTES = 1 << 24
MAX_SIDE_PX = 4096
"""Longest side of a picture that is rendered."""


@dataclass(frozen=True)
class SequenceOptions:
    """Pictures of each scene on its way to rest; the last one is what a still shows.

    Attributes:
        frames: pictures of each camera; 2, 4, 8 or 16.
        interval_s: from one to the next. A film that is longer than the way to rest begins with
            bodies that are held still where they are let go. A die that tumbles is of the
            category that its upper face has then.
        track_count: points of each labelled object that are followed through the film; 0 for none.
    """

    frames: int
    interval_s: float
    track_count: int = 0

    def __post_init__(self) -> None:
        if not 1e-4 <= self.interval_s <= 10:
            raise ValueError(f"interval_s must be 0.0001 to 10, not {self.interval_s}")
        if not 0 <= self.track_count <= _MAX_TRACKS:
            raise ValueError(f"track_count must be 0 to {_MAX_TRACKS}, not {self.track_count}")


_MAX_TRACKS = 4096


@dataclass(frozen=True)
class RenderOptions:
    """What is made of each scene.

    Attributes:
        width, height: pixels.
        views: cameras that look at each scene; 1, 2, 4, 8 or 16.
        channels: what is written beside the picture, of ``dataset.channels``.
        sequence: pictures on the way to rest; None for stills.
        rest: what is taken for rest; None for the first rest that holds.
    """

    width: int = 640
    height: int = 640
    views: int = 4
    channels: tuple[OutputName, ...] = ("depth", "ids")
    sequence: SequenceOptions | None = None
    rest: RestCriterion | None = None

    def __post_init__(self) -> None:
        if not (16 <= self.width <= MAX_SIDE_PX and 16 <= self.height <= MAX_SIDE_PX):
            size = f"{self.width}x{self.height}"
            raise ValueError(f"width and height must be 16 to {MAX_SIDE_PX}, not {size}")
        if self.views < 1 or SAMPLES_PER_SHARD % self.views:
            raise ValueError(f"views must divide {SAMPLES_PER_SHARD}, not {self.views}")
        if self.frames_per_view < 1 or SAMPLES_PER_SHARD % (self.views * self.frames_per_view):
            raise ValueError(
                f"views x sequence.frames must divide {SAMPLES_PER_SHARD}, not {self.views} x {self.frames_per_view}"
            )
        allowed = (*CHANNELS, *EXTRAS)
        unknown = set(self.channels) - set(allowed)
        if unknown:
            name = min(unknown)
            raise ValueError(f"unknown channel '{name}'. {suggest_name(name, allowed)}")
        flows = [name for name in self.channels if name.startswith("flow")]
        if flows and self.sequence is None:
            raise ValueError(
                f"{flows[0]} leads to another picture: it needs a table render.sequence"
            )

    @property
    def frames_per_view(self) -> int:
        """Pictures that each camera takes of a scene."""
        return self.sequence.frames if self.sequence else 1

    @property
    def samples_per_scene(self) -> int:
        """Pictures of each scene."""
        return self.views * self.frames_per_view


@dataclass(frozen=True)
class ImageFolder:
    """Where pictures of a recipe lie, as its ``[skies]`` and ``[pictures]`` tables say.

    Attributes:
        folder: of files, beside the recipe.
    """

    folder: str


@dataclass(frozen=True)
class AdaptOptions:
    """How renders are brought toward captures.

    Attributes:
        method: the learned translator, a published one, or a transfer without a network.
        translator: its training; a file may name a preset and what is otherwise.
        reference: the training of a published one.
        certificate: what no translation may do to a picture.
    """

    method: AdaptMethod = "translator"
    translator: TranslatorConfig = field(default_factory=TranslatorConfig)
    reference: ReferenceConfig = field(default_factory=ReferenceConfig)
    certificate: CertificateLimits = field(default_factory=CertificateLimits)


@dataclass(frozen=True)
class Recipe:
    """Everything that is decided about a run.

    Attributes:
        name: of the recipe.
        categories: names, in order; those of the assets where a file leaves them out.
        domain: what is random, and how.
        assets: the objects that can be thrown besides dice, and clutter, which has no category; a file
            names their folders alone.
        render: size, views and channels.
        adapt: how renders are brought toward captures.
        train: the detector's training.
        require: what every scene must be, by names of one's own.
        skies: photographed light from all around; a file names its folder alone.
        pictures: of surfaces; a file names their folder alone.
    """

    name: str
    categories: tuple[str, ...]
    domain: Domain
    assets: tuple[AssetInfo, ...] = ()
    render: RenderOptions = field(default_factory=RenderOptions)
    adapt: AdaptOptions = field(default_factory=AdaptOptions)
    train: TrainConfig = field(default_factory=TrainConfig)
    require: Mapping[str, Requirement] = field(default_factory=dict)
    skies: tuple[EnvironmentMapInfo, ...] = ()
    pictures: tuple[TextureImageInfo, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.name, *self.categories):
            problem = find_category_problem(name)
            if problem is not None:
                raise ValueError(problem.removesuffix("."))
        if "/" in self.name or "\\" in self.name:  # files are named after it
            raise ValueError(f"name must be without slashes, not {self.name}")
        missing = sorted(DIE_FACE_NORMALS.keys() - set(self.categories))
        if self.domain.die is not None and missing:
            raise ValueError(
                f"the upward face of a die is its category, and categories lack {', '.join(missing)}"
            )
        shown = {facts.mesh.category for facts in self.assets} - {""}  # which clutter has
        missing = sorted(shown - set(self.categories))
        if missing:
            raise ValueError(f"categories lack {', '.join(missing)} of the assets")
        for channel in self.render.channels:
            group = _CHANNEL_GROUPS.get(channel)
            if group and getattr(self.domain, group) is None:
                raise ValueError(f"channel '{channel}' needs a [domain.{group}]")
            if channel in _PINHOLE_CHANNELS and not self._is_pinhole():
                raise ValueError(
                    f"channel '{channel}' needs a pinhole lens: k1, k2, p1, p2 of [domain.lens] "
                    "must be the constant 0"
                )

    def _is_pinhole(self) -> bool:
        bends = [
            (name, d) for name, d in iterate_factors(self.domain.lens) if name not in _SHIFT_FACTORS
        ]
        return all(isinstance(d, Constant) and d.value == (name == "aspect") for name, d in bends)

    def compose_scene(self, sampled_values: FactorValues) -> Scene:
        """Return the scene of a draw, not yet settled."""
        size = (self.render.width, self.render.height)
        return build_scene(sampled_values, *size, self.assets, self.skies, self.pictures)

    def to_stills(self) -> Recipe:
        """Return the recipe of the same scenes at rest: pictures alone, no films."""
        stills = dataclasses.replace(self.render, sequence=None, channels=())
        return dataclasses.replace(self, render=stills)

    def map_file_names(self) -> dict[str, str]:
        """Return how records call the files that scenes are made of, by their paths."""
        assets = {one.mesh.path: one.name for one in self.assets}
        skies = {one.file.path: f"skies/{one.name}" for one in self.skies}
        return assets | skies | {one.file.path: f"pictures/{one.name}" for one in self.pictures}

    def collect_licences(self) -> dict[str, str]:
        """Return those that are known of the files that scenes are made of, by ``map_file_names``."""
        names = self.map_file_names()
        known = {one.mesh.path: one.licence for one in self.assets}
        known |= {one.file.path: one.licence for one in self.skies}
        known |= {one.file.path: one.licence for one in self.pictures}
        return {names[path]: licence for path, licence in known.items() if licence}

    def collect_rendering_settings(self) -> dict[str, Any]:
        """Return, as JSON values, what decides the bytes of the rendered data set."""
        whole = json.loads(_ADAPTER.dump_json(self, exclude_none=True))
        optional = [key for key in ("assets", "require", "skies", "pictures") if getattr(self, key)]
        for facts in whole["assets"]:
            del facts["mesh"]["path"]  # where a file lies decides nothing, what it holds does
        for facts in (*whole["skies"], *whole["pictures"]):
            del facts["file"]["path"]
        return {key: whole[key] for key in (*_RENDERING_KEYS, *optional)}

    def digest(self) -> str:
        """Return the SHA-256 of the rendering facts."""
        return hashlib.sha256(
            json.dumps(self.collect_rendering_settings(), sort_keys=True).encode()
        ).hexdigest()

    def to_json(self) -> str:
        """Return the recipe as JSON, for another process."""
        return _ADAPTER.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Return the recipe of ``to_json``."""
        return _ADAPTER.validate_json(text)


_RENDERING_KEYS = ("name", "categories", "domain", "render")
_ADAPTER: TypeAdapter[Recipe] = TypeAdapter(Recipe)


def load_recipe(name_or_path: str) -> Recipe:
    """Return a recipe by its path, or a shipped one by its name.

    A recipe with ``base = "dice"`` changes only what it names; with several bases, each changes what
    those before it have. ``mosaic = false`` in ``[domain]`` takes a group out that a base has. With ``camera = "camera.json"`` its cameras are drawn around the one that
    ``sim2cam calibrate`` found. Files of assets are read and measured.

    Raises:
        UsageError: there is no such recipe.
        RecipeError: the file is not TOML, or holds a wrong key, type or range.
        InputError: an asset cannot be used.
    """
    path = _find_recipe(name_or_path)
    layers = list(_read_layers(path, set()))
    tables = _apply_preset(_merge_layers(layers, path), path)
    _check_keys(tables, Recipe, path, "")
    tables = _remove_disabled(tables)
    try:
        recipe = _ADAPTER.validate_python(_resolve_images(_resolve_assets(tables, path), path))
    except ValidationError as error:
        raise RecipeError(path, _describe_error(error)) from error
    except UsageError as error:
        raise RecipeError(path, f"'{_find_failing_section(tables)}': {error}.") from error
    try:
        names = [facts.name for facts in recipe.assets]
        skies, pictures = ([one.name for one in found] for found in (recipe.skies, recipe.pictures))
        inherited = _find_inherited_factors(recipe.domain, layers[-1])
        check_domain(recipe.domain, names, recipe.categories, skies, pictures, inherited)
        _check_texels(recipe)
        recipe = dataclasses.replace(recipe, domain=expand_families(recipe.domain))
        for name, requirement in recipe.require.items():
            check_requirement(name, requirement, recipe.domain, recipe.categories)
    except ValueError as error:
        raise RecipeError(path, f"{error}.") from error
    return recipe


def _check_texels(recipe: Recipe) -> None:
    """Refuse relief and wear on things from files whose parts share texels.

    Raises:
        InputError: naming the file.
    """
    domain = recipe.domain
    thrown = (domain.object_surface, domain.fixture_surface)
    for facts in recipe.assets:
        surfaces = thrown if facts.mesh.category else (domain.distractor_surface,)
        if any(
            name in FINISH_FACTORS for surface in surfaces for name, _ in iterate_factors(surface)
        ):
            check_own_texels(facts.mesh)


def _find_recipe(name_or_path: str, pattern: str = "*.toml") -> Path:
    """Return the file of a recipe by its path, or by its name among shipped ones."""
    path = Path(name_or_path)
    if path.suffix == ".toml":
        if is_file(path):
            return path
        raise UsageError(f"{path}: no such recipe file.")
    shipped = {p.stem: p for p in RECIPES_FOLDER.glob(pattern)}
    if name_or_path not in shipped:
        raise UsageError(
            f"no recipe '{name_or_path}'. {suggest_name(name_or_path, shipped)}; or give a .toml file."
        )
    return shipped[name_or_path]


def _merge_layers(layers: Sequence[dict[str, Any] | Path], path: Path) -> dict[str, Any]:
    """Return the tables of a recipe laid over those that it is based on, of which later ones win.

    Of several cameras the last one counts, and whole: no part of an earlier one is left.
    """
    camera: Path | None = None
    under: dict[str, Any] = {}
    over: dict[str, Any] = {}
    for layer in layers:
        if isinstance(layer, Path):
            camera, under, over = layer, _merge_tables(under, over), {}
        else:
            over = _merge_tables(over, layer)
    if camera is not None:
        under = _apply_camera(under, camera, over.get("render"), path)
    return _merge_tables(under, over)


def _read_layers(path: Path, visited: set[Path]) -> Iterator[dict[str, Any] | Path]:
    """Yield the tables that a recipe is laid from, the lowest first, and where cameras lie between them."""
    if path in visited:
        raise RecipeError(path, "its bases lead back to itself.")
    try:
        tables = read_toml(path, _MAX_RECIPE_BYTES, "recipe")
    except InputError as error:
        raise RecipeError(*error.args) from error
    check_renamed_keys(tables, path)
    assets = tables.get("assets")
    clutter = assets.get("clutter") if isinstance(assets, dict) else None
    for key, table in (("assets.folder", assets), ("assets.clutter.folder", clutter)):
        if isinstance(table, dict) and "folder" in table:
            table["folder"] = resolve_assets_folder(str(table["folder"]), path, key)
    for section in ("skies", "pictures"):
        table = tables.get(section)
        if isinstance(table, dict) and "folder" in table:
            table["folder"] = str((path.parent / str(table["folder"])).absolute())
    base, camera = tables.pop("base", None), tables.pop("camera", None)
    for name in base if isinstance(base, list) else [base] if base is not None else []:
        beside = path.parent / str(name)
        found = beside if is_file(beside) else _find_recipe(str(name), "**/*.toml")
        yield from _read_layers(found, visited | {path})
    if camera is not None:
        if not isinstance(camera, str):
            shown = json.dumps(camera, default=str)[:80]
            raise RecipeError(
                path, f"'camera': it is the path of one camera.json, in quotes (found {shown})."
            )
        yield path.parent / camera
    yield tables


def _find_inherited_factors(domain: Domain, own_tables: dict[str, Any] | Path) -> set[str]:
    """Return the factors, as ``domain.light.warmth``, that a recipe has from those that it is based on.

    Args:
        domain: of the recipe.
        own_tables: tables that its file holds.
    """
    written = own_tables.get("domain") if isinstance(own_tables, dict) else None
    written = written if isinstance(written, dict) else {}
    groups = {f.name: getattr(domain, f.name) for f in dataclasses.fields(domain)}
    return {
        f"domain.{name}.{factor}"
        for name, group in groups.items()
        for factor, _ in iterate_factors(group)
        if not (isinstance(written.get(name), dict) and factor in written[name])
    }


def _remove_disabled(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables without groups, requirements, films and sections that are ``false``."""
    kept = {name: table for name, table in tables.items() if table is not False}
    for section, names in _OPTIONAL_KEYS.items():
        if isinstance(table := kept.get(section), dict):
            out = {name for name in names or table if table.get(name) is False}
            kept[section] = {name: value for name, value in table.items() if name not in out}
    return kept


_OPTIONAL_KEYS: dict[str, tuple[str, ...]] = {
    "domain": (),
    "require": (),
    "render": ("sequence", "rest"),
}
"""Sections of which parts can be taken out, and which; any where none is named."""


def _apply_preset(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the tables with the translator's settings laid over the preset that they name.

    Raises:
        RecipeError: there is no such preset.
    """
    adapt = tables.get("adapt")
    settings = adapt.get("translator") if isinstance(adapt, dict) else None
    if not (isinstance(adapt, dict) and isinstance(settings, dict) and "preset" in settings):
        return tables
    name = str(settings["preset"])
    if name not in PRESETS:
        hint = suggest_name(name, PRESETS)
        raise RecipeError(path, f"'adapt.translator.preset': no preset '{name}'. {hint}")
    own = {key: value for key, value in settings.items() if key != "preset"}
    whole = dataclasses.asdict(PRESETS[name]) | own
    return tables | {"adapt": adapt | {"translator": whole}}


def _apply_camera(
    base_tables: dict[str, Any], camera_path: Path, render_table: Any, path: Path
) -> dict[str, Any]:
    """Return tables with cameras drawn around the one of a ``camera.json``.

    Args:
        base_tables: tables that it replaces parts of.
        camera_path: the file.
        render_table: table of what is laid over it, which may ask for another size.
        path: of the recipe, for errors.

    Raises:
        InputError: the file is missing or broken.
        RecipeError: its pictures have another shape than those that are asked for, or are too large.
    """
    fit = read_camera(camera_path)
    given = render_table if isinstance(render_table, dict) else {}
    sides = {name: n for name, n in given.items() if isinstance(n, int) and n > 0}
    height = sides.get("height")
    width = sides.get("width") or round((height or fit.height) * fit.width / fit.height)
    fitted = make_recipe_tables(fit, width)
    expected = fitted["render"]["height"]
    if height is not None and abs(height - expected) > 1:
        raise RecipeError(
            path,
            f"'render': {width}x{height} is another shape than the camera's {fit.width}x{fit.height}. Take "
            f"{width}x{expected}, or leave out width and height.",
        )
    most = max(fit.width, fit.height)
    if most > MAX_SIDE_PX and max(width, expected) > MAX_SIDE_PX:
        ways = " and ".join(
            f"{name} = {round(n * MAX_SIDE_PX / most)}"
            for name, n in (("width", fit.width), ("height", fit.height))
        )
        raise RecipeError(
            path,
            f"'camera': its pictures are {fit.width}x{fit.height}, and {MAX_SIDE_PX} pixels a side are the most "
            f"that is rendered. Set {ways} in [render].",
        )
    return _merge_tables(remove_camera_factors(base_tables, fit), fitted)


def _resolve_assets(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the tables with what is known of each asset, instead of the folder of all.

    Raises:
        RecipeError: objects are thrown, and no folder of them is named.
        InputError: one of them cannot be used.
    """
    domain = tables.get("domain")
    throws = isinstance(domain, dict) and not domain.keys().isdisjoint(("object", "fixture"))
    options = _ASSETS_ADAPTER.validate_python({"assets": tables.get("assets", {})})["assets"]
    if throws and options.folder is None:
        raise RecipeError(path, "there is nothing to throw. Name a folder of meshes in [assets].")
    if "assets" not in tables:
        return tables
    facts = import_asset_folder(options, path)
    categories = {one.mesh.category for one in facts} - {""}
    if domain and "die" in domain:
        categories |= DIE_FACE_NORMALS.keys()
    for group in ("object", "fixture"):
        if isinstance(domain, dict) and isinstance(domain.get(group), dict):
            domain = domain | {group: complete_object_group(domain[group], facts, path, group)}
    if isinstance(domain, dict) and isinstance(domain.get("distractor"), dict):
        domain = domain | {"distractor": complete_distractor_group(domain["distractor"], facts)}
    return {"categories": sorted(categories)} | tables | {"assets": facts, "domain": domain}


def _resolve_images(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the tables with what is known of each sky and picture, instead of the folders of all.

    Raises:
        RecipeError: skies are drawn, and no folder of them is named.
        InputError: one of them cannot be used.
    """
    domain = tables.get("domain")
    draws = isinstance(domain, dict) and isinstance(domain.get("sky"), dict)
    if draws and "skies" not in tables:
        raise RecipeError(path, "there is no sky to draw. Name a folder of pictures in [skies].")
    if "pictures" in tables:
        tables = tables | {"pictures": import_pictures(_parse_image_folder(tables["pictures"]))}
    if "skies" not in tables:
        return tables
    facts = import_skies(_parse_image_folder(tables["skies"]))
    if domain and draws:
        any_of = {"kind": "choice", "options": [one.name for one in facts]}
        domain = domain | {"sky": {"picture": any_of} | domain["sky"]}
    return tables | {"skies": facts, "domain": domain}


def _parse_image_folder(table: Any) -> Path:
    return Path(TypeAdapter(ImageFolder).validate_python(table).folder)


_ASSETS_ADAPTER: TypeAdapter[dict[str, AssetFolder]] = TypeAdapter(dict[str, AssetFolder])


def _merge_tables(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Lay tables over tables; a distribution (a table with a word for ``kind``) is replaced whole."""
    merged = dict(base)
    for key, value in override.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        is_whole = both and isinstance(value.get("kind"), str)
        merged[key] = _merge_tables(base[key], value) if both and not is_whole else value
    return merged


def _describe_error(error: ValidationError) -> str:
    """Return the first problem in one line: the key, what is wrong, and what is allowed."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] in ("missing", "missing_argument"):
        return f"key '{'.'.join(place)}' is missing."
    message = first["msg"].removeprefix("Value error, ")
    if not place:
        return f"{message}."
    if first["type"].startswith("union_tag"):
        kind = str(first["input"].get("kind"))
        return (
            f"'{'.'.join(place)}': unknown kind '{kind}'. {suggest_name(kind, _DISTRIBUTION_TYPES)}"
        )
    shown = json.dumps(first["input"], default=str)
    return f"'{'.'.join(place)}': {message} (found {shown[:80]})."


def _find_failing_section(tables: dict[str, Any]) -> str:
    """Return the section whose own check refuses it."""
    trained: Mapping[str, type] = {"translator": TranslatorConfig, "reference": ReferenceConfig}
    for name, kind in trained.items():
        try:
            TypeAdapter(kind).validate_python(tables.get("adapt", {}).get(name, {}))
        except UsageError:
            return f"adapt.{name}"
    return "train"


def _check_keys(table: Any, expected_type: Any, path: Path, prefix: str) -> None:
    """Refuse a key that ``expected_type``, a type that values of a recipe have, does not know.

    Raises:
        RecipeError: naming the key, the one that was probably meant, and all others.
    """
    if NoneType in get_args(expected_type):
        expected_type = next(part for part in get_args(expected_type) if part is not NoneType)
    if expected_type == Distribution and isinstance(table, dict):
        expected_type = _DISTRIBUTION_TYPES.get(
            str(table.get("kind"))
        )  # an unknown kind is told by the validation
    if isinstance(table, list):
        inner = _list_entry_types(expected_type, len(table))
        for number, (entry, kind) in enumerate(zip(table, inner, strict=True)):
            _check_keys(entry, kind, path, f"{prefix}{number}.")
    elif isinstance(table, dict) and get_origin(expected_type) is Mapping:
        for key, value in table.items():
            _check_keys(value, get_args(expected_type)[1], path, f"{prefix}{key}.")
    elif isinstance(table, dict) and dataclasses.is_dataclass(expected_type):
        types = get_type_hints(expected_type, include_extras=True)
        for key, value in table.items():
            if key not in types:
                raise RecipeError(path, f"unknown key '{prefix}{key}'. {suggest_name(key, types)}")
            kind = _FILE_TYPES.get(types[key], types[key])
            _check_keys(value, kind, path, f"{prefix}{key}.")


def _list_entry_types(expected_type: Any, count: int) -> list[Any]:
    """Return the types of the entries of a list of so many; None where they are not known."""
    kinds = get_args(expected_type) if get_origin(expected_type) is tuple else ()
    if Ellipsis in kinds:
        return [kinds[0]] * count
    return [*kinds[:count], *[None] * (count - len(kinds))]


_FILE_TYPES: dict[Any, type] = {
    tuple[AssetInfo, ...]: AssetFolder,
    tuple[EnvironmentMapInfo, ...]: ImageFolder,
    tuple[TextureImageInfo, ...]: ImageFolder,
}
"""What a file has in the place of what is known of each of its files."""
_DISTRIBUTION_TYPES = {
    get_args(get_type_hints(kind)["kind"])[0]: kind for kind in get_args(get_args(Distribution)[0])
}
