"""The command that measures what each part of the pipeline is worth."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sim2cam.commands.options import (
    Folder,
    Sessions,
    SkipInvalid,
    Talk,
    category_pairs,
    check_numbers,
)
from sim2cam.errors import UsageError
from sim2cam.files import locked

if TYPE_CHECKING:
    from sim2cam.data.real_images import CaptureSets
    from sim2cam.experiments.ablation import Plan
    from sim2cam.experiments.variants import Rung
    from sim2cam.pipeline.recipe import Recipe

_ENDLESS = 1e9


@dataclass(frozen=True)
class Ladder:
    """Train the same detector on ever more of the pipeline, score all on the same captures, and say
    how many labelled photos the renders are worth.
    """

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a shipped recipe (dice), or a .toml file. The one of the same name with -fixed beside
    it, where there is one, is the arm without randomization."""
    captures: Path
    """Photos: a folder with test.json, style.json and perhaps dev.json and train.json, or one COCO
    file, of which half is trained on and half is tested, whole sessions where --sessions tells them."""
    out: Path
    """Folder of the ladder."""
    arms: Annotated[str, tyro.conf.arg(metavar="NAMES")] = "core"
    """Comma-separated groups: core, transfers, translators (ours with two seeds, and alone;
    cyclegan, cut and fastcut as published, of which also what the certificate rejects is learned), features (adapted to the style photos), curve (5 to 200 labelled photos),
    mixed (these and renders), tuned (renders, then these); or arms: fixed, randomized, camera (cameras
    drawn around the one of the style photos), translated, self-labelled (fine-tuned on the style photos
    and what it found in them), real, real-25, mixed-25, tuned-25, coral, or a transfer."""
    seeds: int = 3
    """Trainings of each arm."""
    steps: int | None = None
    """Of each training, instead of the recipe's."""
    pictures: int = 1200
    """Of each rendered data set."""
    seed: int = 0
    """Decides the renders."""
    minutes: float = _ENDLESS
    """Start no training after so many minutes; with 0 nothing is made, and what there is is scored."""
    sessions: Sessions = None
    map: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[REAL=SIM ...]")] = ()
    """For categories whose names differ."""
    ignore: bool = False
    """Leave out objects of categories that the recipe does not have."""
    device: str = "cpu"
    """Of trainings and translators: cpu, cuda or cuda:0."""
    workers: int = os.cpu_count() or 1
    """Trainings side by side, one thread each."""
    folder: Folder = field(default_factory=Folder)
    skip_invalid: SkipInvalid = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Runs what is missing; writes and prints the scores of what is there."""
        from sim2cam.data.writer import write_json
        from sim2cam.experiments.ablation import CHOICE, PAGE, RESULT, open_ladder
        from sim2cam.experiments.ablation_scores import ladder_facts, ladder_notes
        from sim2cam.experiments.best_transfer import read_choice
        from sim2cam.experiments.variants import chosen, fixed_twin, run_rungs, rungs
        from sim2cam.learn.device import find_device
        from sim2cam.models.network.torchvision_models import check_operators
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.report.ablation import read_ladder, write_ladder_page

        self._check_numbers()
        find_device(self.device)  # which is refused before anything is made
        recipe = load_recipe(self.recipe)
        check_operators(recipe.train.architecture)
        captures = self._captures(recipe)
        fixed = fixed_twin(self.recipe, recipe)
        known = rungs(captures, fixed)
        asked = chosen([word for word in self.arms.split(",") if word], known)
        plan = self._plan(recipe, fixed, known)
        console = self.talk.console()
        notes = ladder_notes(captures, arms=sum(r.key in asked and not r.lacks for r in known))
        for note in notes:
            console.say(note)
        with locked(self.out):
            open_ladder(
                plan, captures, self.out, resume=self.folder.resume, overwrite=self.folder.overwrite
            )
            missing = run_rungs(
                plan, known, asked, captures, self.out,
                workers=self.workers, minutes=self.minutes, device=self.device,
                progress=console.progress("trainings"),
            )  # fmt: skip
            if (self.out / CHOICE).is_file():
                notes = (*notes, read_choice(self.out / CHOICE).words())
                console.say(notes[-1])
            facts = ladder_facts(plan, missing, captures, self.out, notes, workers=self.workers)
            write_json(self.out / RESULT, facts)
            title = f"What each part of the pipeline is worth: {recipe.name}"
            page = write_ladder_page(read_ladder(self.out / RESULT), self.out / PAGE, title=title)
        if self.talk.json:
            console.result(facts)
        else:
            console.table(_ladder_table(facts))
        console.say(f"page: {page}")

    def _check_numbers(self) -> None:
        check_numbers(seed=self.seed, workers=self.workers)
        for name in ("seeds", "pictures"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} must be 1 or more, not {getattr(self, name)}")
        if not self.minutes >= 0:  # so written, it refuses NaN too
            raise UsageError(f"--minutes must be 0 or more, not {self.minutes}")

    def _captures(self, recipe: Recipe) -> CaptureSets:
        """Returns the splits, labelled with the recipe's categories."""
        from sim2cam.data.matching import Matching
        from sim2cam.data.real_images import CaptureSets, split_captures

        renamed, amodal = category_pairs(self.map), recipe.train.amodal
        matching = Matching(recipe.categories, renamed, self.ignore, amodal)
        found = split_captures(
            self.captures,
            labelled=True,
            sessions=self.sessions,
            skip_invalid=self.skip_invalid,
        )
        return CaptureSets(
            found.style,
            matching.of(found.test),
            found.dev and matching.of(found.dev),
            found.train and matching.of(found.train),
            matching,
        )

    def _plan(self, recipe: Recipe, fixed: str | None, known: Sequence[Rung]) -> Plan:
        """Returns what all arms that can be run have in common."""
        from sim2cam.experiments.ablation import Plan

        steps = recipe.train.steps if self.steps is None else self.steps
        return Plan(
            arms=tuple(rung.arm for rung in known if not rung.lacks),
            seeds=tuple(range(self.seeds)),
            config=replace(recipe.train, steps=steps),
            pictures=self.pictures,
            data_seed=self.seed,
            recipe=self.recipe,
            fixed=fixed,
        )


def _ladder_table(facts: Mapping[str, Any]) -> str:
    """Returns a line for each arm, then what differs, what renders are worth, and what intervals are over."""
    from sim2cam.metrics.power import SIGNIFICANCE

    scores = {arm["name"]: arm for arm in facts["arms"]}
    reasons = {one["name"]: one["reason"] for one in facts["not_run"]}
    width = max(map(len, facts["planned"]))
    lines = [f"{'trained on':<{width}}  {'AP50':<20}  seeds"]
    for name in facts["planned"]:
        if name in scores:
            ap50, seeds = scores[name]["ap50"], len(scores[name]["seeds"])
            low, high = ap50["ci95"]
            score = f"{ap50['value']:.3f} ({low:.3f}-{high:.3f})"
            lines.append(f"{name:<{width}}  {score:<20}  {seeds}")
        else:
            lines.append(f"{name:<{width}}  not run: {reasons[name]}")
    lines += [""] if facts["comparisons"] else []
    for one in facts["comparisons"]:
        low, high = one["ci95"]
        verdict = "" if one["p_holm"] < SIGNIFICANCE else "  no difference shown"
        if one["detectable"] is None and not one["value"]:
            verdict = "  the same on every resample"
        lines.append(
            f"{one['first']:<{width}}  {one['metric'].upper():<4}  {one['value']:+.3f} "
            f"({low:+.3f} to {high:+.3f}) to {one['second']}, p (Holm) {one['p_holm']:.4f}{verdict}"
        )
    worth = facts["equivalents"]["worth"]
    lines += ["", *(f"{one['arm']:<{width}}  {one['words']}" for one in worth)] if worth else []
    lines += ["", f"Intervals: {facts['protocol']['intervals']}."]
    return "\n".join(lines)
