"""A picture, its translation, and where the labelled objects are: what every measure looks at."""

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

NOISE_SIGMA_PX, _ILLUMINATION_SIGMA_PX = 1.0, 6.0  # finer than this is noise, coarser is light

_WINDOW_PX = 11
_TONE_SMOOTHING_LEVELS = (
    13  # over which a curve of tones is smoothed, so that it does not fit single objects
)


@dataclass(frozen=True, eq=False)
class ObjectRegion:
    """Where an object is.

    Attributes:
        window: rows and columns of its box, within the picture.
        mask: (h, w) of the window, its pixels; all of them where only its box is known.
    """

    window: Window
    mask: NDArray[np.bool_]

    def pad_window(self, margin_px: int, shape: tuple[int, ...], *, border_px: int = 0) -> Window:
        """Return the window with a margin, cut where the picture, less a border, ends."""
        return (
            _pad_side(self.window[0], margin_px, border_px, shape[0]),
            _pad_side(self.window[1], margin_px, border_px, shape[1]),
        )


@dataclass(frozen=True, eq=False)
class ImagePair:
    """A picture before and after a translation.

    Attributes:
        before, after: RGB (h, w, 3).
        regions: of the labelled objects; None when there are no labels.
        ids: (h, w), instance ids, 0 for everything unlabelled; None when unknown.
    """

    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    regions: tuple[ObjectRegion, ...] | None = None
    ids: NDArray[np.uint16] | None = None

    def __post_init__(self) -> None:
        if self.before.shape != self.after.shape:
            (h, w), (other_h, other_w) = self.before.shape[:2], self.after.shape[:2]
            raise Sim2CamError(
                f"A translation must have the size of its picture: {other_w}x{other_h}, not {w}x{h}."
            )

    @cached_property
    def luma(self) -> tuple[Floats, Floats]:
        """Brightness (h, w) before and after, in levels of 0 to 255, as coded."""
        return _convert_to_luma(self.before), _convert_to_luma(self.after)

    @cached_property
    def band_pass_luma(self) -> tuple[Floats, Floats]:
        """Brightness (h, w) before and after without noise and light: what has a middle size."""
        before, after = self.luma
        return band_pass_filter(before), band_pass_filter(after)

    @cached_property
    def expected_luma(self) -> Floats:
        """Brightness (h, w) that the picture would have if only its tones had changed.

        Each level becomes what pixels of about that level became on average, in the whole picture.
        """
        before, after = self.luma
        levels = np.rint(before).astype(np.uint8)
        return np.asarray(estimate_tone_curve(levels, after)[levels])

    @cached_property
    def structure_statistics(self) -> tuple[Floats, Floats, Floats]:
        """Contrast before, as tones became, and after, in levels, in a window around each pixel (h, w), and
        the share of either that the other explains, whatever its brightness and contrast.
        """
        before, after = band_pass_filter(self.expected_luma), self.band_pass_luma[1]
        of_before, of_after = (
            _box_filter(detail * detail).clip(min=0.0) for detail in (before, after)
        )
        both = _box_filter(before * after).clip(min=0.0)
        explained = (both * both / (of_before * of_after + 1e-3)).clip(max=1.0)
        return np.sqrt(of_before), np.sqrt(of_after), explained

    @cached_property
    def object_mask(self) -> NDArray[np.bool_]:
        """Pixels (h, w) of any labelled object."""
        found = np.zeros(self.before.shape[:2], np.bool_)
        for region in self.regions or ():
            found[region.window] |= region.mask
        return found


def extract_object_regions(
    objects: Sequence[ObjectLabel] | None,
    ids: NDArray[np.uint16] | None,
    shape: tuple[int, ...],
) -> tuple[ObjectRegion, ...] | None:
    """Return where labelled objects are; None where there are no labels.

    Args:
        objects: the labels; groups are left out.
        ids: instance ids (h, w); without them boxes are taken for masks.
        shape: of the picture.
    """
    if objects is None:
        return None
    found = (_build_region(label, ids, shape) for label in objects if not label.is_crowd)
    return tuple(region for region in found if region.mask.any())


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
    """Return what each level (256,) became on average, of pixels of about that level.

    Args:
        levels: before, of any shape.
        after: of the same shape.
    """
    spread = cv2.getGaussianKernel(_TONE_SMOOTHING_LEVELS, -1).ravel()
    sums, counts = (
        np.convolve(np.bincount(levels.ravel(), weights, 256), spread, "same")
        for weights in (after.ravel(), None)
    )
    return np.asarray(sums / np.maximum(counts, 1e-9), np.float32)


def _box_filter(values: Floats) -> Floats:
    # differences of running sums may fall below zero
    return np.asarray(cv2.boxFilter(values, -1, (_WINDOW_PX, _WINDOW_PX)), np.float32)


def band_pass_filter(luma: Floats) -> Floats:
    """Return brightness (h, w) without what is finer or coarser than objects show."""
    fine, coarse = (
        cv2.GaussianBlur(luma, (0, 0), width) for width in (NOISE_SIGMA_PX, _ILLUMINATION_SIGMA_PX)
    )
    return np.asarray(fine - coarse, np.float32)
