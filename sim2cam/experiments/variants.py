"""The rungs of a ladder for any recipe and captures: which there are, and why some cannot be run."""

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
"""Numbers of labelled photos that arms with few of them train on."""

_NOT_SELECTED = "not asked for; --variants names it"
_NOT_FINISHED = "no training is done yet; the same command with --resume goes on"
_CORE, _TRANSFERS, _TRANSLATORS, _CURVE = "core", "transfers", "translators", "curve"
_MIXED, _FINE_TUNED, _FEATURES, _ALONE = "mixed", "fine-tuned", "features", "alone"


@dataclass(frozen=True)
class VariantOption:
    """An arm that a ladder can have.

    Attributes:
        key: what users call it.
        groups: that it is of.
        variant: what is trained on.
        skip_reason: why it cannot be run; empty when it can.
    """

    key: str
    groups: tuple[str, ...]
    variant: Variant
    skip_reason: str = ""


def list_variants(captures: RealImageSplits, fixed_recipe: str | None) -> tuple[VariantOption, ...]:
    """Return all rungs, from the least of the pipeline to photos alone.

    Args:
        captures: the splits.
        fixed_recipe: the recipe without randomization, as ``find_fixed_recipe`` has it.
    """
    style = len(captures.style.samples)
    few = f"{style} style photos; a transfer needs at least {MIN_REAL_IMAGES}"
    no_style = "" if style else "no style photos"
    no_look = few if style < MIN_REAL_IMAGES else ""
    fewer = f"{style} style photos; a camera is told from at least {MIN_CALIBRATION_PHOTOS}"
    no_camera = fewer if style < MIN_CALIBRATION_PHOTOS else ""
    no_twin = "" if fixed_recipe else "no recipe with this one's name and '-fixed' lies beside it"
    photos = len(captures.train.samples) if captures.train else 0
    no_photos = "" if photos else "no labelled photos to train on: no part train with labels"
    short = f"only {photos} labelled photos" if photos else no_photos
    return (
        VariantOption(FIXED, (_CORE,), Variant("sim without randomization", (FIXED,)), no_twin),
        VariantOption(RANDOMIZED, (_CORE,), Variant("randomized", (RANDOMIZED,))),
        VariantOption(
            CAMERA,
            (_CORE,),
            Variant("randomized + camera fit", (CAMERA,)),
            no_camera,
        ),
        VariantOption(
            BEST_TRANSFER,
            (_CORE,),
            Variant("+ best transfer", (RANDOMIZED, BEST_TRANSFER)),
            no_look,
        ),
        *(
            VariantOption(name, (_TRANSFERS,), Variant(f"+ {name}", (RANDOMIZED, name)), no_look)
            for name in TRANSFER_TYPES
        ),
        VariantOption(
            TRANSLATED,
            (_CORE, _TRANSLATORS),
            Variant("+ translated", (RANDOMIZED, TRANSLATED)),
            no_look,
        ),
        VariantOption(
            f"{TRANSLATED}-{_ALONE}",
            (_TRANSLATORS,),
            Variant("translated alone", (TRANSLATED,)),
            no_look,
        ),
        VariantOption(
            RETRANSLATED,
            (_TRANSLATORS,),
            Variant("+ translated, next seed", (RANDOMIZED, RETRANSLATED)),
            no_look,
        ),
        VariantOption(
            CAMERA_TRANSLATED,
            (_TRANSLATORS,),
            Variant("randomized + camera fit, translated", (CAMERA, CAMERA_TRANSLATED)),
            no_camera or no_look,
        ),
        VariantOption(
            PSEUDO_LABELLED,
            (_CORE,),
            Variant("+ self-labelled photos", (RANDOMIZED,), (RANDOMIZED, PSEUDO_LABELLED)),
            no_style,
        ),
        *(
            VariantOption(name, (_TRANSLATORS,), Variant(f"+ {name}", (RANDOMIZED, name)), no_look)
            for name in PUBLISHED
        ),
        *(
            VariantOption(
                method,
                (_FEATURES,),
                Variant(f"+ {method}", (RANDOMIZED,), alignment=method),
                no_style,
            )
            for method in get_args(AdaptationMethod)
        ),
        *(
            VariantOption(
                f"{_MIXED}-{count}",
                (_MIXED,),
                Variant(f"randomized + {count} labelled photos", (RANDOMIZED, f"{REAL}-{count}")),
                "" if count <= photos else short,
            )
            for count in PHOTO_COUNTS
        ),
        *(
            VariantOption(
                f"{_FINE_TUNED}-{count}",
                (_FINE_TUNED,),
                Variant(
                    f"randomized, then {count} labelled photos", (RANDOMIZED,), (f"{REAL}-{count}",)
                ),
                "" if count <= photos else short,
            )
            for count in PHOTO_COUNTS
        ),
        *(
            VariantOption(
                f"{REAL}-{count}",
                (_CURVE,),
                Variant(f"real only ({count} labelled photos)", (f"{REAL}-{count}",)),
                "" if count < photos else short,
            )
            for count in PHOTO_COUNTS
            if count != photos
        ),
        VariantOption(
            REAL,
            (_CORE, _CURVE),
            Variant(f"real only ({photos or 'all'} labelled photos)", (REAL,)),
            no_photos,
        ),
    )


def select_variants(names: Iterable[str], options: Iterable[VariantOption]) -> set[str]:
    """Return the keys of the rungs that words name, by themselves or by their group.

    Raises:
        UsageError: a word names none.
    """
    by_word: dict[str, set[str]] = {}
    for rung in options:
        for word in (rung.key, *rung.groups):
            by_word.setdefault(word, set()).add(rung.key)
    keys: set[str] = set()
    for word in names:
        if word not in by_word:
            raise UsageError(
                f"--variants: no variant or group '{word}'. {suggest_name(word, by_word)}"
            )
        keys |= by_word[word]
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
    """Run the arms that are asked for; returns for every arm why it is not run, if it is not.

    Args:
        plan: the ladder with all arms that can be run.
        options: all rungs.
        selected_keys: keys of those to be run.
        captures: the splits.
        root: folder of the ladder.
        workers: trainings side by side, one thread each.
        minutes: after which no training is started; with 0 no data are made either.
        device: of trainings and translators.
        progress: is told how many of the trainings that were asked for are done.

    Raises:
        Sim2CamError: data cannot be made, a training failed, or none of them can be run.
    """
    start, errors = time.monotonic(), list[Sim2CamError]()
    lacks = {
        r.variant.name: r.skip_reason or ("" if r.key in selected_keys else _NOT_SELECTED)
        for r in options
    }
    now = _remove_skipped(plan, lacks)
    if minutes > 0:
        empty = prepare_data(now, captures, root, workers=workers, device=device)
        for arm in now.variants:
            lacks[arm.name] = next((empty[name] for name in arm.data if name in empty), "")
        now = _remove_skipped(now, lacks)
    results, total = root / PREDICTIONS_FOLDER, len(now.variants) * len(now.seeds)
    done = total - len(list_pending_jobs(now, captures, root, results, threads=1))
    progress(done, total)
    left = minutes - (time.monotonic() - start) / 60

    def record_failure(variant: Variant, error: Sim2CamError) -> None:
        lacks[variant.name] = str(error)
        errors.append(error)

    for _ in run_jobs(
        now, captures, root, results,
        workers=workers, minutes=left, device=device, on_failure=record_failure,
    ):  # fmt: skip
        done += 1
        progress(done, total)
    if errors and len(list_pending_jobs(plan, captures, root, results, threads=1)) == len(
        plan.variants
    ) * len(plan.seeds):
        raise errors[0]  # there is nothing beside which it could be told
    return {name: reason or _NOT_FINISHED for name, reason in lacks.items()}


def _remove_skipped(plan: AblationPlan, skip_reasons: Mapping[str, str]) -> AblationPlan:
    return replace(plan, variants=tuple(arm for arm in plan.variants if not skip_reasons[arm.name]))


def find_fixed_recipe(name: str, recipe: Recipe) -> str | None:
    """Return the recipe without randomization that belongs to one; None where there is none.

    It is a recipe like any other, of the same name with ``-fixed``, beside the file or among those
    that ship: what of a scene must go on to vary, as the throw does, no rule can tell.

    Args:
        name: path of the recipe, or the name of one that ships.
        recipe: what it holds.

    Raises:
        RecipeError: it is broken, or labels other categories.
    """
    path = Path(name) if name.endswith(".toml") else RECIPES_FOLDER / f"{name}.toml"
    twin = path.with_name(f"{path.stem}-fixed.toml")
    if not twin.is_file():
        return None
    found = load_recipe(str(twin)).categories
    if found != recipe.categories:
        raise RecipeError(
            twin,
            f"its categories are {', '.join(found)}, not {', '.join(recipe.categories)} as of "
            f"'{recipe.name}', which it stands beside in a ladder.",
        )
    return str(twin) if name.endswith(".toml") else twin.stem
