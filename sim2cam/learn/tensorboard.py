"""TensorBoard logs of trainings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sim2cam.errors import UsageError
from sim2cam.learn.run_folder import MetricsLine


class TensorBoardLogger:
    """Writer of TensorBoard events to a run folder.

    Args:
        run_dir: Run folder.

    Raises:
        UsageError: If the extra ``tensorboard`` is not installed.
    """

    def __init__(self, run_dir: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UsageError(
                '--tensorboard requires an extra. Run: pip install "sim2cam[tensorboard]".'
            ) from error
        self._writer_class = SummaryWriter
        self._run_dir = run_dir
        self._writer: Any = None

    def log(self, line: MetricsLine) -> None:
        """Write the numbers of a line of the metrics log."""
        if self._writer is None:  # purge events after the checkpoint of a resumed training
            self._writer = self._writer_class(str(self._run_dir), purge_step=line.step)
        for name, value in _flatten_scalars(asdict(line)):
            self._writer.add_scalar(name, value, line.step)
        self._writer.flush()


def _flatten_scalars(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield tag and value of each number."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flatten_scalars(value, f"{name}/")
        elif isinstance(value, float):
            yield f"{prefix}{name}", value
