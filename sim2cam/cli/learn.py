"""Commands that train translators and detectors, and score them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import tyro

from sim2cam.cli.console import Console
from sim2cam.cli.options import Folder, Talk, check_numbers
from sim2cam.errors import Sim2CamError, UsageError
from sim2cam.training.launch import is_first, process_count, processes_here

if TYPE_CHECKING:
    from sim2cam.adapt.certificate.certificate import SetCertificate
    from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
    from sim2cam.adapt.selection import Ending
    from sim2cam.adapt.store import PlainMethod
    from sim2cam.adapt.translator.config import TranslatorConfig
    from sim2cam.adapt.translator.perception import Perception
    from sim2cam.dataset.sample import Dataset
    from sim2cam.models.trust import Source
    from sim2cam.training.board import Board


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
    """Settings of the learned translator, instead of the recipe's: about two minutes, or twenty of two
    cores, or half an hour of a GPU."""
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
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Trains, or fits."""
        from sim2cam.adapt.concerns import concerns
        from sim2cam.adapt.translator.config import PRESETS
        from sim2cam.cli.pages import write_training_page
        from sim2cam.dataset.captures import check_labels_are_true, read_captures
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.translate import (
            Certification,
            check_training,
            fit_plain_transfer,
            train_network,
        )
        from sim2cam.training.board import Board

        check_numbers(seed=self.seed or 0, workers=self.workers, limit=self.limit)
        console = self.talk.console()
        _use_threads(self.workers, console)
        sim = read_captures(_side(self.sim, "trainA"))
        real = read_captures(_side(self.real, "trainB")).take(self.limit)
        options = load_recipe(self.recipe).adapt
        method = self.method or options.method
        self._check_for(method)
        given = _given(steps=self.steps, seed=self.seed)
        board = Board(self.out) if self.tensorboard else None
        judges = _judges(self.task, self.judge)
        training: TranslatorConfig | tuple[ReferenceMethod, ReferenceConfig]
        if method == "translator":
            preset = options.translator if self.preset is None else PRESETS[self.preset]
            training = replace(preset, **given)
        elif method in ("cyclegan", "cut", "fastcut"):
            training = (method, replace(options.reference, **given))
        else:
            choosing = [*dict(judges), *(["dev"] if self.dev else [])]
            _check_fit(method, choosing, board, given)
            plain = cast("PlainMethod", method)
            _warn(console, concerns(sim, real))
            fit_plain_transfer(real, plain, self.out, overwrite=self.folder.overwrite)
            self._tell(method, None)
            return
        dev = None if self.dev is None else read_captures(self.dev)
        if dev is not None and self.dev is not None:
            check_labels_are_true(dev, self.dev)
        odd = check_training(sim, real, self.out, judges, paired=self.paired, dev=dev)
        _warn(console, odd)
        console.say(_memory_words(training, sim, real, self.device))
        perception = self._perception(training, judges, sim)
        clear_run(self.out, self.folder)
        ending = train_network(
            sim,
            real,
            training,
            self.out,
            certification=Certification(options.certificate, judges, dev),
            resume=self.folder.resume,
            device=self.device,
            progress=_steps(console, method, board),
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
        training: TranslatorConfig | tuple[ReferenceMethod, ReferenceConfig],
        judges: Sequence[tuple[str, Path]],
        renders: Dataset,
    ) -> Perception | None:
        """Returns the detector that the translator is trained to speak the same to; None, with why, without."""
        from sim2cam.adapt.translator.config import TranslatorConfig
        from sim2cam.pipeline.judges import perception_of
        from sim2cam.training.processes import own_device

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
    """Rendered data set, or a folder of pictures."""
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
    workers: int = os.cpu_count() or 1
    """Processes; the bytes are the same with any number."""
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    folder: Folder = field(default_factory=Folder)
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Translates, and writes the certificate and its page."""
        from sim2cam.dataset.captures import read_captures
        from sim2cam.dataset.writer import CERTIFICATE_PAGE
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.translate import Certification, apply_transfer, translation_paths
        from sim2cam.report.certificate import write_certificate_page

        check_numbers(seed=self.seed, workers=self.workers, limit=self.limit)
        sim = read_captures(self.data).take(self.limit)
        limits = load_recipe(self.recipe).adapt.certificate
        certificate = apply_transfer(
            self.translator,
            sim,
            self.out,
            certification=Certification(limits, _judges(self.task, self.judge)),
            seed=self.seed,
            workers=self.workers,
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


@dataclass(frozen=True)
class Train:
    """Train a detector on one or several data sets."""

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a shipped recipe (dice), or a .toml file; its [train] section configures."""
    data: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DATA [DATA ...]")]
    """Labelled data sets: rendered, translated, or captures."""
    out: Path
    """Run folder."""
    weights: tuple[float, ...] = ()
    """Share of each data set in the mix; all alike without it."""
    first_weights: tuple[float, ...] = ()
    """Share of each at the first step, where it is another; a data set of weight 0 only begins."""
    mix_steps: int | None = None
    """Steps in which the first weights turn into the weights, evenly."""
    steps: int | None = None
    """Training steps, instead of the recipe's."""
    seed: int | None = None
    """Instead of the recipe's."""
    limit: int | None = None
    """Read only so many samples of each data set."""
    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="WEIGHTS")] = None
    """Begin with these weights, a file or the name of some that ship, as the recipe's [train.fine_tuning]
    says: for few labelled captures, or what label writes."""
    captures: Path | None = None
    """Captures whose labels are not read, to which the recipe's [train.adapt] brings the detector."""
    backdrops: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PICTURES [PICTURES ...]")] = ()
    """Pictures of anything but what is learned: photos of where it will be used, or renders of other recipes.
    Half of the time objects are cut out and laid before them, and pieces of them before objects."""
    dev: Path | None = None
    """Labelled captures that choose the magnification of images and the margin of boxes, and tell how
    far confidences are to be trusted; with patience in the recipe's [train], also when training ends.
    They are not trained on, and must not be among the data."""
    held_out: float = 0.05
    """Share of the scenes that is not trained on, where fewer than 19 pictures are given as --dev: they
    tell how far confidences are to be trusted and which pictures are unlike. None where that is fewer
    than 19."""
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    tensorboard: bool = False
    """Write the curves for TensorBoard too, into the run folder."""
    workers: int = os.cpu_count() or 1
    """Threads, of all processes on this machine together."""
    folder: Folder = field(default_factory=Folder)
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Trains."""
        from sim2cam.dataset.algebra import merge
        from sim2cam.dataset.captures import check_labels_are_true, read_captures
        from sim2cam.dataset.duplicates import check_apart
        from sim2cam.models.lesson import Aids
        from sim2cam.models.named import check_operators
        from sim2cam.models.training import WEIGHTS, train_detector
        from sim2cam.models.trust import measure_trust
        from sim2cam.models.tuning import tune_weights
        from sim2cam.pipeline.judges import weights_file
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.training.board import Board

        if self.weights and len(self.weights) != len(self.data):
            raise UsageError(
                f"--weights has {len(self.weights)} numbers for {len(self.data)} data sets; give one each."
            )
        if self.start is not None and self.start.resolve().parent == self.out.resolve():
            raise UsageError(
                f"--from {self.start}: lies in --out, where it would be replaced. Choose another."
            )
        if not 0 <= self.held_out < 1:
            raise UsageError(f"--held-out must be 0 or more and below 1, not {self.held_out}")
        check_numbers(seed=self.seed or 0, workers=self.workers, limit=self.limit)
        console = self.talk.console()
        _use_threads(self.workers, console)
        given = _given(
            steps=self.steps,
            seed=self.seed,
            first_weights=self.first_weights or None,
            mix_steps=self.mix_steps,
        )
        config = replace(load_recipe(self.recipe).train, **given)
        check_operators(config.architecture)
        start = None if self.start is None else weights_file(self.start)
        shares = self.weights or (1.0,) * len(self.data)
        sets = [read_captures(path).take(self.limit) for path in self.data]
        captures, dev = (
            None if path is None else read_captures(path) for path in (self.captures, self.dev)
        )
        backdrops = [read_captures(path) for path in self.backdrops]
        if dev is not None and self.dev is not None:
            check_labels_are_true(dev, self.dev)
            check_apart((sample for one in sets for sample in one.samples), dev)
        learned, pictures, source = self._trusted_pictures(sets, dev, config.seed)
        parts = tuple(zip(learned, shares, strict=True))
        board = Board(self.out) if self.tensorboard else None
        clear_run(self.out, self.folder)
        train_detector(
            parts,
            config,
            self.out,
            aids=Aids(start, captures, merge(backdrops) if backdrops else None, dev),
            resume=self.folder.resume,
            device=self.device,
            progress=_steps(console, "detector", board),
        )
        if not is_first():
            return
        if dev is not None:
            tune_weights(self.out / WEIGHTS, dev, device=self.device)
        if pictures is not None:
            measure_trust(self.out / WEIGHTS, parts, config, pictures, source, device=self.device)
        self.talk.tell(f"weights: {self.out / WEIGHTS}", weights=str(self.out / WEIGHTS))

    def _trusted_pictures(
        self, sets: Sequence[Dataset], dev: Dataset | None, seed: int
    ) -> tuple[Sequence[Dataset], Dataset | None, Source]:
        """Returns what is trained on, the pictures that tell when to trust what comes of it, and what
        these are.
        """
        from sim2cam.dataset.algebra import set_aside
        from sim2cam.models.novelty import LEAST_PICTURES
        from sim2cam.seeds import stream

        if dev is not None and len(dev.samples) >= LEAST_PICTURES:
            return sets, dev, "development captures"
        kept, aside = set_aside(sets, self.held_out, stream(seed, "held out"))
        if len(aside.samples) >= LEAST_PICTURES:
            return kept, aside, "held-out pictures"
        self.talk.console().say(
            f"{self.held_out:g} of the scenes are {len(aside.samples)} pictures, fewer than "
            f"{LEAST_PICTURES}: all are trained on. How far confidences are to be trusted, and which "
            "pictures are unlike those trained on, is not measured."
        )
        return sets, None, "held-out pictures"


def clear_run(run_dir: Path, folder: Folder) -> None:
    """Empties a run folder where that was asked for; one that holds anything else is refused."""
    from sim2cam.training.run import remove_run

    if folder.overwrite and is_first():  # the others wait for it before they look
        remove_run(run_dir)


def _check_fit(
    method: str,
    choosing: Sequence[str],
    board: Board | None,
    given: Mapping[str, int],
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
    if board is not None:
        raise UsageError(
            f"--tensorboard: {method} is fitted, so there are no curves. Leave it out."
        )
    if process_count() > 1:
        raise UsageError(f"{method} is fitted, by one process. Run it without torchrun.")


def _warn(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        console.say(f"warning: {warning}")


def _memory_words(
    training: TranslatorConfig | tuple[ReferenceMethod, ReferenceConfig],
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


def _use_threads(count: int, console: Console) -> None:
    """Takes so many threads, all processes here together, and warns where they would wait for one another."""
    from sim2cam.training.device import crowding, use_threads

    each = max(1, count // processes_here())
    use_threads(each)
    crowded = crowding(each * processes_here()) if is_first() else None
    if crowded:
        console.say(f"warning: {crowded}")


def _steps(console: Console, what: str, board: Board | None) -> Callable[[Any], None]:
    """Returns a callback for the training's lines; it shows steps, loss and warnings, also on a board."""
    counter, is_warned = console.progress(what), False

    def tell(line: Any) -> None:
        nonlocal is_warned
        counter(line.step, line.steps)
        warnings = getattr(line, "warnings", ())
        if warnings and not is_warned:  # once, not at every line until it is mended
            console.say(f"warning, at step {line.step}: {' '.join(warnings)}")
        is_warned = bool(warnings)
        console.detail(f"{what}: step {line.step}, {line}")
        if board is not None:
            board.tell(line)

    return tell


def _side(folder: Path, name: str) -> Path:
    """Returns the folder of one side, where the given one has both as published translators take them."""
    return folder / name if (folder / name).is_dir() else folder


def _judges(task: Path | None, judge: Path | None) -> tuple[tuple[str, Path], ...]:
    from sim2cam.pipeline.judges import weights_file

    given = (("task", task), ("judge", judge))
    return tuple((name, weights_file(path)) for name, path in given if path is not None)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
