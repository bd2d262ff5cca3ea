"""The best transfer of a ladder: chosen once, without a label, and kept beside its data sets."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from sim2cam.adapt.store import METHODS, load_transfer
from sim2cam.adapt.transfers.selection import Choice, choose_transfer
from sim2cam.data.parsing import first_problem, read_json
from sim2cam.data.real_images import CaptureSets
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.metrics.two_sample import LEAST_PICTURES
from sim2cam.pipeline.translation import Certification, fit_plain_transfer, jury_of

_MOST_BYTES = 1_000_000
_CHOICE: TypeAdapter[Choice] = TypeAdapter(Choice)


def best_transfer(
    path: Path,
    transfers: Path,
    renders: Dataset,
    captures: CaptureSets,
    *,
    certification: Certification,
    seed: int,
) -> Choice:
    """Returns the transfer that comes nearest to the captures; as it was chosen, where it was.

    All are fitted to the style captures. They are held against the development captures, which none was fitted
    to, or where these are too few against the style captures.

    Args:
        path: file of the choice.
        transfers: folder of the fitted ones, by their names.
        renders: what is translated.
        captures: the splits.
        certification: what translations have to pass.
        seed: of the draws.

    Raises:
        InputError: a picture cannot be read, or there are too few style captures.
        OutputError: nothing can be written.
    """
    if path.is_file():
        return read_choice(path)
    for method in METHODS:
        if not (transfers / method).is_dir():
            fit_plain_transfer(captures.style, method, transfers / method, overwrite=False)
    dev = () if captures.dev is None else captures.dev.samples
    judged, part = (
        (dev, "development") if len(dev) >= LEAST_PICTURES else (captures.style.samples, "style")
    )
    choice = choose_transfer(
        {method: load_transfer(transfers / method) for method in METHODS},
        renders,
        judged,
        part,
        jury=jury_of(certification, "cpu"),
        seed=seed,
    )
    write_json(path, choice.to_json())
    return choice


def read_choice(path: Path) -> Choice:
    """Returns what was chosen.

    Raises:
        InputError: the file is missing or broken.
    """
    try:
        return _CHOICE.validate_python(read_json(path, _MOST_BYTES, "choice of a transfer"))
    except ValidationError as error:
        raise InputError(path, f"{first_problem(error)}. Remove it to choose again.") from error
