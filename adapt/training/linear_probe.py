"""A probe: what is learned of translated renders, asked of labelled captures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.card import digest_of_sample
from sim2cam.data.sample import Dataset, ObjectLabel
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import pairwise_coverage
from sim2cam.images import read_rgb
from sim2cam.metrics.image_statistics import LEAST_PX, look
from sim2cam.metrics.two_sample import scale_of
from sim2cam.seeds import stream

Floats = NDArray[np.float64]
RGB = NDArray[np.uint8]
Labelled = tuple[RGB, Sequence[ObjectLabel]]

BACKGROUND = ""
"""What is shown beside the objects, as a category."""

_LEAST_OBJECT_PX = 8  # of the longer side; smaller ones show next to nothing
_MARGIN = 1.2  # of a crop, over the longer side of its object
_TRIES = 20
_RIDGE = 0.1  # of the variance of a feature


class Probe:
    """Scores pictures by how well labelled captures are told from what is learned of them.

    Crops of objects and of what lies beside them are told by their look, by least squares that give each
    category the same weight (ridge regression).

    Args:
        captures: with labels; objects of categories that are not learned are left out.
        seed: decides where background is cut.

    Raises:
        InputError: a capture cannot be read.
    """

    def __init__(self, captures: Dataset, seed: int) -> None:
        self._seed = seed
        pictures = ((read_rgb(sample.rgb), sample.objects or ()) for sample in captures.samples)
        self._looks, self._names = self._crops(pictures)

    def score(self, pictures: Iterable[Labelled]) -> float:
        """Returns the balanced accuracy on the captures, 0 to 1, of what is learned of pictures (h, w, 3) with
        their labels: the mean over categories of the share that is told right; 0 of pictures without objects.
        """
        looks, names = self._crops(pictures)
        if not len(names):
            return 0.0
        found = ridge_classifier(looks, names, self._looks)
        known = np.isin(self._names, names)
        return balanced_accuracy(self._names[known], found[known])

    def _crops(self, pictures: Iterable[Labelled]) -> tuple[Floats, NDArray[np.str_]]:
        """Returns the looks (n, d) of crops, the same places of the same picture each time, and their
        categories (n,).
        """
        looks, names = [], []
        for number, (rgb, objects) in enumerate(pictures):
            rng = stream(self._seed, "adapt/probe", scene_index=number)
            for name, crop in crops_of(rgb, objects, rng):
                looks.append(look(crop))
                names.append(name)
        return np.array(looks), np.array(names, np.str_)


def check_probe(sim: Dataset, dev: Dataset) -> None:
    """Refuses captures of which a probe can tell nothing.

    Raises:
        InputError: captures or renders without labels, or no category in common.
    """
    for side, what in ((dev, "of --dev"), (sim, "of --sim")):
        if any(sample.objects is None for sample in side.samples):
            raise InputError(
                side.root,
                f"pictures {what} have no labels, so nothing can be asked of them. Label them, or leave out "
                "--dev.",
            )
    theirs, ours = (
        {label.category for s in side.samples for label in s.objects or () if _is_shown(label)}
        for side in (dev, sim)
    )
    if not theirs & ours:
        raise InputError(
            dev.root,
            f"none of its categories ({', '.join(sorted(theirs)) or 'none'}) is of the renders "
            f"({', '.join(sorted(ours)) or 'none'}). Name them alike.",
        )


def digest_of_labelled(dataset: Dataset) -> str:
    """Returns the SHA-256 over pictures and what is asked of them.

    Raises:
        InputError: a picture cannot be read.
    """
    whole = hashlib.sha256()
    for sample in dataset.samples:
        labels = [
            (o.category, tuple(map(float, o.box_xyxy)), o.is_crowd) for o in sample.objects or ()
        ]
        whole.update(f"{digest_of_sample(sample)}{labels}".encode())
    return whole.hexdigest()


def crops_of(
    rgb: RGB, objects: Sequence[ObjectLabel], rng: np.random.Generator
) -> Iterator[tuple[str, RGB]]:
    """Yields category and square crop (``LEAST_PX``, ``LEAST_PX``, 3) of each object, and of as many places that
    show none, as far as there is room.

    Args:
        rgb: picture (h, w, 3).
        objects: its labels; groups and tiny ones are no crops, and no background.
        rng: draws the places.
    """
    height, width = rgb.shape[:2]
    taken = np.array([label.box_xyxy for label in objects], np.float64).reshape(-1, 4)
    for label in objects:
        if not _is_shown(label):
            continue
        x0, y0, x1, y1 = label.box_xyxy
        side = min(round(_MARGIN * _longer_side(label)), height, width)
        left, top = (
            min(max(round((low + high - side) / 2), 0), most - side)
            for low, high, most in ((x0, x1, width), (y0, y1, height))
        )
        yield label.category, _scaled(rgb[top : top + side, left : left + side])
        places = rng.integers(0, [width - side + 1, height - side + 1], (_TRIES, 2))
        boxes = np.concatenate([places, places + side], axis=1).astype(np.float64)
        free = np.flatnonzero(pairwise_coverage(boxes, taken).max(axis=1) == 0)
        if len(free):
            left, top = places[free[0]]
            yield BACKGROUND, _scaled(rgb[top : top + side, left : left + side])


def ridge_classifier(features: Floats, names: NDArray[np.str_], asked: Floats) -> NDArray[np.str_]:
    """Returns the categories (m,) that least squares give to features (m, d), learned of others.

    Args:
        features: (n, d), to be learned of.
        names: their categories (n,), which all weigh the same.
        asked: (m, d).
    """
    classes, which, counts = np.unique(names, return_inverse=True, return_counts=True)
    scale = scale_of(features)
    weights = (1 / (len(classes) * counts))[which]
    learned, targets = scale.of(features), np.eye(len(classes))[which]
    middle, usual = weights @ learned, weights @ targets
    centred = learned - middle
    covariance = centred.T @ (weights[:, None] * centred)
    slopes = np.linalg.solve(
        covariance + _RIDGE * np.eye(len(covariance)),
        centred.T @ (weights[:, None] * (targets - usual)),
    )
    return np.asarray(classes[((scale.of(asked) - middle) @ slopes + usual).argmax(axis=1)])


def balanced_accuracy(truth: NDArray[np.str_], found: NDArray[np.str_]) -> float:
    """Returns the mean over categories of the share of their items (n,) that was found as such."""
    return float(np.mean([(found[truth == name] == name).mean() for name in np.unique(truth)]))


def _is_shown(label: ObjectLabel) -> bool:
    return not label.is_crowd and _longer_side(label) >= _LEAST_OBJECT_PX


def _longer_side(label: ObjectLabel) -> float:
    x0, y0, x1, y1 = label.box_xyxy
    return max(x1 - x0, y1 - y0)


def _scaled(crop: RGB) -> RGB:
    shrinks = crop.shape[0] > LEAST_PX
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(crop, (LEAST_PX, LEAST_PX), interpolation=how), np.uint8)
