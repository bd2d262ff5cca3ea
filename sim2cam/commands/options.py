"""Flags shared by several commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from sim2cam.commands.console import Console
from sim2cam.errors import InputError, OutputError, UsageError
from sim2cam.learn.launch import is_main_process

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """Spelling of an option on the command line; type, default and help text are those of the field.

    Attributes:
        metavar: Placeholder of the value; default: from the type.
        name: Name, if it is not that of the field.
        short: Short flag, such as ``-v``.
        help: Help text, if the field has no docstring.
    """

    metavar: str | None = None
    name: str | None = None
    short: str | None = None
    help: str | None = None


class Argument(Option):
    """Option that is given by position, without a flag."""


MAX_INPUT_SCALE = 8.0

RARE = "rare"
Rare = Annotated[T, RARE]
"""Type of an option that only ``--help-all`` lists."""

Sessions = Rare[
    Annotated[
        str | None,
        Option(
            "RULE",
            help="Group photos into capture sessions: folder, pauses longer than MINUTES, or the "
            "COLUMN of a table with a column image (FILE.csv:COLUMN). With ten or more sessions, "
            "intervals are over sessions.",
        ),
    ]
]

Overwrite = Annotated[bool, Option(help="Replace existing files.")]

Split = Rare[
    Annotated[
        str | None,
        Option("NAME[,NAME]", help="Splits to read: train, val, test, or their original names."),
    ]
]

SkipInvalid = Rare[
    Annotated[bool, Option(help="Skip invalid annotations with a warning instead of failing.")]
]

Refine = Rare[
    Annotated[
        Path | None,
        Option(
            "MESHES",
            help="Refine poses by contours of the object meshes in this folder (see assets).",
        ),
    ]
]

InputScale = Rare[
    Annotated[
        float | None, Option("SCALE", help="Input scale; default: that of the weights (see tune).")
    ]
]

MultiScale = Rare[
    Annotated[
        bool,
        Option(
            help="Also predict at 0.75 and 1.25 times the input scale and merge all detections: "
            "about three times as slow."
        ),
    ]
]

Seed = Rare[Annotated[int, Option(help="Random seed.")]]

Limit = Annotated[int | None, Option(help="Read at most this many images.")]

Device = Annotated[str, Option(help="Device: cpu, cuda or cuda:0.")]

Workers = Annotated[int, Option(help="Number of processes; default: one per core.")]

Threads = Rare[Annotated[int, Option(help="Number of CPU threads; default: one per core.")]]

CategoryMap = Annotated[
    tuple[str, ...],
    Option("REAL=SIM", help="Category names of real images and their names in renders."),
]


@dataclass(frozen=True)
class OutputOptions:
    """Output options."""

    verbose: Annotated[bool, Option(short="-v")] = False
    """Print details."""
    quiet: Annotated[bool, Option(short="-q")] = False
    """Print errors only."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def make_console(self) -> Console:
        """Return a console of the chosen verbosity; only the main process prints."""
        return Console(-1 if self.quiet or not is_main_process() else int(self.verbose))


@dataclass(frozen=True)
class FolderOptions:
    """Options for an output folder that is not empty."""

    resume: bool = False
    """Continue an earlier run."""
    overwrite: bool = False
    """Remove an earlier run."""


def check_numbers(
    *,
    seed: int = 0,
    workers: int = 1,
    limit: int | None = None,
    input_scale: float | None = None,
) -> None:
    """Raise UsageError if a numeric flag is out of range."""
    if seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {seed}")
    if workers < 1:
        raise UsageError(f"--workers must be 1 or more, not {workers}")
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be 1 or more, not {limit}")
    if input_scale is not None and not 1 / MAX_INPUT_SCALE <= input_scale <= MAX_INPUT_SCALE:
        raise UsageError(
            f"--input-scale must be {1 / MAX_INPUT_SCALE:g} to {MAX_INPUT_SCALE:g}, not {input_scale:g}"
        )


def check_inputs(
    *paths: Path | None, recipe: str | None = None, weights: Path | None = None
) -> None:
    """Raise an error if an input does not exist, before heavy libraries are imported.

    Args:
        paths: Files and folders; None for one that is not given.
        recipe: Shipped name or file of a recipe.
        weights: Shipped name or file of weights.

    Raises:
        UsageError: If no recipe or weights ship under a name.
        InputError: If a file does not exist.
    """
    from sim2cam.models.shipped_weights import resolve_weights
    from sim2cam.pipeline.recipe_files import find_recipe

    if recipe is not None:
        find_recipe(recipe)
    for path in (*paths, None if weights is None else resolve_weights(weights)):
        if path is not None and not _exists(path):
            raise InputError(path, "no such file or folder. Check the path.")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such as a name that is too long
        return False


def check_output_files(*paths: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Raise OutputError if an output file exists without ``overwrite``, is a folder or an input."""
    input_paths = {path.resolve() for path in inputs}
    for path in paths:
        if path.resolve() in input_paths:
            raise OutputError(path, "is an input of this command. Choose another --out.")
        if path.is_dir():
            raise OutputError(path, "is a folder, not a file. Choose another --out.")
        if path.exists() and not overwrite:
            raise OutputError(path, "exists. Choose another name, or add --overwrite.")


def check_output_folder(folder: Path, *, overwrite: bool) -> None:
    """Raise OutputError if an output folder is a file, or is not empty without ``overwrite``."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(folder, "is a file, not a folder. Choose another --out.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise OutputError(folder, "is not empty. Choose another --out, or add --overwrite.")


def parse_category_map(mappings: tuple[str, ...]) -> dict[str, str]:
    """Parse ``--map`` into a mapping from categories of real images to categories of renders.

    Raises:
        UsageError: If a text is not REAL=SIM.
    """
    pairs = {}
    for text in mappings:
        real, equals, sim = text.partition("=")
        if not (real and equals and sim):
            raise UsageError(f"--map {text}: give two category names as REAL=SIM.")
        pairs[real] = sim
    return pairs
