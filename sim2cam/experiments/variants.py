"""The rungs of a ladder for any recipe and captures: which there are, and why some cannot be run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from sim2cam.adapt.calibration.estimates import LEAST_CAPTURES
from sim2cam.adapt.store import METHODS
from sim2cam.adapt.training.adversarial import MIN_CAPTURES
from sim2cam.data.real_images import CaptureSets
from sim2cam.errors import RecipeError, Sim2CamError, UsageError, did_you_mean
from sim2cam.experiments.ablation import (
    BEST,
    CAMERA,
    CAMERA_TRANSLATED,
    FIXED,
    LABELLED,
    PREDICTIONS,
    PUBLISHED,
    RANDOMIZED,
    REAL,
    RETRANSLATED,
    TRANSLATED,
    Arm,
    Plan,
    pieces,
    prepare_data,
    run_pieces,
)
from sim2cam.models.training.config import Alignment
from sim2cam.pipeline.recipe import SHIPPED, Recipe, load_recipe

PHOTOS = (5, 10, 25, 50, 100, 200)
"""Numbers of labelled photos that arms with few of them train on."""

_NOT_ASKED = "not asked for; --arms names it"
_NOT_DONE = "no training is done yet; the same command with --resume goes on"
_CORE, _TRANSFERS, _TRANSLATORS, _CURVE = "core", "transfers", "translators", "curve"
_MIXED, _TUNED, _FEATURES, _ALONE = "mixed", "tuned", "features", "alone"


@dataclass(frozen=True)
class Rung:
    """An arm that a ladder can have.

    Attributes:
        key: what users call it.
        groups: that it is of.
        arm: what is trained on.
        lacks: why it cannot be run; empty when it can.
    """

    key: str
    groups: tuple[str, ...]
    arm: Arm
    lacks: str = ""


def rungs(captures: CaptureSets, fixed: str | None) -> tuple[Rung, ...]:
    """Returns all rungs, from the least of the pipeline to photos alone.

    Args:
        captures: the splits.
        fixed: the recipe without randomization, as ``fixed_twin`` has it.
    """
    style = len(captures.style.samples)
    few = f"{style} style photos; a transfer needs at least {MIN_CAPTURES}"
    no_style = "" if style else "no style photos"
    no_look = few if style < MIN_CAPTURES else ""
    fewer = f"{style} style photos; a camera is told from at least {LEAST_CAPTURES}"
    no_camera = fewer if style < LEAST_CAPTURES else ""
    no_twin = "" if fixed else "no recipe with this one's name and '-fixed' lies beside it"
    photos = len(captures.train.samples) if captures.train else 0
    no_photos = "" if photos else "no labelled photos to train on: no part train with labels"
    short = f"only {photos} labelled photos" if photos else no_photos
    return (
        Rung(FIXED, (_CORE,), Arm("sim without randomization", (FIXED,)), no_twin),
        Rung(RANDOMIZED, (_CORE,), Arm("randomized", (RANDOMIZED,))),
        Rung(
            CAMERA,
            (_CORE,),
            Arm("randomized + camera fit", (CAMERA,)),
            no_camera,
        ),
        Rung(BEST, (_CORE,), Arm("+ best transfer", (RANDOMIZED, BEST)), no_look),
        *(
            Rung(name, (_TRANSFERS,), Arm(f"+ {name}", (RANDOMIZED, name)), no_look)
            for name in METHODS
        ),
        Rung(
            TRANSLATED,
            (_CORE, _TRANSLATORS),
            Arm("+ translated", (RANDOMIZED, TRANSLATED)),
            no_look,
        ),
        Rung(
            f"{TRANSLATED}-{_ALONE}",
            (_TRANSLATORS,),
            Arm("translated alone", (TRANSLATED,)),
            no_look,
        ),
        Rung(
            RETRANSLATED,
            (_TRANSLATORS,),
            Arm("+ translated, next seed", (RANDOMIZED, RETRANSLATED)),
            no_look,
        ),
        Rung(
            CAMERA_TRANSLATED,
            (_TRANSLATORS,),
            Arm("randomized + camera fit, translated", (CAMERA, CAMERA_TRANSLATED)),
            no_camera or no_look,
        ),
        Rung(
            LABELLED,
            (_CORE,),
            Arm("+ self-labelled photos", (RANDOMIZED,), (RANDOMIZED, LABELLED)),
            no_style,
        ),
        *(
            Rung(name, (_TRANSLATORS,), Arm(f"+ {name}", (RANDOMIZED, name)), no_look)
            for name in PUBLISHED
        ),
        *(
            Rung(
                method,
                (_FEATURES,),
                Arm(f"+ {method}", (RANDOMIZED,), adapt=method),
                no_style,
            )
            for method in get_args(Alignment)
        ),
        *(
            Rung(
                f"{_MIXED}-{count}",
                (_MIXED,),
                Arm(f"randomized + {count} labelled photos", (RANDOMIZED, f"{REAL}-{count}")),
                "" if count <= photos else short,
            )
            for count in PHOTOS
        ),
        *(
            Rung(
                f"{_TUNED}-{count}",
                (_TUNED,),
                Arm(
                    f"randomized, then {count} labelled photos", (RANDOMIZED,), (f"{REAL}-{count}",)
                ),
                "" if count <= photos else short,
            )
            for count in PHOTOS
        ),
        *(
            Rung(
                f"{REAL}-{count}",
                (_CURVE,),
                Arm(f"real only ({count} labelled photos)", (f"{REAL}-{count}",)),
                "" if count < photos else short,
            )
            for count in PHOTOS
            if count != photos
        ),
        Rung(
            REAL,
            (_CORE, _CURVE),
            Arm(f"real only ({photos or 'all'} labelled photos)", (REAL,)),
            no_photos,
        ),
    )


def chosen(words: Iterable[str], known: Iterable[Rung]) -> set[str]:
    """Returns the keys of the rungs that words name, by themselves or by their group.

    Raises:
        UsageError: a word names none.
    """
    by_word: dict[str, set[str]] = {}
    for rung in known:
        for word in (rung.key, *rung.groups):
            by_word.setdefault(word, set()).add(rung.key)
    keys: set[str] = set()
    for word in words:
        if word not in by_word:
            raise UsageError(f"--arms: no arm or group '{word}'. {did_you_mean(word, by_word)}")
        keys |= by_word[word]
    return keys


def run_rungs(
    plan: Plan,
    known: Sequence[Rung],
    asked: Collection[str],
    captures: CaptureSets,
    root: Path,
    *,
    workers: int,
    minutes: float,
    device: str = "cpu",
    progress: Callable[[int, int], None],
) -> dict[str, str]:
    """Runs the arms that are asked for; returns for every arm why it is not run, if it is not.

    Args:
        plan: the ladder with all arms that can be run.
        known: all rungs.
        asked: keys of those to be run.
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
    lacks = {r.arm.name: r.lacks or ("" if r.key in asked else _NOT_ASKED) for r in known}
    now = _without(plan, lacks)
    if minutes > 0:
        empty = prepare_data(now, captures, root, workers=workers, device=device)
        for arm in now.arms:
            lacks[arm.name] = next((empty[name] for name in arm.data if name in empty), "")
        now = _without(now, lacks)
    results, total = root / PREDICTIONS, len(now.arms) * len(now.seeds)
    done = total - len(pieces(now, captures, root, results, threads=1))
    progress(done, total)
    left = minutes - (time.monotonic() - start) / 60

    def refused(arm: Arm, error: Sim2CamError) -> None:
        lacks[arm.name] = str(error)
        errors.append(error)

    for _ in run_pieces(
        now, captures, root, results,
        workers=workers, minutes=left, device=device, refused=refused,
    ):  # fmt: skip
        done += 1
        progress(done, total)
    if errors and len(pieces(plan, captures, root, results, threads=1)) == len(plan.arms) * len(
        plan.seeds
    ):
        raise errors[0]  # there is nothing beside which it could be told
    return {name: reason or _NOT_DONE for name, reason in lacks.items()}


def _without(plan: Plan, lacks: Mapping[str, str]) -> Plan:
    return replace(plan, arms=tuple(arm for arm in plan.arms if not lacks[arm.name]))


def fixed_twin(name: str, recipe: Recipe) -> str | None:
    """Returns the recipe without randomization that belongs to one; None where there is none.

    It is a recipe like any other, of the same name with ``-fixed``, beside the file or among those
    that ship: what of a scene must go on to vary, as the throw does, no rule can tell.

    Args:
        name: path of the recipe, or the name of one that ships.
        recipe: what it holds.

    Raises:
        RecipeError: it is broken, or labels other categories.
    """
    path = Path(name) if name.endswith(".toml") else SHIPPED / f"{name}.toml"
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
