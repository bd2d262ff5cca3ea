"""What commands that train or look at captures have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim2cam.commands.console import Console
from sim2cam.commands.options import FolderOptions, OutputOptions
from sim2cam.errors import UsageError
from sim2cam.learn.launch import get_local_world_size, is_main_process

if TYPE_CHECKING:
    from sim2cam.learn.tensorboard import TensorBoardLogger


@contextmanager
def lock_run_folder(run_dir: Path, folder_options: FolderOptions) -> Iterator[None]:
    """Hold the lock of a run folder; empty it first with ``--overwrite``.

    Of several processes the first does; the others use the folder once they are ``joined``.

    Raises:
        OutputError: the folder is in use, or holds anything but a training.
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
    """Remove shards whose files have other hashes than recorded, so that they are made anew.

    Raises:
        UsageError: the run is not resumed.
        OutputError: the folder is in use, or cannot be written.
    """
    from sim2cam.data.shards import remove_damaged
    from sim2cam.files import lock_folder

    if not folder_options.resume:
        raise UsageError("--verify compares what an earlier run finished. Add --resume.")
    with lock_folder(root):
        count = remove_damaged(root)
    output.make_console().info(f"{root}: damaged shards that are made anew: {count}")


def set_thread_budget(count: int, console: Console) -> None:
    """Take so many threads, all processes here together, and warns where they would wait for one another."""
    from sim2cam.learn.device import describe_oversubscription, use_threads

    each = max(1, count // get_local_world_size())
    use_threads(each)
    crowded = (
        describe_oversubscription(each * get_local_world_size()) if is_main_process() else None
    )
    if crowded:
        console.info(f"warning: {crowded}")


def make_step_callback(
    console: Console, label: str, tensorboard: TensorBoardLogger | None
) -> Callable[[Any], None]:
    """Return a callback for the training's lines; it shows steps, loss and warnings, also on a board."""
    counter, is_warned = console.start_progress(label), False

    def report_step(line: Any) -> None:
        nonlocal is_warned
        counter(line.step, line.steps)
        warnings = getattr(line, "warnings", ())
        if warnings and not is_warned:  # once, not at every line until it is mended
            console.info(f"warning, at step {line.step}: {' '.join(warnings)}")
        is_warned = bool(warnings)
        console.debug(f"{label}: step {line.step}, {line}")
        if tensorboard is not None:
            tensorboard.log(line)

    return report_step


def drop_unset(**values: Any) -> dict[str, Any]:
    """Return the flags that are not None, by name."""
    return {name: value for name, value in values.items() if value is not None}
