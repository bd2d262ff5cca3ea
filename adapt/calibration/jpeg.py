"""JPEG quality and chroma subsampling from file headers or from decoded pixels."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn
from scipy.ndimage import maximum_filter

from sim2cam import images
from sim2cam.adapt.calibration.noise import split_tiles
from sim2cam.images import ImageHeader
from sim2cam.scene.sensor import Subsampling

Floats = NDArray[np.float64]

_BLOCK_PX = 8
_WINDOW_PX = 512  # side of the analysed part of an image
_MIN_COEFFICIENT = 1.5  # levels; smaller ones are zero for many steps
_CANDIDATE_STEPS = np.arange(3.0, 128.0)  # levels; finer steps are lost in rounding
_ROUNDING_STD = 0.45
"""Standard deviation of coefficients due to rounded pixels, levels, measured."""
_OUTLIER_SHARE = 0.05  # of coefficients, as in clipped blocks
_MIN_COEFFICIENTS = 40
_MIN_STEPS = 4
_MIN_LIKELIHOOD_GAIN = 0.1  # of the log-likelihood per coefficient
_CLIPPED_PX = 7  # square around clipped pixels, whose colours changed
_RESIDUAL_QUANTILE = 0.999
_MAX_SUBSAMPLED_RESIDUAL, _MIN_FULL_RESIDUAL = 1.0, 3.4
"""Chroma levels: upsampled chroma stays below the first (at most 0.8 in real photos). If the halved
chroma stays below the second, full chroma could stay below the first too."""
_CB_WEIGHTS = np.array([-0.168736, -0.331264, 0.5])
_CR_WEIGHTS = np.array([0.5, -0.418688, -0.081312])


@dataclass(frozen=True)
class JpegEncoding:
    """Current or former JPEG encoding of an image.

    Attributes:
        quality: 1 to 100, of the encoder of this project.
        subsampling: chroma subsampling; None if unknown or another one.
        is_from_pixels: whether it is estimated from the pixels of a file that is not JPEG.
    """

    quality: int
    subsampling: Subsampling | None
    is_from_pixels: bool = False


def read_jpeg_encoding(header: ImageHeader) -> JpegEncoding | None:
    """Return the encoding from the tables of a file; None for other formats."""
    quality = estimate_jpeg_quality(header)
    return None if quality is None else JpegEncoding(quality, header.subsampling)


def estimate_jpeg_quality(header: ImageHeader) -> int | None:
    """Return the quality, 1 to 100, with the most similar quantization table; None without tables.

    Cameras use their own tables; similarity is the mean log ratio of luma steps.
    """
    if not header.quantization:
        return None
    steps = np.maximum(np.array(header.quantization[0], np.float64), 1)
    return _find_nearest_quality(steps, np.arange(steps.size))


def _find_nearest_quality(steps: Floats, coefficient_indices: NDArray[np.intp]) -> int:
    """Return the quality with the most similar luma steps at some coefficients."""
    ratios = np.log(_compute_quantization_tables()[:, coefficient_indices]) - np.log(steps)
    return int(np.abs(ratios).mean(axis=1).argmin()) + 1


def estimate_jpeg_encoding(rgb: NDArray[np.uint8]) -> JpegEncoding | None:
    """Estimate the former JPEG encoding of pixels from a file that is not JPEG.

    DCT coefficients lie near multiples of their quantization step (Fan and de Queiroz 2003); the
    most likely step is selected for each. None for pixels that were never JPEG, that were cropped,
    scaled or edited since, or with steps finer than rounding.

    Args:
        rgb: (h, w, 3) levels.
    """
    window = rgb[:_WINDOW_PX, :_WINDOW_PX].astype(np.float64)
    is_clipped = np.asarray(((window <= 0) | (window >= 255)).any(axis=2))
    blocks = split_tiles(window @ np.array(images.LUMA_WEIGHTS), _BLOCK_PX)[
        ~split_tiles(is_clipped, _BLOCK_PX).any(axis=(1, 2))
    ]
    coefficients = dctn(blocks, axes=(1, 2), norm="ortho").reshape(-1, _BLOCK_PX**2)[:, 1:].T
    steps = np.array([_estimate_step(values) for values in coefficients])
    is_known = np.isfinite(steps)
    if is_known.sum() < _MIN_STEPS:
        return None
    quality = _find_nearest_quality(steps[is_known], np.flatnonzero(is_known) + 1)
    return JpegEncoding(quality, _estimate_subsampling(window, is_clipped), is_from_pixels=True)


def _estimate_step(coefficients: Floats) -> float:
    """Return the quantization step of coefficients (n,); NaN if they are not quantized."""
    nonzero = coefficients[np.abs(coefficients) > _MIN_COEFFICIENT]
    if len(nonzero) < _MIN_COEFFICIENTS:
        return np.nan
    gains = [_compute_likelihood_gain(nonzero, step) for step in _CANDIDATE_STEPS]
    return (
        float(_CANDIDATE_STEPS[np.argmax(gains)])
        if max(gains) > _MIN_LIKELIHOOD_GAIN * len(nonzero)
        else np.nan
    )


def _estimate_subsampling(window: Floats, is_clipped: NDArray[np.bool_]) -> Subsampling | None:
    """Return the chroma subsampling of pixels (h, w, 3); None if colours are too uniform."""
    is_near_clipped = maximum_filter(is_clipped, _CLIPPED_PX)
    colors = [
        np.where(is_near_clipped, np.nan, window @ weights)
        for weights in (_CB_WEIGHTS, _CR_WEIGHTS)
    ]
    if max(_compute_upsampling_residual(color, 1) for color in colors) > _MAX_SUBSAMPLED_RESIDUAL:
        return "444"
    if max(_compute_upsampling_residual(color, 0) for color in colors) > _MAX_SUBSAMPLED_RESIDUAL:
        return "422"
    halves = [_downsample_chroma(_downsample_chroma(color, 1), 0) for color in colors]
    residual = max(_compute_upsampling_residual(half, axis) for half in halves for axis in (0, 1))
    return "420" if residual > _MIN_FULL_RESIDUAL else None


def _compute_upsampling_residual(plane: Floats, axis: int) -> float:
    """Return a high quantile of the error of a plane (h, w) against upsampled half resolution."""
    lines = np.moveaxis(plane, axis, 0)
    lines = lines[: len(lines) // 2 * 2]
    samples = _downsample_chroma(lines, 0)
    padded = np.concatenate([samples[:1], samples, samples[-1:]])
    errors = np.concatenate(
        [
            lines[0::2] - (3 * samples + padded[:-2]) / 4,
            lines[1::2] - (3 * samples + padded[2:]) / 4,
        ]
    )
    finite_errors = np.abs(errors[np.isfinite(errors)])
    return float(np.quantile(finite_errors, _RESIDUAL_QUANTILE)) if finite_errors.size else 0.0


def _downsample_chroma(plane: Floats, axis: int) -> Floats:
    """Return the samples that decoders upsample to pairs of pixels with weights 3/4 and 1/4."""
    lines = np.moveaxis(plane, axis, 0)
    lines = lines[: len(lines) // 2 * 2]
    padded = np.concatenate([lines[:1], lines, lines[-1:]])
    before, first, second, after = padded[:-2:2], padded[1:-1:2], padded[2::2], padded[3::2]
    return np.moveaxis((3 * first - before + 3 * second - after) / 4, 0, axis)


def _compute_likelihood_gain(coefficients: Floats, step: float) -> float:
    """Return the log-likelihood gain of quantized over arbitrary coefficients."""
    multiples = np.round(coefficients / step)
    deviations = (coefficients - step * multiples) / _ROUNDING_STD
    density = (
        step / _ROUNDING_STD / np.sqrt(2 * np.pi) * np.exp(-(deviations**2) / 2) * (multiples != 0)
    )
    return float(np.log(_OUTLIER_SHARE + (1 - _OUTLIER_SHARE) * density).sum())


@cache
def _compute_quantization_tables() -> Floats:
    """Return the luma steps (100, 64) of the encoder of this project by quality."""
    black = np.zeros((8, 8, 3), np.uint8)
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "black.jpg")
        for quality in range(1, 101):
            path.write_bytes(images.encode_jpeg(black, quality))
            tables.append(images.read_header(path).quantization[0])
    return np.array(tables, dtype=np.float64)
