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
from sim2cam.commands.options import Folder, SkipInvalid, Split, Talk, check_numbers
from sim2cam.commands.runs import given, remove_damaged_shards, run_folder, steps_told, take_threads
from sim2cam.errors import Sim2CamError, UsageError
from sim2cam.files import locked
from sim2cam.learn.launch import is_first, process_count

if TYPE_CHECKING:
    from sim2cam.adapt.certificate.certificate import SetCertificate
    from sim2cam.adapt.store import PlainMethod
    from sim2cam.adapt.training.checkpoint_selection import Ending
    from sim2cam.adapt.translator.perceptual_consistency import Perception
    from sim2cam.data.sample import Dataset
    from sim2cam.pipeline.translation import Training


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
    judge: Annotated[Path | None, tyro.conf.arg(metavar="WEIGHTS")] = None
    """A second detector, of another architecture: dice-judge, or a file."""
    preset: Literal["demo", "small", "large"] | None = None
    """Settings of the learned translator, instead of the recipe's: the least that shows something, what two
    cores can do, or what is for a GPU. They aim at two and twenty minutes and half an hour, which differs with
    the machine."""
    dev: Path | None = None
    """Labelled captures, not among --real. They choose which weights of the training ship where the captures that
    are kept aside do not tell candidates apart; no weight is learned from their labels, nor from their pixels."""
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
    folder: Folder = field(default_factory=Folder)
    split: Split = None
    skip_invalid: SkipInvalid = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Trains, or fits."""
        from sim2cam.adapt.training.data_warnings import concerns
        from sim2cam.adapt.translator.config import PRESETS
        from sim2cam.commands.pages import write_training_page
        from sim2cam.data.parts import DEV, LOOK
        from sim2cam.data.real_images import check_labels_are_true, read_captures
        from sim2cam.learn.tensorboard import Board
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.translation import (
            Certification,
            check_training,
            fit_plain_transfer,
            train_network,
        )

        check_numbers(seed=self.seed or 0, workers=self.workers, limit=self.limit)
        console = self.talk.console()
        take_threads(self.workers, console)
        sides = _side(self.sim, "trainA"), _side(self.real, "trainB")
        read = partial(read_captures, skip_invalid=self.skip_invalid)
        sim, real = read(sides[0]), read(sides[1], split=self.split, uses=LOOK)
        _note_frames(console, sim, real)
        real = real.take(self.limit)
        options = load_recipe(self.recipe).adapt
        method = self.method or options.method
        self._check_for(method)
        changes = given(steps=self.steps, seed=self.seed)
        judges = _judges(self.task, self.judge)
        training: Training
        if method == "translator":
            preset = options.translator if self.preset is None else PRESETS[self.preset]
            training = replace(preset, **changes)
        elif method in ("cyclegan", "cut", "fastcut"):
            training = (method, replace(options.reference, **changes))
        else:
            choosing = [*dict(judges), *(["dev"] if self.dev else [])]
            _check_fit(method, choosing, changes, tensorboard=self.tensorboard)
            plain = cast("PlainMethod", method)
            _warn(console, concerns(sim, real))
            with locked(self.out):
                fit_plain_transfer(real, plain, self.out, overwrite=self.folder.overwrite)
            self._tell(method, None)
            return
        dev = None if self.dev is None else read(self.dev, uses=DEV)
        if dev is not None and self.dev is not None:
            check_labels_are_true(dev, self.dev)
        odd = check_training(
            sim, real, training, self.out, judges, paired=self.paired, dev=dev, device=self.device
        )
        _warn(console, odd)
        console.say(_memory_words(training, sim, real, self.device))
        perception = self._perception(training, judges, sim)
        with run_folder(self.out, self.folder):
            board = Board(self.out) if self.tensorboard else None
            ending = train_network(
                sim,
                real,
                training,
                self.out,
                certification=Certification(options.certificate, judges, dev),
                resume=self.folder.resume,
                device=self.device,
                progress=steps_told(console, method, board),
                paired=self.paired,
                perception=perception,
            )
            if is_first():
                write_training_page(self.out, ending, real)
        self._tell(method, ending)

    def _check_for(self, method: str) -> None:
        """Refuses what only the learned translator knows.

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

    def _perception(
        self,
        training: Training,
        judges: Sequence[tuple[str, Path]],
        renders: Dataset,
    ) -> Perception | None:
        """Returns the detector that the translator is trained to speak the same to; None, with why, without."""
        from sim2cam.adapt.translator.config import TranslatorConfig
        from sim2cam.learn.distributed import own_device
        from sim2cam.pipeline.verifiers import perception_of

        task = dict(judges).get("task")
        if (
            task is None
            or not isinstance(training, TranslatorConfig)
            or not training.perception_weight
        ):
            return None
        found = perception_of(task, renders, own_device(self.device))
        if isinstance(found, str):
            self.talk.console().say(f"--task only judges, and teaches nothing: {found}")
            return None
        self.talk.console().say(
            f"--task teaches too: its AP50 on {found.record.renders} renders is {found.record.ap50:.2f}"
        )
        return found

    def _tell(self, method: str, ending: Ending | None) -> None:
        """Says what came of it."""
        words, facts = f"{method}: {self.out}", {"run": str(self.out), "method": method}
        if ending is None:
            self.talk.tell(words, **facts)
            return
        step, why = ending.selection.step, ending.selection.why
        self.talk.tell(
            f"{words}; weights after step {step}: {why}",
            **facts,
            step=step,
            warnings=list(ending.warnings),
        )
        _warn(self.talk.console(), ending.warnings)


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
    judge: Annotated[Path | None, tyro.conf.arg(metavar="WEIGHTS")] = None
    """A second detector, of another architecture: dice-judge, or a file."""
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
    folder: Folder = field(default_factory=Folder)
    skip_invalid: SkipInvalid = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Translates, and writes the certificate and its page."""
        from sim2cam.data.real_images import read_captures
        from sim2cam.data.writer import CERTIFICATE_PAGE
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.translation import Certification, apply_transfer, translation_paths
        from sim2cam.report.certificate import write_certificate_page

        workers = _own_workers(self.device) if self.workers is None else self.workers
        check_numbers(seed=self.seed, workers=workers, limit=self.limit)
        sim = read_captures(self.data, skip_invalid=self.skip_invalid)
        _note_frames(self.talk.console(), sim)
        sim = sim.take(self.limit)
        limits = load_recipe(self.recipe).adapt.certificate
        if self.verify:
            remove_damaged_shards(self.out, self.folder, self.talk)
        certificate = apply_transfer(
            self.translator,
            sim,
            self.out,
            certification=Certification(limits, _judges(self.task, self.judge)),
            seed=self.seed,
            workers=workers,
            device=self.device,
            resume=self.folder.resume,
            overwrite=self.folder.overwrite,
            progress=self.talk.console().progress("translating"),
        )
        page = self.out / CERTIFICATE_PAGE
        write_certificate_page(certificate, translation_paths(self.out, sim), page)
        self._tell(certificate)

    def _tell(self, certificate: SetCertificate) -> None:
        """Says what came of it.

        Raises:
            Sim2CamError: no picture was kept.
        """
        total, rejected = len(certificate.pictures), len(certificate.rejected)
        self.talk.tell(
            f"{self.out}: {certificate.kept} of {total} pictures, {rejected} rejected; "
            f"{certificate.verdict}",
            pictures=certificate.kept,
            rejected=rejected,
            verdict=certificate.verdict,
        )
        for fault in certificate.faults:
            self.talk.console().say(f"certificate: {fault}")
        if not certificate.kept:
            raise Sim2CamError(
                f"{self.out}: all {total} translations were rejected; certificate.html shows why. "
                "Train the translator longer, or take other captures."
            )


def _check_fit(
    method: str,
    choosing: Sequence[str],
    given: Mapping[str, int],
    *,
    tensorboard: bool,
) -> None:
    """Refuses what a transfer without a network has no use for.

    Raises:
        UsageError: naming it.
    """
    for flag in given:
        raise UsageError(f"--{flag}: {method} is fitted at once, without chance. Leave it out.")
    for flag in choosing:
        cure = "Leave it out." if flag == "dev" else "Give it to adapt apply."
        raise UsageError(
            f"--{flag}: {method} is fitted, so there are no weights to choose from. {cure}"
        )
    if tensorboard:
        raise UsageError(
            f"--tensorboard: {method} is fitted, so there are no curves. Leave it out."
        )
    if process_count() > 1:
        raise UsageError(f"{method} is fitted, by one process. Run it without torchrun.")


def _own_workers(device: str) -> int:
    return 1 if device.startswith("cuda") else os.cpu_count() or 1


def _note_frames(console: Console, *given: Dataset) -> None:
    from sim2cam.data.formats.video import frames_note

    for note in filter(None, map(frames_note, given)):
        console.say(note)


def _warn(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        console.say(f"warning: {warning}")


def _memory_words(
    training: Training,
    sim: Dataset,
    real: Dataset,
    device: str,
) -> str:
    from sim2cam.adapt.reference.memory import reference_memory
    from sim2cam.adapt.translator.buffers import buffers_of
    from sim2cam.adapt.translator.config import TranslatorConfig
    from sim2cam.adapt.translator.memory import translator_memory

    if isinstance(training, TranslatorConfig):
        buffers = buffers_of(sim) if training.use_buffers else ()
        need = translator_memory(training, sim, real, buffers)
    else:
        need = reference_memory(*training, sim, real)
    images = f"{need.images_bytes / 1e9:.1f} GB of it for images"
    if device == "cpu":
        return f"memory: about {need.on_cpu_bytes / 1e9:.1f} GB at the peak, {images}"
    return (
        f"memory: up to {need.of_gpu_bytes / 1e9:.1f} GB of the GPU's, and about "
        f"{need.beside_gpu_bytes / 1e9:.1f} GB of the machine's, {images}"
    )


def _side(folder: Path, name: str) -> Path:
    """Returns the folder of one side, where the given one has both as published translators take them."""
    return folder / name if (folder / name).is_dir() else folder


def _judges(task: Path | None, judge: Path | None) -> tuple[tuple[str, Path], ...]:
    from sim2cam.pipeline.verifiers import weights_file

    given = (("task", task), ("judge", judge))
    return tuple((name, weights_file(path)) for name, path in given if path is not None)
