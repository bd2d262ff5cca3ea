"""Harmful changes that a certificate must reject, and camera changes that it must accept.

Each function takes a ``Subject`` and ``rng`` and returns an image of the same size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import ObjectLabel
from sim2cam.images import SRGB_TO_LINEAR, decode_image, encode_jpeg

Rgb = NDArray[np.uint8]

MIN_PX = 12
_SHIFT_PX = 3
_CHROMA = 45.0
_GRID_LEVELS = 6
_MARK_LEVELS = 20.0


@dataclass(frozen=True, eq=False)
class Subject:
    """A rendered image to be changed.

    Attributes:
        ids: (h, w), instance ids.
    """

    rgb: Rgb
    ids: NDArray[np.uint16]
    objects: tuple[ObjectLabel, ...]
    categories: tuple[str, ...]

    @property
    def large(self) -> list[ObjectLabel]:
        """Objects whose box sides are at least ``LEAST_PX``."""
        return [label for label in self.objects if min(_get_sides(label)) >= MIN_PX]


Change = Callable[[Subject, np.random.Generator], Rgb]


def shift(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Shift the image by 3 pixels in a random direction."""
    angle = rng.uniform(0, 2 * np.pi)
    matrix = np.array([[1, 0, _SHIFT_PX * np.cos(angle)], [0, 1, _SHIFT_PX * np.sin(angle)]])
    return _round_to_uint8(
        cv2.warpAffine(subject.rgb, matrix, subject.rgb.shape[1::-1], borderMode=cv2.BORDER_REFLECT)
    )


def erase(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Inpaint one of the large objects."""
    label = subject.large[int(rng.integers(len(subject.large)))]
    mask = (subject.ids == label.instance_id).astype(np.uint8)
    hole = cv2.dilate(mask, np.ones((7, 7), np.uint8))
    return _round_to_uint8(cv2.inpaint(subject.rgb, hole, 3, cv2.INPAINT_TELEA))


def swap_colours(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Swap the colours of objects between classes and keep their lightness.

    The palette has one hue per class, evenly spaced. Each object gets the colour farthest from its own.
    """
    del rng
    lab = cv2.cvtColor(subject.rgb.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    hues = 2 * np.pi * np.arange(len(subject.categories)) / len(subject.categories)
    palette = _CHROMA * np.stack([np.cos(hues), np.sin(hues)], axis=1)
    for label in subject.objects:
        mask = subject.ids == label.instance_id
        chroma = lab[mask][:, 1:].mean(axis=0)
        target = palette[np.linalg.norm(palette - chroma, axis=1).argmax()]
        lab[mask, 1:] += target - chroma
    return _round_to_uint8(255 * cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))


def invert(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Return the negative."""
    del rng
    return 255 - subject.rgb


def mirror_half(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Replace the right half by the mirrored left half."""
    del rng
    left = subject.rgb[:, : subject.rgb.shape[1] // 2]
    rest = subject.rgb.shape[1] - left.shape[1]
    return np.ascontiguousarray(np.hstack([left, left[:, ::-1][:, :rest]]))[
        :, : subject.rgb.shape[1]
    ]


def hallucinate(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Paste a rotated copy of an object to the background."""
    label = subject.large[int(rng.integers(len(subject.large)))]
    x0, y0, x1, y1 = (int(side) for side in label.box_xyxy)
    patch = np.rot90(subject.rgb[y0:y1, x0:x1])
    mask = np.rot90((subject.ids == label.instance_id)[y0:y1, x0:x1])
    height, width = mask.shape
    changed = subject.rgb.copy()
    for _ in range(1000):
        top = int(rng.integers(subject.rgb.shape[0] - height + 1))
        left = int(rng.integers(subject.rgb.shape[1] - width + 1))
        place = np.s_[top : top + height, left : left + width]
        if not subject.ids[place].any():
            break
    changed[place][mask] = patch[mask]
    return changed


def checkerboard(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Add the grid of 2 or 4 pixels that transposed convolutions leave."""
    period = int(rng.choice([2, 4]))
    cells = np.indices(subject.rgb.shape[:2]) // (period // 2)
    signs = np.asarray(1.0 - 2.0 * (cells.sum(axis=0) % 2))
    return _round_to_uint8(subject.rgb + _GRID_LEVELS * signs[:, :, None])


def wave(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Add a sinusoidal grid with a random period from 3 to 16 pixels."""
    period, phase = rng.uniform(3, 16), rng.uniform(0, 2 * np.pi)
    down, right = (
        np.sin(2 * np.pi * np.arange(side) / period + phase) for side in subject.rgb.shape[:2]
    )
    return _round_to_uint8(subject.rgb + _GRID_LEVELS * np.outer(down, right)[:, :, None])


def wipe(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Paint over the most salient mark of an object."""
    inside, place = _select_marked(subject, rng)
    hole = np.zeros(inside.shape, np.uint8)
    cv2.circle(hole, place, max(3, round(0.12 * float(np.sqrt(inside.sum())))), 1, -1)
    changed = subject.rgb.copy()
    changed[inside & (hole > 0)] = np.median(subject.rgb[inside], axis=0)
    return changed


def slip(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Shift the texture of an object by 3 pixels inside its outline."""
    inside, _ = _select_marked(subject, rng)
    changed = subject.rgb.copy()
    changed[inside] = shift(subject, rng)[inside]
    return changed


def _select_marked(
    subject: Subject, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], tuple[int, int]]:
    """Return the interior (h, w) of an object with a mark and the most salient position (x, y).

    Without any such object, the one with the most salient mark is used.
    """
    luma = cv2.cvtColor(subject.rgb, cv2.COLOR_RGB2GRAY).astype(np.float32)
    smooth = cv2.GaussianBlur(luma, (0, 0), 1.5)
    candidates = []
    for label in subject.large:
        mask = (subject.ids == label.instance_id).astype(np.uint8)
        inside = cv2.erode(mask, np.ones((7, 7), np.uint8)) > 0
        if inside.any():
            difference = np.where(inside, np.abs(smooth - np.median(luma[inside])), -1)
            row, column = np.unravel_index(difference.argmax(), difference.shape)
            candidates.append((float(difference.max()), inside, (int(column), int(row))))
    candidates.sort(key=lambda candidate: candidate[0], reverse=True)
    clear = [c for c in candidates if c[0] >= _MARK_LEVELS] or candidates[:1]
    _, inside, place = clear[int(rng.integers(len(clear)))]
    return inside, place


def seam(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Brighten one of two tiles."""
    boundary = int(rng.integers(subject.rgb.shape[1] // 4, 3 * subject.rgb.shape[1] // 4))
    changed = subject.rgb.astype(np.float32)
    changed[:, boundary:] += 8.0
    return _round_to_uint8(changed)


def identity(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Return the image unchanged."""
    del rng
    return subject.rgb


def expose(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Change the exposure by up to 0.7 stops."""
    return _encode_srgb(2.0 ** rng.uniform(-0.7, 0.7) * SRGB_TO_LINEAR[subject.rgb])


def balance(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Change the white balance."""
    gains = np.array([rng.uniform(0.75, 1.3), 1.0, rng.uniform(0.7, 1.35)], np.float32)
    return _encode_srgb(gains * SRGB_TO_LINEAR[subject.rgb])


def blur(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Blur the image like a softer lens."""
    return _round_to_uint8(cv2.GaussianBlur(subject.rgb, (0, 0), rng.uniform(0.3, 1.1)))


def add_noise(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Add noise of 1 to 8 levels."""
    noise = rng.normal(0, rng.uniform(1, 8), subject.rgb.shape)
    return _round_to_uint8(subject.rgb + noise)


def compress(subject: Subject, rng: np.random.Generator) -> Rgb:
    """Compress the image as JPEG of quality 55 to 97."""
    return decode_image(encode_jpeg(subject.rgb, int(rng.integers(55, 98))))


SABOTEURS: dict[str, Change] = {
    "shifted by 3 px": shift,
    "an object erased": erase,
    "colours of classes swapped": swap_colours,
    "inverted": invert,
    "halves mirrored": mirror_half,
    "an object hallucinated": hallucinate,
    "checkerboard": checkerboard,
    "grid of any period": wave,
    "writing wiped off": wipe,
    "inside of an object moved": slip,
    "seam of tiles": seam,
}
BENIGN: dict[str, Change] = {
    "identity": identity,
    "exposure": expose,
    "white balance": balance,
    "blur": blur,
    "noise": add_noise,
    "JPEG": compress,
}


def _get_sides(label: ObjectLabel) -> tuple[float, float]:
    x0, y0, x1, y1 = label.box_xyxy
    return x1 - x0, y1 - y0


def _round_to_uint8(values: NDArray[np.generic]) -> Rgb:
    return np.asarray(np.rint(values).clip(0, 255), np.uint8)


def _encode_srgb(linear: NDArray[np.float32]) -> Rgb:
    """Return sRGB values of linear light."""
    clipped = linear.clip(0, 1)
    coded = np.where(clipped <= 0.0031308, 12.92 * clipped, 1.055 * clipped ** (1 / 2.4) - 0.055)
    return _round_to_uint8(255 * coded)
