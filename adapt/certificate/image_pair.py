"""Source and translation of an image with the regions of its labelled objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import ObjectLabel
from sim2cam.errors import Sim2CamError

Floats = NDArray[np.float32]
Window = tuple[slice, slice]

NOISE_SIGMA_PX, _ILLUMINATION_SIGMA_PX = 1.0, 6.0  # noise is finer, illumination coarser

_WINDOW_PX = 11
_TONE_SMOOTHING_LEVELS = 13  # kernel size of the tone curve, so that it does not fit single objects


@dataclass(frozen=True, eq=False)
class ObjectRegion:
    """Region of an object.

    Attributes:
        window: rows and columns of its box, clipped to the image.
        mask: (h, w) of the window, pixels of the object; all True if only the box is known.
    """

    window: Window
    mask: NDArray[np.bool_]

    def pad_window(self, margin_px: int, shape: tuple[int, ...], *, border_px: int = 0) -> Window:
        """Return the window expanded by a margin and clipped to the image without its border."""
        return (
            _pad_side(self.window[0], margin_px, border_px, shape[0]),
            _pad_side(self.window[1], margin_px, border_px, shape[1]),
        )


@dataclass(frozen=True, eq=False)
class ImagePair:
    """An image before and after a translation.

    Attributes:
        before, after: RGB (h, w, 3).
        regions: regions of the labelled objects; None without labels.
        ids: (h, w), instance ids, 0 for unlabelled pixels; None if unknown.
    """

    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    regions: tuple[ObjectRegion, ...] | None = None
    ids: NDArray[np.uint16] | None = None

    def __post_init__(self) -> None:
        if self.before.shape != self.after.shape:
            (h, w), (other_h, other_w) = self.before.shape[:2], self.after.shape[:2]
            raise Sim2CamError(
                f"A translation must have the size of its source: {w}x{h}, not {other_w}x{other_h}."
            )

    @cached_property
    def luma(self) -> tuple[Floats, Floats]:
        """Luma (h, w) before and after, 0 to 255."""
        return _convert_to_luma(self.before), _convert_to_luma(self.after)

    @cached_property
    def band_pass_luma(self) -> tuple[Floats, Floats]:
        """Band-pass filtered luma (h, w) before and after, without noise and illumination."""
        before, after = self.luma
        return band_pass_filter(before), band_pass_filter(after)

    @cached_property
    def expected_luma(self) -> Floats:
        """Luma (h, w) of the source with the mean tone curve of the translation applied."""
        before, after = self.luma
        levels = np.rint(before).astype(np.uint8)
        return np.asarray(estimate_tone_curve(levels, after)[levels])

    @cached_property
    def structure_statistics(self) -> tuple[Floats, Floats, Floats]:
        """Local contrast before and after in levels (h, w), and their squared correlation.

        The tone curve is applied before; negative correlations count as 0.
        """
        before, after = band_pass_filter(self.expected_luma), self.band_pass_luma[1]
        variance_before, variance_after = (
            _box_filter(filtered * filtered).clip(min=0.0) for filtered in (before, after)
        )
        covariance = _box_filter(before * after).clip(min=0.0)
        explained = (covariance * covariance / (variance_before * variance_after + 1e-3)).clip(
            max=1.0
        )
        return np.sqrt(variance_before), np.sqrt(variance_after), explained

    @cached_property
    def object_mask(self) -> NDArray[np.bool_]:
        """Mask (h, w) of all labelled objects."""
        mask = np.zeros(self.before.shape[:2], np.bool_)
        for region in self.regions or ():
            mask[region.window] |= region.mask
        return mask


def extract_object_regions(
    objects: Sequence[ObjectLabel] | None, ids: NDArray[np.uint16] | None, shape: tuple[int, ...]
) -> tuple[ObjectRegion, ...] | None:
    """Return the regions of labelled objects; None without labels.

    Args:
        objects: labels; crowds are left out.
        ids: instance ids (h, w); without them the regions are boxes.
    """
    if objects is None:
        return None
    regions = (_build_region(label, ids, shape) for label in objects if not label.is_crowd)
    return tuple(region for region in regions if region.mask.any())


def _build_region(
    label: ObjectLabel, ids: NDArray[np.uint16] | None, shape: tuple[int, ...]
) -> ObjectRegion:
    x0, y0, x1, y1 = (round(side) for side in label.box_xyxy)
    window = (
        slice(min(max(y0, 0), shape[0]), min(max(y1, 0), shape[0])),
        slice(min(max(x0, 0), shape[1]), min(max(x1, 0), shape[1])),
    )
    if ids is None or label.instance_id is None:
        sides = tuple(side.stop - side.start for side in window)
        return ObjectRegion(window, np.ones(sides, np.bool_))
    return ObjectRegion(window, np.asarray(ids[window] == label.instance_id))


def _pad_side(side: slice, margin_px: int, border_px: int, length: int) -> slice:
    start = max(side.start - margin_px, border_px)
    return slice(start, max(min(side.stop + margin_px, length - border_px), start))


def _convert_to_luma(rgb: NDArray[np.uint8]) -> Floats:
    return np.asarray(cv2.cvtColor(rgb.astype(np.float32), cv2.COLOR_RGB2GRAY), np.float32)


def estimate_tone_curve(levels: NDArray[np.uint8], after: Floats) -> Floats:
    """Estimate the smoothed mean tone curve (256,) from levels before to values after.

    Args:
        levels: levels before, of any shape.
        after: values after, of the same shape.
    """
    kernel = cv2.getGaussianKernel(_TONE_SMOOTHING_LEVELS, -1).ravel()
    sums, counts = (
        np.convolve(np.bincount(levels.ravel(), weights, 256), kernel, "same")
        for weights in (after.ravel(), None)
    )
    return np.asarray(sums / np.maximum(counts, 1e-9), np.float32)


def _box_filter(values: Floats) -> Floats:
    return np.asarray(cv2.boxFilter(values, -1, (_WINDOW_PX, _WINDOW_PX)), np.float32)


def band_pass_filter(luma: Floats) -> Floats:
    """Return luma (h, w) without noise and illumination."""
    fine, coarse = (
        cv2.GaussianBlur(luma, (0, 0), width) for width in (NOISE_SIGMA_PX, _ILLUMINATION_SIGMA_PX)
    )
    return np.asarray(fine - coarse, np.float32)
