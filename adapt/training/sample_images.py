"""What becomes of the same few renders while a training goes on, as pictures to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import GBufferFrame, Transfer, read_frame
from sim2cam.data.sample import Sample
from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg
from sim2cam.learn.run_folder import SAMPLES_PATTERN
from sim2cam.seeds import derive_rng

SAMPLE_COUNT = 4
SIDE_PX = 256
_JPEG_QUALITY = 90
_FILE_NAME = SAMPLES_PATTERN.replace("*", "{step:06d}")


def write_sample_images(
    run_dir: Path, step: int, samples: Sequence[Sample], transfer: Transfer | None, seed: int
) -> None:
    """Write the middle parts of the first samples, translated, side by side.

    Args:
        run_dir: of the training.
        step: after which it is.
        samples: renders, the same each time.
        transfer: what translates; None leaves them as they are.
        seed: of what is drawn, the same each time.

    Raises:
        InputError: a file of a sample is missing or broken.
        OutputError: the folder cannot be written.
    """
    shown = []
    for index, sample in enumerate(samples[:SAMPLE_COUNT]):
        frame = crop_centre(read_frame(sample))
        rng = derive_rng(seed, "adapt/samples", scene_index=index)
        shown.append(frame.rgb if transfer is None else transfer.apply(frame, rng))
    write_bytes(run_dir / _FILE_NAME.format(step=step), encode_strip(shown))


def list_sample_images(run_dir: Path) -> dict[int, Path]:
    """Return the pictures of a training by their steps, in order; 0 is before it."""
    return {
        int(path.stem.rpartition("-")[2]): path for path in sorted(run_dir.glob(SAMPLES_PATTERN))
    }


def crop_centre(frame: GBufferFrame) -> GBufferFrame:
    """Return the middle ``WIDTH_PX`` of a frame, all of it where it is smaller."""
    rows, columns = (
        slice(start, start + SIDE_PX)
        for start in (max(0, (side - SIDE_PX) // 2) for side in frame.rgb.shape[:2])
    )
    cut: dict[str, Any] = {
        name: np.ascontiguousarray(value[rows, columns])
        for name, value in vars(frame).items()
        if isinstance(value, np.ndarray)
    }
    return replace(frame, **cut)


def encode_strip(images: Sequence[NDArray[np.uint8]]) -> bytes:
    """Return the JPEG file of pictures (h, w, 3) side by side, as high as the lowest of them."""
    height = min(picture.shape[0] for picture in images)
    return encode_jpeg(np.hstack([picture[:height] for picture in images]), _JPEG_QUALITY)
