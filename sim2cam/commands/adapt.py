"""Commands ``adapt train`` and ``adapt apply``: translators of renders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from sim2cam.commands.console import Console
from sim2cam.commands.options import (
    Argument,
    Device,
    FolderOptions,
    Option,
    OutputOptions,
    Rare,
    Seed,
    SkipInvalid,
    Split,
    check_inputs,
    check_numbers,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.commands.runs import (
    drop_unset,
    lock_run_folder,
    make_callbacks,
    remove_damaged_shards,
    set_thread_budget,
)
from sim2cam.errors import UsageError
from sim2cam.files import lock_folder
from sim2cam.learn.launch import get_world_size, is_main_process

if TYPE_CHECKING:
    from sim2cam.adapt.certificate.certificate import DatasetCertificate
    from sim2cam.adapt.store import ParameterFreeMethod
    from sim2cam.adapt.training.checkpoint_selection import TrainingOutcome
    from sim2cam.adapt.translator.perceptual_consistency import PerceptionModel
    from sim2cam.data.sample import Dataset
    from sim2cam.pipeline.recipe import Recipe
    from sim2cam.pipeline.translation import TranslationConfig


@dataclass(frozen=True)
class AdaptTrain:
    """Train a translator from renders to real images.

    Labels of real images are not used.
    """

    sim: Path
    """Rendered dataset, image folder, or a folder with the subfolder trainA."""
    real: Path
    """Real images: COCO file (labels are ignored), image folder, or a folder with the subfolder trainB."""
    out: Path
    """Run folder."""
    method: (
        Literal[
            "translator",
            "cyclegan",
            "cut",
            "fastcut",
            "reinhard",
            "histogram",
            "mkl",
            "sliced",
            "fourier",
            "style",
        ]
        | None
    ) = None
    """Learned translator, published reference, or transfer without a network; default: from the recipe."""
    recipe: Annotated[str, Option("RECIPE")] = "dice"
    """Recipe whose [adapt] section sets the method, its training and the limits of the certificate."""
    task: Annotated[Path | None, Option("WEIGHTS")] = None
    """Detector whose detections must be preserved: file or shipped name. It takes part in checkpoint selection and, if accurate on the renders, in the loss of the learned translator."""
    verifier: Rare[Annotated[Path | None, Option("WEIGHTS")]] = None
    """Second detector of another architecture: dice-verifier or a file."""
    preset: Literal["demo", "small", "large"] | None = None
    """Settings of the learned translator: demo (150 steps), small (2,400 steps) or large (5,000 steps of larger images, for a GPU); default: from the recipe."""
    paired: Rare[bool] = False
    """Train the learned translator on pairs: real images show the scenes of the renders of equal name, through the same lens."""
    steps: int | None = None
    """Training steps; default: from the recipe."""
    seed: int | None = None
    """Random seed; default: from the recipe."""
    limit: Rare[int | None] = None
    """Read at most this many real images."""
    device: Device = "cpu"
    tensorboard: Rare[bool] = False
    """Also write TensorBoard logs to the run folder."""
    workers: Rare[int] = os.cpu_count() or 1
    """CPU threads, in total over all processes of this machine; default: one per core."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(
        self, recipe: Recipe | None = None, sim: Dataset | None = None, real: Dataset | None = None
    ) -> AdaptTrainResult:
        """Train a translator, or fit a transfer; values in memory replace files if given."""
        check_numbers(seed=self.seed or 0, workers=self.workers, limit=self.limit)
        check_inputs(
            None if sim else self.sim,
            None if real else self.real,
            recipe=None if recipe else self.recipe,
        )

        from sim2cam.adapt.training.data_warnings import find_data_warnings
        from sim2cam.adapt.translator.config import PRESETS
        from sim2cam.commands.pages import write_training_page
        from sim2cam.data.real_images import read_real_images
        from sim2cam.data.splits import STYLE
        from sim2cam.learn.tensorboard import TensorBoardLogger
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.translation import (
            Certification,
            check_training,
            fit_parameter_free_transfer,
            train_network,
        )

        console = self.output.make_console()
        set_thread_budget(self.workers, console)
        read = partial(read_real_images, skip_invalid=self.skip_invalid)
        sim = sim or read(_resolve_domain_folder(self.sim, "trainA"))
        real_folder = _resolve_domain_folder(self.real, "trainB")
        real = real or read(real_folder, split=self.split, roles=STYLE)
        _report_video_frames(console, sim, real)
        real = real.take(self.limit)
        options = (recipe or load_recipe(self.recipe)).adapt
        method = self.method or options.method
        self._check_method_flags(method)
        changes = drop_unset(steps=self.steps, seed=self.seed)
        verifiers = _resolve_verifiers(self.task, self.verifier)
        training: TranslationConfig
        if method == "translator":
            preset = options.translator if self.preset is None else PRESETS[self.preset]
            training = replace(preset, **changes)
        elif method in ("cyclegan", "cut", "fastcut"):
            training = (method, replace(options.reference, **changes))
        else:
            _check_fitted_method(
                method, list(dict(verifiers)), changes, tensorboard=self.tensorboard
            )
            plain = cast("ParameterFreeMethod", method)
            _print_warnings(console, find_data_warnings(sim, real))
            with lock_folder(self.out):
                fit_parameter_free_transfer(real, plain, self.out, overwrite=self.folder.overwrite)
            return AdaptTrainResult(self.out, method, self.sim)
        warnings = check_training(
            sim, real, training, self.out, verifiers, paired=self.paired, device=self.device
        )
        _print_warnings(console, warnings)
        perception = self._load_perception(training, verifiers, sim)
        with lock_run_folder(self.out, self.folder):
            tensorboard = TensorBoardLogger(self.out) if self.tensorboard else None
            with console.show_progress("training") as stages:
                outcome = train_network(
                    sim,
                    real,
                    training,
                    self.out,
                    certification=Certification(options.certificate, verifiers),
                    resume=self.folder.resume,
                    device=self.device,
                    callbacks=make_callbacks(console, method, tensorboard, stages("training")),
                    paired=self.paired,
                    perception=perception,
                )
            page = write_training_page(self.out, outcome, real) if is_main_process() else None
        return AdaptTrainResult(self.out, method, self.sim, outcome, page)

    def _check_method_flags(self, method: str) -> None:
        """Raise UsageError for flags that only the learned translator has."""
        flags = {"preset": self.preset is not None, "paired": self.paired}
        for flag, is_given in flags.items():
            if is_given and method != "translator":
                raise UsageError(
                    f"--{flag} applies only to the learned translator, not to {method}. Omit it, or use "
                    "--method translator."
                )

    def _load_perception(
        self, training: TranslationConfig, verifiers: Sequence[tuple[str, Path]], renders: Dataset
    ) -> PerceptionModel | None:
        """Load the detector of the perceptual loss; None if there is none or its AP50 is too low."""
        from sim2cam.adapt.translator.config import TranslatorConfig
        from sim2cam.learn.distributed import select_local_device
        from sim2cam.pipeline.verifiers import load_perception

        task = dict(verifiers).get("task")
        if (
            task is None
            or not isinstance(training, TranslatorConfig)
            or not training.perception_weight
        ):
            return None
        perception = load_perception(task, renders, select_local_device(self.device))
        if isinstance(perception, str):
            self.output.make_console().info(
                f"--task is used for checkpoint selection only: {perception}"
            )
            return None
        self.output.make_console().info(
            f"--task is also used in the training loss: AP50 {perception.record.ap50:.2f} on "
            f"{perception.record.renders} renders"
        )
        return perception


@dataclass(frozen=True)
class AdaptTrainResult(Result):
    """Trained translator or fitted transfer.

    Attributes:
        run: Run folder.
        method: Method.
        sim: Renders.
        outcome: Selected checkpoint and warnings; None for transfers without a network.
        page: Page of the training; None if none was written.
    """

    run: Path
    method: str
    sim: Path
    outcome: TrainingOutcome | None = None
    page: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return run folder, method, selected step and warnings."""
        facts: dict[str, Any] = {"run": str(self.run), "method": self.method}
        if self.outcome is not None:
            step, warnings = self.outcome.selection.step, list(self.outcome.warnings)
            facts |= {"step": step, "warnings": warnings}
        return facts

    def summary(self) -> str:
        """Return the run folder, the selected step, warnings and the path of the page."""
        summary = f"{self.method}: {self.run}"
        if self.outcome is None:
            return summary
        selection = self.outcome.selection
        warnings = [f"warning: {warning}" for warning in self.outcome.warnings]
        first = f"{summary}; selected weights: step {selection.step} ({selection.reason})"
        pages = [f"page: {self.page}"] if self.page else []
        return "\n".join([first, *warnings, *pages])

    @property
    def next_step(self) -> str:
        """Command that translates renders."""
        return format_command("adapt", "apply", self.run, "--data", self.sim, "--out", "adapted")


@dataclass(frozen=True)
class AdaptApply:
    """Translate renders and certify label preservation."""

    translator: Annotated[Path, Argument("TRANSLATOR")]
    """Run folder of adapt train."""
    data: Path
    """Rendered dataset or image folder; single-channel images stay grey."""
    out: Path
    """Folder of the translated dataset."""
    recipe: Annotated[str, Option("RECIPE")] = "dice"
    """Recipe whose [adapt.certificate] section sets the limits of the certificate."""
    task: Annotated[Path | None, Option("WEIGHTS")] = None
    """Detector whose detections must be preserved: file or shipped name."""
    verifier: Rare[Annotated[Path | None, Option("WEIGHTS")]] = None
    """Second detector of another architecture: dice-verifier or a file."""
    seed: Seed = 0
    limit: Rare[int | None] = None
    """Translate at most this many images."""
    workers: Rare[int | None] = None
    """Number of processes, without effect on the result; default: one per core, or one on a GPU."""
    device: Device = "cpu"
    verify: Rare[bool] = False
    """With --resume, compare hashes of finished files, not only sizes and times."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self, recipe: Recipe | None = None, sim: Dataset | None = None) -> AdaptApplyResult:
        """Translate the images; a recipe and renders in memory replace files if given."""
        workers = _default_workers(self.device) if self.workers is None else self.workers
        check_numbers(seed=self.seed, workers=workers, limit=self.limit)
        check_inputs(
            self.translator,
            None if sim else self.data,
            recipe=None if recipe else self.recipe,
        )
        check_inputs(weights=self.task)
        check_inputs(weights=self.verifier)

        from sim2cam.data.real_images import read_real_images
        from sim2cam.data.writer import CERTIFICATE_PAGE
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.translation import Certification, apply_transfer, list_image_pairs
        from sim2cam.report.certificate import write_certificate_page

        sim = sim or read_real_images(self.data, skip_invalid=self.skip_invalid)
        _report_video_frames(self.output.make_console(), sim)
        sim = sim.take(self.limit)
        limits = (recipe or load_recipe(self.recipe)).adapt.certificate
        if self.verify:
            remove_damaged_shards(self.out, self.folder, self.output)
        with self.output.make_console().show_progress("translating") as stages:
            certificate = apply_transfer(
                self.translator,
                sim,
                self.out,
                certification=Certification(limits, _resolve_verifiers(self.task, self.verifier)),
                seed=self.seed,
                workers=workers,
                device=self.device,
                resume=self.folder.resume,
                overwrite=self.folder.overwrite,
                progress=stages("translating"),
            )
        page = self.out / CERTIFICATE_PAGE
        write_certificate_page(certificate, list_image_pairs(self.out, sim), page)
        return AdaptApplyResult(self.out, certificate, page, self.data, self.recipe)


@dataclass(frozen=True)
class AdaptApplyResult(Result):
    """Translated dataset, its certificate and its page.

    Attributes:
        out: Folder of the dataset.
        data: Renders.
        recipe: Name or file of the recipe.
    """

    out: Path
    certificate: DatasetCertificate
    page: Path
    data: Path
    recipe: str

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of accepted and rejected images, and the decision."""
        certificate = self.certificate
        return {
            "images": certificate.accepted_count,
            "rejected": len(certificate.rejected_images),
            "decision": certificate.decision,
        }

    def summary(self) -> str:
        """Return the numbers of images, the decision, violated limits and the path of the page."""
        certificate, total = self.certificate, len(self.certificate.images)
        counts = f"{certificate.accepted_count} of {total} images"
        rejected = f"{len(certificate.rejected_images)} rejected; {certificate.decision}"
        violations = [f"certificate: {violation}" for violation in certificate.violations]
        page = f"page: {self.page}"
        return "\n".join([f"{self.out}: {counts}, {rejected}", *violations, page])

    @property
    def failure(self) -> str | None:
        """Why the command line exits with 1: all images are rejected."""
        message = (
            f"{self.out}: all {len(self.certificate.images)} translations were rejected. See "
            "certificate.html for the reasons. Train the translator longer, or use other real images."
        )
        return None if self.certificate.accepted_count else message

    @property
    def next_step(self) -> str:
        """Command that trains on renders and translations."""
        return format_command("train", self.recipe, "--data", self.data, self.out, "--out", "run")


def _check_fitted_method(
    method: str, selection_flags: Sequence[str], overrides: Mapping[str, int], *, tensorboard: bool
) -> None:
    """Raise UsageError for flags that do not apply to transfers without a network."""
    for flag in overrides:
        raise UsageError(f"--{flag} does not apply to {method}, which is not trained. Omit it.")
    for flag in selection_flags:
        raise UsageError(
            f"--{flag} does not apply to {method}, which has no checkpoints to select. Use it with adapt apply."
        )
    if tensorboard:
        raise UsageError(
            f"--tensorboard does not apply to {method}, which is not trained. Omit it."
        )
    if get_world_size() > 1:
        raise UsageError(f"{method} is fitted by one process. Run it without torchrun.")


def _default_workers(device: str) -> int:
    return 1 if device.startswith("cuda") else os.cpu_count() or 1


def _report_video_frames(console: Console, *datasets: Dataset) -> None:
    from sim2cam.data.formats.video import describe_frame_selection

    for note in filter(None, map(describe_frame_selection, datasets)):
        console.info(note)


def _print_warnings(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        console.info(f"warning: {warning}")


def _resolve_domain_folder(folder: Path, name: str) -> Path:
    """Return the subfolder trainA or trainB (CycleGAN layout) if it exists, else the folder."""
    return folder / name if (folder / name).is_dir() else folder


def _resolve_verifiers(task: Path | None, verifier: Path | None) -> tuple[tuple[str, Path], ...]:
    from sim2cam.models.shipped_weights import resolve_weights

    paths = (("task", task), ("verifier", verifier))
    return tuple((name, resolve_weights(path)) for name, path in paths if path is not None)
