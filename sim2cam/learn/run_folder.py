"""A training's folder: opening it, and the record of what the training did."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import Field, asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from sim2cam.errors import DivergenceError, InputError, OutputError
from sim2cam.files import prepare_folder, write_atomic
from sim2cam.learn.checkpoint import Checkpoint, load_checkpoint
from sim2cam.learn.launch import is_main_process

CHECKPOINT = "checkpoint.safetensors"
METRICS = "metrics.jsonl"
BATCH_FILE = "batch.safetensors"
SAMPLES_PATTERN = "samples-*.jpg"
EVENTS_PATTERN = "events.out.tfevents.*"
SAMPLES_PAGE = "samples.html"
WEIGHTS = "weights.safetensors"
RUN_FILES = (
    BATCH_FILE,
    CHECKPOINT,
    METRICS,
    "transfer.json",
    "weights.json",
    WEIGHTS,
    SAMPLES_PAGE,
)
_RUN_PATTERNS = (*RUN_FILES, SAMPLES_PATTERN, EVENTS_PATTERN)


class MetricsLine(Protocol):
    """A line of a training's record: a dataclass of JSON values."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def step(self) -> int:
        """Steps done."""


MetricsLineT = TypeVar("MetricsLineT", bound=MetricsLine)


class MetricsLog:
    """What is appended to ``metrics.jsonl``.

    Args:
        run_dir: the training's folder.
        remedy: what to do when the training runs away: "Lower this".
    """

    def __init__(self, run_dir: Path, remedy: str) -> None:
        self._path = run_dir / METRICS
        self._remedy = remedy
        self._pending_scalars: list[Mapping[str, Tensor]] = []
        self._last_line_s = time.perf_counter()

    def add(self, scalars: Mapping[str, Tensor]) -> None:
        """Take in what one more step measured; a step need not measure everything."""
        self._pending_scalars.append(scalars)

    @property
    def pending(self) -> dict[str, Tensor]:
        """What was added since the last line, for ``resume``."""
        return {
            f"{number}/{name}": value
            for number, scalars in enumerate(self._pending_scalars)
            for name, value in scalars.items()
        }

    def resume(self, pending: Mapping[str, Tensor]) -> None:
        """Go on with a line that was begun before."""
        steps: dict[int, dict[str, Tensor]] = defaultdict(dict)
        for key, value in pending.items():
            number, _, name = key.partition("/")
            steps[int(number)][name] = value
        self._pending_scalars = [steps[number] for number in sorted(steps)]

    def take_means(self, step: int) -> tuple[dict[str, float], float]:
        """Return the means of all that was added since the last call, and seconds a step.

        Raises:
            RunawayError: something that was added is not finite.
        """
        names = dict.fromkeys(name for scalars in self._pending_scalars for name in scalars)
        means = {
            name: float(
                torch.stack([s[name].cpu() for s in self._pending_scalars if name in s]).mean()
            )
            for name in names
        }
        if not all(math.isfinite(mean) for mean in means.values()):
            first = step - len(self._pending_scalars) + 1
            broken = next(
                at for at, s in enumerate(self._pending_scalars, first) if not _are_finite(s)
            )
            raise DivergenceError(
                f"the loss is no longer finite at step {broken} ({means}). "
                f"{self._remedy}, then train again with --overwrite.",
                broken,
            )
        now = time.perf_counter()
        step_s = (now - self._last_line_s) / len(self._pending_scalars)
        self._pending_scalars.clear()
        self._last_line_s = now
        return means, step_s

    def write(self, line: MetricsLine) -> None:
        """Append a line.

        Raises:
            OutputError: the disk is full, or the file cannot be written.
        """
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_to_json_line(line))
        except OSError as error:
            raise OutputError(
                self._path,
                f"cannot be written ({error.strerror}). Free some disk space, then run with "
                "--resume.",
            ) from error


def open_run(
    run_dir: Path, identity: Mapping[str, Any], line_type: type[MetricsLineT], *, resume: bool
) -> Checkpoint | None:
    """Return the checkpoint to go on from, None to start; the record then ends where it does.

    Of several processes, the first alone cuts the record.

    Args:
        run_dir: the training's folder, which need not exist.
        identity: as ``load_checkpoint`` takes it.
        line_type: of the record's lines.
        resume: goes on from the checkpoint, where there is one.

    Raises:
        CheckpointError: the checkpoint is broken or of another training.
        InputError: the record is broken.
        OutputError: the folder cannot be written, holds something else, or holds a training and
            ``resume`` is False.
    """
    if is_main_process():
        check_run_folder(run_dir)
    if not resume and any((run_dir / name).exists() for name in (CHECKPOINT, WEIGHTS)):
        raise OutputError(run_dir, "holds a training. Go on with --resume or choose another --out.")
    path = run_dir / CHECKPOINT
    checkpoint = load_checkpoint(path, identity) if path.exists() else None
    done = checkpoint.step if checkpoint else 0
    if is_main_process():
        kept = [line for line in read_metrics_log(run_dir, line_type) if line.step <= done]
        write_atomic(run_dir / METRICS, "".join(map(_to_json_line, kept)).encode())
    return checkpoint


def read_metrics_log(run_dir: Path, line_type: type[MetricsLineT]) -> tuple[MetricsLineT, ...]:
    """Return a training's record; empty when there is none, short of a line cut by a crash.

    Raises:
        InputError: a whole line is not of this kind.
    """
    path = run_dir / METRICS
    if not path.is_file():
        return ()
    whole = path.read_bytes().rpartition(b"\n")[0]
    try:
        return tuple(line_type(**json.loads(line)) for line in whole.splitlines())
    except (ValueError, TypeError) as error:
        raise InputError(
            path,
            f"not the record of this kind of training ({error}). Remove it and run with --resume; "
            "only the curves so far are lost.",
        ) from error


def check_run_folder(run_dir: Path) -> None:
    """Refuse a folder that holds anything but a training.

    Raises:
        OutputError: naming it.
    """
    prepare_folder(run_dir, _RUN_PATTERNS, "a training", resume=True, overwrite=False)


def clear_run_folder(run_dir: Path) -> None:
    """Remove a training's files; its folder must hold nothing else.

    Raises:
        OutputError: something else lies in it.
    """
    prepare_folder(run_dir, _RUN_PATTERNS, "a training", resume=False, overwrite=True)


def _are_finite(scalars: Mapping[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(value)) for value in scalars.values())


def _to_json_line(line: MetricsLine) -> str:
    return json.dumps(asdict(line)) + "\n"
