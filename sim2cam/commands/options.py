"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from sim2cam.commands.console import Console
from sim2cam.errors import OutputError, UsageError
from sim2cam.learn.launch import is_main_process

Sessions = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="folder|MINUTES|FILE.csv:COLUMN",
        help="Which photos were taken together: those of a folder, those without a longer pause between "
        "them, or as a table with a column image says. From ten sessions on, intervals are over sessions.",
    ),
]

Overwrite = Annotated[bool, tyro.conf.arg(help="Replace files that exist.")]

Split = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="NAME[,NAME]",
        help="Which parts to read of data that has several: train, val, test, or their own names.",
    ),
]

SkipInvalid = Annotated[
    bool,
    tyro.conf.arg(help="Leave flawed annotations out with a warning instead of refusing the data."),
]

Refine = Annotated[
    Path | None,
    tyro.conf.arg(
        metavar="MESHES",
        help="Folder of the objects' meshes, as assets takes it: poses are brought to where the outlines of "
        "these fit the picture.",
    ),
]


@dataclass(frozen=True)
class OutputOptions:
    """How much is said."""

    verbose: Annotated[bool, tyro.conf.arg(aliases=["-v"])] = False
    """Say more."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """Say nothing but errors."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def make_console(self) -> Console:
        """Return the voice that these flags ask for; of several processes, only the first talks."""
        return Console(-1 if self.quiet or not is_main_process() else int(self.verbose))

    def report(self, message: str, **values: Any) -> None:
        """Say what a command made, as words and, with --json, as facts."""
        console = self.make_console()
        console.info(message)
        if self.json and is_main_process():
            console.print_json(values)


@dataclass(frozen=True)
class FolderOptions:
    """What to do with an output folder that is not empty."""

    resume: bool = False
    """Go on with what is there."""
    overwrite: bool = False
    """Remove what is there."""


def check_numbers(*, seed: int = 0, workers: int = 1, limit: int | None = None) -> None:
    """Refuse flags that no run can have.

    Raises:
        UsageError: naming the flag and its value.
    """
    if seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {seed}")
    if workers < 1:
        raise UsageError(f"--workers must be 1 or more, not {workers}")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be 1 or more, not {limit}")


def check_output_files(*paths: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse output files that exist, unless they may be replaced; an input never may.

    Raises:
        OutputError: naming the file.
    """
    read = {path.resolve() for path in inputs}
    for path in paths:
        if path.resolve() in read:
            raise OutputError(path, "is an input of this command. Choose another --out.")
        if path.is_dir():
            raise OutputError(path, "is a folder, not a file. Choose another --out.")
        if path.exists() and not overwrite:
            raise OutputError(path, "exists. Choose another name, or add --overwrite.")


def check_output_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder for results that holds something, unless files of equal names may be replaced.

    Raises:
        OutputError: it is not empty, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(folder, "is a file, not a folder. Choose another --out.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise OutputError(folder, "is not empty. Choose another --out, or add --overwrite.")


def parse_category_map(mappings: tuple[str, ...]) -> dict[str, str]:
    """Return category of captures -> category of renders, as --map names them.

    Raises:
        UsageError: a text is no such pair.
    """
    pairs = {}
    for text in mappings:
        real, equals, sim = text.partition("=")
        if not (real and equals and sim):
            raise UsageError(f"--map {text}: give REAL=SIM, the two names of a category.")
        pairs[real] = sim
    return pairs
