"""How well LM-O's true poses fit its photos.

    python benchmarks/lmo_truth.py [--work DIR] [--pictures N]

Of every object that is seen whole, the outline of its true pose is shifted and scaled about its middle to where the
photo's edges are strongest; turns stay. The pose of which that is the outline is scored as if a detector had found it.
The same of renders of the recipe ``lmo``, whose true poses are true, tells what such a fit itself gets wrong. Nothing
is trained or chosen by it. Renders go to ``--work``, numbers to ``benchmarks/results/lmo_truth.json``.
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
from scoring_log import RESULTS, real_folder

from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.data.environment import collect_environment
from sim2cam.data.formats.bop.poses import BopModel, find_test_scenes, read_bop_models
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.writer import write_json
from sim2cam.geometry.lens import BrownConrady
from sim2cam.images import read_rgb
from sim2cam.metrics.bootstrap import bootstrap_estimate, sample_bootstrap_counts
from sim2cam.metrics.pose_errors import compute_add, compute_add_s
from sim2cam.metrics.surface_discrepancy import rasterize_depth
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]
Numbers = dict[str, tuple[float, Floats]]
"""By their names, each with its resamples (draws,)."""

SEED = 7
WHOLE = 0.97  # share of an object that has to be seen
FINER = 4  # than pixels are those in which outlines are found
LEAST_PX = 20  # side of a square as large as the object
MARGIN_PX = 10  # of the picture around the object
SCALES = np.linspace(0.88, 1.12, 17)
SHIFTS_PX = np.linspace(-6.0, 6.0, 9)
HALVINGS = 4  # of the steps of both, around the best ones
STRONGEST = 60.0  # difference of colour, of 255 levels, from which edges count alike
WITHIN = 0.1  # of the diameter
METRICS = ("scale", "right_px", "down_px", "size_px", "at_end", "add_or_s")
DRAWS = 2000


@dataclass(frozen=True)
class Arguments:
    """What is looked at beside the photos."""

    work: Path = Path("runs/lmo_truth")
    """Renders; they are completed there."""
    pictures: int = 96
    """Of the recipe."""


@dataclass(frozen=True)
class Shape:
    """An object: corners of its triangles (n, 3, 3), its points (m, 3), metres, and what BOP says of it."""

    triangles_m: Floats
    points_m: Floats
    entry: BopModel


@dataclass(frozen=True)
class Fit:
    """Where an outline lies on the strongest edges.

    Attributes:
        picture: by its name.
        scale: of the outline about its middle.
        right_px, down_px: of its middle.
        at_end: whether it lies at an end of what was tried, or beyond.
        size_px: side of a square as large as the object.
        error: ADD, of symmetric objects ADD-S, of the pose of that outline from the true one, of the diameter.
    """

    picture: str
    scale: float
    right_px: float
    down_px: float
    at_end: float
    size_px: float
    error: float


def main(arguments: Arguments) -> None:
    """Fit, writes and prints."""
    root = real_folder("lmo")
    renders = generate(
        load_recipe("lmo"), arguments.work, count=arguments.pictures, seed=SEED, workers=2,
        resume=True, overwrite=False, progress=lambda *_: None,
    )  # fmt: skip
    shapes = {
        entry.name: _shape(entry) for entry in read_bop_models(find_test_scenes(root)).values()
    }
    facts: dict[str, Any] = {"environment": collect_environment(None, 1), "seed": SEED}
    for name, pictures in (("photos", read_real_images(root)), ("renders", renders)):
        facts[name] = _summary(list(_fits(pictures, shapes)))
        print(name, {of: _words(one) for of, one in facts[name].items()}, flush=True)
    write_json(RESULTS / "lmo_truth.json", facts)


def _shape(entry: BopModel) -> Shape:
    solids, _ = read_solids(entry.mesh, 1_000_000, colored=False)
    corners = [np.asarray(one.vertices, np.float64)[one.faces] for one in solids]
    triangles = np.concatenate(corners) / 1000
    return Shape(triangles, np.unique(triangles.reshape(-1, 3), axis=0), entry)


def _fits(pictures: Dataset, shapes: Mapping[str, Shape]) -> Iterator[tuple[str, Fit]]:
    """Yield the fit of every object that is seen whole, with its category."""
    for sample in pictures.samples:
        rgb = None
        for label in sample.objects or ():
            if label.visible_fraction is None or label.visible_fraction < WHOLE:
                continue
            rgb = _smoothed(sample) if rgb is None else rgb
            found = _fit(rgb, sample, label, shapes[label.category])
            if found is not None:
                yield label.category, found


def _smoothed(sample: Sample) -> NDArray[np.float32]:
    """Return a picture (h, w, 3) without its finest noise."""
    return np.asarray(cv2.GaussianBlur(read_rgb(sample.rgb), (0, 0), 0.8), np.float32)


def _fit(rgb: NDArray[np.float32], sample: Sample, label: ObjectLabel, shape: Shape) -> Fit | None:
    """Return the fit of an object; None of one that is small or near the edge of the picture."""
    assert label.pose is not None
    assert isinstance(sample.lens, BrownConrady)
    lens, pose = sample.lens, label.pose.matrix()
    camera = np.array(
        [[lens.fx_px, 0, lens.cx_px], [0, lens.fy_px, lens.cy_px], [0, 0, 1]], np.float64
    )
    outline = _outline(shape.triangles_m, pose, camera)
    if outline is None:
        return None
    places, normals, size_px = outline
    whole = _seen_by(lens, camera, places)
    size = np.array(rgb.shape[1::-1])
    if whole.min() < MARGIN_PX or (whole > size - 1 - MARGIN_PX).any():
        return None
    middle = places.mean(axis=0)

    def strength(scale: float, shift: Floats) -> float:
        there = middle + scale * (places - middle) + shift
        outside, inside = (
            _colours(rgb, _seen_by(lens, camera, there + side * normals)) for side in (1, -1)
        )
        difference = np.linalg.norm(outside - inside, axis=1)
        return float(np.minimum(difference, STRONGEST).mean())

    scale, shift = _strongest(strength)
    depth_m = pose[2, 3] / scale
    origin = camera @ pose[:3, 3]
    moved = middle + scale * (origin[:2] / origin[2] - middle) + shift
    found = pose.copy()
    found[:3, 3] = depth_m * np.linalg.solve(camera, np.append(moved, 1.0))
    measure = compute_add if len(shape.entry.symmetries) == 1 else compute_add_s
    error = measure(found, pose, shape.points_m) / shape.entry.diameter_m
    at_end = not SCALES[0] < scale < SCALES[-1] or np.abs(shift).max() >= SHIFTS_PX[-1]
    return Fit(sample.name, scale, float(shift[0]), float(shift[1]), float(at_end), size_px, error)


def _outline(
    triangles_m: Floats, pose: Floats, camera: Floats
) -> tuple[Floats, Floats, float] | None:
    """Return places (n, 2) of an outline as a pinhole sees it, a pixel apart, normals outwards, and the side of
    a square as large as what is inside, pixels; None of a small one.
    """
    corners = triangles_m.reshape(-1, 3) @ pose[:3, :3].T + pose[:3, 3]
    if corners[:, 2].min() <= 0:
        return None
    seen = corners @ camera.T
    seen = seen[:, :2] / seen[:, 2:]
    low = np.floor(seen.min(axis=0)) - 2
    width, height = (np.ceil(np.ptp(seen, axis=0)) + 5).astype(int) * FINER
    finer = np.diag([FINER, FINER, 1.0]) @ camera  # whose pixel 0 is that of the picture
    finer[:2, 2] -= FINER * low
    mask = (rasterize_depth(triangles_m, pose, finer, width, height) > 0).astype(np.uint8)
    size_px = float(np.sqrt(mask.sum())) / FINER
    if size_px < LEAST_PX:
        return None
    found, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    ring = max(found, key=len)[:, 0].astype(np.float64)
    along = np.roll(ring, -3 * FINER, axis=0) - np.roll(ring, 3 * FINER, axis=0)
    normals = np.column_stack([along[:, 1], -along[:, 0]])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-9
    if (normals * (ring - ring.mean(axis=0))).sum() < 0:
        normals = -normals
    ring = ring + 0.5 * normals  # from the middle of the outermost pixels to their edge
    return (ring / FINER + low)[::FINER], normals[::FINER], size_px


def _seen_by(lens: BrownConrady, camera: Floats, places: Floats) -> Floats:
    """Return where a lens shows what its pinhole would show at places (n, 2)."""
    rays = np.column_stack([places, np.ones(len(places))]) @ np.linalg.inv(camera).T
    return lens.project(rays)


def _colours(rgb: NDArray[np.float32], places: Floats) -> NDArray[np.float32]:
    """Return the colours (n, 3) of a picture at places (n, 2)."""
    right, down = places.astype(np.float32).T
    return np.asarray(cv2.remap(rgb, right[None], down[None], cv2.INTER_LINEAR)[0])


def _strongest(strength: Callable[[float, Floats], float]) -> tuple[float, Floats]:
    """Return the scale and the shift (2,) of which an outline lies on the strongest edges."""
    scales, rights, downs = SCALES, SHIFTS_PX, SHIFTS_PX
    steps = np.array([SCALES[1] - SCALES[0], *2 * [SHIFTS_PX[1] - SHIFTS_PX[0]]])
    for _ in range(1 + HALVINGS):
        tried = [(s, x, y) for s in scales for x in rights for y in downs]
        best = np.array(max(tried, key=lambda one: strength(one[0], np.array(one[1:]))))
        steps = steps / 2
        scales, rights, downs = best[:, None] + steps[:, None] * np.array([-1, 0, 1])
    return float(best[0]), best[1:]


def _summary(fits: Sequence[tuple[str, Fit]]) -> dict[str, Any]:
    """Return of each category the medians, how often a fitted pose counts as found and how often it ends where
    no more was tried; of all the means of categories. Intervals are over pictures.
    """
    names = sorted({fit.picture for _, fit in fits})
    number = {name: place for place, name in enumerate(names)}
    counts = sample_bootstrap_counts(len(names), DRAWS, derive_rng(SEED, "pictures"))
    objects = Counter(category for category, _ in fits)
    found: dict[str, Numbers] = {}
    for category in sorted(objects):
        mine = [fit for name, fit in fits if name == category]
        found[category] = _numbers(mine, counts[:, [number[fit.picture] for fit in mine]])
    of_all = {metric: _mean([one[metric] for one in found.values()]) for metric in METRICS}
    return {
        name: {
            "objects": objects.get(name, len(fits)),
            **{metric: bootstrap_estimate(*pair).to_json() for metric, pair in one.items()},
        }
        for name, one in {"all": of_all, **found}.items()
    }


def _mean(pairs: Sequence[tuple[float, Floats]]) -> tuple[float, Floats]:
    """Return the mean of numbers, and of their resamples."""
    values, resampled = zip(*pairs, strict=True)
    return float(np.mean(values)), np.mean(resampled, axis=0)


def _numbers(fits: Sequence[Fit], weights: NDArray[np.int64]) -> Numbers:
    """Return each number of a category with its resamples, of which each fit has a weight (draws, n)."""
    numbers: Numbers = {}
    for name in METRICS[:4]:
        values = np.array([getattr(fit, name) for fit in fits])
        numbers[name] = float(np.median(values)), _medians(values, weights)
    for name, values in (
        ("at_end", np.array([fit.at_end for fit in fits])),
        ("add_or_s", np.array([float(fit.error <= WITHIN) for fit in fits])),
    ):
        numbers[name] = float(values.mean()), weights @ values / np.maximum(weights.sum(axis=1), 1)
    return numbers


def _medians(values: Floats, weights: NDArray[np.int64]) -> Floats:
    """Return the median of each resample, of which each value has a row of weights (draws, n)."""
    order = np.argsort(values)
    reached = np.cumsum(weights[:, order], axis=1)
    middle = np.argmax(2 * reached >= reached[:, -1:], axis=1)
    return np.asarray(values[order][middle])


def _words(one: Mapping[str, Any]) -> str:
    return (
        f"{one['objects']} objects, scale {one['scale']['value']:.3f}, moved {one['right_px']['value']:.1f} and "
        f"{one['down_px']['value']:.1f} px, found {one['add_or_s']['value']:.2f}, at the end {one['at_end']['value']:.2f}"
    )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
