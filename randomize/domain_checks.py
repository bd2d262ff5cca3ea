"""Checks of a domain: values out of the ranges that the factors declare, and contradictions between factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sim2cam.errors import UsageError, suggest_name
from sim2cam.objects.kind import LabelClass, ObjectKind, PossibleValues
from sim2cam.randomize.distributions import Constant
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.factors import GOALPOST, SCENE_GROUPS
from sim2cam.randomize.material_families import OWN_MATERIAL, TRANSPARENT_FAMILIES, load_families
from sim2cam.randomize.materials import FINISH_FACTORS
from sim2cam.randomize.references import check_cases, check_path, check_references, compute_extremes
from sim2cam.scene.depth_camera import DEPTH_CAMERA_TYPES
from sim2cam.scene.image_facts import NO_IMAGE
from sim2cam.scene.lens_effects import Glare
from sim2cam.scene.parameters import (
    MAX_TEXT_LENGTH,
    Parameter,
    Value,
    is_printable_text,
    list_parameters,
)
from sim2cam.scene.symmetry import CUBOID, NO_SYMMETRIES

_MAX_LAMPS_WITH_WINDOW = 3  # the sun of a window is a lamp, too
_SURFACES_WITH_MAT = {"mat", "tray", "bin"}
"""Surfaces with a mat, or with a floor that replaces it."""
_UNLABELLED_COUNTS = (
    "layout/cable_count", "layout/paper_count", "layout/hand_count", "layout/distractor_count",
    "layout/decal_count", "layout/fixture_count", "light/lamp_count", "light/near_count",
)  # fmt: skip
_DEPTH_CAMERA_COUPLED = (
    "baseline_m", "projector_m", "min_range_m", "max_range_m", "depth_unit_m", "modulation_hz",
    "ambiguity_m",
)  # fmt: skip
"""Parameters of a depth camera that constrain each other."""


@dataclass(frozen=True)
class RecipeNames:
    """Names that factors can take.

    Attributes:
        assets: Objects from files.
        categories: Categories of the recipe.
        environment_maps, texture_images: Images of the recipe.
    """

    assets: Collection[str] = ()
    categories: Collection[str] = ()
    environment_maps: Collection[str] = ()
    texture_images: Collection[str] = ()


def check_domain(domain: Domain, names: RecipeNames, inherited: Collection[str] = ()) -> None:
    """Raise ``ValueError`` if a factor can take a value that is not allowed.

    Args:
        domain: domain with all its distributions.
        names: names that the recipe defines.
        inherited: factors, as ``domain.light.warmth``, whose ``given`` may have cases that cannot
            occur.

    Raises:
        ValueError: with the factor, the value and what is allowed.
    """
    check_references(domain)
    for group, factor, distribution in domain.iterate_factors():
        location = f"domain.{group}.{factor}"
        if location not in inherited:
            check_cases(domain, distribution, location)
        for value in compute_extremes(domain, distribution, location):
            parameter = domain.get_parameter(f"{group}/{factor}")
            problem = _describe_problem(domain, parameter, value, names)
            if problem:
                is_float = parameter.type == "integer" and isinstance(value, float)
                hint = '. Use kind = "integers"' if is_float else ""
                raise ValueError(f"'{location}' cannot be {value!r}. {problem}{hint}")
    _check_required_groups(domain)
    _check_surface_finish(domain)
    _check_lamps(domain)
    _check_decals(domain)
    _check_clutter(domain)
    _check_objects(domain, names)
    if "depth_camera" in domain:
        _check_depth_camera(domain)
    if "glare" in domain:
        _check_glare(domain)


def _check_objects(domain: Domain, names: RecipeNames) -> None:
    """Raise ``ValueError`` if objects lack images, or show categories that the recipe lacks."""
    for name, kind in domain.object_groups.items():
        problem = kind.find_problem(_make_lookup(domain, name), names.texture_images)
        if problem is not None:
            factor, text = problem
            raise ValueError(f"'domain.{name}.{factor}': {text}")
        missing = _find_missing_categories(domain, name, kind, names.categories)
        if missing:
            raise ValueError(
                f"categories must contain {', '.join(missing)}, because an object of 'domain.{name}' can show "
                f"it. Add the names, change its factors, or set 'domain.{name}.category'"
            )
    if _can_be_field(domain) and GOALPOST not in names.categories:
        raise ValueError(f"categories must contain {GOALPOST}, because a field has goals. Add it")


def _can_be_field(domain: Domain) -> bool:
    return "field" in _list_extremes(domain, "layout/surface")


def list_label_classes(domain: Domain) -> tuple[LabelClass, ...]:
    """Return the label classes of all objects of built-in kinds, without empty ones."""
    posts = LabelClass(GOALPOST, (GOALPOST,), CUBOID, CUBOID)
    return tuple(
        label_class
        for name, kind in domain.object_groups.items()
        for label_class in _list_classes(domain, name, kind)
        if label_class.categories
    ) + ((posts,) if _can_be_field(domain) else ())


def check_settings(domain: Domain, settings: Mapping[str, Value], names: RecipeNames) -> None:
    """Raise ``UsageError`` if a setting names an unknown factor or a value that is not allowed.

    Args:
        domain: domain with all its distributions.
        settings: values of factors, by path.
        names: names that the recipe defines.

    Raises:
        UsageError: with the factor and what is allowed.
    """
    for path, value in settings.items():
        check_path(domain, path, UsageError)
        problem = _describe_problem(domain, domain.get_parameter(path), value, names)
        if problem:
            raise UsageError(f"'{path}' cannot be {value!r}. {problem}.")
        group, *_, factor = path.split("/")
        if group in domain.object_groups:
            changed = domain.replace_factors({f"{group}/{factor}": Constant(value)})
            kind = domain.object_groups[group]
            missing = _find_missing_categories(changed, group, kind, names.categories)
            if missing:
                raise UsageError(
                    f"'{path}' cannot be {value!r}: categories must contain {', '.join(missing)}."
                )


def get_bounds(path: str) -> tuple[float, float]:
    """Return the smallest and the largest allowed number of a factor of the scene.

    Args:
        path: path of the factor, as ``light/warmth``.
    """
    group, factor = path.split("/")
    parameter = SCENE_GROUPS[group][factor]
    return parameter.low, parameter.high


def _find_missing_categories(
    domain: Domain, name: str, kind: type[ObjectKind], categories: Collection[str]
) -> list[str]:
    classes = _list_classes(domain, name, kind)
    return sorted({c for label_class in classes for c in label_class.categories} - set(categories))


def _list_classes(domain: Domain, name: str, kind: type[ObjectKind]) -> tuple[LabelClass, ...]:
    """Return the label classes of a group of objects, with its own categories if it sets them."""
    lookup = _make_lookup(domain, name)
    if "category" in list_parameters(kind.factors_type) or f"{name}/category" not in domain:
        return kind.list_label_classes(lookup)
    classes = kind.list_label_classes(lookup)
    same = classes[0] if len(classes) == 1 else None
    symmetries = same.symmetries if same else NO_SYMMETRIES
    shape_symmetries = same.shape_symmetries if same else NO_SYMMETRIES
    hidden = kind.list_hidden_categories(lookup)
    categories = tuple(sorted({*map(str, lookup("category")), *hidden}))
    return (LabelClass(name, categories, symmetries, shape_symmetries),)


def _make_lookup(domain: Domain, group: str) -> PossibleValues:
    """Return a function from a factor of a group to its possible values; defaults for omitted ones."""

    def find(factor: str) -> set[Value]:
        path = factor if "/" in factor else f"{group}/{factor}"
        return _list_extremes(domain, path)

    return find


def _list_extremes(domain: Domain, path: str) -> set[Value]:
    """Return the extremes of a factor; all its values if it is categorical, its default if omitted."""
    if path not in domain:
        default = domain.get_parameter(path).default
        return set() if default is None else {default}
    return set(
        compute_extremes(domain, domain.get_factor(path), f"domain.{path.replace('/', '.')}")
    )


def _check_required_groups(domain: Domain) -> None:
    """Raise ``ValueError`` without labelled objects or without a group that a count requires."""
    labelled = [path for path in domain.possible_repeated_groups if path not in _UNLABELLED_COUNTS]
    if not any(path in domain for path in labelled):
        names = ", ".join(
            path.partition("/")[2] for path in labelled if path != "layout/object_count"
        )
        raise ValueError(
            "no labelled objects: set 'domain.layout.object_count' (files, see [assets]) or one of "
            f"{names}"
        )
    if "layout/shelf_count" not in domain and "shelf" in _list_extremes(domain, "layout/surface"):
        raise ValueError(
            "'domain.layout.surface' can be 'shelf', but 'domain.layout.shelf_count' is missing"
        )
    if sum(f"view/{name}" in domain for name in ("die_px", "object_px", "distance_m")) != 1:
        raise ValueError(
            "'domain.view' needs exactly one of 'die_px', 'object_px' and 'distance_m'"
        )
    for group in ("field", "hall"):
        if _can_be_field(domain) and group not in domain:
            raise ValueError(
                f"'domain.layout.surface' can be 'field', but 'domain.{group}' is missing"
            )
    for path, groups in domain.possible_repeated_groups.items():
        for group in groups:
            if path in domain and group not in domain:
                count = path.replace("/", ".")
                raise ValueError(f"'domain.{count}' requires 'domain.{group}', which is missing")


def _check_surface_finish(domain: Domain) -> None:
    """Raise ``ValueError`` for relief or wear of surfaces that do not support it."""
    kinds = {f"{name}_surface": kind for name, kind in domain.object_groups.items()}
    for group, factor, _ in domain.iterate_factors():
        kind, location = kinds.get(group), f"'domain.{group}.{factor}'"
        if factor in FINISH_FACTORS and kind and kind.has_atlas and kind.side_count == 0:
            raise ValueError(
                f"{location}: facelets share texels, so the finish would repeat. Remove it"
            )
        has_sides = group == "paper_surface" or (kind and kind.has_atlas and kind.side_count > 0)
        if factor == "edges" and not has_sides:
            raise ValueError(f"{location}: the surface has no separate sides with edges. Remove it")


def _list_decal_targets(domain: Domain) -> tuple[str, ...]:
    """Return the names of bodies that can carry decals."""
    kinds = domain.possible_object_groups.items()
    return (*(name for name, kind in kinds if kind.side_count > 0), "paper", "mat", "table")


def _check_decals(domain: Domain) -> None:
    """Raise ``ValueError`` if decals have a target that no scene contains."""
    if "decal" not in domain:
        return
    for target in sorted(map(str, _list_extremes(domain, "decal/on"))):
        if target == "table":
            is_present = True
        elif target == "mat":
            is_present = not _SURFACES_WITH_MAT.isdisjoint(_list_extremes(domain, "layout/surface"))
        else:
            is_present = f"layout/{target}_count" in domain
        if not is_present:
            raise ValueError(f"'domain.decal.on' can be '{target}', but no scene contains one")


def _check_clutter(domain: Domain) -> None:
    """Raise ``ValueError`` unless clutter assets and the ``asset`` shape are given together."""
    can_be_asset = "asset" in _list_extremes(domain, "distractor/shape")
    if can_be_asset and "distractor/asset" not in domain:
        raise ValueError(
            "'domain.distractor.shape' can be 'asset', but there are no assets. "
            "Name a folder in [assets.clutter]"
        )
    if "distractor/asset" in domain and not can_be_asset:
        raise ValueError(
            "'domain.distractor.shape' cannot be 'asset', but [assets.clutter] names assets. "
            "Add 'asset' to its options"
        )


def _check_lamps(domain: Domain) -> None:
    """Raise ``ValueError`` if the lamps leave no room for the sun of a window."""
    max_count = max(map(float, _list_extremes(domain, "light/lamp_count")))
    if "window" in domain and max_count > _MAX_LAMPS_WITH_WINDOW:
        raise ValueError(
            f"'domain.light.lamp_count' can be {max_count:g}. Allowed: up to 3 with a window"
        )


def _check_depth_camera(domain: Domain) -> None:
    """Raise ``ValueError`` for parameters that the kind lacks or that contradict each other."""
    group = domain.groups["depth_camera"]
    kinds = [DEPTH_CAMERA_TYPES[str(k)] for k in _list_extremes(domain, "depth_camera/kind")]
    allowed = {"kind"}.union(*(list_parameters(kind) for kind in kinds))
    for name in group:
        if name not in allowed:
            names = ", ".join(kind.kind for kind in kinds)
            raise ValueError(
                f"'domain.depth_camera.{name}' is not a parameter of {names}. Remove it"
            )
    for kind in kinds:
        coupled = [
            name
            for name in list_parameters(kind)
            if name in _DEPTH_CAMERA_COUPLED and name in group
        ]
        extremes = [_list_extremes(domain, f"depth_camera/{name}") for name in coupled]
        for values in itertools.product(*extremes):
            try:
                kind(**dict(zip(coupled, values, strict=True)))  # type: ignore[arg-type]
            except ValueError as error:
                raise ValueError(f"'domain.depth_camera': {error}") from error


def _check_glare(domain: Domain) -> None:
    """Raise ``ValueError`` if the shares can add up to more than all light."""
    maxima = {
        name: max(map(float, _list_extremes(domain, f"glare/{name}")))
        for name in domain.groups["glare"]
    }
    try:
        Glare(**maxima)
    except ValueError as error:
        raise ValueError(f"'domain.glare': {error}") from error


def _describe_problem(
    domain: Domain, parameter: Parameter, value: Value, names: RecipeNames
) -> str | None:
    """Return the allowed values of a factor if a value is not among them; None otherwise."""
    is_text = isinstance(value, str)
    if parameter.is_printable and not (is_text and is_printable_text(str(value))):
        return f"Allowed: printable ASCII, up to {MAX_TEXT_LENGTH} characters"
    if parameter.type == "boolean":
        return None if isinstance(value, bool) else "Allowed: true, false"
    if parameter.type != "text":
        return _describe_number_problem(parameter, value)
    allowed = parameter.choices or _list_names(domain, parameter, names)
    if parameter.source == "material" and value in TRANSPARENT_FAMILIES:
        return f"Surfaces cannot be transparent. {suggest_name(str(value), allowed)}"
    if (not allowed and parameter.source is None) or value in allowed:
        return None
    return suggest_name(str(value), allowed)


def _list_names(domain: Domain, parameter: Parameter, names: RecipeNames) -> tuple[str, ...]:
    allowed: Mapping[str | None, Callable[[], tuple[str, ...]]] = {
        "category": lambda: tuple(names.categories),
        "asset": lambda: tuple(names.assets),
        "texture_image": lambda: (NO_IMAGE, *names.texture_images),
        "environment_map": lambda: (NO_IMAGE, *names.environment_maps),
        "material": lambda: (OWN_MATERIAL, *load_families()),
        "decal_target": lambda: _list_decal_targets(domain),
        None: tuple,
    }
    return allowed[parameter.source]()


def _describe_number_problem(parameter: Parameter, value: Value) -> str | None:
    low, high, is_integer = parameter.low, parameter.high, parameter.type == "integer"
    is_inside = not isinstance(value, bool | str) and low <= value <= high and math.isfinite(value)
    if is_inside and not (is_integer and isinstance(value, float)):
        return None
    numbers = "whole numbers" if is_integer else "numbers"
    if not math.isinf(high):
        return f"Allowed: {numbers} from {low:g} to {high:g}"
    return f"Allowed: finite {numbers}" if math.isinf(low) else f"Allowed: {numbers} >= {low:g}"
