"""Recipe: the configuration file of all stages, as frozen dataclasses."""

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

from sim2cam.adapt.calibration.camera_domain import make_recipe_tables, remove_camera_factors
from sim2cam.adapt.calibration.camera_fit import read_camera
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.store import ParameterFreeMethod
from sim2cam.adapt.translator.config import PRESETS, TranslatorConfig
from sim2cam.assets.finish import check_unshared_texels
from sim2cam.assets.image_folder import import_environment_maps, import_images
from sim2cam.data.channels import CHANNELS, EXTRAS, OutputName
from sim2cam.data.parsing import find_category_problem, is_file, read_toml
from sim2cam.data.writer import SAMPLES_PER_SHARD
from sim2cam.errors import InputError, RecipeError, UsageError, suggest_name
from sim2cam.models.training.config import TrainConfig
from sim2cam.pipeline import recipe_files
from sim2cam.pipeline.asset_folder import (
    AssetFolder,
    complete_distractor_group,
    complete_object_group,
    expand_image_patterns,
    import_asset_folder,
    resolve_assets_folder,
    resolve_image_folder,
)
from sim2cam.pipeline.database_cameras import (
    LensDatabase,
    SensorDatabase,
    apply_camera_databases,
    collect_database_licences,
)
from sim2cam.pipeline.recipe_files import find_recipe
from sim2cam.pipeline.renamed_keys import check_renamed_keys
from sim2cam.pipeline.requirements import Requirement, check_requirement
from sim2cam.randomize.distributions import Constant, Distribution
from sim2cam.randomize.domain import KIND_KEY, Domain, list_parameters_of_tables
from sim2cam.randomize.domain_checks import RecipeNames, check_domain, list_label_classes
from sim2cam.randomize.material_families import expand_families
from sim2cam.randomize.materials import FINISH_FACTORS
from sim2cam.randomize.references import check_references
from sim2cam.randomize.sampling import FactorValues
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.render.physics.simulation import RestCriterion
from sim2cam.scene.asset_facts import AssetInfo
from sim2cam.scene.image_facts import EnvironmentMapInfo, TextureImageInfo
from sim2cam.scene.scene import Scene

RECIPES_FOLDER = recipe_files.FOLDER

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
"""Largest width and height of rendered images."""


@dataclass(frozen=True)
class SequenceOptions:
    """Frames of each scene on its way to rest; the last frame equals the still image.

    Attributes:
        frames: frames of each camera; 2, 4, 8 or 16.
        interval_s: time between frames. A sequence longer than the motion starts with bodies held
            at their initial poses. The category of a tumbling die is the upper face at that time.
        track_count: tracked points of each labelled object; 0 for none.
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
    """Images and channels of each scene.

    Attributes:
        width, height: image size in pixels.
        views: cameras of each scene; 1, 2, 4, 8 or 16.
        channels: additional channels and labels.
        sequence: frames of each scene on its way to rest; without it, still images.
        rest: criterion for rest; without it, full friction and no restarts.
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
            raise ValueError(f"channel '{flows[0]}' needs a [render.sequence]")

    @property
    def frames_per_view(self) -> int:
        """Images of each camera in a scene."""
        return self.sequence.frames if self.sequence else 1

    @property
    def samples_per_scene(self) -> int:
        """Images of each scene."""
        return self.views * self.frames_per_view


@dataclass(frozen=True)
class ImageFolder:
    """Environment maps or texture images, from files: the ``[skies]`` or ``[pictures]`` table of a recipe.

    Attributes:
        folder: folder of image files, relative to the recipe; or ``fetched:NAME``, the photographs or
            environment maps that ``sim2cam fetch NAME`` stored.
    """

    folder: str


@dataclass(frozen=True)
class AdaptOptions:
    """Adaptation of renders to real images.

    Attributes:
        method: the learned translator, a published translator or a transfer without parameters.
        translator: training settings of the learned translator; a file may name a preset and change
            single settings.
        reference: training settings of ``cyclegan``, ``cut`` and ``fastcut``.
        certificate: limits of the label-preservation certificate.
    """

    method: AdaptMethod = "translator"
    translator: TranslatorConfig = field(default_factory=TranslatorConfig)
    reference: ReferenceConfig = field(default_factory=ReferenceConfig)
    certificate: CertificateLimits = field(default_factory=CertificateLimits)


@dataclass(frozen=True)
class Recipe:
    """Configuration of all stages.

    Attributes:
        categories: category names in order; a file may leave them out.
        domain: randomized factors and their distributions.
        assets: mesh assets and clutter, which has no category; a file names their folders.
        require: requirements that every scene must meet, by name.
        skies: environment maps; a file names their folder.
        pictures: texture images; a file names their folder.
        sensor, lens: databases from which cameras are sampled; None for those of the domain.
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
    sensor: SensorDatabase | None = None
    lens: LensDatabase | None = None

    def __post_init__(self) -> None:
        for name in (self.name, *self.categories):
            problem = find_category_problem(name)
            if problem is not None:
                raise ValueError(problem.removesuffix("."))
        if "/" in self.name or "\\" in self.name:  # the name is part of file names
            raise ValueError(f"name must not contain slashes, but is {self.name}")
        asset_categories = {asset.mesh.category for asset in self.assets} - {""}  # "": clutter
        missing = sorted(asset_categories - set(self.categories))
        if missing:
            raise ValueError(f"categories lack {', '.join(missing)} of the assets")
        for channel in self.render.channels:
            group = _CHANNEL_GROUPS.get(channel)
            if group and group not in self.domain:
                raise ValueError(f"channel '{channel}' needs a [domain.{group}]")
            if channel in _PINHOLE_CHANNELS and not self._is_pinhole():
                raise ValueError(
                    f"channel '{channel}' needs a pinhole lens: k1, k2, p1, p2 of [domain.lens] "
                    "must be the constant 0"
                )

    def _is_pinhole(self) -> bool:
        return all(
            isinstance(factor, Constant) and factor.value == (name == "aspect")
            for name, factor in self.domain.groups["lens"].items()
            if name not in _SHIFT_FACTORS
        )

    def compose_scene(self, sampled_values: FactorValues) -> Scene:
        """Return the scene of sampled values, before simulation."""
        size = (self.render.width, self.render.height)
        return build_scene(
            sampled_values, self.domain, *size, self.assets, self.skies, self.pictures
        )

    def to_stills(self) -> Recipe:
        """Return the recipe without sequences and channels."""
        stills = dataclasses.replace(self.render, sequence=None, channels=())
        return dataclasses.replace(self, render=stills)

    @property
    def names(self) -> RecipeNames:
        """Names that factors of the domain can take."""
        return RecipeNames(
            [asset.name for asset in self.assets],
            self.categories,
            [sky.name for sky in self.skies],
            [texture.name for texture in self.pictures],
        )

    def map_file_names(self) -> dict[str, str]:
        """Return the names of asset and image files in records, by path."""
        assets = {asset.mesh.path: asset.name for asset in self.assets}
        skies = {sky.file.path: f"skies/{sky.name}" for sky in self.skies}
        textures = {texture.file.path: f"pictures/{texture.name}" for texture in self.pictures}
        return assets | skies | textures

    def collect_licences(self) -> dict[str, str]:
        """Return the known licences of databases, and of files by their names in records."""
        names = self.map_file_names()
        licences = {asset.mesh.path: asset.licence for asset in self.assets}
        licences |= {sky.file.path: sky.licence for sky in self.skies}
        licences |= {texture.file.path: texture.licence for texture in self.pictures}
        files = {names[path]: licence for path, licence in licences.items() if licence}
        return files | collect_database_licences(self.sensor, self.lens)

    def collect_credits(self) -> dict[str, str]:
        """Return the known authors and sources of asset and image files, by their names in records."""
        names = self.map_file_names()
        credits_by_path = {asset.mesh.path: asset.credit for asset in self.assets}
        credits_by_path |= {sky.file.path: sky.credit for sky in self.skies}
        credits_by_path |= {texture.file.path: texture.credit for texture in self.pictures}
        return {names[path]: credit for path, credit in credits_by_path.items() if credit}

    def collect_rendering_settings(self) -> dict[str, Any]:
        """Return the settings that determine the bytes of the rendered dataset, as JSON values."""
        values = json.loads(_ADAPTER.dump_json(self, exclude_none=True))
        optional = [key for key in _OPTIONAL_SETTINGS if getattr(self, key)]
        for asset in values["assets"]:
            del asset["mesh"]["path"]  # only the content of a file counts
        for image in (*values["skies"], *values["pictures"]):
            del image["file"]["path"]
        return {key: values[key] for key in (*_RENDERING_KEYS, *optional)}

    def digest(self) -> str:
        """Return the SHA-256 of the rendering settings."""
        return hashlib.sha256(
            json.dumps(self.collect_rendering_settings(), sort_keys=True).encode()
        ).hexdigest()

    def to_json(self) -> str:
        """Return the recipe as JSON, for another process."""
        return _ADAPTER.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Parse the recipe of ``to_json``."""
        return _ADAPTER.validate_json(text)


_RENDERING_KEYS = ("name", "categories", "domain", "render")
_OPTIONAL_SETTINGS = ("assets", "require", "skies", "pictures", "sensor", "lens")
_ADAPTER: TypeAdapter[Recipe] = TypeAdapter(Recipe)


def load_recipe(name_or_path: str) -> Recipe:
    """Load a recipe from a path or by its shipped name.

    A recipe with ``base = "dice"`` changes only the keys that it names; of several bases, each
    changes the ones before it. ``mosaic = false`` in ``[domain]`` removes a group of a base. With
    ``camera = "camera.json"``, cameras are sampled around the camera of ``sim2cam calibrate``.
    Asset files are read and measured.

    Raises:
        UsageError: if the recipe does not exist.
        RecipeError: if the file is not TOML, or has a wrong key, type or range.
        InputError: if an asset is unusable.
    """
    path = find_recipe(name_or_path)
    return _build_recipe(list(_read_layers(path, set())), path)


def parse_recipe(tables: Mapping[str, Any]) -> Recipe:
    """Build a recipe from tables as in a file, with paths relative to the current folder.

    Raises errors as ``load_recipe``.
    """
    path = Path("recipe")
    return _build_recipe(list(_resolve_layers(merge_tables({}, tables), path, set())), path)


def _build_recipe(layers: Sequence[dict[str, Any] | Path], path: Path) -> Recipe:
    """Merge the layers of a recipe and validate the result; errors name the path."""
    tables = _apply_preset(_merge_layers(layers, path), path)
    _check_keys({key: table for key, table in tables.items() if key != "domain"}, Recipe, path, "")
    _check_domain_keys(tables.get("domain"), path)
    tables = _remove_disabled(tables)
    try:
        size = _RENDER_ADAPTER.validate_python({"render": tables.get("render", {})})["render"]
        tables = apply_camera_databases(tables, (size.width, size.height), path)
        resolved = _resolve_images(_resolve_assets(tables, path), path)
        recipe = _ADAPTER.validate_python(_complete_categories(resolved, path))
    except ValidationError as error:
        raise RecipeError(path, _describe_error(error)) from error
    except UsageError as error:
        raise RecipeError(
            path, f"'{_find_failing_section(tables)}': {str(error).rstrip('.')}."
        ) from error
    try:
        inherited = _find_inherited_factors(recipe.domain, layers[-1])
        check_domain(recipe.domain, recipe.names, inherited)
        _check_texels(recipe)
        recipe = dataclasses.replace(recipe, domain=expand_families(recipe.domain))
        for name, requirement in recipe.require.items():
            check_requirement(name, requirement, recipe.domain, recipe.categories)
    except ValueError as error:
        raise RecipeError(path, f"{error}.") from error
    return recipe


def _check_texels(recipe: Recipe) -> None:
    """Refuse relief and wear on assets whose parts share texels.

    Raises:
        InputError: naming the file.
    """
    for asset in recipe.assets:
        labelled = ("object_surface", "fixture_surface")
        groups = labelled if asset.mesh.category else ("distractor_surface",)
        factors = {name for group in groups for name in recipe.domain.groups.get(group, ())}
        if not factors.isdisjoint(FINISH_FACTORS):
            check_unshared_texels(asset.mesh)


def _merge_layers(layers: Sequence[dict[str, Any] | Path], path: Path) -> dict[str, Any]:
    """Merge the tables of a recipe and its bases; later layers win.

    Only the last camera applies, as a whole.
    """
    camera: Path | None = None
    before: dict[str, Any] = {}  # tables below the camera
    after: dict[str, Any] = {}  # tables above it
    for layer in layers:
        if isinstance(layer, Path):
            camera, before, after = layer, merge_tables(before, after), {}
        else:
            after = merge_tables(after, layer)
    if camera is not None:
        before = _apply_camera(before, camera, after.get("render"), path)
    return merge_tables(before, after)


def _read_layers(path: Path, visited: set[Path]) -> Iterator[dict[str, Any] | Path]:
    """Yield the tables of a recipe and its bases, lowest first, and camera paths between them."""
    if path in visited:
        raise RecipeError(path, "its bases are circular.")
    try:
        tables = read_toml(path, _MAX_RECIPE_BYTES, "recipe")
    except InputError as error:
        raise RecipeError(*error.args) from error
    yield from _resolve_layers(tables, path, visited)


def _resolve_layers(
    tables: dict[str, Any], path: Path, visited: set[Path]
) -> Iterator[dict[str, Any] | Path]:
    """Yield the layers of the bases of tables, then the tables with absolute folders."""
    check_renamed_keys(tables, path)
    assets = tables.get("assets")
    clutter = assets.get("clutter") if isinstance(assets, dict) else None
    for key, table in (("assets.folder", assets), ("assets.clutter.folder", clutter)):
        if isinstance(table, dict) and "folder" in table:
            table["folder"] = resolve_assets_folder(str(table["folder"]), path, key)
    for section in ("skies", "pictures"):
        table = tables.get(section)
        if isinstance(table, dict) and "folder" in table:
            table["folder"] = resolve_image_folder(str(table["folder"]), path, section)
    base, camera = tables.pop("base", None), tables.pop("camera", None)
    for name in base if isinstance(base, list) else [base] if base is not None else []:
        sibling = path.parent / str(name)
        base_path = sibling if is_file(sibling) else find_recipe(str(name), "**/*.toml")
        yield from _read_layers(base_path, visited | {path})
    if camera is not None:
        if not isinstance(camera, str):
            shown = json.dumps(camera, default=str)[:80]
            raise RecipeError(
                path, f"'camera' must be the path of one camera.json, in quotes (found {shown})."
            )
        yield path.parent / camera
    yield tables


def _find_inherited_factors(domain: Domain, own_tables: dict[str, Any] | Path) -> set[str]:
    """Return the factors that a recipe inherits from its bases, such as ``domain.light.warmth``."""
    own = own_tables.get("domain") if isinstance(own_tables, dict) else None
    own = own if isinstance(own, dict) else {}
    return {
        f"domain.{group}.{factor}"
        for group, factor, _ in domain.iterate_factors()
        if not (isinstance(own.get(group), dict) and factor in own[group])
    }


def _remove_disabled(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables without sections, groups and requirements that are ``false``."""
    kept = {name: table for name, table in tables.items() if table is not False}
    for section, names in _OPTIONAL_KEYS.items():
        if isinstance(table := kept.get(section), dict):
            disabled = {name for name in names or table if table.get(name) is False}
            kept[section] = {name: value for name, value in table.items() if name not in disabled}
    return kept


_OPTIONAL_KEYS: dict[str, tuple[str, ...]] = {
    "domain": (),
    "require": (),
    "render": ("sequence", "rest"),
}
"""Keys that ``false`` disables, by section; empty for any key."""


def _apply_preset(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the tables with the translator's settings laid over their preset.

    Raises:
        RecipeError: if the preset does not exist.
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
    merged = dataclasses.asdict(PRESETS[name]) | own
    return tables | {"adapt": adapt | {"translator": merged}}


def _apply_camera(
    base_tables: dict[str, Any], camera_path: Path, render_table: Any, path: Path
) -> dict[str, Any]:
    """Return tables with cameras sampled around the one of a ``camera.json``.

    Args:
        render_table: render table above the camera, which may set another size.

    Raises:
        InputError: if the file is missing or broken.
        RecipeError: if the requested size has another aspect ratio, or is too large.
    """
    fit = read_camera(camera_path)
    render_options = render_table if isinstance(render_table, dict) else {}
    sides = {name: n for name, n in render_options.items() if isinstance(n, int) and n > 0}
    height = sides.get("height")
    width = sides.get("width") or round((height or fit.height) * fit.width / fit.height)
    fitted = make_recipe_tables(fit, width)
    expected = fitted["render"]["height"]
    if height is not None and abs(height - expected) > 1:
        raise RecipeError(
            path,
            f"'render': {width}x{height} has another aspect ratio than the camera, {fit.width}x{fit.height}. "
            f"Set {width}x{expected}, or remove width and height.",
        )
    longer_side = max(fit.width, fit.height)
    if longer_side > MAX_SIDE_PX and max(width, expected) > MAX_SIDE_PX:
        sizes = " and ".join(
            f"{name} = {round(n * MAX_SIDE_PX / longer_side)}"
            for name, n in (("width", fit.width), ("height", fit.height))
        )
        raise RecipeError(
            path,
            f"'camera': images of {fit.width}x{fit.height} pixels exceed the limit of {MAX_SIDE_PX} pixels per "
            f"side. Set {sizes} in [render].",
        )
    return merge_tables(remove_camera_factors(base_tables, fit), fitted)


def _resolve_assets(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the tables with asset records instead of asset folders.

    Raises:
        RecipeError: if objects are thrown and no asset folder is named.
        InputError: if an asset is unusable.
    """
    domain = tables.get("domain")
    needs_assets = isinstance(domain, dict) and not domain.keys().isdisjoint(("object", "fixture"))
    options = _ASSETS_ADAPTER.validate_python({"assets": tables.get("assets", {})})["assets"]
    if needs_assets and options.folder is None:
        raise RecipeError(path, "no objects to throw. Set a folder of meshes in [assets].")
    if "assets" not in tables:
        return tables
    assets = import_asset_folder(options, path)
    for group in ("object", "fixture"):
        if isinstance(domain, dict) and isinstance(domain.get(group), dict):
            domain = domain | {group: complete_object_group(domain[group], assets, path, group)}
    if isinstance(domain, dict) and isinstance(domain.get("distractor"), dict):
        domain = domain | {"distractor": complete_distractor_group(domain["distractor"], assets)}
    return tables | {"assets": assets, "domain": domain}


def _complete_categories(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the tables with the categories of assets and objects, unless the recipe lists its own.

    Raises:
        RecipeError: if the category of an object refers to a factor that does not exist.
    """
    if "categories" in tables or "domain" not in tables:
        return tables
    domain = _DOMAIN_ADAPTER.validate_python({"domain": tables["domain"]})["domain"]
    names = {asset.mesh.category for asset in tables.get("assets", ())} - {""}
    try:
        check_references(domain)
        label_classes = list_label_classes(domain)
    except ValueError as error:
        raise RecipeError(path, f"{error}.") from error
    for label_class in label_classes:
        names.update(label_class.categories)
    return tables | {"categories": sorted(names)}


_DOMAIN_ADAPTER: TypeAdapter[dict[str, Domain]] = TypeAdapter(dict[str, Domain])


def _resolve_images(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the tables with records of environment maps and textures instead of their folders.

    Raises:
        RecipeError: if a sky is sampled and no folder of skies is named.
        InputError: if an image is unusable.
    """
    domain = tables.get("domain")
    samples_sky = isinstance(domain, dict) and isinstance(domain.get("sky"), dict)
    if samples_sky and "skies" not in tables:
        raise RecipeError(path, "no environment maps to sample. Set a folder of images in [skies].")
    if "pictures" in tables:
        pictures = import_images(_parse_image_folder(tables["pictures"]))
        tables = tables | {"pictures": pictures}
        if isinstance(domain, dict):
            names = [picture.name for picture in pictures]
            domain = {
                group: expand_image_patterns(table, names, path, group) if group != "sky" else table
                for group, table in domain.items()
            }
            tables = tables | {"domain": domain}
    if "skies" not in tables:
        return tables
    skies = import_environment_maps(_parse_image_folder(tables["skies"]))
    if domain and samples_sky:
        names = [sky.name for sky in skies]
        sky_table = {"picture": {"kind": "choice", "options": names}} | domain["sky"]
        domain = domain | {"sky": expand_image_patterns(sky_table, names, path, "sky")}
    return tables | {"skies": skies, "domain": domain}


def _parse_image_folder(table: Any) -> Path:
    return Path(TypeAdapter(ImageFolder).validate_python(table).folder)


_RENDER_ADAPTER: TypeAdapter[dict[str, RenderOptions]] = TypeAdapter(dict[str, RenderOptions])
_ASSETS_ADAPTER: TypeAdapter[dict[str, AssetFolder]] = TypeAdapter(dict[str, AssetFolder])


def merge_tables(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Lay tables over tables; distributions (tables with a string ``kind``) are replaced whole."""
    merged = dict(base)
    for key, value in override.items():
        below = base.get(key)
        if isinstance(value, Mapping) and not isinstance(value.get("kind"), str):
            merged[key] = merge_tables(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _describe_error(error: ValidationError) -> str:
    """Return the first problem in one line: key, problem and allowed values."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] in ("missing", "missing_argument"):
        return f"key '{'.'.join(place)}' is missing."
    message = first["msg"].removeprefix("Value error, ")
    if not place or message.startswith("'domain."):  # the message names the key
        return f"{message}."
    if first["type"].startswith("union_tag"):
        kind = str(first["input"].get("kind"))
        return (
            f"'{'.'.join(place)}': unknown kind '{kind}'. {suggest_name(kind, _DISTRIBUTION_TYPES)}"
        )
    shown = json.dumps(first["input"], default=str)
    return f"'{'.'.join(place)}': {message} (found {shown[:80]})."


def _find_failing_section(tables: dict[str, Any]) -> str:
    """Return the section whose own check fails."""
    configs: Mapping[str, type] = {"translator": TranslatorConfig, "reference": ReferenceConfig}
    for name, kind in configs.items():
        try:
            TypeAdapter(kind).validate_python(tables.get("adapt", {}).get(name, {}))
        except UsageError:
            return f"adapt.{name}"
    return "train"


def _check_keys(table: Any, expected_type: Any, path: Path, prefix: str) -> None:
    """Refuse keys that a type of the recipe does not have.

    Raises:
        RecipeError: naming the key, the probable one and all others.
    """
    if NoneType in get_args(expected_type):
        expected_type = next(part for part in get_args(expected_type) if part is not NoneType)
    if expected_type == Distribution and isinstance(table, dict):
        # the validation reports an unknown kind
        expected_type = _DISTRIBUTION_TYPES.get(str(table.get("kind")))
    if isinstance(table, list):
        entry_types = _list_entry_types(expected_type, len(table))
        for number, (entry, kind) in enumerate(zip(table, entry_types, strict=True)):
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


def _check_domain_keys(tables: Any, path: Path) -> None:
    """Refuse groups and factors that no domain has."""
    if not isinstance(tables, dict):
        return  # the validation reports it
    try:
        groups = list_parameters_of_tables(tables)
    except ValueError as error:
        raise RecipeError(path, f"{error}.") from error
    for group, table in tables.items():
        if group not in groups:
            hint = suggest_name(group, groups)
            raise RecipeError(path, f"unknown key 'domain.{group}'. {hint}")
        for key, value in table.items() if isinstance(table, dict) else ():
            place = f"domain.{group}.{key}"
            if key not in groups[group] and key != KIND_KEY:
                hint = suggest_name(key, groups[group])
                raise RecipeError(path, f"unknown key '{place}'. {hint}")
            is_mapping = key in groups[group] and groups[group][key].is_mapping
            if key == "category" and isinstance(value, dict) and "kind" not in value:
                if "from" not in value:
                    raise RecipeError(
                        path,
                        f"'{place}': `from` is missing. Name the factor that the category follows, or "
                        "set a `kind` of distribution.",
                    )
                _check_names(value, _CATEGORY_KEYS, path, f"{place}.")
            else:
                expected = Mapping[str, Distribution] if is_mapping else Distribution
                _check_keys(value, expected, path, f"{place}.")


_CATEGORY_KEYS = ("from", "cases", "otherwise")


def _check_names(table: dict[str, Any], allowed: Sequence[str], path: Path, prefix: str) -> None:
    for key in table:
        if key not in allowed:
            raise RecipeError(path, f"unknown key '{prefix}{key}'. {suggest_name(key, allowed)}")


def _list_entry_types(expected_type: Any, count: int) -> list[Any]:
    """Return the types of the entries of a list; None where unknown."""
    kinds = get_args(expected_type) if get_origin(expected_type) is tuple else ()
    if Ellipsis in kinds:
        return [kinds[0]] * count
    return [*kinds[:count], *[None] * (count - len(kinds))]


_FILE_TYPES: dict[Any, type] = {
    tuple[AssetInfo, ...]: AssetFolder,
    tuple[EnvironmentMapInfo, ...]: ImageFolder,
    tuple[TextureImageInfo, ...]: ImageFolder,
}
"""Types of the tables that a file has instead of file records."""
_DISTRIBUTION_TYPES = {
    get_args(get_type_hints(kind)["kind"])[0]: kind for kind in get_args(get_args(Distribution)[0])
}
