"""Variants of an ablation study for any recipe and real images, and reasons why some cannot run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from sim2cam.adapt.calibration.estimates import MIN_CALIBRATION_PHOTOS
from sim2cam.adapt.store import TRANSFER_TYPES
from sim2cam.adapt.training.adversarial import MIN_REAL_IMAGES
from sim2cam.data.real_images import RealImageSplits
from sim2cam.errors import RecipeError, Sim2CamError, UsageError, suggest_name
from sim2cam.experiments.ablation import (
    BEST_TRANSFER,
    CAMERA,
    CAMERA_TRANSLATED,
    FIXED,
    PREDICTIONS_FOLDER,
    PSEUDO_LABELLED,
    PUBLISHED,
    RANDOMIZED,
    REAL,
    RETRANSLATED,
    TRANSLATED,
    AblationPlan,
    Variant,
    list_pending_jobs,
    prepare_data,
    run_jobs,
)
from sim2cam.models.training.config import AdaptationMethod
from sim2cam.pipeline.recipe import RECIPES_FOLDER, Recipe, load_recipe

PHOTO_COUNTS = (5, 10, 25, 50, 100, 200)
"""Numbers of labelled photos of variants that train on a subset."""

HALVINGS = 4
"""Points of a learning curve below the whole study, each half of the next."""

_NOT_SELECTED = "not selected; add it to --variants"
_NOT_FINISHED = "not trained yet; run the command again with --resume"
_CORE, _TRANSFERS, _TRANSLATORS, _CURVE = "core", "transfers", "translators", "curve"
_RENDERS, _STEPS = "renders", "steps"
_MIXED, _FINE_TUNED, _FEATURES, _ALONE = "mixed", "fine-tuned", "features", "alone"


@dataclass(frozen=True)
class VariantOption:
    """A variant that an ablation study can include.

    Attributes:
        groups: groups of the variant, also for --variants.
    """

    key: str
    groups: tuple[str, ...]
    variant: Variant
    skip_reason: str = ""


def list_variants(
    captures: RealImageSplits, fixed_recipe: str | None, *, image_count: int, steps: int
) -> tuple[VariantOption, ...]:
    """Return all variants, from the smallest part of the pipeline to real images only.

    Args:
        image_count: number of renders of the study.
        steps: training steps of the study.
    """
    style = len(captures.style.samples)
    no_style = "" if style else "no style photos"
    too_few = f"{style} style photos; a transfer needs at least {MIN_REAL_IMAGES}"
    no_transfer = too_few if style < MIN_REAL_IMAGES else ""
    too_few = f"{style} style photos; a camera fit needs at least {MIN_CALIBRATION_PHOTOS}"
    no_camera = too_few if style < MIN_CALIBRATION_PHOTOS else ""
    no_fixed = "" if fixed_recipe else "no recipe of this name with the suffix '-fixed'"
    photos = len(captures.train.samples) if captures.train else 0
    no_photos = "" if photos else "no labelled train split"
    few_photos = f"only {photos} labelled photos" if photos else no_photos
    counts = {count: "" if count <= photos else few_photos for count in PHOTO_COUNTS}
    rows: tuple[tuple[str, str, Variant, str], ...] = (
        (FIXED, _CORE, Variant("sim without randomization", (FIXED,)), no_fixed),
        *(
            (variant.data[0], _RENDERS, variant, "") for variant in list_render_counts(image_count)
        ),
        *((f"{_STEPS}-{variant.steps}", _STEPS, variant, "") for variant in list_step_counts(steps)),
        (RANDOMIZED, f"{_CORE} {_RENDERS} {_STEPS}", Variant("randomized", (RANDOMIZED,)), ""),
        (CAMERA, _CORE, Variant("randomized + camera fit", (CAMERA,)), no_camera),
        (BEST_TRANSFER, _CORE, _add_data("+ best transfer", BEST_TRANSFER), no_transfer),
        *((n, _TRANSFERS, _add_data(f"+ {n}", n), no_transfer) for n in TRANSFER_TYPES),
        (TRANSLATED, f"{_CORE} {_TRANSLATORS}", _add_data("+ translated", TRANSLATED), no_transfer),
        (
            f"{TRANSLATED}-{_ALONE}", _TRANSLATORS,
            Variant("translated alone", (TRANSLATED,)), no_transfer,
        ),
        (RETRANSLATED, _TRANSLATORS, _add_data("+ translated, next seed", RETRANSLATED), no_transfer),
        (
            CAMERA_TRANSLATED, _TRANSLATORS,
            Variant("randomized + camera fit, translated", (CAMERA, CAMERA_TRANSLATED)),
            no_camera or no_transfer,
        ),
        (
            PSEUDO_LABELLED, _CORE,
            Variant("+ self-labelled photos", (RANDOMIZED,), (RANDOMIZED, PSEUDO_LABELLED)),
            no_style,
        ),
        *((n, _TRANSLATORS, _add_data(f"+ {n}", n), no_transfer) for n in PUBLISHED),
        *(
            (method, _FEATURES, Variant(f"+ {method}", (RANDOMIZED,), alignment=method), no_style)
            for method in get_args(AdaptationMethod)
        ),
        *(
            (
                f"{_MIXED}-{n}", _MIXED,
                _add_data(f"randomized + {n} labelled photos", f"{REAL}-{n}"), reason,
            )
            for n, reason in counts.items()
        ),
        *(
            (
                f"{_FINE_TUNED}-{n}", _FINE_TUNED,
                Variant(f"randomized, then {n} labelled photos", (RANDOMIZED,), (f"{REAL}-{n}",)),
                reason,
            )
            for n, reason in counts.items()
        ),
        *(
            (
                f"{REAL}-{n}", _CURVE,
                Variant(f"real only ({n} labelled photos)", (f"{REAL}-{n}",)), reason,
            )
            for n, reason in counts.items()
            if n != photos
        ),
        (
            REAL, f"{_CORE} {_CURVE}",
            Variant(f"real only ({photos or 'all'} labelled photos)", (REAL,)), no_photos,
        ),
    )  # fmt: skip
    return tuple(
        VariantOption(key, tuple(groups.split()), variant, reason)
        for key, groups, variant, reason in rows
    )


def list_render_counts(image_count: int) -> tuple[Variant, ...]:
    """Return the points of the learning curve over renders, without the last one, which has all."""
    return tuple(
        Variant(f"{RANDOMIZED} ({count} renders)", (f"{RANDOMIZED}-{count}",))
        for count in _halve_repeatedly(image_count)
    )


def list_step_counts(steps: int) -> tuple[Variant, ...]:
    """Return the points of the learning curve over steps, without the last one, which has all.

    Each is a training of its own. Averaged weights from the middle of a longer training would have seen
    only the high learning rates of its schedule.
    """
    return tuple(
        Variant(f"{RANDOMIZED} ({count} steps)", (RANDOMIZED,), steps=count)
        for count in _halve_repeatedly(steps)
    )


def _halve_repeatedly(total: int) -> list[int]:
    """Return a half, a quarter and so on of a number, in ascending order."""
    return sorted({total >> halving for halving in range(1, HALVINGS + 1)} - {0})


def _add_data(name: str, dataset: str) -> Variant:
    """Return the variant that adds a dataset to the randomized renders."""
    return Variant(name, (RANDOMIZED, dataset))


def select_variants(names: Iterable[str], options: Iterable[VariantOption]) -> set[str]:
    """Return the keys of the variants that are named by key or group.

    Raises:
        UsageError: if a name is neither a key nor a group.
    """
    by_name: dict[str, set[str]] = {}
    for option in options:
        for name in (option.key, *option.groups):
            by_name.setdefault(name, set()).add(option.key)
    keys: set[str] = set()
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"--variants: no variant or group '{name}'. {suggest_name(name, by_name)}"
            )
        keys |= by_name[name]
    return keys


def run_variants(
    plan: AblationPlan,
    options: Sequence[VariantOption],
    selected_keys: Collection[str],
    captures: RealImageSplits,
    root: Path,
    *,
    workers: int,
    minutes: float,
    device: str = "cpu",
    progress: Callable[[int, int], None],
) -> dict[str, str]:
    """Run the selected variants and return by name why variants have no results.

    A variant with results also has a reason, which does not apply.

    Args:
        minutes: time limit; no training starts after it, and with 0 no data are made.

    Raises:
        Sim2CamError: if data cannot be made, a training fails, or no variant can run.
    """
    start, errors = time.monotonic(), list[Sim2CamError]()
    skip_reasons = {
        option.variant.name: option.skip_reason
        or ("" if option.key in selected_keys else _NOT_SELECTED)
        for option in options
    }
    selected = _remove_skipped(plan, skip_reasons)
    if minutes > 0:
        empty = prepare_data(selected, captures, root, workers=workers, device=device)
        for variant in selected.variants:
            reasons = (empty[name] for name in variant.data if name in empty)
            skip_reasons[variant.name] = next(reasons, "")
        selected = _remove_skipped(selected, skip_reasons)
    results, total = root / PREDICTIONS_FOLDER, len(selected.variants) * len(selected.seeds)
    done = total - len(list_pending_jobs(selected, captures, root, results, threads=1))
    progress(done, total)
    remaining_minutes = minutes - (time.monotonic() - start) / 60

    def record_failure(variant: Variant, error: Sim2CamError) -> None:
        skip_reasons[variant.name] = str(error)
        errors.append(error)

    for _ in run_jobs(
        selected, captures, root, results,
        workers=workers, minutes=remaining_minutes, device=device, on_failure=record_failure,
    ):  # fmt: skip
        done += 1
        progress(done, total)
    if errors and len(list_pending_jobs(plan, captures, root, results, threads=1)) == len(
        plan.variants
    ) * len(plan.seeds):
        raise errors[0]  # no variant has a result
    return {name: reason or _NOT_FINISHED for name, reason in skip_reasons.items()}


def _remove_skipped(plan: AblationPlan, skip_reasons: Mapping[str, str]) -> AblationPlan:
    return replace(plan, variants=tuple(v for v in plan.variants if not skip_reasons[v.name]))


def find_fixed_recipe(name: str, recipe: Recipe) -> str | None:
    """Return the recipe without randomization that belongs to a recipe; None without one.

    It has the same name with the suffix ``-fixed``, next to the file or among the shipped recipes.
    It is a recipe of its own because only its author can decide which factors, such as the throw,
    must still vary.

    Raises:
        RecipeError: if the fixed recipe is broken, or has other categories.
    """
    path = Path(name) if name.endswith(".toml") else RECIPES_FOLDER / f"{name}.toml"
    fixed = path.with_name(f"{path.stem}-fixed.toml")
    if not fixed.is_file():
        return None
    categories = load_recipe(str(fixed)).categories
    if categories != recipe.categories:
        raise RecipeError(
            fixed,
            f"categories are {', '.join(categories)}, not {', '.join(recipe.categories)} as in "
            f"'{recipe.name}'. An ablation study needs the same categories in both.",
        )
    return str(fixed) if name.endswith(".toml") else fixed.stem
