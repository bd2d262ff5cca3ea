"""Sample images of a training: the same renders, translated after some steps."""

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
    """Write the translated centre crops of the first samples side by side.

    Args:
        run_dir: run folder of the training.
        step: training steps done.
        samples: renders, the same at each step.
        transfer: current translator; None leaves the renders as they are.
        seed: seed of the translator's noise, the same at each step.
    """
    images = []
    for index, sample in enumerate(samples[:SAMPLE_COUNT]):
        frame = crop_centre(read_frame(sample))
        rng = derive_rng(seed, "adapt/samples", scene_index=index)
        images.append(frame.rgb if transfer is None else transfer.apply(frame, rng))
    write_bytes(run_dir / _FILE_NAME.format(step=step), encode_strip(images))


def list_sample_images(run_dir: Path) -> dict[int, Path]:
    """Return the sample images of a training by step, in order; step 0 shows the renders."""
    return {
        int(path.stem.rpartition("-")[2]): path for path in sorted(run_dir.glob(SAMPLES_PATTERN))
    }


def crop_centre(frame: GBufferFrame) -> GBufferFrame:
    """Return the centre crop of a frame, at most ``SIDE_PX`` a side."""
    rows, columns = (
        slice(start, start + SIDE_PX)
        for start in (max(0, (side - SIDE_PX) // 2) for side in frame.rgb.shape[:2])
    )
    crops: dict[str, Any] = {
        name: np.ascontiguousarray(value[rows, columns])
        for name, value in vars(frame).items()
        if isinstance(value, np.ndarray)
    }
    return replace(frame, **crops)


def encode_strip(images: Sequence[NDArray[np.uint8]]) -> bytes:
    """Encode images (h, w, 3) side by side as a JPEG, cropped to the height of the lowest."""
    height = min(image.shape[0] for image in images)
    return encode_jpeg(np.hstack([image[:height] for image in images]), _JPEG_QUALITY)
