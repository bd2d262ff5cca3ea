"""Commands that train translators and let them translate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import tyro

from sim2cam.commands.console import Console
from sim2cam.commands.options import FolderOptions, OutputOptions, SkipInvalid, Split, check_numbers
from sim2cam.commands.runs import (
    drop_unset,
    lock_run_folder,
    make_step_callback,
    remove_damaged_shards,
    set_thread_budget,
)
from sim2cam.errors import Sim2CamError, UsageError
from sim2cam.files import lock_folder
from sim2cam.learn.launch import get_world_size, is_main_process

if TYPE_CHECKING:
    from sim2cam.adapt.certificate.certificate import DatasetCertificate
    from sim2cam.adapt.store import ParameterFreeMethod
    from sim2cam.adapt.training.checkpoint_selection import TrainingOutcome
    from sim2cam.adapt.translator.perceptual_consistency import PerceptionModel
    from sim2cam.data.sample import Dataset
    from sim2cam.pipeline.translation import TranslationConfig


@dataclass(frozen=True)
class AdaptTrain:
    """Learn the look of captures, from their pixels alone."""

    sim: Path
    """Rendered data set, or a folder of pictures, or one that holds them as trainA."""
    real: Path
    """Captures: a COCO file (its labels are not read) or a folder of pictures, or one with them as trainB."""
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
    """The learned translator, one as published, or a transfer without a network; the recipe's
    without it."""
    recipe: Annotated[str, tyro.conf.arg(metavar="RECIPE")] = "dice"
    """Its [adapt] section names the method, configures its training and holds the limits that
    translations keep to."""
    task: Annotated[Path | None, tyro.conf.arg(metavar="WEIGHTS")] = None
    """Detector whose finds must survive, by its file or the name of one that ships: it helps to choose which
    weights of the training ship and, if it is good on the renders, the learned translator is trained to leave
    what it sees."""
    verifier: Annotated[Path | None, tyro.conf.arg(metavar="WEIGHTS")] = None
    """A second detector, of another architecture: dice-verifier, or a file."""
    preset: Literal["demo", "small", "large"] | None = None
    """Settings of the learned translator, instead of the recipe's: the least that shows something, what two
    cores can do, or what is for a GPU. They aim at two and twenty minutes and half an hour, which differs with
    the machine."""
    paired: bool = False
    """Captures show the very scenes of the renders of their names, through the same lens: the learned
    translator is then also taught what differs, wherever both show the same place."""
    steps: int | None = None
    """Training steps, instead of the recipe's."""
    seed: int | None = None
    """Instead of the recipe's."""
    limit: int | None = None
    """Read only so many captures."""
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    tensorboard: bool = False
    """Write the curves for TensorBoard too, into the run folder."""
    workers: int = os.cpu_count() or 1
    """Threads, of all processes on this machine together."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Train, or fits."""
        from sim2cam.adapt.training.data_warnings import find_data_warnings
        from sim2cam.adapt.translator.config import PRESETS
        from sim2cam.commands.pages import write_training_page
        from sim2cam.data.parts import STYLE
        from sim2cam.data.real_images import read_real_images
        from sim2cam.learn.tensorboard import TensorBoardLogger
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.translation import (
            Certification,
            check_training,
            fit_plain_transfer,
            train_network,
        )

        check_numbers(seed=self.seed or 0, workers=self.workers, limit=self.limit)
        console = self.output.make_console()
        set_thread_budget(self.workers, console)
        sides = (
            _resolve_domain_folder(self.sim, "trainA"),
            _resolve_domain_folder(self.real, "trainB"),
        )
        read = partial(read_real_images, skip_invalid=self.skip_invalid)
        sim, real = read(sides[0]), read(sides[1], split=self.split, roles=STYLE)
        _report_video_frames(console, sim, real)
        real = real.take(self.limit)
        options = load_recipe(self.recipe).adapt
        method = self.method or options.method
        self._check_method_flags(method)
        changes = drop_unset(steps=self.steps, seed=self.seed)
        judges = _resolve_verifiers(self.task, self.verifier)
        training: TranslationConfig
        if method == "translator":
            preset = options.translator if self.preset is None else PRESETS[self.preset]
            training = replace(preset, **changes)
        elif method in ("cyclegan", "cut", "fastcut"):
            training = (method, replace(options.reference, **changes))
        else:
            _check_fitted_method(method, list(dict(judges)), changes, tensorboard=self.tensorboard)
            plain = cast("ParameterFreeMethod", method)
            _print_warnings(console, find_data_warnings(sim, real))
            with lock_folder(self.out):
                fit_plain_transfer(real, plain, self.out, overwrite=self.folder.overwrite)
            self._report_result(method, None)
            return
        odd = check_training(
            sim, real, training, self.out, judges, paired=self.paired, device=self.device
        )
        _print_warnings(console, odd)
        perception = self._load_perception(training, judges, sim)
        with lock_run_folder(self.out, self.folder):
            board = TensorBoardLogger(self.out) if self.tensorboard else None
            ending = train_network(
                sim,
                real,
                training,
                self.out,
                certification=Certification(options.certificate, judges),
                resume=self.folder.resume,
                device=self.device,
                progress=make_step_callback(console, method, board),
                paired=self.paired,
                perception=perception,
            )
            if is_main_process():
                write_training_page(self.out, ending, real)
        self._report_result(method, ending)

    def _check_method_flags(self, method: str) -> None:
        """Refuse what only the learned translator knows.

        Raises:
            UsageError: naming the flag.
        """
        flags = {"preset": self.preset is not None, "paired": self.paired}
        for flag, is_given in flags.items():
            if is_given and method != "translator":
                raise UsageError(
                    f"--{flag}: is of the learned translator, not of {method}. Leave it out, or take "
                    "--method translator."
                )

    def _load_perception(
        self,
        training: TranslationConfig,
        verifiers: Sequence[tuple[str, Path]],
        renders: Dataset,
    ) -> PerceptionModel | None:
        """Return the detector that the translator is trained to speak the same to; None, with why, without."""
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
        found = load_perception(task, renders, select_local_device(self.device))
        if isinstance(found, str):
            self.output.make_console().info(f"--task only judges, and teaches nothing: {found}")
            return None
        self.output.make_console().info(
            f"--task teaches too: its AP50 on {found.record.renders} renders is {found.record.ap50:.2f}"
        )
        return found

    def _report_result(self, method: str, outcome: TrainingOutcome | None) -> None:
        """Say what came of it."""
        words, facts = f"{method}: {self.out}", {"run": str(self.out), "method": method}
        if outcome is None:
            self.output.report(words, **facts)
            return
        step, why = outcome.selection.step, outcome.selection.reason
        self.output.report(
            f"{words}; weights after step {step}: {why}",
            **facts,
            step=step,
            warnings=list(outcome.warnings),
        )
        _print_warnings(self.output.make_console(), outcome.warnings)


@dataclass(frozen=True)
class AdaptApply:
    """Translate pictures; their labels stay, and a certificate says whether they still hold."""

    translator: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="TRANSLATOR")]
    """Run folder of adapt train."""
    data: Path
    """Rendered data set, or a folder of pictures; those of one channel stay grey."""
    out: Path
    """Folder of the translated data set."""
    recipe: Annotated[str, tyro.conf.arg(metavar="RECIPE")] = "dice"
    """Its [adapt.certificate] section holds the limits that a translation keeps to."""
    task: Annotated[Path | None, tyro.conf.arg(metavar="WEIGHTS")] = None
    """Detector whose finds must survive: the one that the pictures are for, by its file or the name of one
    that ships."""
    verifier: Annotated[Path | None, tyro.conf.arg(metavar="WEIGHTS")] = None
    """A second detector, of another architecture: dice-verifier, or a file."""
    seed: int = 0
    """Decides what is drawn for every picture."""
    limit: int | None = None
    """Translate only so many pictures."""
    workers: int | None = None
    """Processes: without it one a core, or one alone on a GPU, of whose memory each takes its own. The bytes
    are the same with any number."""
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    verify: bool = False
    """With --resume, compare the hashes of all finished files, not only sizes and times."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Translate, and writes the certificate and its page."""
        from sim2cam.data.real_images import read_real_images
        from sim2cam.data.writer import CERTIFICATE_PAGE
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.translation import Certification, apply_transfer, list_image_pairs
        from sim2cam.report.certificate import write_certificate_page

        workers = _default_workers(self.device) if self.workers is None else self.workers
        check_numbers(seed=self.seed, workers=workers, limit=self.limit)
        sim = read_real_images(self.data, skip_invalid=self.skip_invalid)
        _report_video_frames(self.output.make_console(), sim)
        sim = sim.take(self.limit)
        limits = load_recipe(self.recipe).adapt.certificate
        if self.verify:
            remove_damaged_shards(self.out, self.folder, self.output)
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
            progress=self.output.make_console().start_progress("translating"),
        )
        page = self.out / CERTIFICATE_PAGE
        write_certificate_page(certificate, list_image_pairs(self.out, sim), page)
        self._report_certificate(certificate)

    def _report_certificate(self, certificate: DatasetCertificate) -> None:
        """Say what came of it.

        Raises:
            Sim2CamError: no picture was kept.
        """
        total, rejected = len(certificate.images), len(certificate.rejected_images)
        self.output.report(
            f"{self.out}: {certificate.accepted_count} of {total} pictures, {rejected} rejected; "
            f"{certificate.decision}",
            images=certificate.accepted_count,
            rejected=rejected,
            decision=certificate.decision,
        )
        for fault in certificate.violations:
            self.output.make_console().info(f"certificate: {fault}")
        if not certificate.accepted_count:
            raise Sim2CamError(
                f"{self.out}: all {total} translations were rejected; certificate.html shows why. "
                "Train the translator longer, or take other captures."
            )


def _check_fitted_method(
    method: str,
    selection_flags: Sequence[str],
    overrides: Mapping[str, int],
    *,
    tensorboard: bool,
) -> None:
    """Refuse what a transfer without a network has no use for.

    Raises:
        UsageError: naming it.
    """
    for flag in overrides:
        raise UsageError(f"--{flag}: {method} is fitted at once, without chance. Leave it out.")
    for flag in selection_flags:
        raise UsageError(
            f"--{flag}: {method} is fitted, so there are no weights to choose from. Give it to adapt apply."
        )
    if tensorboard:
        raise UsageError(
            f"--tensorboard: {method} is fitted, so there are no curves. Leave it out."
        )
    if get_world_size() > 1:
        raise UsageError(f"{method} is fitted, by one process. Run it without torchrun.")


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
    """Return the folder of one side, where the given one has both as published translators take them."""
    return folder / name if (folder / name).is_dir() else folder


def _resolve_verifiers(task: Path | None, verifier: Path | None) -> tuple[tuple[str, Path], ...]:
    from sim2cam.pipeline.verifiers import resolve_weights

    given = (("task", task), ("verifier", verifier))
    return tuple((name, resolve_weights(path)) for name, path in given if path is not None)
