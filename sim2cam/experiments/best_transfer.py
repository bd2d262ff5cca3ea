"""The best transfer of a ladder: chosen once, without a label, and kept beside its data sets."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from sim2cam.adapt.store import TRANSFER_TYPES, load_transfer
from sim2cam.adapt.transfers.selection import TransferSelection, select_transfer
from sim2cam.data.parsing import format_validation_error, read_json
from sim2cam.data.real_images import RealImageSplits
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.metrics.two_sample import MIN_IMAGES
from sim2cam.pipeline.translation import Certification, build_verification, fit_plain_transfer

_MAX_BYTES = 1_000_000
_CHOICE_ADAPTER: TypeAdapter[TransferSelection] = TypeAdapter(TransferSelection)


def select_best_transfer(
    path: Path,
    transfers_dir: Path,
    renders: Dataset,
    captures: RealImageSplits,
    *,
    certification: Certification,
    seed: int,
) -> TransferSelection:
    """Return the transfer that comes nearest to the captures; as it was chosen, where it was.

    All are fitted to the style captures. They are held against the development captures, which none was fitted
    to, or where these are too few against the style captures.

    Args:
        path: file of the choice.
        transfers_dir: folder of the fitted ones, by their names.
        renders: what is translated.
        captures: the splits.
        certification: what translations have to pass.
        seed: of the draws.

    Raises:
        InputError: a picture cannot be read, or there are too few style captures.
        OutputError: nothing can be written.
    """
    if path.is_file():
        return read_transfer_choice(path)
    for method in TRANSFER_TYPES:
        if not (transfers_dir / method).is_dir():
            fit_plain_transfer(captures.style, method, transfers_dir / method, overwrite=False)
    dev = () if captures.dev is None else captures.dev.samples
    judged, part = (
        (dev, "development") if len(dev) >= MIN_IMAGES else (captures.style.samples, "style")
    )
    choice = select_transfer(
        {method: load_transfer(transfers_dir / method) for method in TRANSFER_TYPES},
        renders,
        judged,
        part,
        verification=build_verification(certification, "cpu"),
        seed=seed,
    )
    write_json(path, choice.to_json())
    return choice


def read_transfer_choice(path: Path) -> TransferSelection:
    """Return what was chosen.

    Raises:
        InputError: the file is missing or broken.
    """
    try:
        return _CHOICE_ADAPTER.validate_python(read_json(path, _MAX_BYTES, "choice of a transfer"))
    except ValidationError as error:
        raise InputError(
            path, f"{format_validation_error(error)}. Remove it to choose again."
        ) from error
