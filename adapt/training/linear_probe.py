"""A probe: what is learned of translated renders, asked of labelled captures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.card import compute_sample_digest
from sim2cam.data.sample import Dataset, ObjectLabel
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import pairwise_coverage
from sim2cam.images import read_rgb
from sim2cam.metrics.image_statistics import MIN_SIDE_PX, compute_image_statistics
from sim2cam.metrics.two_sample import fit_feature_scaler
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]
RGB = NDArray[np.uint8]
ImageWithLabels = tuple[RGB, Sequence[ObjectLabel]]

BACKGROUND = ""
"""What is shown beside the objects, as a category."""

_MIN_OBJECT_PX = 8  # of the longer side; smaller ones show next to nothing
_CROP_EXPANSION = 1.2  # of a crop, over the longer side of its object
_BACKGROUND_TRIES = 20
_RIDGE_STRENGTH = 0.1  # of the variance of a feature


class LinearProbe:
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
        self._features, self._categories = self._extract_features(pictures)

    def score(self, labelled_images: Iterable[ImageWithLabels]) -> float:
        """Return the balanced accuracy on the captures, 0 to 1, of what is learned of pictures (h, w, 3) with
        their labels: the mean over categories of the share that is told right; 0 of pictures without objects.
        """
        looks, names = self._extract_features(labelled_images)
        if not len(names):
            return 0.0
        found = classify_by_ridge(looks, names, self._features)
        known = np.isin(self._categories, names)
        return compute_balanced_accuracy(self._categories[known], found[known])

    def _extract_features(
        self, labelled_images: Iterable[ImageWithLabels]
    ) -> tuple[Floats, NDArray[np.str_]]:
        """Return the looks (n, d) of crops, the same places of the same picture each time, and their
        categories (n,).
        """
        looks, names = [], []
        for number, (rgb, objects) in enumerate(labelled_images):
            rng = derive_rng(self._seed, "adapt/probe", scene_index=number)
            for name, crop in extract_crops(rgb, objects, rng):
                looks.append(compute_image_statistics(crop))
                names.append(name)
        return np.array(looks), np.array(names, np.str_)


def check_probe_labels(sim: Dataset, dev: Dataset) -> None:
    """Refuse captures of which a probe can tell nothing.

    Raises:
        InputError: captures or renders without labels, or no category in common.
    """
    for side, what in ((dev, "of --validation"), (sim, "of --sim")):
        if any(sample.objects is None for sample in side.samples):
            raise InputError(
                side.root,
                f"pictures {what} have no labels, so nothing can be asked of them. Label them, or leave out "
                "--validation.",
            )
    theirs, ours = (
        {label.category for s in side.samples for label in s.objects or () if _is_usable(label)}
        for side in (dev, sim)
    )
    if not theirs & ours:
        raise InputError(
            dev.root,
            f"none of its categories ({', '.join(sorted(theirs)) or 'none'}) is of the renders "
            f"({', '.join(sorted(ours)) or 'none'}). Name them alike.",
        )


def compute_labelled_digest(dataset: Dataset) -> str:
    """Return the SHA-256 over pictures and what is asked of them.

    Raises:
        InputError: a picture cannot be read.
    """
    whole = hashlib.sha256()
    for sample in dataset.samples:
        labels = [
            (o.category, tuple(map(float, o.box_xyxy)), o.is_crowd) for o in sample.objects or ()
        ]
        whole.update(f"{compute_sample_digest(sample)}{labels}".encode())
    return whole.hexdigest()


def extract_crops(
    rgb: RGB, objects: Sequence[ObjectLabel], rng: np.random.Generator
) -> Iterator[tuple[str, RGB]]:
    """Yield category and square crop (``MIN_SIDE_PX``, ``MIN_SIDE_PX``, 3) of each object, and of as many places that
    show none, as far as there is room.

    Args:
        rgb: picture (h, w, 3).
        objects: its labels; groups and tiny ones are no crops, and no background.
        rng: draws the places.
    """
    height, width = rgb.shape[:2]
    taken = np.array([label.box_xyxy for label in objects], np.float64).reshape(-1, 4)
    for label in objects:
        if not _is_usable(label):
            continue
        x0, y0, x1, y1 = label.box_xyxy
        side = min(round(_CROP_EXPANSION * _compute_longer_side(label)), height, width)
        left, top = (
            min(max(round((low + high - side) / 2), 0), most - side)
            for low, high, most in ((x0, x1, width), (y0, y1, height))
        )
        yield label.category, _resize_crop(rgb[top : top + side, left : left + side])
        places = rng.integers(0, [width - side + 1, height - side + 1], (_BACKGROUND_TRIES, 2))
        boxes = np.concatenate([places, places + side], axis=1).astype(np.float64)
        free = np.flatnonzero(pairwise_coverage(boxes, taken).max(axis=1) == 0)
        if len(free):
            left, top = places[free[0]]
            yield BACKGROUND, _resize_crop(rgb[top : top + side, left : left + side])


def classify_by_ridge(
    features: Floats, categories: NDArray[np.str_], query_features: Floats
) -> NDArray[np.str_]:
    """Return the categories (m,) that least squares give to features (m, d), learned of others.

    Args:
        features: (n, d), to be learned of.
        categories: their categories (n,), which all weigh the same.
        query_features: (m, d).
    """
    classes, which, counts = np.unique(categories, return_inverse=True, return_counts=True)
    scale = fit_feature_scaler(features)
    weights = (1 / (len(classes) * counts))[which]
    learned, targets = scale.transform(features), np.eye(len(classes))[which]
    middle, usual = weights @ learned, weights @ targets
    centred = learned - middle
    covariance = centred.T @ (weights[:, None] * centred)
    slopes = np.linalg.solve(
        covariance + _RIDGE_STRENGTH * np.eye(len(covariance)),
        centred.T @ (weights[:, None] * (targets - usual)),
    )
    return np.asarray(
        classes[((scale.transform(query_features) - middle) @ slopes + usual).argmax(axis=1)]
    )


def compute_balanced_accuracy(truth: NDArray[np.str_], predictions: NDArray[np.str_]) -> float:
    """Return the mean over categories of the share of their items (n,) that was found as such."""
    return float(
        np.mean([(predictions[truth == name] == name).mean() for name in np.unique(truth)])
    )


def _is_usable(label: ObjectLabel) -> bool:
    return not label.is_crowd and _compute_longer_side(label) >= _MIN_OBJECT_PX


def _compute_longer_side(label: ObjectLabel) -> float:
    x0, y0, x1, y1 = label.box_xyxy
    return max(x1 - x0, y1 - y0)


def _resize_crop(crop: RGB) -> RGB:
    shrinks = crop.shape[0] > MIN_SIDE_PX
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(crop, (MIN_SIDE_PX, MIN_SIDE_PX), interpolation=how), np.uint8)
