"""What commands that train or look at captures have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim2cam.cli.console import Console
from sim2cam.cli.options import Folder
from sim2cam.training.launch import is_first, processes_here

if TYPE_CHECKING:
    from sim2cam.training.board import Board


def clear_run(run_dir: Path, folder: Folder) -> None:
    """Empties a run folder where that was asked for; one that holds anything else is refused."""
    from sim2cam.training.run import remove_run

    if folder.overwrite and is_first():  # the others look at it once they are ``joined``
        remove_run(run_dir)


def take_threads(count: int, console: Console) -> None:
    """Takes so many threads, all processes here together, and warns where they would wait for one another."""
    from sim2cam.training.device import crowding, use_threads

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
