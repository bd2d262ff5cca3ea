"""The gap: how far renders look from captures, step by step of how the camera forms its picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.sample import Dataset
from sim2cam.engines.process_pool import map_units
from sim2cam.errors import InputError
from sim2cam.experiments.isp_features import compare_isp_features, extract_isp_features
from sim2cam.metrics.image_statistics import (
    MIN_SIDE_PX,
    STATISTIC_NAMES,
    StatisticGroup,
    compute_image_statistics,
    select_statistics,
)
from sim2cam.metrics.two_sample import (
    DomainGap,
    FeatureScaler,
    TwoSampleDistance,
    fit_feature_scaler,
    measure_domain_gap,
    measure_sliced_wasserstein,
)
from sim2cam.models.inference.detector import NativeDetector, load_detector, require_native_detector
from sim2cam.models.inference.features import extract_backbone_features
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.sampling_context import Value
from sim2cam.render.frame import compute_sensor_radiance
from sim2cam.render.optics.shutter import expose
from sim2cam.render.rasterizer import get_rasterizer
from sim2cam.render.sensor.sensor import capture_image, develop
from sim2cam.scene.camera import Camera
from sim2cam.scene.image_formation import FORMATION_STAGES, FormationStage, keep_stages
from sim2cam.scene.scene import Scene
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]
Rgb = NDArray[np.uint8]
Progress = Callable[[int, int], None]
"""Called with pictures done and pictures in all."""
Featurizer = Callable[[Rgb], Floats]
"""Tells a picture (h, w, 3) by features (d,); of a module, so that it travels to other processes."""

ASPECTS: tuple[StatisticGroup, ...] = get_args(StatisticGroup)
RAW_RENDER = "raw render"


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """What is told of some pictures.

    Attributes:
        features: (n, features).
        sampled_values: what was drawn of each, by path.
        images: the first few of them, (h, w, 3).
    """

    features: Floats
    sampled_values: tuple[Mapping[str, Value], ...] = ()
    images: tuple[Rgb, ...] = ()


@dataclass(frozen=True)
class StageGap:
    """How far renders are from captures once the camera takes a further step.

    Attributes:
        stage: that was taken last; ``RAW`` before any.
        gap: of all features.
        aspects: the sliced distance of colours, structure and detail alone.
        isp_gaps: AUC by what each step leaves in a picture, of those that enough pictures tell.
    """

    stage: str
    gap: DomainGap
    aspects: Mapping[str, TwoSampleDistance]
    isp_gaps: Mapping[str, TwoSampleDistance]

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        parts = {"aspects": self.aspects, "isp_gaps": self.isp_gaps}
        facts = {
            part: {name: one.to_json() for name, one in found.items()}
            for part, found in parts.items()
        }
        return {"stage": self.stage, **self.gap.to_json(), **facts}


@dataclass(frozen=True)
class FeatureUnit:
    """One scene to be looked at; with the recipe as JSON, so that it travels to another process.

    Attributes:
        stage_sets: steps by which the camera forms each picture.
        featurizer: what is told of each picture.
        keep_images: whether the pictures are wanted too.
    """

    recipe: str
    seed: int
    index: int
    stage_sets: tuple[tuple[FormationStage, ...], ...]
    featurizer: Featurizer = compute_image_statistics
    keep_images: bool = False


def measure_stage_gaps(
    recipes: Sequence[Recipe],
    captures: Dataset,
    *,
    count: int,
    seed: int,
    workers: int,
    progress: Progress,
) -> tuple[tuple[StageGap, ...], ...]:
    """Return for each recipe how far its renders look from captures: of bare light, then with one step
    of the camera after another.

    All renders of a recipe show the same scenes, and every step has its own share in the gap. Distances
    are in standard deviations of captures and renders of all recipes together, so that ladders can be held
    against each other.

    Args:
        recipes: whose renders and whose cameras; of pictures of one size.
        captures: whose labels are not looked at; larger ones are shrunk to the recipes' width.
        count: of scenes of each recipe.
        seed: of the data sets that they are of.
        workers: processes.
        progress: is told how many scenes of a recipe are done.

    Raises:
        InputError: a capture cannot be read, or is too small.
        SceneError: a scene does not settle.
        UsageError: there are too few pictures.
    """
    wanted = extract_real_features(captures, recipes[0].render.width, _extract_gap_features)
    ways = tuple(FORMATION_STAGES[:n] for n in range(len(FORMATION_STAGES) + 1))
    seen = [
        extract_render_features(
            recipe, ways, count=count, seed=seed, workers=workers, progress=progress,
            featurizer=_extract_gap_features,
        )
        for recipe in recipes
    ]  # fmt: skip
    scale = fit_feature_scaler(
        wanted[:, _STATISTICS_COLUMNS],
        *(one.features[:, _STATISTICS_COLUMNS] for steps in seen for one in steps),
    )
    return tuple(
        tuple(
            _measure_stage_gap(name, wanted, one.features, scale, seed)
            for name, one in zip((RAW_RENDER, *FORMATION_STAGES), steps, strict=True)
        )
        for steps in seen
    )


def extract_real_features(captures: Dataset, width: int, featurizer: Featurizer) -> Floats:
    """Return what is told (n, d) of captures, larger ones shrunk to a width.

    Raises:
        InputError: a capture cannot be read, or is too small.
    """
    return np.array([featurizer(_read_shrunk(s.rgb, width)) for s in captures.samples])


def select_featurizer(weights: Path | None) -> Featurizer:
    """Return what looks at pictures: the trunk of a detector, or without weights ``measure.look``."""
    return (
        compute_image_statistics
        if weights is None
        else partial(_extract_backbone_features, weights)
    )


def extract_render_features(
    recipe: Recipe,
    stage_sets: tuple[tuple[FormationStage, ...], ...],
    *,
    count: int,
    seed: int,
    workers: int,
    progress: Progress,
    featurizer: Featurizer = compute_image_statistics,
    keep_count: int = 0,
) -> tuple[ImageFeatures, ...]:
    """Return what is told of the first scenes of a recipe, for each way in which the camera forms
    its picture of them.

    Args:
        recipe: what is drawn; of each scene the first camera is taken.
        stage_sets: steps of the camera, each a picture of the same moment.
        count: of scenes.
        seed: of the data set.
        workers: processes; what is told does not depend on it.
        progress: is told how many scenes are done.
        featurizer: what is told of each picture.
        keep_count: how many pictures are wanted too.

    Raises:
        SceneError: a scene does not settle.
    """
    text = replace(
        recipe, render=replace(recipe.render, views=1, channels=(), sequence=None)
    ).to_json()
    units = [
        FeatureUnit(text, seed, i, stage_sets, featurizer, i < keep_count) for i in range(count)
    ]
    found: dict[int, ImageFeatures] = {}
    for index, seen in map_units(extract_scene_features, units, workers):
        found[index] = seen
        progress(len(found), count)
    scenes = [found[i] for i in range(count)]
    drawn = tuple(scene.sampled_values[0] for scene in scenes)
    return tuple(
        ImageFeatures(
            np.array([scene.features[way] for scene in scenes]),
            drawn,
            tuple(scene.images[way] for scene in scenes[:keep_count]),
        )
        for way in range(len(stage_sets))
    )


def extract_scene_features(unit: FeatureUnit) -> tuple[int, ImageFeatures]:
    """Return the number of a scene, and what is told of its pictures, one for each way."""
    recipe = _parse_recipe(unit.recipe)
    settled = simulate_scene(recipe, unit.seed, unit.index)
    pictures = tuple(_render_stages(settled.scene, settled.scene.cameras[0], unit.stage_sets))
    looks = np.array([unit.featurizer(picture) for picture in pictures])
    return unit.index, ImageFeatures(
        looks, (settled.sampled_values.values,), pictures if unit.keep_images else ()
    )


def shrink_to_width(rgb: Rgb, width: int) -> Rgb:
    """Return a picture of a width, or as it is where it is no wider."""
    if rgb.shape[1] <= width:
        return rgb
    size = (width, max(1, round(rgb.shape[0] * width / rgb.shape[1])))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def _read_shrunk(path: Path, width: int) -> Rgb:
    rgb = shrink_to_width(images.read_rgb(path), width)
    if min(rgb.shape[:2]) < MIN_SIDE_PX:
        raise InputError(
            path,
            f"too small or too narrow: {width} pixels wide or less, its shorter side has "
            f"{min(rgb.shape[:2])}, and {MIN_SIDE_PX} are needed. Leave it out.",
        )
    return rgb


def _render_stages(
    scene: Scene, camera: Camera, stage_sets: Sequence[tuple[FormationStage, ...]]
) -> Iterator[Rgb]:
    """Yield a camera's picture by each way; light is gathered once with the lens and once without."""
    drawing = get_rasterizer()
    drawing.load(scene)
    gathered = {}
    for steps in stage_sets:
        formed = keep_stages(camera, steps)
        bends = "lens" in steps
        if bends not in gathered:
            gathered[bends] = expose(scene, formed, drawing, ("depth_m", "bodies"))
        light = compute_sensor_radiance(gathered[bends], scene.environment.haze, formed)
        if "jpeg" in steps:
            yield images.decode_image(capture_image(light, formed.sensor).encoded)
        else:
            yield develop(light, formed.sensor)


def _measure_stage_gap(
    stage: str, real_features: Floats, render_features: Floats, scale: FeatureScaler, seed: int
) -> StageGap:
    # The same directions, parts and resamples at every step: what differs is the step.
    wanted, shown = (
        scale.transform(told[:, _STATISTICS_COLUMNS]) for told in (real_features, render_features)
    )
    aspects: dict[str, TwoSampleDistance] = {
        aspect: measure_sliced_wasserstein(
            wanted[:, which], shown[:, which], derive_rng(seed, "gap/aspect")
        )
        for aspect, which in ((one, select_statistics(one)) for one in ASPECTS)
    }
    imprints = compare_isp_features(
        real_features[:, _ISP_COLUMNS], render_features[:, _ISP_COLUMNS], seed
    )
    return StageGap(
        stage, measure_domain_gap(wanted, shown, derive_rng(seed, "gap")), aspects, imprints
    )


def _extract_gap_features(rgb: Rgb) -> Floats:
    return np.concatenate([compute_image_statistics(rgb), extract_isp_features(rgb)])


_STATISTICS_COLUMNS, _ISP_COLUMNS = (
    slice(len(STATISTIC_NAMES)),
    slice(len(STATISTIC_NAMES), None),
)  # columns of both


def _extract_backbone_features(weights: Path, rgb: Rgb) -> Floats:
    return extract_backbone_features(_load_cached_detector(weights), rgb)


@lru_cache(maxsize=1)
def _load_cached_detector(weights: Path) -> NativeDetector:
    return require_native_detector(load_detector(weights), "features")


@lru_cache(maxsize=1)
def _parse_recipe(text: str) -> Recipe:
    return Recipe.from_json(text)
