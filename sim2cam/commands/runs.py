"""What commands that train or look at captures have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim2cam.commands.console import Console
from sim2cam.commands.options import Folder, Talk
from sim2cam.errors import UsageError
from sim2cam.learn.launch import is_first, processes_here

if TYPE_CHECKING:
    from sim2cam.learn.tensorboard import Board


@contextmanager
def run_folder(run_dir: Path, folder: Folder) -> Iterator[None]:
    """Hold the lock of a run folder; empty it first with ``--overwrite``.

    Of several processes the first does; the others use the folder once they are ``joined``.

    Raises:
        OutputError: the folder is in use, or holds anything but a training.
    """
    from sim2cam.files import locked
    from sim2cam.learn.run_folder import check_run, remove_run

    if not is_first():
        yield
        return
    with locked(run_dir):
        remove_run(run_dir) if folder.overwrite else check_run(run_dir)
        yield


def remove_damaged_shards(root: Path, folder: Folder, talk: Talk) -> None:
    """Remove shards whose files have other hashes than recorded, so that they are made anew.

    Raises:
        UsageError: the run is not resumed.
        OutputError: the folder is in use, or cannot be written.
    """
    from sim2cam.data.shards import remove_damaged
    from sim2cam.files import locked

    if not folder.resume:
        raise UsageError("--verify compares what an earlier run finished. Add --resume.")
    with locked(root):
        count = remove_damaged(root)
    talk.console().say(f"{root}: damaged shards that are made anew: {count}")


def take_threads(count: int, console: Console) -> None:
    """Takes so many threads, all processes here together, and warns where they would wait for one another."""
    from sim2cam.learn.device import crowding, use_threads

    each = max(1, count // processes_here())
    use_threads(each)
    crowded = crowding(each * processes_here()) if is_first() else None
    if crowded:
        console.say(f"warning: {crowded}")


def steps_told(console: Console, what: str, board: Board | None) -> Callable[[Any], None]:
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


def given(**values: Any) -> dict[str, Any]:
    """Returns the flags that are not None, by name."""
    return {name: value for name, value in values.items() if value is not None}
