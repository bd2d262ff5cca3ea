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
from sim2cam.experiments.isp_features import imprint, imprint_gaps
from sim2cam.metrics.image_statistics import LEAST_PX, LOOK, Aspect, aspect_of, look
from sim2cam.metrics.two_sample import Apartness, Gap, Scale, gap_of, scale_of, sliced_wasserstein
from sim2cam.models.inference.detector import LoadedDetector, load_detector, own_detector
from sim2cam.models.inference.features import trunk_features
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_sampling import settled_scene
from sim2cam.randomize.sampling_context import Value
from sim2cam.render.frame import light_on_sensor
from sim2cam.render.optics.shutter import expose
from sim2cam.render.rasterizer import rasterizer
from sim2cam.render.sensor.sensor import develop, take
from sim2cam.scene.camera import Camera
from sim2cam.scene.image_formation import STEPS, Step, formed_by
from sim2cam.scene.scene import Scene
from sim2cam.seeds import stream

Floats = NDArray[np.float64]
Rgb = NDArray[np.uint8]
Progress = Callable[[int, int], None]
"""Called with pictures done and pictures in all."""
Tell = Callable[[Rgb], Floats]
"""Tells a picture (h, w, 3) by features (d,); of a module, so that it travels to other processes."""

ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
RAW = "raw render"


@dataclass(frozen=True, eq=False)
class Seen:
    """What is told of some pictures.

    Attributes:
        looks: (n, features).
        drawn: what was drawn of each, by path.
        pictures: the first few of them, (h, w, 3).
    """

    looks: Floats
    drawn: tuple[Mapping[str, Value], ...] = ()
    pictures: tuple[Rgb, ...] = ()


@dataclass(frozen=True)
class GapStep:
    """How far renders are from captures once the camera takes a further step.

    Attributes:
        step: that was taken last; ``RAW`` before any.
        gap: of all features.
        aspects: the sliced distance of colours, structure and detail alone.
        imprints: AUC by what each step leaves in a picture, of those that enough pictures tell.
    """

    step: str
    gap: Gap
    aspects: Mapping[str, Apartness]
    imprints: Mapping[str, Apartness]

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        parts = {"aspects": self.aspects, "imprints": self.imprints}
        facts = {
            part: {name: one.to_json() for name, one in found.items()}
            for part, found in parts.items()
        }
        return {"step": self.step, **self.gap.to_json(), **facts}


@dataclass(frozen=True)
class Shown:
    """One scene to be looked at; with the recipe as JSON, so that it travels to another process.

    Attributes:
        ways: steps by which the camera forms each picture.
        tell: what is told of each picture.
        keep: whether the pictures are wanted too.
    """

    recipe: str
    seed: int
    index: int
    ways: tuple[tuple[Step, ...], ...]
    tell: Tell = look
    keep: bool = False


def gap_ladders(
    recipes: Sequence[Recipe],
    captures: Dataset,
    *,
    count: int,
    seed: int,
    workers: int,
    progress: Progress,
) -> tuple[tuple[GapStep, ...], ...]:
    """Returns for each recipe how far its renders look from captures: of bare light, then with one step
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
    wanted = looks_of(captures, recipes[0].render.width, _look_and_imprint)
    ways = tuple(STEPS[:n] for n in range(len(STEPS) + 1))
    seen = [
        looks_by(
            recipe, ways, count=count, seed=seed, workers=workers, progress=progress,
            tell=_look_and_imprint,
        )
        for recipe in recipes
    ]  # fmt: skip
    scale = scale_of(wanted[:, _LOOK], *(one.looks[:, _LOOK] for steps in seen for one in steps))
    return tuple(
        tuple(
            _gap_step(name, wanted, one.looks, scale, seed)
            for name, one in zip((RAW, *STEPS), steps, strict=True)
        )
        for steps in seen
    )


def looks_of(captures: Dataset, width: int, tell: Tell) -> Floats:
    """Returns what is told (n, d) of captures, larger ones shrunk to a width.

    Raises:
        InputError: a capture cannot be read, or is too small.
    """
    return np.array([tell(_read(s.rgb, width)) for s in captures.samples])


def telling(weights: Path | None) -> Tell:
    """Returns what looks at pictures: the trunk of a detector, or without weights ``measure.look``."""
    return look if weights is None else partial(_trunk_look, weights)


def looks_by(
    recipe: Recipe,
    ways: tuple[tuple[Step, ...], ...],
    *,
    count: int,
    seed: int,
    workers: int,
    progress: Progress,
    tell: Tell = look,
    keep: int = 0,
) -> tuple[Seen, ...]:
    """Returns what is told of the first scenes of a recipe, for each way in which the camera forms
    its picture of them.

    Args:
        recipe: what is drawn; of each scene the first camera is taken.
        ways: steps of the camera, each a picture of the same moment.
        count: of scenes.
        seed: of the data set.
        workers: processes; what is told does not depend on it.
        progress: is told how many scenes are done.
        tell: what is told of each picture.
        keep: how many pictures are wanted too.

    Raises:
        SceneError: a scene does not settle.
    """
    text = replace(recipe, render=replace(recipe.render, views=1, channels=(), film=None)).to_json()
    units = [Shown(text, seed, i, ways, tell, i < keep) for i in range(count)]
    found: dict[int, Seen] = {}
    for index, seen in map_units(look_at, units, workers):
        found[index] = seen
        progress(len(found), count)
    scenes = [found[i] for i in range(count)]
    drawn = tuple(scene.drawn[0] for scene in scenes)
    return tuple(
        Seen(
            np.array([scene.looks[way] for scene in scenes]),
            drawn,
            tuple(scene.pictures[way] for scene in scenes[:keep]),
        )
        for way in range(len(ways))
    )


def look_at(unit: Shown) -> tuple[int, Seen]:
    """Returns the number of a scene, and what is told of its pictures, one for each way."""
    recipe = _recipe(unit.recipe)
    settled = settled_scene(recipe, unit.seed, unit.index)
    pictures = tuple(_pictures(settled.scene, settled.scene.cameras[0], unit.ways))
    looks = np.array([unit.tell(picture) for picture in pictures])
    return unit.index, Seen(looks, (settled.drawn.values,), pictures if unit.keep else ())


def shrunk(rgb: Rgb, width: int) -> Rgb:
    """Returns a picture of a width, or as it is where it is no wider."""
    if rgb.shape[1] <= width:
        return rgb
    size = (width, max(1, round(rgb.shape[0] * width / rgb.shape[1])))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


def _read(path: Path, width: int) -> Rgb:
    rgb = shrunk(images.read_rgb(path), width)
    if min(rgb.shape[:2]) < LEAST_PX:
        raise InputError(
            path,
            f"too small or too narrow: {width} pixels wide or less, its shorter side has "
            f"{min(rgb.shape[:2])}, and {LEAST_PX} are needed. Leave it out.",
        )
    return rgb


def _pictures(scene: Scene, camera: Camera, ways: Sequence[tuple[Step, ...]]) -> Iterator[Rgb]:
    """Yields a camera's picture by each way; light is gathered once with the lens and once without."""
    drawing = rasterizer()
    drawing.load(scene)
    gathered = {}
    for steps in ways:
        formed = formed_by(camera, steps)
        bends = "lens" in steps
        if bends not in gathered:
            gathered[bends] = expose(scene, formed, drawing, ("depth_m", "bodies"))
        light = light_on_sensor(gathered[bends], scene.environment.haze, formed)
        if "jpeg" in steps:
            yield images.decode_picture(take(light, formed.sensor).file)
        else:
            yield develop(light, formed.sensor)


def _gap_step(name: str, captures: Floats, renders: Floats, scale: Scale, seed: int) -> GapStep:
    # The same directions, parts and resamples at every step: what differs is the step.
    wanted, shown = (scale.of(told[:, _LOOK]) for told in (captures, renders))
    aspects: dict[str, Apartness] = {
        aspect: sliced_wasserstein(wanted[:, which], shown[:, which], stream(seed, "gap/aspect"))
        for aspect, which in ((one, aspect_of(one)) for one in ASPECTS)
    }
    imprints = imprint_gaps(captures[:, _IMPRINT], renders[:, _IMPRINT], seed)
    return GapStep(name, gap_of(wanted, shown, stream(seed, "gap")), aspects, imprints)


def _look_and_imprint(rgb: Rgb) -> Floats:
    return np.concatenate([look(rgb), imprint(rgb)])


_LOOK, _IMPRINT = slice(len(LOOK)), slice(len(LOOK), None)  # columns of both


def _trunk_look(weights: Path, rgb: Rgb) -> Floats:
    return trunk_features(_detector(weights), rgb)


@lru_cache(maxsize=1)
def _detector(weights: Path) -> LoadedDetector:
    return own_detector(load_detector(weights), "features")


@lru_cache(maxsize=1)
def _recipe(text: str) -> Recipe:
    return Recipe.from_json(text)
