"""Allowed values of the factors of a domain: options, booleans and numeric bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import PurePath
from typing import Any, get_args

from sim2cam.errors import UsageError, suggest_name
from sim2cam.randomize.bodies import ASSET_SHAPE
from sim2cam.randomize.decals import DECAL_TARGETS
from sim2cam.randomize.domain import (
    DepthCameraFactors,
    Domain,
    GlareFactors,
    SurfaceFactors,
    get_factor,
    iterate_factors,
)
from sim2cam.randomize.layout import Arrangement
from sim2cam.randomize.material_families import OWN_MATERIAL, TRANSPARENT_FAMILIES, load_families
from sim2cam.randomize.materials import FINISH_FACTORS
from sim2cam.randomize.references import check_cases, check_path, check_references, compute_extremes
from sim2cam.randomize.sampling_context import Value
from sim2cam.scene.depth_camera import DEPTH_CAMERA_BOUNDS as DEPTH_BOUNDS
from sim2cam.scene.depth_camera import DEPTH_CAMERA_TYPES
from sim2cam.scene.image_facts import NO_IMAGE
from sim2cam.scene.lens_effects import LENS_EFFECT_BOUNDS
from sim2cam.scene.lens_effects import Glare as GlassGlare
from sim2cam.scene.material import TEXTURE_FAMILIES
from sim2cam.scene.packages import MAX_TEXT_LENGTH, is_printable_text
from sim2cam.scene.sensor import SENSOR_BOUNDS, BayerPattern, Demosaic, FileFormat, Subsampling
from sim2cam.scene.shape import (
    CARD_BACK,
    CARD_FACES,
    MARKER_COUNTS,
    BoardPattern,
    PipShape,
)
from sim2cam.scene.symmetry import HALF_TURN_FACES
from sim2cam.scene.twisty import FACES as TURNING_FACES
from sim2cam.scene.twisty import N_SCRAMBLES

MAX_INSTANCES = 128
_CARD_BACK_HINT = (
    ". Add it, or keep cards face up (drop_height_m, speed_m_s, spin_rad_s, lean_rad = 0)"
)
_TONES = ("white", "black", "color")
_CHOICES: dict[str, tuple[str, ...]] = {
    "surface": ("table", "mat", "tray", "bin", "shelf"),
    "decal.on": DECAL_TARGETS,
    "family": TEXTURE_FAMILIES,
    "pip_shape": get_args(PipShape),
    "body_tone": _TONES,
    "pip_tone": _TONES,
    "shape": ("box", "cylinder", "sphere", ASSET_SHAPE),
    "kind": tuple(DEPTH_CAMERA_TYPES),
    "arrangement": get_args(Arrangement),
    "board.pattern": get_args(BoardPattern),
    "dictionary": tuple(MARKER_COUNTS),
    "face": CARD_FACES,
    "turned": TURNING_FACES,
    "near_light.kind": ("point", "spot", "area"),
    "pattern": get_args(BayerPattern),
    "demosaic": get_args(Demosaic),
    "jpeg_subsampling": get_args(Subsampling),
    "file_format": get_args(FileFormat),
}
_REQUIRED_BY_COUNT = {
    "die_count": ("layout.same_look", "die", "die_color", "die_surface"),
    "object_count": ("object", "object_surface"),
    "fixture_count": ("fixture", "fixture_surface"),
    "block_count": ("block", "block_surface"),
    "board_count": ("board", "board_surface"),
    "card_count": ("card", "card_surface"),
    "twisty_count": ("twisty", "twisty_color", "twisty_surface"),
    "tin_count": ("tin", "tin_label", "tin_surface"),
    "carton_count": ("carton", "carton_label", "carton_surface"),
    "bolt_count": ("bolt", "bolt_surface"),
    "nut_count": ("nut", "nut_surface"),
    "cable_count": ("cable", "cable_surface"),
    "paper_count": ("paper", "paper_label", "paper_surface"),
    "hand_count": ("hand", "hand_surface"),
    "near_count": ("near_light",),
    "decal_count": ("decal",),
}
"""Groups and factors that each count requires."""
_SURFACES_WITH_SIDES = (
    "die_surface", "board_surface", "card_surface", "tin_surface", "carton_surface",
    "paper_surface",
)  # fmt: skip
"""Surfaces with a separate texture region per side, which edge wear requires."""
_SURFACES_WITH_MAT = {"mat", "tray", "bin"}
"""Surfaces with a mat, or with a floor that replaces it."""
_UNLABELLED_COUNTS = ("cable_count", "paper_count", "hand_count", "near_count", "decal_count")
"""Counts of unlabelled groups."""
_PRINTED_TEXT_FACTORS = ("tin.category", "carton.category", "paper.heading", "decal.text")
_CATEGORIES_OF_VALUE: dict[str, Callable[[Value], Sequence[str]]] = {
    "board.pattern": lambda pattern: [str(pattern)],
    "card.face": lambda face: [str(face)],
    "card.face_down": lambda is_down: [CARD_BACK] if is_down else [],
    "twisty.layers": lambda layers: [f"{layers}x{layers}x{layers}"],
}
"""Categories that a value of a factor shows, where the value is not itself a category."""
_BOOLEAN_FACTORS = (
    "backed",
    "pictured",
    "pointing",
    "left",
    "same_look",
    "mirrored",
    "held",
    "face_down",
    "labelled",
    "sun",
)
_INTEGER_FACTORS = {
    "columns", "rows", "first_marker", "layers", "scramble", "decal.length", "droplets.count",
    "mosaic.bits", "jpeg_quality", "seed", "noise_seed", "pattern_seed",
}  # fmt: skip
"""Factors with whole numbers, besides all ``*_count``."""
_SHARE, _POSITIVE, _UNBOUNDED = (0.0, 1.0), (1e-6, math.inf), (-math.inf, math.inf)
_CENTER_OFFSET = (-0.45, 0.45)
_BOUNDS: dict[str, tuple[float, float]] = {
    "die_count": (1, MAX_INSTANCES),
    "object_count": (1, MAX_INSTANCES),
    "fixture_count": (1, 16),
    "joints": _SHARE,
    "shelf_count": (1, 8),
    "aim_height_m": (0, 10),
    "x_m": (-10, 10),
    "y_m": (-10, 10),
    "z_m": (-10, 10),
    "block_count": (1, MAX_INSTANCES),
    "board_count": (1, MAX_INSTANCES),
    "card_count": (1, MAX_INSTANCES),
    "twisty_count": (1, MAX_INSTANCES),
    "tin_count": (1, MAX_INSTANCES),
    "carton_count": (1, MAX_INSTANCES),
    "bolt_count": (1, MAX_INSTANCES),
    "nut_count": (1, MAX_INSTANCES),
    "cable_count": (0, 16),
    "paper_count": (0, 16),
    "hand_count": (0, 4),
    "decal_count": (0, MAX_INSTANCES),
    "which": _SHARE,
    "side": _SHARE,
    "decal.x": _SHARE,
    "decal.y": _SHARE,
    "decal.width_m": (0.001, 1),
    "wear": _SHARE,
    "decal.length": (1, MAX_TEXT_LENGTH),
    "backdrop.width_m": (0.5, 10),
    "backdrop.distance_m": (0.1, 10),
    "backdrop.height_m": (-5, 5),
    "cable.radius_m": (5e-4, 0.02),
    "cable.length_m": (0.02, 3),
    "sway_rad": (0, 2),
    "ripple_rad": (0, 1),
    "cable.radius": (0, 5),
    "paper.radius": (0, 5),
    "hand.radius": (0, 5),
    "hand.length_m": (0.05, 0.3),
    "curl_rad": (0, 1.2),
    "spread_rad": (0, 0.4),
    "hand.height_m": (0.002, 1),
    "pitch_rad": (-0.2, 1.5),
    "diameter_m": (0.001, 0.1),
    "bolt.length": (0.5, 10),
    "pitch": (0.08, 0.5),
    "head": (1.2, 4),
    "across": (1.2, 4),
    "head_height": (0.1, 3),
    "threaded": (0.01, 1),
    "nut.height": (0.2, 5),
    "metallic": _SHARE,
    "tin.radius_m": (0.005, 0.5),
    "tin.height": (0.15, 8),
    "height_m": (0.005, 1),
    "depth": (0.02, 20),
    "distractor_count": (0, MAX_INSTANCES),
    "lamp_count": (0, 4),
    "near_count": (0, 4),
    "near_light.distance_m": (0.3, 100),
    "near_light.size_m": (0, 2),
    "cone_rad": (0.02, 1.5),
    "region_m": _POSITIVE,
    "drop_height_m": (0, 2),
    "surface_side_m": (0.02, 5),
    "aspect": (0.05, 20),
    "lens.aspect": (0.2, 5),
    "wall_m": (0.002, 1),
    "edge_m": (0.002, 0.2),
    "rounding": (0, 0.49),
    "corner_cut": _SHARE,
    "pip_radius": (0.01, 0.25),
    "pip_spread": (0, 0.4),
    "pip_depth": (0, 0.2),
    "pip_ace": (0.3, 2),
    "pip_two": (0.3, 1),
    "pip_three": (0.3, 1),
    "pip_rows": (0.3, 1),
    "density_kg_m3": _POSITIVE,
    "mass_offset_x": _CENTER_OFFSET,
    "mass_offset_y": _CENTER_OFFSET,
    "mass_offset_z": _CENTER_OFFSET,
    "drag": _SHARE,
    "spin_drag": _SHARE,
    "lean_rad": (0, math.pi / 2),
    "length_m": (0.002, 0.5),
    "width": (0.05, 20),
    "height": (0.05, 20),
    "columns": (1, 64),
    "rows": (1, 64),
    "square_m": (1e-3, 0.5),
    "marker_share": (0.1, 1),
    "first_marker": (0, 2**31),
    "margin_m": (1e-4, 0.5),
    "thickness_m": (2e-4, 0.1),
    "ink": _SHARE,
    "width_m": (0.01, 1),
    "card.aspect": (0.2, 5),
    "corner": (0.005, 0.4),
    "twisty.edge_m": (0.005, 0.5),
    "twisty.rounding": (0.01, 0.49),
    "layers": (2, 3),
    "scramble": (0, N_SCRAMBLES - 1),
    "turned_rad": (-math.pi / 4, math.pi / 4),
    "sticker": (0.2, 1),
    "sticker_corner": _SHARE,
    **{
        f"{side}_{part}": _SHARE
        for side in ("up", "right", "front", "down", "left", "back", "ground", "letter", "pattern")
        for part in ("saturation", "value")
    },
    "mass_share": _SHARE,
    "friction_share": _SHARE,
    "restitution_share": _SHARE,
    "friction": (0, 2),
    "restitution": _SHARE,
    "throw_radius": (0, 5),
    "share": _SHARE,
    "rotation_a": _SHARE,
    "rotation_b": _SHARE,
    "rotation_c": _SHARE,
    "saturation": _SHARE,
    "sensor.saturation": (0, 5),
    "value": _SHARE,
    "second_saturation": _SHARE,
    "second_value": _SHARE,
    "pip_saturation": _SHARE,
    "pip_value": _SHARE,
    "pip_contrast": (0, 1.7),
    "scale_m": (1e-4, 10),
    "contrast": _SHARE,
    "sharpness": _SHARE,
    "roughness": (0.02, 1),
    "specular": (0, 0.2),
    "emission": (0, 1000),
    "relief": (0, 0.5),
    "dust": _SHARE,
    "scratches": _SHARE,
    "stains": _SHARE,
    "fingerprints": _SHARE,
    "edges": _SHARE,
    "picture_m": (0.005, 10),
    "seed": (0, 2**63 - 1),
    "size_m": (0.002, 0.5),
    "flatness": (0, 5),
    "slimness": (0.02, 5),
    "light.warmth": (-1, 1),
    "lamp.warmth": (-1, 1),
    "near_light.warmth": (-1, 1),
    "sky_level": _POSITIVE,
    "horizon": (0, 100),
    "level": (0, 1e6),
    "sky.level": _POSITIVE,
    "temperature_k": (1500, 20000),
    "white_k": (2500, 10000),
    "flicker_hz": (0, 1000),
    "flicker": _SHARE,
    "hour": (0, 24),
    "day": (0, 366),
    "latitude_rad": (-math.pi / 2, math.pi / 2),
    "transmittance": (0.05, 0.8),
    "window.distance_m": (0.3, 20),
    "sill_m": (-1, 5),
    "window.width_m": (0.05, 10),
    "window.height_m": (0.05, 10),
    "extinction_per_m": (0, 100),
    "brightness": (0, 100),
    "elevation_rad": (0, math.pi / 2),
    "radius_rad": (1e-3, math.pi / 2),
    "die_px": _POSITIVE,
    "object_px": (1, 600),
    "fov_rad": (0.05, 3.0),
    "tilt_rad": (0, 1.4),
    "red_gain": _POSITIVE,
    "blue_gain": _POSITIVE,
    "vignetting": _SHARE,
    "blur_px": (0, 50),
    "full_well_e": _POSITIVE,
    "read_noise_e": (0, math.inf),
    "denoise": _SHARE,
    "tone_contrast": (0.1, 5),
    "tone_shoulder": _SHARE,
    "sharpening": (0, 10),
    "jpeg_quality": (1, 100),
    "noise_seed": (0, 2**63 - 1),
    "red_response": (0.05, 1),
    "blue_response": (0.05, 1),
    "exposure_s": (1e-6, 10),
    "readout_s": (-10, 10),
    "stereo.baseline_m": DEPTH_BOUNDS["baseline_m"],
    "defocus.focus": (0.1, 100),
} | {
    f"{group}.{name}": limits
    for group, bounds in (
        {"depth_camera": DEPTH_BOUNDS} | LENS_EFFECT_BOUNDS | SENSOR_BOUNDS
    ).items()
    for name, limits in bounds.items()
}
_COUPLED_DEPTH_FACTORS = (
    "baseline_m", "projector_m", "min_range_m", "max_range_m", "depth_unit_m", "modulation_hz",
    "ambiguity_m",
)  # fmt: skip
"""Parameters of a depth camera that constrain each other."""


def check_domain(
    domain: Domain,
    assets: Collection[str],
    categories: Collection[str] = (),
    skies: Collection[str] = (),
    surface_images: Collection[str] = (),
    inherited: Collection[str] = (),
) -> None:
    """Raise ``ValueError`` if a factor can take a value that is not allowed.

    Args:
        domain: domain with all its distributions.
        assets: names of the available objects from files.
        categories: categories of the recipe.
        skies, surface_images: names of the available environment maps and texture images.
        inherited: factors, as ``domain.light.warmth``, whose ``given`` may have cases that cannot
            occur.

    Raises:
        ValueError: with the factor, the value and what is allowed.
    """
    check_references(domain)
    choices = _make_choices(assets, categories, skies, surface_images)
    for group in fields(domain):
        for factor, distribution in iterate_factors(getattr(domain, group.name)):
            location = f"domain.{group.name}.{factor}"
            if location not in inherited:
                check_cases(domain, distribution, location)
            for value in compute_extremes(domain, distribution, location):
                path = f"{group.name}/{factor}"
                problem = _describe_problem(path, value, choices)
                if problem:
                    is_float = _is_integer(path) and isinstance(value, float)
                    hint = '. Use kind = "integers"' if is_float else ""
                    raise ValueError(f"'{location}' cannot be {value!r}. {problem}{hint}")
    _check_required_groups(domain)
    _check_surface_finish(domain)
    _check_lamps(domain)
    _check_card_images(domain, surface_images)
    _check_decals(domain)
    _check_clutter(domain)
    for kind, names in list_categories(domain).items():
        missing = sorted(set(names) - set(categories))
        if missing:
            hint = _CARD_BACK_HINT if missing == [CARD_BACK] else ""
            raise ValueError(
                f"categories must contain {', '.join(missing)}, because a {kind} can show it{hint}"
            )
    if domain.depth_camera is not None:
        _check_depth_camera(domain, domain.depth_camera)
    if domain.glare is not None:
        _check_glare(domain, domain.glare)


def list_categories(domain: Domain) -> dict[str, tuple[str, ...]]:
    """Return the possible categories of built-in objects except dice, by kind of object."""
    categories: dict[str, set[str]] = {}
    if domain.block is not None:
        sides = [_list_extremes(domain, f"block/0/{name}") for name in ("width", "height")]
        kind = "cube" if all(side == {1} for side in sides) else "block"
        categories[kind] = set(map(str, _list_extremes(domain, "block/0/category")))
    if domain.board is not None:
        categories["board"] = set(map(str, _list_extremes(domain, "board/0/pattern")))
    if domain.card is not None:
        faces = set(map(str, _list_extremes(domain, "card/0/face")))
        hidden = {CARD_BACK} if _can_show_backs(domain) else set()
        categories["card"] = faces - set(HALF_TURN_FACES) | hidden
        categories["turnable card"] = faces & set(HALF_TURN_FACES)
    for kind in ("tin", "carton", "bolt", "nut"):
        if getattr(domain, kind) is not None:
            categories[kind] = set(map(str, _list_extremes(domain, f"{kind}/0/category")))
    if domain.twisty is not None:
        is_whole = _list_extremes(domain, "twisty/0/turned_rad") == {0}
        layers = sorted(_list_extremes(domain, "twisty/0/layers"))
        categories["twisty" if is_whole else "turned twisty"] = {f"{n}x{n}x{n}" for n in layers}
    return {kind: tuple(sorted(names)) for kind, names in categories.items() if names}


def _can_show_backs(domain: Domain) -> bool:
    """Return whether a card can lie face down: initially, or after it turns over."""
    motions = ("layout/drop_height_m", "layout/speed_m_s", "layout/spin_rad_s", "card/0/lean_rad")
    is_face_down = True in _list_extremes(domain, "card/0/face_down")
    return is_face_down or any(_list_extremes(domain, path) != {0} for path in motions)


def _list_extremes(domain: Domain, path: str) -> set[Value]:
    """Return the extremes of a factor; all its values if it is categorical."""
    location = f"domain.{path.replace('/0', '').replace('/', '.')}"
    return set(compute_extremes(domain, get_factor(domain, path), location))


def check_settings(
    domain: Domain,
    settings: Mapping[str, Value],
    assets: Collection[str],
    categories: Collection[str] = (),
    skies: Collection[str] = (),
    surface_images: Collection[str] = (),
) -> None:
    """Raise ``UsageError`` if a setting names an unknown factor or a value that is not allowed.

    Args:
        domain: domain with all its distributions.
        settings: values of factors, by path.
        assets: names of the available objects from files.
        categories: categories of the recipe.
        skies, surface_images: names of the available environment maps and texture images.

    Raises:
        UsageError: with the factor and what is allowed.
    """
    for name, value in settings.items():
        check_path(domain, name, UsageError)
        problem = _describe_problem(
            name, value, _make_choices(assets, categories, skies, surface_images)
        )
        if problem:
            raise UsageError(f"'{name}' cannot be {value!r}. {problem}.")
        group, *_, factor = name.split("/")
        list_shown = _CATEGORIES_OF_VALUE.get(f"{group}.{factor}")
        missing = set(list_shown(value)) - set(categories) if list_shown else set()
        if missing:
            raise UsageError(
                f"'{name}' cannot be {value!r}: categories must contain {', '.join(sorted(missing))}."
            )


def _check_required_groups(domain: Domain) -> None:
    """Raise ``ValueError`` without labelled objects or without a group that a count requires."""
    layout, view = domain.layout, domain.view
    counts = [name for name in _REQUIRED_BY_COUNT if name not in _UNLABELLED_COUNTS]
    if all(getattr(layout, name) is None for name in counts):
        raise ValueError(
            "no labelled objects: set 'domain.layout.object_count' (files, see [assets]) or one of "
            "die_count, block_count, board_count, card_count, twisty_count, tin_count, carton_count, "
            "bolt_count, nut_count"
        )
    if layout.shelf_count is None and "shelf" in _list_extremes(domain, "layout/surface"):
        raise ValueError(
            "'domain.layout.surface' can be 'shelf', but 'domain.layout.shelf_count' is missing"
        )
    if (view.die_px is None) == (view.object_px is None):
        raise ValueError("'domain.view' needs exactly one of 'die_px' and 'object_px'")
    groups: dict[str, Any] = {
        "layout.same_look": layout.same_look,
        **{group.name: getattr(domain, group.name) for group in fields(domain)},
    }
    for owner in ("layout", "light"):
        for factor, _ in iterate_factors(groups[owner]):
            for required in _REQUIRED_BY_COUNT.get(factor, ()):
                if groups[required] is None:
                    raise ValueError(
                        f"'domain.{owner}.{factor}' requires 'domain.{required}', which is missing"
                    )


def _check_surface_finish(domain: Domain) -> None:
    """Raise ``ValueError`` for relief or wear of surfaces that do not support it."""
    for field in fields(domain):
        group = getattr(domain, field.name)
        if not isinstance(group, SurfaceFactors):
            continue
        for factor, _ in iterate_factors(group):
            location = f"'domain.{field.name}.{factor}'"
            if factor in FINISH_FACTORS and field.name == "twisty_surface":
                raise ValueError(
                    f"{location}: facelets share texels, so the finish would repeat. Remove it"
                )
            if factor == "edges" and field.name not in _SURFACES_WITH_SIDES:
                raise ValueError(
                    f"{location}: the surface has no separate sides with edges. Remove it"
                )


def _check_card_images(domain: Domain, surface_images: Collection[str]) -> None:
    """Raise ``ValueError`` if ``pictured`` cards lack the images of their faces."""
    if domain.card is None or domain.card.pictured is None:
        return
    if True not in _list_extremes(domain, "card/0/pictured"):
        return
    stems = {PurePath(name).stem for name in surface_images}
    missing = sorted(set(map(str, _list_extremes(domain, "card/0/face"))) - stems)
    if missing:
        raise ValueError(
            f"'domain.card.pictured': [pictures] lacks {', '.join(missing[:5])}. Name image files "
            f"after the faces: {missing[0]}.jpg"
        )


def _check_decals(domain: Domain) -> None:
    """Raise ``ValueError`` if decals have a target that no scene contains."""
    if domain.decal is None:
        return
    for target in sorted(map(str, _list_extremes(domain, "decal/0/on"))):
        if target == "table":
            is_present = True
        elif target == "mat":
            is_present = not _SURFACES_WITH_MAT.isdisjoint(_list_extremes(domain, "layout/surface"))
        else:
            is_present = getattr(domain.layout, f"{target}_count") is not None
        if not is_present:
            raise ValueError(f"'domain.decal.on' can be '{target}', but no scene contains one")


def _check_clutter(domain: Domain) -> None:
    """Raise ``ValueError`` unless clutter assets and the ``asset`` shape are given together."""
    can_be_asset = ASSET_SHAPE in _list_extremes(domain, "distractor/0/shape")
    if can_be_asset and domain.distractor.asset is None:
        raise ValueError(
            f"'domain.distractor.shape' can be '{ASSET_SHAPE}', but there are no assets. "
            "Name a folder in [assets.clutter]"
        )
    if domain.distractor.asset is not None and not can_be_asset:
        raise ValueError(
            f"'domain.distractor.shape' cannot be '{ASSET_SHAPE}', but [assets.clutter] names assets. "
            f"Add '{ASSET_SHAPE}' to its options"
        )


def _check_lamps(domain: Domain) -> None:
    """Raise ``ValueError`` if the lamps leave no room for the sun of a window."""
    max_count = max(
        map(float, compute_extremes(domain, domain.light.lamp_count, "domain.light.lamp_count"))
    )
    if domain.window is not None and max_count > _BOUNDS["lamp_count"][1] - 1:
        raise ValueError(
            f"'domain.light.lamp_count' can be {max_count:g}. Allowed: up to 3 with a window"
        )


def _check_depth_camera(domain: Domain, group: DepthCameraFactors) -> None:
    """Raise ``ValueError`` for parameters that the kind lacks or that contradict each other."""
    extremes = {
        name: compute_extremes(domain, distribution, f"domain.depth_camera.{name}")
        for name, distribution in iterate_factors(group)
    }
    kinds = [DEPTH_CAMERA_TYPES[str(kind)] for kind in extremes["kind"]]
    allowed = {field.name for kind in kinds for field in fields(kind)}
    for name in extremes:
        if name not in allowed:
            names = ", ".join(kind.kind for kind in kinds)
            raise ValueError(
                f"'domain.depth_camera.{name}' is not a parameter of {names}. Remove it"
            )
    for kind in kinds:
        coupled = [
            field.name
            for field in fields(kind)
            if field.name in _COUPLED_DEPTH_FACTORS and field.name in extremes
        ]
        for values in itertools.product(*(extremes[name] for name in coupled)):
            try:
                kind(**dict(zip(coupled, values, strict=True)))  # type: ignore[arg-type]
            except ValueError as error:
                raise ValueError(f"'domain.depth_camera': {error}") from error


def _check_glare(domain: Domain, group: GlareFactors) -> None:
    """Raise ``ValueError`` if the shares can add up to more than all light."""
    maxima = {
        name: max(float(value) for value in compute_extremes(domain, d, f"domain.glare.{name}"))
        for name, d in iterate_factors(group)
    }
    try:
        GlassGlare(**maxima)
    except ValueError as error:
        raise ValueError(f"'domain.glare': {error}") from error


def get_bounds(path: str) -> tuple[float, float]:
    """Return the smallest and the largest allowed number of a factor.

    Args:
        path: path of the factor, as ``light/warmth`` or ``die/3/edge_m``.
    """
    group, *_, factor = path.split("/")
    return _BOUNDS.get(f"{group}.{factor}") or _BOUNDS.get(factor.partition(".")[0], _UNBOUNDED)


def _make_choices(
    assets: Collection[str],
    categories: Collection[str],
    skies: Collection[str],
    surface_images: Collection[str],
) -> Mapping[str, tuple[str, ...]]:
    return _CHOICES | {
        "object.asset": tuple(assets),
        "fixture.asset": tuple(assets),
        "distractor.asset": tuple(assets),
        "category": tuple(categories),
        "sky.picture": (NO_IMAGE, *skies),
        "picture": (NO_IMAGE, *surface_images),
        "material": (OWN_MATERIAL, *load_families()),
    }


def _describe_problem(
    path: str, value: Value, choices: Mapping[str, tuple[str, ...]]
) -> str | None:
    group, *_, factor = path.split("/")
    name = f"{group}.{factor}"
    if name in _PRINTED_TEXT_FACTORS and not (isinstance(value, str) and is_printable_text(value)):
        return f"Allowed: printable ASCII, up to {MAX_TEXT_LENGTH} characters"
    allowed = choices.get(name) or choices.get(factor)
    if factor == "material" and value in TRANSPARENT_FAMILIES:
        return f"Surfaces cannot be transparent. {suggest_name(str(value), allowed or ())}"
    if factor in ("heading", "text") or (allowed and value in allowed):
        return None
    if allowed:
        return suggest_name(str(value), allowed)
    if factor in _BOOLEAN_FACTORS:
        return None if isinstance(value, bool) else "Allowed: true, false"
    return _describe_number_problem(path, value)


def _describe_number_problem(path: str, value: Value) -> str | None:
    low, high = get_bounds(path)
    is_inside = not isinstance(value, bool | str) and low <= value <= high and math.isfinite(value)
    is_integer = _is_integer(path)
    if is_inside and not (is_integer and isinstance(value, float)):
        return None
    numbers = "whole numbers" if is_integer else "numbers"
    if not math.isinf(high):
        return f"Allowed: {numbers} from {low:g} to {high:g}"
    return f"Allowed: finite {numbers}" if math.isinf(low) else f"Allowed: {numbers} >= {low:g}"


def _is_integer(path: str) -> bool:
    group, *_, factor = path.split("/")
    return factor.endswith("_count") or not _INTEGER_FACTORS.isdisjoint(
        (factor, f"{group}.{factor}")
    )
