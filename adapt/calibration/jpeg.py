"""JPEG: the quality and the samples of colour that a file tells, or pixels that were such a file once."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn
from scipy.ndimage import maximum_filter

from sim2cam import images
from sim2cam.images import ImageHeader
from sim2cam.scene.sensor import Subsampling

Floats = NDArray[np.float64]

_BLOCK_PX = 8
_WINDOW_PX = 512  # side of the part of a picture that is looked at
_MIN_COEFFICIENT = 1.5  # levels below which coefficients tell nothing: any step has a zero
_CANDIDATE_STEPS = np.arange(3.0, 128.0)  # levels; finer ones are lost when pixels are rounded
_ROUNDING_STD = 0.45
"""Standard deviation, in levels, that rounding pixels gives to coefficients, measured."""
_OUTLIER_SHARE = 0.05  # share of coefficients that were no multiples, as where blocks were clipped
_MIN_COEFFICIENTS = 40
_MIN_STEPS = 4
_MIN_LIKELIHOOD_GAIN = 0.1  # of the log-likelihood, by coefficient
_CLIPPED_PX = 7  # square around what is black or white, where colours are not what they were
_RESIDUAL_QUANTILE = 0.999
_MAX_SUBSAMPLED_RESIDUAL, _MIN_FULL_RESIDUAL = 1.0, 3.4
"""Levels of colour: what was spread over two pixels stays below the first (0.8 at most in real photos), and
where half as many samples stay below the second, full ones may stay below the first too."""
_CB_WEIGHTS = np.array([-0.168736, -0.331264, 0.5])
_CR_WEIGHTS = np.array([0.5, -0.418688, -0.081312])


@dataclass(frozen=True)
class JpegEncoding:
    """As which JPEG a picture is stored, or was.

    Attributes:
        quality: 1 to 100, of our encoder.
        subsampling: of colour; None where that is not told, or is none of these.
        is_from_pixels: whether the file is none, and its pixels alone tell.
    """

    quality: int
    subsampling: Subsampling | None
    is_from_pixels: bool = False


def read_jpeg_encoding(header: ImageHeader) -> JpegEncoding | None:
    """Return what a file's tables tell; None of a file that is no JPEG."""
    quality = estimate_jpeg_quality(header)
    return None if quality is None else JpegEncoding(quality, header.subsampling)


def estimate_jpeg_quality(header: ImageHeader) -> int | None:
    """Return the quality, 1 to 100, at which our encoder's tables are nearest; None without tables.

    Cameras have tables of their own; nearest is by the mean ratio of the steps for brightness.
    """
    if not header.quantization:
        return None
    own = np.maximum(np.array(header.quantization[0], np.float64), 1)
    return _find_nearest_quality(own, np.arange(own.size))


def _find_nearest_quality(steps: Floats, coefficient_indices: NDArray[np.intp]) -> int:
    """Return the quality at which our encoder's steps for brightness, in some places, are nearest."""
    ratios = np.log(_compute_quantization_tables()[:, coefficient_indices]) - np.log(steps)
    return int(np.abs(ratios).mean(axis=1).argmin()) + 1


def estimate_jpeg_encoding(rgb: NDArray[np.uint8]) -> JpegEncoding | None:
    """Return as which JPEG pixels were stored before they came into a file that is none.

    Coefficients of blocks lie near multiples of the step that they were stored in (Fan and de Queiroz
    2003), and of each the likeliest is taken. None of pixels that were never a JPEG, that were cropped,
    scaled or changed since, or whose steps were finer than rounding.

    Args:
        rgb: (h, w, 3).
    """
    window = rgb[:_WINDOW_PX, :_WINDOW_PX].astype(np.float64)
    is_clipped = np.asarray(((window <= 0) | (window >= 255)).any(axis=2))
    blocks = _split_blocks(window @ np.array(images.LUMA_WEIGHTS))[
        ~_split_blocks(is_clipped).any(axis=(1, 2))
    ]
    found = dctn(blocks, axes=(1, 2), norm="ortho").reshape(-1, _BLOCK_PX**2)[:, 1:].T
    steps = np.array([_estimate_step(values) for values in found])
    known = np.isfinite(steps)
    if known.sum() < _MIN_STEPS:
        return None
    quality = _find_nearest_quality(steps[known], np.flatnonzero(known) + 1)
    return JpegEncoding(quality, _estimate_subsampling(window, is_clipped), is_from_pixels=True)


def _estimate_step(coefficients: Floats) -> float:
    """Return the step of which coefficients (n,) are multiples; NaN where they are of none."""
    clear = coefficients[np.abs(coefficients) > _MIN_COEFFICIENT]
    if len(clear) < _MIN_COEFFICIENTS:
        return np.nan
    gains = [_compute_likelihood_gain(clear, step) for step in _CANDIDATE_STEPS]
    return (
        float(_CANDIDATE_STEPS[np.argmax(gains)])
        if max(gains) > _MIN_LIKELIHOOD_GAIN * len(clear)
        else np.nan
    )


def _estimate_subsampling(window: Floats, is_clipped: NDArray[np.bool_]) -> Subsampling | None:
    """Return the samples of colour that pixels (h, w, 3) were stored with; None where colours are too even
    to tell.
    """
    near = maximum_filter(is_clipped, _CLIPPED_PX)
    colors = [np.where(near, np.nan, window @ axis) for axis in (_CB_WEIGHTS, _CR_WEIGHTS)]
    if max(_compute_upsampling_residual(color, 1) for color in colors) > _MAX_SUBSAMPLED_RESIDUAL:
        return "444"
    if max(_compute_upsampling_residual(color, 0) for color in colors) > _MAX_SUBSAMPLED_RESIDUAL:
        return "422"
    halves = [_downsample_chroma(_downsample_chroma(color, 1), 0) for color in colors]
    clear = max(_compute_upsampling_residual(half, axis) for half in halves for axis in (0, 1))
    return "420" if clear > _MIN_FULL_RESIDUAL else None


def _compute_upsampling_residual(plane: Floats, axis: int) -> float:
    """Return how far the levels of a plane (h, w) lie, all but a few, from what half as many samples give."""
    lines = np.moveaxis(plane, axis, 0)
    lines = lines[: len(lines) // 2 * 2]
    samples = _downsample_chroma(lines, 0)
    ends = np.concatenate([samples[:1], samples, samples[-1:]])
    off = np.concatenate(
        [lines[0::2] - (3 * samples + ends[:-2]) / 4, lines[1::2] - (3 * samples + ends[2:]) / 4]
    )
    known = np.abs(off[np.isfinite(off)])
    return float(np.quantile(known, _RESIDUAL_QUANTILE)) if known.size else 0.0


def _downsample_chroma(plane: Floats, axis: int) -> Floats:
    """Return the samples that stood for two pixels each: decoders spread them by 3/4 and 1/4."""
    lines = np.moveaxis(plane, axis, 0)
    lines = lines[: len(lines) // 2 * 2]
    ends = np.concatenate([lines[:1], lines, lines[-1:]])
    before, first, second, after = ends[:-2:2], ends[1:-1:2], ends[2::2], ends[3::2]
    return np.moveaxis((3 * first - before + 3 * second - after) / 4, 0, axis)


def _compute_likelihood_gain(coefficients: Floats, step: float) -> float:
    """Return the gain of the log-likelihood when values are multiples of a step, rounded, and not anything."""
    times = np.round(coefficients / step)
    off = (coefficients - step * times) / _ROUNDING_STD
    density = step / _ROUNDING_STD / np.sqrt(2 * np.pi) * np.exp(-(off**2) / 2) * (times != 0)
    return float(np.log(_OUTLIER_SHARE + (1 - _OUTLIER_SHARE) * density).sum())


def _split_blocks(plane: NDArray[Any]) -> NDArray[Any]:
    """Return the whole blocks (n, 8, 8) of a plane (h, w)."""
    rows, columns = (side // _BLOCK_PX for side in plane.shape)
    whole = plane[: rows * _BLOCK_PX, : columns * _BLOCK_PX]
    return whole.reshape(rows, _BLOCK_PX, columns, _BLOCK_PX).swapaxes(1, 2).reshape(-1, 8, 8)


@cache
def _compute_quantization_tables() -> Floats:
    """Return our encoder's steps (100, 64) for brightness, by quality."""
    black = np.zeros((8, 8, 3), np.uint8)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "black.jpg")
        for quality in range(1, 101):
            path.write_bytes(images.encode_jpeg(black, quality))
            found.append(images.read_header(path).quantization[0])
    return np.array(found, dtype=np.float64)
