"""Domain gap between renders and real images, after each stage of image formation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.sample import Dataset
from sim2cam.engines.process_pool import map_units
from sim2cam.errors import InputError
from sim2cam.experiments.isp_features import compare_isp_features, extract_isp_features
from sim2cam.metrics.gaps import StageGap
from sim2cam.metrics.image_statistics import (
    MIN_SIDE_PX,
    STATISTIC_NAMES,
    StatisticGroup,
    compute_image_statistics,
    select_statistics,
)
from sim2cam.metrics.two_sample import (
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
from sim2cam.progress import Progress
from sim2cam.randomize.sampling_context import Value
from sim2cam.render.optics.lens_effects import apply_optics
from sim2cam.render.optics.shutter import expose
from sim2cam.render.renderer import get_renderer
from sim2cam.render.sensor.sensor import capture_image, develop
from sim2cam.scene.camera import Camera
from sim2cam.scene.image_formation import FORMATION_STAGES, FormationStage, keep_stages
from sim2cam.scene.scene import Scene
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]
Rgb = NDArray[np.uint8]
Featurizer = Callable[[Rgb], Floats]
"""Extracts features (d,) of an image (h, w, 3); picklable, for worker processes."""

ASPECTS: tuple[StatisticGroup, ...] = get_args(StatisticGroup)
RAW_RENDER = "raw render"


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """Features of images.

    Attributes:
        features: features (n, d).
    """

    features: Floats
    sampled_values: tuple[Mapping[str, Value], ...] = ()
    images: tuple[Rgb, ...] = ()


@dataclass(frozen=True)
class FeatureUnit:
    """A scene whose features a worker extracts."""

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
    """Measure the domain gap of each recipe after each image-formation stage.

    All stages of a recipe, from raw renders on, show the same scenes. Features are scaled by the
    standard deviations over real images and renders of all recipes, so that recipes are comparable.

    Args:
        recipes: recipes with images of one size.
        captures: real images, labels unused; larger images are downscaled to the recipes' width.

    Raises:
        InputError: if a real image cannot be read, or is too small.
        SceneError: if a scene does not come to rest.
        UsageError: if there are too few images.
    """
    real = extract_real_features(captures, recipes[0].render.width, _extract_gap_features)
    stage_sets = tuple(FORMATION_STAGES[:n] for n in range(len(FORMATION_STAGES) + 1))
    renders = [
        extract_render_features(
            recipe, stage_sets, count=count, seed=seed, workers=workers, progress=progress,
            featurizer=_extract_gap_features,
        )
        for recipe in recipes
    ]  # fmt: skip
    scale = fit_feature_scaler(
        real[:, _STATISTICS_COLUMNS],
        *(stage.features[:, _STATISTICS_COLUMNS] for stages in renders for stage in stages),
    )
    return tuple(
        tuple(
            _measure_stage_gap(name, real, stage.features, scale, seed)
            for name, stage in zip((RAW_RENDER, *FORMATION_STAGES), stages, strict=True)
        )
        for stages in renders
    )


def extract_real_features(captures: Dataset, width: int, featurizer: Featurizer) -> Floats:
    """Return features (n, d) of real images, larger ones downscaled to a width.

    Raises:
        InputError: if a real image cannot be read, or is too small.
    """
    return np.array([featurizer(_read_shrunk(s.rgb, width)) for s in captures.samples])


def select_featurizer(weights: Path | None) -> Featurizer:
    """Return a featurizer: the backbone of a detector, or image statistics without weights."""
    if weights is None:
        return compute_image_statistics
    return partial(_extract_backbone_features, weights)


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
    """Return features of the first scenes of a recipe, for each set of image-formation stages.

    Args:
        recipe: recipe; only the first camera of each scene is rendered.
        stage_sets: sets of image-formation stages, each applied to the same scenes.

    Raises:
        SceneError: if a scene does not come to rest.
    """
    stills = replace(recipe.render, views=1, channels=(), sequence=None)
    text = replace(recipe, render=stills).to_json()
    units = [
        FeatureUnit(text, seed, i, stage_sets, featurizer, i < keep_count) for i in range(count)
    ]
    by_index: dict[int, ImageFeatures] = {}
    for index, features in map_units(extract_scene_features, units, workers):
        by_index[index] = features
        progress(len(by_index), count)
    scenes = [by_index[i] for i in range(count)]
    sampled_values = tuple(scene.sampled_values[0] for scene in scenes)
    return tuple(
        ImageFeatures(
            np.array([scene.features[number] for scene in scenes]),
            sampled_values,
            tuple(scene.images[number] for scene in scenes[:keep_count]),
        )
        for number in range(len(stage_sets))
    )


def extract_scene_features(unit: FeatureUnit) -> tuple[int, ImageFeatures]:
    """Return the index of a scene and the features of its images, one per set of stages."""
    recipe = _parse_recipe(unit.recipe)
    settled = simulate_scene(recipe, unit.seed, unit.index)
    stage_images = tuple(_render_stages(settled.scene, settled.scene.cameras[0], unit.stage_sets))
    features = np.array([unit.featurizer(image) for image in stage_images])
    return unit.index, ImageFeatures(
        features, (settled.sampled_values.values,), stage_images if unit.keep_images else ()
    )


def shrink_to_width(rgb: Rgb, width: int) -> Rgb:
    """Downscale an image to a width; return smaller images unchanged."""
    if rgb.shape[1] <= width:
        return rgb
    size = (width, max(1, round(rgb.shape[0] * width / rgb.shape[1])))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def _read_shrunk(path: Path, width: int) -> Rgb:
    rgb = shrink_to_width(images.read_rgb(path), width)
    if min(rgb.shape[:2]) < MIN_SIDE_PX:
        raise InputError(
            path,
            f"the shorter side is {min(rgb.shape[:2])} px at a width of {rgb.shape[1]} px; at least "
            f"{MIN_SIDE_PX} px are needed. Remove the image.",
        )
    return rgb


def _render_stages(
    scene: Scene, camera: Camera, stage_sets: Sequence[tuple[FormationStage, ...]]
) -> Iterator[Rgb]:
    """Yield one image per set of stages; the scene is rendered once with and once without lens."""
    exposures = {}
    with get_renderer().open(scene) as stage:
        for stages in stage_sets:
            stage_camera = keep_stages(camera, stages)
            if ("lens" in stages) not in exposures:
                exposures["lens" in stages] = expose(
                    scene, stage_camera, stage.rasterizer, ("depth_m", "bodies")
                )
            exposure = exposures["lens" in stages]
            depth_m, haze = exposure.ground_truth["depth_m"], scene.environment.haze
            radiance = apply_optics(exposure.radiance, depth_m, stage_camera, haze)
            if "jpeg" in stages:
                yield images.decode_image(capture_image(radiance, stage_camera.sensor).encoded)
            else:
                yield develop(radiance, stage_camera.sensor)


def _measure_stage_gap(
    stage: str, real_features: Floats, render_features: Floats, scale: FeatureScaler, seed: int
) -> StageGap:
    # The same directions, folds and resamples at every stage: only the stage differs.
    real, renders = (
        scale.transform(features[:, _STATISTICS_COLUMNS])
        for features in (real_features, render_features)
    )
    aspects: dict[str, TwoSampleDistance] = {
        aspect: measure_sliced_wasserstein(
            real[:, columns], renders[:, columns], derive_rng(seed, "gap/aspect")
        )
        for aspect, columns in ((aspect, select_statistics(aspect)) for aspect in ASPECTS)
    }
    isp_gaps = compare_isp_features(
        real_features[:, _ISP_COLUMNS], render_features[:, _ISP_COLUMNS], seed
    )
    return StageGap(
        stage, measure_domain_gap(real, renders, derive_rng(seed, "gap")), aspects, isp_gaps
    )


def _extract_gap_features(rgb: Rgb) -> Floats:
    return np.concatenate([compute_image_statistics(rgb), extract_isp_features(rgb)])


_STATISTICS_COLUMNS, _ISP_COLUMNS = (slice(len(STATISTIC_NAMES)), slice(len(STATISTIC_NAMES), None))


def _extract_backbone_features(weights: Path, rgb: Rgb) -> Floats:
    return extract_backbone_features(_load_cached_detector(weights), rgb)


@lru_cache(maxsize=1)
def _load_cached_detector(weights: Path) -> NativeDetector:
    return require_native_detector(load_detector(weights), "features")


@lru_cache(maxsize=1)
def _parse_recipe(text: str) -> Recipe:
    return Recipe.from_json(text)
