"""The command that measures what each part of the pipeline is worth."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sim2cam.commands.options import (
    FolderOptions,
    OutputOptions,
    Sessions,
    SkipInvalid,
    check_numbers,
    parse_category_map,
)
from sim2cam.errors import UsageError
from sim2cam.files import lock_folder

if TYPE_CHECKING:
    from sim2cam.data.real_images import RealImageSplits
    from sim2cam.experiments.ablation import AblationPlan
    from sim2cam.experiments.variants import VariantOption
    from sim2cam.pipeline.recipe import Recipe

_UNLIMITED_MINUTES = 1e9


@dataclass(frozen=True)
class Ablate:
    """Train the same detector on ever more of the pipeline, score all on the same captures, and say
    how many labelled photos the renders are worth.
    """

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a shipped recipe (dice), or a .toml file. The one of the same name with -fixed beside
    it, where there is one, is the variant without randomization."""
    captures: Path
    """Photos: a folder with test.json, style.json and perhaps dev.json and train.json, or one COCO
    file, of which half is trained on and half is tested, whole sessions where --sessions tells them."""
    out: Path
    """Folder of the ablation study."""
    variants: Annotated[str, tyro.conf.arg(metavar="NAMES")] = "core"
    """Comma-separated groups: core, transfers, translators (ours with two seeds, and alone;
    cyclegan, cut and fastcut as published, of which also what the certificate rejects is learned), features (adapted to the style photos), curve (5 to 200 labelled photos),
    mixed (these and renders), fine-tuned (renders, then these); or variants: fixed, randomized, camera (cameras
    drawn around the one of the style photos), translated, pseudo-labelled (fine-tuned on the style photos
    and what it found in them), real, real-25, mixed-25, fine-tuned-25, coral, or a transfer."""
    seeds: int = 3
    """Trainings of each variant."""
    steps: int | None = None
    """Of each training, instead of the recipe's."""
    count: int = 1200
    """Of each rendered data set."""
    seed: int = 0
    """Decides the renders."""
    minutes: float = _UNLIMITED_MINUTES
    """Start no training after so many minutes; with 0 nothing is made, and what there is is scored."""
    sessions: Sessions = None
    map: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[REAL=SIM ...]")] = ()
    """For categories whose names differ."""
    ignore_unmatched: bool = False
    """Leave out objects of categories that the recipe does not have."""
    device: str = "cpu"
    """Of trainings and translators: cpu, cuda or cuda:0."""
    workers: int = os.cpu_count() or 1
    """Trainings side by side, one thread each."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Run what is missing; writes and prints the scores of what is there."""
        from sim2cam.data.writer import write_json
        from sim2cam.experiments.ablation import CHOICE_FILE, PAGE_FILE, RESULT_FILE, open_ablation
        from sim2cam.experiments.ablation_scores import collect_notes, summarize_ablation
        from sim2cam.experiments.best_transfer import read_transfer_choice
        from sim2cam.experiments.variants import (
            find_fixed_recipe,
            list_variants,
            run_variants,
            select_variants,
        )
        from sim2cam.learn.device import find_device
        from sim2cam.models.network.torchvision_models import check_operators
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.report.ablation import read_ablation, write_ablation_page

        self._check_numbers()
        find_device(self.device)  # which is refused before anything is made
        recipe = load_recipe(self.recipe)
        check_operators(recipe.train.architecture)
        captures = self._load_real_images(recipe)
        fixed = find_fixed_recipe(self.recipe, recipe)
        known = list_variants(captures, fixed)
        asked = select_variants([word for word in self.variants.split(",") if word], known)
        plan = self._build_plan(recipe, fixed, known)
        console = self.output.make_console()
        notes = collect_notes(
            captures, variant_count=sum(r.key in asked and not r.skip_reason for r in known)
        )
        for note in notes:
            console.info(note)
        with lock_folder(self.out):
            open_ablation(
                plan, captures, self.out, resume=self.folder.resume, overwrite=self.folder.overwrite
            )
            missing = run_variants(
                plan, known, asked, captures, self.out,
                workers=self.workers, minutes=self.minutes, device=self.device,
                progress=console.start_progress("trainings"),
            )  # fmt: skip
            if (self.out / CHOICE_FILE).is_file():
                notes = (*notes, read_transfer_choice(self.out / CHOICE_FILE).describe())
                console.info(notes[-1])
            facts = summarize_ablation(
                plan, missing, captures, self.out, notes, workers=self.workers
            )
            write_json(self.out / RESULT_FILE, facts)
            title = f"What each part of the pipeline is worth: {recipe.name}"
            page = write_ablation_page(
                read_ablation(self.out / RESULT_FILE), self.out / PAGE_FILE, title=title
            )
        if self.output.json:
            console.print_json(facts)
        else:
            console.print_text(_format_table(facts))
        console.info(f"page: {page}")

    def _check_numbers(self) -> None:
        check_numbers(seed=self.seed, workers=self.workers)
        for name in ("seeds", "count"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} must be 1 or more, not {getattr(self, name)}")
        if not self.minutes >= 0:  # so written, it refuses NaN too
            raise UsageError(f"--minutes must be 0 or more, not {self.minutes}")

    def _load_real_images(self, recipe: Recipe) -> RealImageSplits:
        """Return the splits, labelled with the recipe's categories."""
        from sim2cam.data.matching import LabelMapping
        from sim2cam.data.real_images import RealImageSplits, split_real_images

        renamed, amodal = parse_category_map(self.map), recipe.train.amodal
        matching = LabelMapping(recipe.categories, renamed, self.ignore_unmatched, amodal)
        found = split_real_images(
            self.captures,
            with_train=True,
            session_rule=self.sessions,
            skip_invalid=self.skip_invalid,
        )
        return RealImageSplits(
            found.style,
            matching.apply(found.test),
            found.dev and matching.apply(found.dev),
            found.train and matching.apply(found.train),
            matching,
        )

    def _build_plan(
        self, recipe: Recipe, fixed_recipe: str | None, variants: Sequence[VariantOption]
    ) -> AblationPlan:
        """Return what all arms that can be run have in common."""
        from sim2cam.experiments.ablation import AblationPlan

        steps = recipe.train.steps if self.steps is None else self.steps
        return AblationPlan(
            variants=tuple(rung.variant for rung in variants if not rung.skip_reason),
            seeds=tuple(range(self.seeds)),
            config=replace(recipe.train, steps=steps),
            image_count=self.count,
            data_seed=self.seed,
            recipe=self.recipe,
            fixed_recipe=fixed_recipe,
        )


def _format_table(results: Mapping[str, Any]) -> str:
    """Return a line for each arm, then what differs, what renders are worth, and what intervals are over."""
    from sim2cam.metrics.power import SIGNIFICANCE

    scores = {arm["name"]: arm for arm in results["variants"]}
    reasons = {one["name"]: one["reason"] for one in results["not_run"]}
    width = max(map(len, results["planned"]))
    lines = [f"{'trained on':<{width}}  {'AP50':<20}  seeds"]
    for name in results["planned"]:
        if name in scores:
            ap50, seeds = scores[name]["ap50"], len(scores[name]["seeds"])
            low, high = ap50["ci95"]
            score = f"{ap50['value']:.3f} ({low:.3f}-{high:.3f})"
            lines.append(f"{name:<{width}}  {score:<20}  {seeds}")
        else:
            lines.append(f"{name:<{width}}  not run: {reasons[name]}")
    lines += [""] if results["comparisons"] else []
    for one in results["comparisons"]:
        low, high = one["ci95"]
        verdict = "" if one["p_holm"] < SIGNIFICANCE else "  no difference shown"
        if one["min_detectable_effect"] is None and not one["value"]:
            verdict = "  the same on every resample"
        lines.append(
            f"{one['first']:<{width}}  {one['metric'].upper():<4}  {one['value']:+.3f} "
            f"({low:+.3f} to {high:+.3f}) to {one['second']}, p (Holm) {one['p_holm']:.4f}{verdict}"
        )
    worth = results["equivalents"]["variants"]
    lines += (
        ["", *(f"{one['variant']:<{width}}  {one['summary']}" for one in worth)] if worth else []
    )
    lines += ["", f"Intervals: {results['protocol']['intervals']}."]
    return "\n".join(lines)
