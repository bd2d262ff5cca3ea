"""Curves of a training for TensorBoard, beside its record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sim2cam.errors import UsageError
from sim2cam.learn.run_folder import MetricsLine


class TensorBoardLogger:
    """Takes lines of a record and writes their numbers as TensorBoard's events, into the run's folder.

    Args:
        run_dir: the training's folder.

    Raises:
        UsageError: the extra ``tensorboard`` is not installed.
    """

    def __init__(self, run_dir: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UsageError(
                '--tensorboard needs an extra. Run: pip install "sim2cam[tensorboard]".'
            ) from error
        self._writer_class = SummaryWriter
        self._run_dir = run_dir
        self._writer: Any = None

    def log(self, line: MetricsLine) -> None:
        """Write a line; what was told before of its step and later ones is void."""
        if self._writer is None:  # a resumed training goes on from before where it was stopped
            self._writer = self._writer_class(str(self._run_dir), purge_step=line.step)
        for name, value in _flatten_scalars(asdict(line)):
            self._writer.add_scalar(name, value, line.step)
        self._writer.flush()


def _flatten_scalars(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield what TensorBoard calls each number, and it."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flatten_scalars(value, f"{name}/")
        elif isinstance(value, float):
            yield f"{prefix}{name}", value
