"""The loop of every adversarial training: steps, their record, and checkpoints."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from pydantic import TypeAdapter
from safetensors.torch import save
from torch import Tensor, nn

from sim2cam.adapt.card import digests_of, images_record
from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.training.candidates import Contest, Contestant
from sim2cam.adapt.training.checkpoint_selection import (
    LEAST_CANDIDATES,
    LEAST_STEPS,
    MOST_CANDIDATES,
    Candidate,
    Ending,
    Parts,
    Selection,
    best_of,
    contenders,
    moments,
    parts_of,
    selection_of,
)
from sim2cam.adapt.training.diagnostics import symptoms
from sim2cam.adapt.training.input_images import PICTURES, check_unchanged, damage_told
from sim2cam.adapt.training.linear_probe import digest_of_labelled
from sim2cam.adapt.training.sample_images import write_samples
from sim2cam.adapt.translation import Jury
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError, RunawayError
from sim2cam.files import write_whole
from sim2cam.learn.checkpoint import (
    Checkpoint,
    kept,
    optimizer_tensors,
    restore_optimizer,
)
from sim2cam.learn.distributed import mean_over_all
from sim2cam.learn.launch import is_first
from sim2cam.learn.run_folder import BATCH, CHECKPOINT, Record, open_run, read_record

MIN_CAPTURES = 20
LINE_STEPS = 10

_CHOSEN, _CONTENDER, _PENDING = "chosen", "contender", "record"  # groups of a checkpoint's tensors
_QUIET = 4  # a training is not warned of in its first part of so many,
_RECENT = 10  # and by its last part of so many

Groups = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class TranslatorProgress:
    """A line of the training's record.

    Attributes:
        step: steps done.
        steps: steps in all.
        scalars: means since the last line of what the game measures: its losses by name, and the
            ``mean_change`` of a render (of a range of 1). Where a candidate was judged, its
            ``aside_passed``, ``aside_distance``, ``aside_known_auc`` and, with labels, ``aside_probe`` (see
            ``Candidate``).
        step_s: seconds a step since the last line, waiting for data included.
        warnings: signs that the training goes wrong, in words.
    """

    step: int
    steps: int
    scalars: dict[str, float]
    step_s: float
    warnings: list[str] = field(default_factory=list)


class Game(Contestant, Protocol):
    """Networks that are trained against each other, between two steps.

    Attributes:
        undecided: the loss of the discriminator of captures, by its name among the scalars, and its
            value when it cannot tell translations from captures.
    """

    undecided: tuple[str, float]

    def play(self, step: int) -> dict[str, Tensor]:
        """Returns the scalars of this step, which depends on nothing but the state and ``step``."""
        ...

    def batch(self, step: int) -> dict[str, Tensor]:
        """Returns what a step is taught with, by name; on the CPU."""
        ...

    def state(self) -> Groups:
        """Returns all that the next step depends on, in named groups of named tensors."""
        ...

    def restore(self, groups: Groups) -> None:
        """Becomes the game that ``state`` was taken of."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """Returns the weights that would ship."""
        ...


@dataclass(frozen=True)
class Played:
    """What came of a game.

    Attributes:
        weights: that ship.
        ending: which these are, and what went wrong.
    """

    weights: Mapping[str, Tensor]
    ending: Ending


def play(
    game: Game,
    identity: Mapping[str, Any],
    digests: Mapping[str, Mapping[str, str]],
    steps: int,
    run_dir: Path,
    contest: Contest,
    *,
    cure: str,
    resume: bool,
    progress: Callable[[TranslatorProgress], None] | None,
    checkpoint_s: float,
) -> Played:
    """Plays a game to its last step, from its checkpoint where there is one, and returns what ships.

    Args:
        game: at step 0.
        identity: all that decides the result besides what judges it; only a checkpoint with an equal
            one goes on.
        digests: of the pictures of either side, by name.
        steps: of the whole game.
        run_dir: for checkpoint, ``metrics.jsonl`` and, where it is long enough, ``write_samples``.
        contest: says when candidates are judged, and judges them.
        cure: what to do when it runs away, as ``Record`` takes it.
        resume: goes on from the checkpoint, where there is one.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints.

    Raises:
        CheckpointError: the checkpoint is broken or of another training, or of other pictures.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        InputError: a picture cannot be read.
        RunawayError: a loss is no longer finite; the batch lies in ``run_dir``.
        BackendError: a GPU's memory is full.
    """
    step, standings = 0, _Standings(contest, game)
    identity = {**identity, **standings.identity}
    record = Record(run_dir, cure)
    if resume:
        check_unchanged(run_dir, digests)
    if checkpoint := open_run(run_dir, identity, TranslatorProgress, resume=resume):
        step = checkpoint.step
        groups = _grouped(checkpoint.tensors)
        standings.restore(checkpoint.facts, groups)
        record.resume(groups.pop(_PENDING, {}))
        game.restore(groups)
    lines = list(read_metrics(run_dir)) if is_first() else []
    apart = max(LINE_STEPS, min(LEAST_STEPS, steps // LEAST_CANDIDATES))  # short ones show some too
    shown = moments(steps, MOST_CANDIDATES, LINE_STEPS, apart=apart)
    show = functools.partial(_show, game, run_dir, contest, shown)
    if step == 0:
        show(0)

    def state() -> Checkpoint:
        groups = game.state() | standings.groups | {_PENDING: record.pending}
        return Checkpoint(step, identity, _flat(groups), standings.facts | {PICTURES: digests})

    with damage_told(), kept(run_dir / CHECKPOINT, checkpoint_s) as keeper:
        while step < steps:
            record.add(mean_over_all(game.play(step)))
            step += 1
            is_line = step % LINE_STEPS == 0 or step == steps
            if is_line:
                scalars, step_s = _means(record, step, game, run_dir)
            if not is_first():
                continue
            if is_line:
                line = TranslatorProgress(step, steps, scalars | standings.judged(step), step_s)
                lines.append(replace(line, warnings=standings.warnings([*lines, line])))
                record.write(lines[-1])
                show(step)
            keeper.take(state, is_last=step == steps)
            if is_line and progress is not None:
                progress(lines[-1])
    return standings.end(lines, steps)


def _means(record: Record, step: int, game: Game, run_dir: Path) -> tuple[dict[str, float], float]:
    """Returns the means since the last line, and seconds a step.

    Raises:
        RunawayError: one is not finite; the batch lies in ``run_dir``.
    """
    try:
        return record.take_means(step)
    except RunawayError as error:
        if is_first():
            batch = {name: v.contiguous() for name, v in game.batch(error.step - 1).items()}
            write_whole(run_dir / BATCH, save(batch))
        kept = f"{error} What that step was taught with is kept in {run_dir / BATCH}."
        raise RunawayError(kept, error.step) from error


def _show(
    game: Game, run_dir: Path, contest: Contest, moments_shown: Sequence[int], step: int
) -> None:
    """Writes what becomes of the same few renders, after steps at which that is shown, and before all."""
    if not moments_shown or step not in (0, *moments_shown) or not is_first():
        return
    shown = contest.parts.sim_aside.samples or contest.parts.sim.samples
    transfer = game.transfer() if step else None
    write_samples(run_dir, step, shown, transfer, contest.seed)


class _Standings:
    """The candidates of a game so far, and the weights of those that may ship."""

    def __init__(self, contest: Contest, game: Game) -> None:
        self._contest = contest
        self._game = game
        self._candidates: list[Candidate] = []
        self._weights: dict[int, dict[str, Tensor]] = {}  # by step

    @property
    def identity(self) -> dict[str, Any]:
        """What decides which weights ship, as JSON values; nothing without candidates."""
        jury = self._contest.jury
        if not self._contest.parts.steps:
            return {}
        judged = {"certificate": {"limits": asdict(jury.limits), "judges": dict(jury.digests)}}
        return judged if jury.dev is None else judged | {"dev": digest_of_labelled(jury.dev)}

    @property
    def facts(self) -> dict[str, Any]:
        """The candidates as JSON values."""
        return {"candidates": [asdict(candidate) for candidate in self._candidates]}

    @property
    def groups(self) -> Groups:
        """The weights that may ship: those that would now, and others by their steps."""
        names = self._names()
        return {names[step]: weights for step, weights in self._weights.items()}

    def restore(self, facts: Mapping[str, Any], groups: Groups) -> None:
        """Becomes the standings that ``facts`` and ``groups`` were taken of, and takes its own out of these."""
        found = facts.get("candidates", [])
        self._candidates = TypeAdapter(list[Candidate]).validate_python(found)
        self._weights = {step: groups.pop(name) for step, name in self._names().items()}

    def judged(self, step: int) -> dict[str, float]:
        """Returns the scalars of the candidate of this step; none where none is judged."""
        if step not in self._contest.parts.steps:
            return {}
        candidate = self._contest.judge(step, self._game)
        self._candidates.append(candidate)
        known = {**self._weights, step: self._game.weights()}
        self._weights = {
            at: {name: value.clone() for name, value in known[at].items()} for at in self._names()
        }
        scalars = {
            "aside_passed": candidate.passed / len(self._contest.parts.sim_aside.samples),
            "aside_distance": candidate.distance,
            "aside_known_auc": candidate.known_auc,
        }
        return scalars if candidate.probe is None else scalars | {"aside_probe": candidate.probe}

    def _names(self) -> dict[int, str]:
        """Returns the groups of weights that may ship, by step."""
        if not self._candidates:
            return {}
        best = best_of(self._candidates)
        return {
            one.step: _CHOSEN if one is best else f"{_CONTENDER} {one.step}"
            for one in contenders(self._candidates)
        }

    def warnings(self, lines: Sequence[TranslatorProgress]) -> list[str]:
        """Returns what goes wrong by the last lines."""
        last = lines[-1]
        if last.step * _QUIET < last.steps:
            return []
        recent = [o.scalars for o in lines if (last.step - o.step) * _RECENT <= last.steps]
        latest = self._candidates[-1] if self._candidates else None
        return list(symptoms(recent, latest, self._game.undecided))

    def end(self, lines: Sequence[TranslatorProgress], steps: int) -> Played:
        """Returns what ships."""
        warnings = tuple(lines[-1].warnings) if lines else ()
        parts = self._contest.parts
        if not self._candidates:
            why = f"the last ones: {parts.why}, so nothing was kept aside to judge others by"
            return Played(self._game.weights(), Ending(Selection(steps, why), warnings))
        untouched = self._contest.untouched
        if best_of(self._candidates).distance >= untouched:
            warnings = (*warnings, _NO_NEARER)
        selection = selection_of(parts, self._candidates, untouched)
        if dev := self._contest.jury.dev:
            selection = replace(selection, dev=images_record(dev, digests_of(dev)))
        return Played(self._weights[selection.step], Ending(selection, warnings))


_NO_NEARER = (
    "the weights that ship bring renders no nearer to the captures kept aside than they were. Train "
    "again with more --steps, or do without translation."
)


def player_state(name: str, network: nn.Module, optimiser: torch.optim.Optimizer) -> Groups:
    """Returns the groups ``name`` and ``name optimiser`` of a network and what trains it."""
    return {
        name: network.state_dict(),
        f"{name} optimiser": optimizer_tensors(network, optimiser),
    }


def restore_player(
    groups: Groups, name: str, network: nn.Module, optimiser: torch.optim.Optimizer
) -> None:
    """Puts back what ``player_state`` returned."""
    network.load_state_dict(groups[name])
    restore_optimizer(network, optimiser, groups[f"{name} optimiser"])


def read_metrics(run_dir: Path) -> tuple[TranslatorProgress, ...]:
    """Returns the training's record; empty when there is none, short of a line cut by a crash.

    Raises:
        InputError: it is not that of a translator's training.
    """
    return read_record(run_dir, TranslatorProgress)


def contest_of(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig | ReferenceConfig,
    jury: Jury,
    *,
    is_paired: bool = False,
) -> Contest:
    """Returns the contest of a training's candidates; its ``parts`` say what is trained on.

    Args:
        sim, real: renders and captures.
        config: of the training.
        jury: that translations are judged by.
        is_paired: as ``parts_of`` takes it.

    Raises:
        InputError: no renders, fewer than ``MIN_CAPTURES`` captures, or one that cannot be read.
    """
    check_images(sim, real)
    parts = kept_apart(sim, real, config, judges=len(jury.judges), is_paired=is_paired)
    return Contest(parts, jury, config.seed)


def kept_apart(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig | ReferenceConfig,
    *,
    judges: int,
    is_paired: bool,
) -> Parts:
    """Returns what a training learns from and what it is judged by, as ``parts_of`` does.

    Args:
        sim, real: renders and captures.
        config: of the training.
        judges, is_paired: as ``parts_of`` takes them.

    Raises:
        InputError: a capture cannot be read.
    """
    return parts_of(
        sim,
        real,
        steps=config.steps,
        pixels=config.batch * config.patch_px**2,
        line_steps=LINE_STEPS,
        judges=judges,
        is_paired=is_paired,
    )


def check_images(sim: Dataset, real: Dataset) -> None:
    """Refuses what no translator is trained on.

    Raises:
        InputError: no renders, or fewer than ``MIN_CAPTURES`` captures.
    """
    if not sim.samples:
        raise InputError(sim.root, "no renders to train on. Render some first.")
    if len(real.samples) < MIN_CAPTURES:
        raise InputError(
            real.root,
            f"{len(real.samples)} captures, but a translator needs at least {MIN_CAPTURES}. "
            "Add some, or go on without translation.",
        )


def _flat(groups: Groups) -> dict[str, Tensor]:
    return {f"{g}:{name}": value for g, named in groups.items() for name, value in named.items()}


def _grouped(tensors: Mapping[str, Tensor]) -> Groups:
    groups: Groups = defaultdict(dict)
    for key, value in tensors.items():
        group, _, name = key.partition(":")
        groups[group][name] = value
    return groups
