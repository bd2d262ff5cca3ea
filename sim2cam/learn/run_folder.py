"""Run folder of a training and its metrics log."""

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
    """Line of the metrics log: a dataclass of JSON values."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def step(self) -> int:
        """Number of finished steps."""


MetricsLineT = TypeVar("MetricsLineT", bound=MetricsLine)


class MetricsLog:
    """Writer of ``metrics.jsonl``.

    Args:
        run_dir: Run folder.
        remedy: Advice if the training diverges, such as "Lower the learning rate".
    """

    def __init__(self, run_dir: Path, remedy: str) -> None:
        self._path = run_dir / METRICS
        self._remedy = remedy
        self._pending_scalars: list[Mapping[str, Tensor]] = []
        self._wait_s = 0.0
        self._last_line_s = time.perf_counter()

    def add(self, scalars: Mapping[str, Tensor], wait_s: float = 0.0) -> None:
        """Add the scalars of a step, whose names may differ between steps, and the wait for its batch."""
        self._pending_scalars.append(scalars)
        self._wait_s += wait_s

    @property
    def pending(self) -> dict[str, Tensor]:
        """Scalars added since the last line, for ``resume``."""
        return {
            f"{number}/{name}": value
            for number, scalars in enumerate(self._pending_scalars)
            for name, value in scalars.items()
        }

    def resume(self, pending: Mapping[str, Tensor]) -> None:
        """Restore scalars added before a checkpoint."""
        steps: dict[int, dict[str, Tensor]] = defaultdict(dict)
        for key, value in pending.items():
            number, _, name = key.partition("/")
            steps[int(number)][name] = value
        self._pending_scalars = [steps[number] for number in sorted(steps)]

    def take_means(self, step: int) -> tuple[dict[str, float], float, float]:
        """Return the means of all scalars since the last call, and seconds and waiting time per step.

        Raises:
            DivergenceError: If a scalar is not finite.
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
            diverged = next(
                number
                for number, scalars in enumerate(self._pending_scalars, first)
                if not _are_finite(scalars)
            )
            raise DivergenceError(
                f"the loss is not finite at step {diverged} ({means}). "
                f"{self._remedy}, then train again with --overwrite.",
                diverged,
            )
        now = time.perf_counter()
        count = len(self._pending_scalars)
        step_s, wait_s = (now - self._last_line_s) / count, self._wait_s / count
        self._pending_scalars.clear()
        self._last_line_s, self._wait_s = now, 0.0
        return means, step_s, wait_s

    def write(self, line: MetricsLine) -> None:
        """Append a line.

        Raises:
            OutputError: If the disk is full or the file cannot be written.
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
) -> tuple[Checkpoint | None, list[MetricsLineT]]:
    """Open a run folder, and truncate its metrics log to the checkpoint.

    Args:
        run_dir: Run folder, which need not exist.
        identity: Identity of the training, as for ``load_checkpoint``.
        line_type: Type of the lines of the log.
        resume: Continue from the checkpoint, if any.

    Returns:
        The checkpoint to continue from, or None to start a new training; and, in the main process,
        the lines of the log.

    Raises:
        CheckpointError: If the checkpoint is damaged or of another training.
        InputError: If the metrics log is damaged.
        OutputError: If the folder cannot be written, contains other files, or contains a training
            without ``resume``.
    """
    if is_main_process():
        check_run_folder(run_dir)
    if not resume and any((run_dir / name).exists() for name in (CHECKPOINT, WEIGHTS)):
        raise OutputError(
            run_dir,
            "contains a training. Continue with --resume, replace it with --overwrite, or choose another --out.",
        )
    path = run_dir / CHECKPOINT
    checkpoint = load_checkpoint(path, identity) if path.exists() else None
    done = checkpoint.step if checkpoint else 0
    if not is_main_process():
        return checkpoint, []
    lines = [line for line in read_metrics_log(run_dir, line_type) if line.step <= done]
    write_atomic(run_dir / METRICS, "".join(map(_to_json_line, lines)).encode())
    return checkpoint, lines


def read_metrics_log(run_dir: Path, line_type: type[MetricsLineT]) -> tuple[MetricsLineT, ...]:
    """Read the metrics log without a line truncated by a crash; empty if there is none.

    Raises:
        InputError: If a line has another format.
    """
    path = run_dir / METRICS
    if not path.is_file():
        return ()
    lines = path.read_bytes().rpartition(b"\n")[0]
    try:
        return tuple(line_type(**json.loads(line)) for line in lines.splitlines())
    except (ValueError, TypeError) as error:
        raise InputError(
            path,
            f"not a metrics log of this kind of training ({error}). Remove it and run with --resume; only "
            "earlier curves are lost.",
        ) from error


def check_run_folder(run_dir: Path) -> None:
    """Raise OutputError if a folder contains anything but a training."""
    prepare_folder(run_dir, _RUN_PATTERNS, "a training", resume=True, overwrite=False)


def clear_run_folder(run_dir: Path) -> None:
    """Remove the files of a training; raise OutputError if the folder contains other files."""
    prepare_folder(run_dir, _RUN_PATTERNS, "a training", resume=False, overwrite=True)


def _are_finite(scalars: Mapping[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(value)) for value in scalars.values())


def _to_json_line(line: MetricsLine) -> str:
    return json.dumps(asdict(line)) + "\n"
