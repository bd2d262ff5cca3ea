"""Run folders, threads and progress of training commands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim2cam.commands.console import Console
from sim2cam.commands.options import FolderOptions, OutputOptions
from sim2cam.errors import UsageError
from sim2cam.learn.launch import get_local_world_size, is_main_process
from sim2cam.progress import Progress

if TYPE_CHECKING:
    from sim2cam.learn.tensorboard import TensorBoardLogger
    from sim2cam.learn.trainer import Callbacks

_MAX_SHOWN_LOSSES = 4


@contextmanager
def lock_run_folder(run_dir: Path, folder_options: FolderOptions) -> Iterator[None]:
    """Lock a run folder in the main process; clear it first with ``--overwrite``.

    Raises:
        OutputError: If the folder is in use, or contains other files than a run.
    """
    from sim2cam.files import lock_folder
    from sim2cam.learn.run_folder import check_run_folder, clear_run_folder

    if not is_main_process():
        yield
        return
    with lock_folder(run_dir):
        clear_run_folder(run_dir) if folder_options.overwrite else check_run_folder(run_dir)
        yield


def remove_damaged_shards(root: Path, folder_options: FolderOptions, output: OutputOptions) -> None:
    """Remove shards whose files differ from their recorded hashes, so that they are rendered again.

    Raises:
        UsageError: Without ``--resume``.
        OutputError: If the folder is in use or not writable.
    """
    from sim2cam.data.shards import remove_damaged
    from sim2cam.files import lock_folder

    if not folder_options.resume:
        raise UsageError("--verify checks shards of an earlier run. Add --resume.")
    with lock_folder(root):
        count = remove_damaged(root)
    output.make_console().info(f"{root}: damaged shards, to be rendered again: {count}")


def set_thread_budget(count: int, console: Console) -> None:
    """Divide CPU threads among the local processes; warn if they exceed the cores."""
    from sim2cam.learn.device import describe_oversubscription, use_threads

    threads = max(1, count // get_local_world_size())
    use_threads(threads)
    warning = (
        describe_oversubscription(threads * get_local_world_size()) if is_main_process() else None
    )
    if warning:
        console.info(f"warning: {warning}")


def make_callbacks(
    console: Console, label: str, tensorboard: TensorBoardLogger | None, progress: Progress
) -> Callbacks:
    """Return callbacks that show progress, losses and warnings, and log them to TensorBoard."""
    from sim2cam.learn.trainer import Callbacks

    is_warned, losses = False, ""

    def report_progress(done: int, total: int, /, detail: str = "") -> None:
        progress(done, total, losses)

    def report_line(line: Any) -> None:
        nonlocal is_warned, losses
        values: Mapping[str, float] = getattr(line, "losses", None) or line.scalars
        shown = itertools.islice(values.items(), _MAX_SHOWN_LOSSES)
        losses = ", ".join(f"{name} {value:.3g}" for name, value in shown)
        warnings = getattr(line, "warnings", ())
        if warnings and not is_warned:  # do not repeat a persistent warning
            console.info(f"warning, at step {line.step}: {' '.join(warnings)}")
        is_warned = bool(warnings)
        console.debug(f"{label}: step {line.step}, {line}")
        if tensorboard is not None:
            tensorboard.log(line)

    return Callbacks(report_line, report_progress)


def drop_unset(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
