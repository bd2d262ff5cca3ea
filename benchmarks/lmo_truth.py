"""Accuracy of the ground-truth poses of LM-O, from image edges.

    python benchmarks/lmo_truth.py [--work DIR] [--pictures N]

The outline of the true pose of each unoccluded object is shifted and scaled to the strongest image edges;
rotation is fixed. The pose of the fitted outline is scored like a detection. The same fit on renders of
the recipe ``lmo``, whose poses are exact, gives the error of the method. Nothing is trained or selected by
the result. Renders go to ``--work``, results to ``benchmarks/results/lmo_truth.json``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tyro
from numpy.typing import NDArray
from result_files import RESULTS, locate_real_dataset, write_results

from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.data.environment import collect_environment
from sim2cam.data.formats.bop.poses import BopModel, find_test_scenes, read_bop_models
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.geometry.lens import BrownConrady
from sim2cam.images import read_rgb
from sim2cam.metrics.bootstrap import bootstrap_estimate, sample_bootstrap_counts
from sim2cam.metrics.pose_errors import compute_add, compute_add_s
from sim2cam.metrics.surface_discrepancy import rasterize_depth
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]
Metrics = dict[str, tuple[float, Floats]]
"""Value and bootstrap resamples (draws,) by metric."""

SEED = 7
MIN_VISIBLE = 0.97  # visible fraction of an object
OVERSAMPLING = 4  # of the outline mask
MIN_SIZE_PX = 20  # side of a square of the object's area
MARGIN_PX = 10  # distance of the object from the image border
SCALES = np.linspace(0.88, 1.12, 17)
SHIFTS_PX = np.linspace(-6.0, 6.0, 9)
REFINEMENTS = 4  # of the search grid
MAX_DIFFERENCE = 60.0  # clipping of colour differences, of 255 levels
MAX_ERROR = 0.1  # share of the diameter
METRICS = ("scale", "right_px", "down_px", "size_px", "at_end", "add_or_s")
RESAMPLES = 2000


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    work: Path = Path("runs/lmo_truth")
    """Folder of the renders, which are resumed."""
    pictures: int = 96
    """Number of renders."""


@dataclass(frozen=True)
class Shape:
    """An object model.

    Attributes:
        triangles_m: corners of the triangles (n, 3, 3), in metres.
        points_m: vertices (m, 3), in metres.
    """

    triangles_m: Floats
    points_m: Floats
    entry: BopModel


@dataclass(frozen=True)
class Fit:
    """An outline fitted to the strongest edges.

    Attributes:
        scale: scale of the outline about its centroid.
        right_px, down_px: shift of the centroid.
        at_end: 1 if the fit is at a bound of the search, else 0.
        size_px: side of a square of the object's area.
        error: ADD, or ADD-S of symmetric objects, between fitted and true pose, over the diameter.
    """

    image_name: str
    scale: float
    right_px: float
    down_px: float
    at_end: float
    size_px: float
    error: float


def main(arguments: Arguments) -> None:
    """Fit outlines in photos and renders; write and print the results."""
    root = locate_real_dataset("lmo")
    renders = generate(
        load_recipe("lmo"), arguments.work, count=arguments.pictures, seed=SEED, workers=2,
        resume=True, overwrite=False, progress=lambda *_: None,
    )  # fmt: skip
    shapes = {
        entry.name: _load_shape(entry) for entry in read_bop_models(find_test_scenes(root)).values()
    }
    facts: dict[str, Any] = {"environment": collect_environment(None, 1), "seed": SEED}
    for name, dataset in (("photos", read_real_images(root)), ("renders", renders)):
        facts[name] = _summarize(list(_fit_objects(dataset, shapes)))
        print(
            name, {category: _format_row(row) for category, row in facts[name].items()}, flush=True
        )
    write_results(RESULTS / "lmo_truth.json", facts)


def _load_shape(entry: BopModel) -> Shape:
    solids, _ = read_solids(entry.mesh, 1_000_000, colored=False)
    corners = [np.asarray(solid.vertices, np.float64)[solid.faces] for solid in solids]
    triangles = np.concatenate(corners) / 1000
    return Shape(triangles, np.unique(triangles.reshape(-1, 3), axis=0), entry)


def _fit_objects(dataset: Dataset, shapes: Mapping[str, Shape]) -> Iterator[tuple[str, Fit]]:
    """Yield category and fit of every unoccluded object."""
    for sample in dataset.samples:
        rgb = None
        for label in sample.objects or ():
            if label.visible_fraction is None or label.visible_fraction < MIN_VISIBLE:
                continue
            rgb = _read_smoothed(sample) if rgb is None else rgb
            fit = _fit_object(rgb, sample, label, shapes[label.category])
            if fit is not None:
                yield label.category, fit


def _read_smoothed(sample: Sample) -> NDArray[np.float32]:
    """Return an image (h, w, 3) with reduced noise."""
    return np.asarray(cv2.GaussianBlur(read_rgb(sample.rgb), (0, 0), 0.8), np.float32)


def _fit_object(
    rgb: NDArray[np.float32], sample: Sample, label: ObjectLabel, shape: Shape
) -> Fit | None:
    """Return the fit of an object; None if it is small or near the image border."""
    assert label.pose is not None
    assert isinstance(sample.lens, BrownConrady)
    lens, pose = sample.lens, label.pose.matrix()
    camera = np.array(
        [[lens.fx_px, 0, lens.cx_px], [0, lens.fy_px, lens.cy_px], [0, 0, 1]], np.float64
    )
    outline = _project_outline(shape.triangles_m, pose, camera)
    if outline is None:
        return None
    points, normals, size_px = outline
    distorted = _distort(lens, camera, points)
    size = np.array(rgb.shape[1::-1])
    if distorted.min() < MARGIN_PX or (distorted > size - 1 - MARGIN_PX).any():
        return None
    centre = points.mean(axis=0)

    def measure_strength(scale: float, shift: Floats) -> float:
        there = centre + scale * (points - centre) + shift
        outside, inside = (
            _sample_colours(rgb, _distort(lens, camera, there + side * normals)) for side in (1, -1)
        )
        difference = np.linalg.norm(outside - inside, axis=1)
        return float(np.minimum(difference, MAX_DIFFERENCE).mean())

    scale, shift = _maximize_strength(measure_strength)
    depth_m = pose[2, 3] / scale
    origin = camera @ pose[:3, 3]
    moved = centre + scale * (origin[:2] / origin[2] - centre) + shift
    fitted_pose = pose.copy()
    fitted_pose[:3, 3] = depth_m * np.linalg.solve(camera, np.append(moved, 1.0))
    measure = compute_add if len(shape.entry.symmetries) == 1 else compute_add_s
    error = measure(fitted_pose, pose, shape.points_m) / shape.entry.diameter_m
    at_end = not SCALES[0] < scale < SCALES[-1] or np.abs(shift).max() >= SHIFTS_PX[-1]
    return Fit(sample.name, scale, float(shift[0]), float(shift[1]), float(at_end), size_px, error)


def _project_outline(
    triangles_m: Floats, pose: Floats, camera: Floats
) -> tuple[Floats, Floats, float] | None:
    """Return the outline of an object in a pinhole image; None if it is small.

    Returns:
        points (n, 2) about a pixel apart, outward normals (n, 2), and the side of a square of equal area in
        pixels.
    """
    corners = triangles_m.reshape(-1, 3) @ pose[:3, :3].T + pose[:3, 3]
    if corners[:, 2].min() <= 0:
        return None
    pixels = corners @ camera.T
    pixels = pixels[:, :2] / pixels[:, 2:]
    low = np.floor(pixels.min(axis=0)) - 2
    width, height = (np.ceil(np.ptp(pixels, axis=0)) + 5).astype(int) * OVERSAMPLING
    finer = (
        np.diag([OVERSAMPLING, OVERSAMPLING, 1.0]) @ camera
    )  # pixel 0 has the same centre as in the image
    finer[:2, 2] -= OVERSAMPLING * low
    mask = (rasterize_depth(triangles_m, pose, finer, width, height) > 0).astype(np.uint8)
    size_px = float(np.sqrt(mask.sum())) / OVERSAMPLING
    if size_px < MIN_SIZE_PX:
        return None
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    ring = max(contours, key=len)[:, 0].astype(np.float64)
    along = np.roll(ring, -3 * OVERSAMPLING, axis=0) - np.roll(ring, 3 * OVERSAMPLING, axis=0)
    normals = np.column_stack([along[:, 1], -along[:, 0]])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-9
    if (normals * (ring - ring.mean(axis=0))).sum() < 0:
        normals = -normals
    ring = ring + 0.5 * normals  # from pixel centres to the outer edge
    return (ring / OVERSAMPLING + low)[::OVERSAMPLING], normals[::OVERSAMPLING], size_px


def _distort(lens: BrownConrady, camera: Floats, points: Floats) -> Floats:
    """Return the pixels (n, 2) of a distorted lens for pixels of its pinhole."""
    rays = np.column_stack([points, np.ones(len(points))]) @ np.linalg.inv(camera).T
    return lens.project(rays)


def _sample_colours(rgb: NDArray[np.float32], points: Floats) -> NDArray[np.float32]:
    """Return the interpolated colours (n, 3) of an image at points (n, 2)."""
    right, down = points.astype(np.float32).T
    return np.asarray(cv2.remap(rgb, right[None], down[None], cv2.INTER_LINEAR)[0])


def _maximize_strength(measure_strength: Callable[[float, Floats], float]) -> tuple[float, Floats]:
    """Return scale and shift (2,) that maximize the edge strength; grid search with refinement."""
    scales, rights, downs = SCALES, SHIFTS_PX, SHIFTS_PX
    steps = np.array([SCALES[1] - SCALES[0], *2 * [SHIFTS_PX[1] - SHIFTS_PX[0]]])
    for _ in range(1 + REFINEMENTS):
        candidates = [(s, x, y) for s in scales for x in rights for y in downs]
        best = np.array(
            max(candidates, key=lambda fit: measure_strength(fit[0], np.array(fit[1:])))
        )
        steps = steps / 2
        scales, rights, downs = best[:, None] + steps[:, None] * np.array([-1, 0, 1])
    return float(best[0]), best[1:]


def _summarize(fits: Sequence[tuple[str, Fit]]) -> dict[str, Any]:
    """Return medians and rates of each category and their means over categories.

    Intervals are bootstrapped over images.
    """
    names = sorted({fit.image_name for _, fit in fits})
    number = {name: place for place, name in enumerate(names)}
    counts = sample_bootstrap_counts(len(names), RESAMPLES, derive_rng(SEED, "pictures"))
    objects = Counter(category for category, _ in fits)
    metrics: dict[str, Metrics] = {}
    for category in sorted(objects):
        category_fits = [fit for name, fit in fits if name == category]
        metrics[category] = _compute_metrics(
            category_fits, counts[:, [number[fit.image_name] for fit in category_fits]]
        )
    means = {metric: _average([entry[metric] for entry in metrics.values()]) for metric in METRICS}
    return {
        name: {
            "objects": objects.get(name, len(fits)),
            **{
                metric: bootstrap_estimate(*pair).to_json()
                for metric, pair in metric_values.items()
            },
        }
        for name, metric_values in {"all": means, **metrics}.items()
    }


def _average(pairs: Sequence[tuple[float, Floats]]) -> tuple[float, Floats]:
    """Return the mean of values and of their resamples."""
    values, resampled = zip(*pairs, strict=True)
    return float(np.mean(values)), np.mean(resampled, axis=0)


def _compute_metrics(fits: Sequence[Fit], weights: NDArray[np.int64]) -> Metrics:
    """Return each metric of a category with its resamples; ``weights`` (draws, n) has a column per fit."""
    numbers: Metrics = {}
    for name in METRICS[:4]:
        values = np.array([getattr(fit, name) for fit in fits])
        numbers[name] = float(np.median(values)), _compute_medians(values, weights)
    for name, values in (
        ("at_end", np.array([fit.at_end for fit in fits])),
        ("add_or_s", np.array([float(fit.error <= MAX_ERROR) for fit in fits])),
    ):
        numbers[name] = float(values.mean()), weights @ values / np.maximum(weights.sum(axis=1), 1)
    return numbers


def _compute_medians(values: Floats, weights: NDArray[np.int64]) -> Floats:
    """Return the median of each resample; ``weights`` (draws, n) has a column per value."""
    order = np.argsort(values)
    reached = np.cumsum(weights[:, order], axis=1)
    index = np.argmax(2 * reached >= reached[:, -1:], axis=1)
    return np.asarray(values[order][index])


def _format_row(row: Mapping[str, Any]) -> str:
    values = {metric: row[metric]["value"] for metric in METRICS}
    return (
        f"{row['objects']} objects, scale {values['scale']:.3f}, shift {values['right_px']:.1f} and "
        f"{values['down_px']:.1f} px, correct {values['add_or_s']:.2f}, at bound {values['at_end']:.2f}"
    )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
