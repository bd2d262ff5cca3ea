"""Best parameter-free transfer of an ablation study, selected once without labels and stored."""

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
from sim2cam.pipeline.translation import (
    Certification,
    build_verification,
    fit_parameter_free_transfer,
)

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
    """Return the transfer whose translations are nearest to real images.

    All transfers are fitted to the style images and compared on the development images, or on the
    style images if there are too few development images. A stored selection is returned unchanged.

    Raises:
        InputError: if an image cannot be read, or there are too few style images.
        OutputError: if a file cannot be written.
    """
    if path.is_file():
        return read_transfer_choice(path)
    for method in TRANSFER_TYPES:
        if not (transfers_dir / method).is_dir():
            fit_parameter_free_transfer(
                captures.style, method, transfers_dir / method, overwrite=False
            )
    dev = () if captures.dev is None else captures.dev.samples
    reference, split = (
        (dev, "development") if len(dev) >= MIN_IMAGES else (captures.style.samples, "style")
    )
    selection = select_transfer(
        {method: load_transfer(transfers_dir / method) for method in TRANSFER_TYPES},
        renders,
        reference,
        split,
        verification=build_verification(certification, "cpu"),
        seed=seed,
    )
    write_json(path, selection.to_json())
    return selection


def read_transfer_choice(path: Path) -> TransferSelection:
    """Return the stored selection.

    Raises:
        InputError: if the file is missing or broken.
    """
    try:
        return _CHOICE_ADAPTER.validate_python(
            read_json(path, _MAX_BYTES, "selection of a transfer")
        )
    except ValidationError as error:
        raise InputError(
            path, f"{format_validation_error(error)}. Remove the file to select again."
        ) from error
