"""Command ``ablate``: ablation study of the pipeline."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import (
    Argument,
    CategoryMap,
    Device,
    FolderOptions,
    Option,
    OutputOptions,
    Rare,
    Sessions,
    SkipInvalid,
    check_inputs,
    check_numbers,
    parse_category_map,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.errors import UsageError
from sim2cam.files import lock_folder

if TYPE_CHECKING:
    from sim2cam.data.real_images import RealImageSplits
    from sim2cam.experiments.ablation import AblationPlan
    from sim2cam.experiments.variants import VariantOption
    from sim2cam.pipeline.recipe import Recipe

_UNLIMITED_MINUTES = 1e9
_EXAMPLE_COUNT = 3


@dataclass(frozen=True)
class Ablate:
    """Train a detector per pipeline variant and compare them.

    Scores are on the same real images. Reports also how many labelled photos the renders are equivalent to, and whether more renders, steps or photos help.
    """

    recipe: Annotated[str, Argument("RECIPE")]
    """Name of a shipped recipe (dice) or .toml file. A recipe NAME-fixed next to it, if any, is the variant without randomization."""
    captures: Path
    """Real images: a folder with test.json, style.json and optionally dev.json and train.json; or one COCO file or a folder with it, split in half into train and test (by session with --sessions)."""
    out: Path
    """Output folder."""
    variants: Annotated[str, Option("NAMES")] = "core"
    """Comma-separated groups or variants. Groups: core, transfers, translators, features (feature adaptation to the style photos), curve (5 to 200 labelled photos), renders and steps (a half to a sixteenth of them), mixed (labelled photos and renders), fine-tuned (renders, then labelled photos). Variants: fixed, randomized, camera (cameras sampled around the estimated one), translated, pseudo-labelled, real, real-25, mixed-25, fine-tuned-25, coral, or a transfer."""
    seeds: int = 3
    """Number of training seeds per variant."""
    steps: int | None = None
    """Training steps; default: from the recipe."""
    count: Rare[int] = 1200
    """Number of images per rendered dataset."""
    seed: Rare[int] = 0
    """Random seed of the renders."""
    minutes: Rare[float | None] = None
    """Start no training after this many minutes; 0 only scores existing results; default: no limit."""
    sessions: Sessions = None
    map: Rare[CategoryMap] = ()
    ignore_unmatched: Rare[bool] = False
    """Ignore objects of categories that are not in the recipe."""
    device: Device = "cpu"
    workers: int = os.cpu_count() or 1
    """Number of parallel trainings, one thread each; default: one per core."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> AblateResult:
        """Run missing variants, then write the scores of all variants and the page."""
        self._check_numbers()
        check_inputs(self.captures, recipe=self.recipe)

        from sim2cam.data.writer import write_json
        from sim2cam.experiments.ablation import CHOICE_FILE, PAGE_FILE, RESULT_FILE, open_ablation
        from sim2cam.experiments.ablation_scores import (
            collect_notes,
            read_best_and_worst,
            summarize_ablation,
        )
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
        from sim2cam.report.examples import select_differing_examples

        find_device(self.device)  # fail before any output is written
        recipe = load_recipe(self.recipe)
        check_operators(recipe.train.architecture)
        captures = self._load_real_images(recipe)
        fixed = find_fixed_recipe(self.recipe, recipe)
        steps = recipe.train.steps if self.steps is None else self.steps
        options = list_variants(captures, fixed, image_count=self.count, steps=steps)
        selected = select_variants([word for word in self.variants.split(",") if word], options)
        plan = self._build_plan(recipe, fixed, options, steps)
        console = self.output.make_console()
        notes = collect_notes(
            captures,
            variant_count=sum(
                option.key in selected
                and not option.skip_reason
                and not option.variant.is_curve_point
                for option in options
            ),
        )
        for note in notes:
            console.info(note)
        with lock_folder(self.out):
            open_ablation(
                plan, captures, self.out, resume=self.folder.resume, overwrite=self.folder.overwrite
            )
            with console.show_progress("trainings") as stages:
                missing = run_variants(
                    plan,
                    options,
                    selected,
                    captures,
                    self.out,
                    workers=self.workers,
                    minutes=_UNLIMITED_MINUTES if self.minutes is None else self.minutes,
                    device=self.device,
                    progress=stages("trainings"),
                )
            if (self.out / CHOICE_FILE).is_file():
                notes = (*notes, read_transfer_choice(self.out / CHOICE_FILE).describe())
                console.info(notes[-1])
            facts = summarize_ablation(
                plan, missing, captures, self.out, notes, workers=self.workers
            )
            write_json(self.out / RESULT_FILE, facts)
            best, worst = read_best_and_worst(plan, facts, captures.test, self.out)
            examples = None
            if best != worst:
                examples = select_differing_examples(
                    captures.test,
                    (best.name, worst.name),
                    (best.detections, worst.detections),
                    count=_EXAMPLE_COUNT,
                )
            page = write_ablation_page(
                read_ablation(self.out / RESULT_FILE),
                self.out / PAGE_FILE,
                title=f"Ablation study: {recipe.name}",
                examples=examples,
            )
        return AblateResult(facts, page, best.weights)

    def _check_numbers(self) -> None:
        check_numbers(seed=self.seed, workers=self.workers)
        for name in ("seeds", "count"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} must be 1 or more, not {getattr(self, name)}")
        if self.minutes is not None and not self.minutes >= 0:  # also rejects NaN
            raise UsageError(f"--minutes must be 0 or more, not {self.minutes}")

    def _load_real_images(self, recipe: Recipe) -> RealImageSplits:
        """Load the splits, with labels mapped to the recipe's categories."""
        from sim2cam.data.label_mapping import LabelMapping
        from sim2cam.data.real_images import RealImageSplits, split_real_images

        category_map, amodal = parse_category_map(self.map), recipe.train.amodal
        matching = LabelMapping(recipe.categories, category_map, self.ignore_unmatched, amodal)
        splits = split_real_images(
            self.captures,
            with_train=True,
            session_rule=self.sessions,
            skip_invalid=self.skip_invalid,
        )
        return RealImageSplits(
            splits.style,
            matching.apply(splits.test),
            splits.dev and matching.apply(splits.dev),
            splits.train and matching.apply(splits.train),
            matching,
        )

    def _build_plan(
        self,
        recipe: Recipe,
        fixed_recipe: str | None,
        variants: Sequence[VariantOption],
        steps: int,
    ) -> AblationPlan:
        from sim2cam.experiments.ablation import AblationPlan

        return AblationPlan(
            variants=tuple(option.variant for option in variants if not option.skip_reason),
            seeds=tuple(range(self.seeds)),
            config=replace(recipe.train, steps=steps),
            image_count=self.count,
            data_seed=self.seed,
            recipe=self.recipe,
            fixed_recipe=fixed_recipe,
        )


@dataclass(frozen=True)
class AblateResult(Result):
    """Scores of all variants, as in ``ablation.json``, their page, and weights of the best variant."""

    scores: Mapping[str, Any]
    page: Path
    best_weights: Path

    @property
    def next_step(self) -> str:
        """Command that applies the best variant; empty if its weights were not kept."""
        if not self.best_weights.is_file():
            return ""
        return format_command("predict", self.best_weights, "PHOTOS")

    def to_json(self) -> dict[str, Any]:
        """Return the scores."""
        return dict(self.scores)

    def to_text(self) -> str:
        """Return a table of variants, comparisons, equivalent numbers of photos and learning curves."""
        return _format_table(self.scores)

    def summary(self) -> str:
        """Return the path of the page."""
        return f"page: {self.page}"


def _format_table(results: Mapping[str, Any]) -> str:
    from sim2cam.metrics.power import SIGNIFICANCE

    scores = {row["name"]: row for row in results["variants"]}
    reasons = {row["name"]: row["reason"] for row in results["not_run"]}
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
    for row in results["comparisons"]:
        low, high = row["ci95"]
        verdict = "" if row["p_holm"] < SIGNIFICANCE else "  no difference shown"
        if row["min_detectable_effect"] is None and not row["value"]:
            verdict = "  the same on every resample"
        lines.append(
            f"{row['first']:<{width}}  {row['metric'].upper():<4}  {row['value']:+.3f} "
            f"({low:+.3f} to {high:+.3f}) to {row['second']}, p (Holm) {row['p_holm']:.4f}{verdict}"
        )
    equivalents = results["equivalents"]["variants"]
    lines += (
        ["", *(f"{row['variant']:<{width}}  {row['summary']}" for row in equivalents)]
        if equivalents
        else []
    )
    curves = [curve["summary"] for curve in results["learning_curves"]]
    lines += ["", *curves] if curves else []
    lines += ["", f"Intervals: {results['protocol']['intervals']}."]
    return "\n".join(lines)
