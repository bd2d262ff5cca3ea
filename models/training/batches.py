"""Batches of crops: what step k is trained on depends on nothing but the seed and k."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.learn.distributed import share_of
from sim2cam.models.augment.backgrounds import Backdrops
from sim2cam.models.augment.colour_jitter import recoloured
from sim2cam.models.augment.copy_paste import MOST_OTHERS, crowded
from sim2cam.models.augment.crops import Crop, CropRules, draw_crop
from sim2cam.models.augment.photometric import Photometric
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX
from sim2cam.models.network.roi_crops import draw_close_up, readable, side_px, surface_in
from sim2cam.models.network.targets import Targets, stacked, targets_of
from sim2cam.models.training.class_balance import picture_chances
from sim2cam.models.training.datasets import Parts
from sim2cam.models.training.images import BOXES, Picture, PictureStore, Tasks
from sim2cam.seeds import stream

T = TypeVar("T")

COMPOSED_CROPS = 2
"""Of a picture that is put together from several ones, which takes longer than a crop of it."""


@dataclass(frozen=True)
class CloseUps:
    """Close-ups of objects.

    Attributes:
        rgb: (n, s, s, 3).
        categories: class index of each (n,), -1 where a picture has none to be shown.
        surfaces: the points that each shows (n, 3, s/8, s/8), as ``surface_in`` returns them; None without
            poses.
    """

    rgb: NDArray[np.uint8]
    categories: NDArray[np.int64]
    surfaces: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Batch:
    """One step's data.

    Attributes:
        rgb: crops (n, h, w, 3).
        targets: of them, stacked.
        close_ups: of objects; None without a reader.
        crops: with their labels, before their looks are varied.
    """

    rgb: NDArray[np.uint8]
    targets: Targets
    close_ups: CloseUps | None = None
    crops: tuple[Crop, ...] = ()


@dataclass(frozen=True)
class Views:
    """One step's captures: crops as they are, and with another look of each (n, h, w, 3) uint8."""

    plain: NDArray[np.uint8]
    varied: NDArray[np.uint8]


class BatchMaker:
    """Makes the batch of any step.

    Args:
        parts: data sets; their weights do not count here.
        store: their pictures, with what the tasks need to know of them.
        shares: returns the share of each of them in the crops of a step.
        rules: how crops are drawn.
        batch: crops a step.
        photometric: whether looks are varied.
        seed: the run's seed.
        tasks: what is learned.
        close_ups: for each crop, of its picture.
        backdrops: what objects are also seen before; None without any.
    """

    def __init__(
        self,
        parts: Parts,
        store: PictureStore,
        rules: CropRules,
        *,
        shares: Callable[[int], NDArray[np.float64]],
        batch: int,
        photometric: bool,
        seed: int,
        tasks: Tasks = BOXES,
        close_ups: int = 0,
        backdrops: Backdrops | None = None,
    ) -> None:
        self._shares = shares
        self._sizes = [len(dataset.samples) for dataset, _ in parts]
        self._chances = [
            picture_chances(dataset.samples, rules.balance, rules.min_visible)
            if rules.balance
            else None
            for dataset, _ in parts
        ]
        self._store = store
        self._masks = tasks.masks
        self._rules = rules
        self._slots = range(batch)[share_of(batch)]
        self._close_ups = close_ups
        self._amodal = tasks.amodal
        self._backdrops = backdrops
        self._seed = seed
        self._photometric = Photometric() if photometric else None

    def fill(self, processes: int) -> None:
        """Decodes pictures and backdrops as ``PictureStore.fill`` does."""
        self._store.fill(processes)
        if self._backdrops is not None:
            self._backdrops.fill(processes)

    def make(self, step: int) -> Batch:
        """Returns the batch of a step; of several processes, the part of this one.

        Raises:
            InputError: an image cannot be read.
        """
        crops: list[tuple[NDArray[np.uint8], Targets, Crop]] = []
        shown: list[CloseUps] = []
        composed: Picture | None = None
        for slot in self._slots:
            rng = stream(self._seed, "batch", scene_index=step, attempt=slot)
            if self._is_plain:
                picture = self._draw_picture(step, rng)
            elif composed is None or slot % COMPOSED_CROPS == 0:
                number = slot // COMPOSED_CROPS
                chance = stream(self._seed, "composed", scene_index=step, attempt=number)
                picture = composed = self._draw_picture(step, chance)
            crops.append(self._make_crop(picture, rng))
            shown += [self._make_close_up(picture, rng) for _ in range(self._close_ups)]
        rgb, targets, plain = zip(*crops, strict=True)
        close_ups = _stacked(shown) if shown else None
        return Batch(np.stack(rgb), stacked(targets), close_ups, plain)

    @property
    def _is_plain(self) -> bool:
        """Whether pictures are taken as they are."""
        rules = self._rules
        return self._backdrops is None and not (rules.copy_paste or rules.recolour)

    def _draw_picture(self, step: int, rng: np.random.Generator) -> Picture:
        """Returns a picture, its objects in other shades, with what others show laid before and behind them."""
        part = int(rng.choice(len(self._sizes), p=self._shares(step)))
        picture = self._store.get(part, self._draw_number(part, rng))
        for _ in range(int(rng.integers(MOST_OTHERS + 1)) if self._rules.copy_paste else 0):
            other = self._store.get(part, self._draw_number(part, rng))
            picture = crowded(picture, other, rng, amodal=self._amodal)
        if self._rules.recolour:
            picture = recoloured(picture, rng)
        if self._backdrops is not None:
            picture = self._backdrops.around(picture, rng)
        return picture

    def _draw_number(self, part: int, rng: np.random.Generator) -> int:
        """Returns the number of a picture of a part."""
        chances = self._chances[part]
        if chances is None:
            return int(rng.integers(self._sizes[part]))
        return int(rng.choice(self._sizes[part], p=chances))

    def _make_crop(
        self, picture: Picture, rng: np.random.Generator
    ) -> tuple[NDArray[np.uint8], Targets, Crop]:
        crop = draw_crop(picture, self._rules, rng)
        side = self._rules.crop_px
        targets = targets_of(
            crop.boxes_xyxy,
            crop.categories,
            crop.ignored_xyxy,
            (side, side),
            crop.keypoints,
            crop.segments if self._masks else None,
            crop.is_read,
            crop.seen_xyxy,
            is_complete=crop.is_complete,
        )
        return self._varied(crop.rgb, rng), targets, crop

    def _make_close_up(self, picture: Picture, rng: np.random.Generator) -> CloseUps:
        """Returns a close-up of an object that is seen well enough, with a leading axis of 1."""
        side = side_px(poses=picture.points is not None)
        rgb = np.zeros((side, side, 3), np.uint8)
        cells = side // SURFACE_STRIDE_PX
        surface = np.full((3, cells, cells), np.nan, np.float32)
        category = -1
        seen = np.flatnonzero(readable(picture, self._rules))
        if len(seen):
            index = int(rng.choice(seen))
            category = int(picture.categories[index])
            rgb, matrix = draw_close_up(picture, index, self._rules, side, rng)
            rgb = self._varied(rgb, rng)
            if picture.points is not None:
                surface = surface_in(picture, index, matrix, side)
        surfaces = None if picture.points is None else surface[None]
        return CloseUps(rgb[None], np.array([category]), surfaces)

    def _varied(self, rgb: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
        if self._photometric is None:
            return rgb
        return self._photometric(rgb, int(rng.integers(2**31)))


def _stacked(shown: Sequence[CloseUps]) -> CloseUps:
    surfaces = [one.surfaces for one in shown if one.surfaces is not None]
    return CloseUps(
        np.concatenate([one.rgb for one in shown]),
        np.concatenate([one.categories for one in shown]),
        np.concatenate(surfaces) if surfaces else None,
    )


class ViewMaker:
    """Makes what any step sees of captures.

    Args:
        captures: without labels.
        rules: how crops are drawn.
        batch: crops a step.
        photometric: whether looks are varied; both views are the same otherwise.
        seed: the run's seed.
        cache_bytes: budget of decoded images.
    """

    def __init__(
        self,
        captures: Dataset,
        rules: CropRules,
        *,
        batch: int,
        photometric: bool,
        seed: int,
        cache_bytes: int,
    ) -> None:
        self._store = PictureStore([captures.samples], (), cache_bytes)
        self._count = len(captures.samples)
        self._rules = rules
        self._slots = range(batch)[share_of(batch)]
        self._seed = seed
        self._photometric = Photometric() if photometric else None

    def make(self, step: int) -> Views:
        """Returns the views of a step; of several processes, the part of this one.

        Raises:
            InputError: an image cannot be read.
        """
        plain, varied = zip(*(self._make_crop(step, slot) for slot in self._slots), strict=True)
        return Views(np.stack(plain), np.stack(varied))

    def _make_crop(self, step: int, slot: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        rng = stream(self._seed, "captures", scene_index=step, attempt=slot)
        picture = self._store.get(0, int(rng.integers(self._count)))
        rgb = draw_crop(picture, self._rules, rng).rgb
        if self._photometric is None:
            return rgb, rgb
        return rgb, self._photometric(rgb, int(rng.integers(2**31)))


class Awaited(Iterator[T]):
    """What an iterator yields, and how long it was waited for."""

    def __init__(self, found: Iterator[T]) -> None:
        self._found = found
        self._waits_s: list[float] = []

    def __next__(self) -> T:
        since = time.perf_counter()
        found = next(self._found)
        self._waits_s.append(time.perf_counter() - since)
        return found

    def take_wait_s(self) -> float:
        """Returns the mean wait for what was yielded since the last call, in seconds."""
        mean_s = sum(self._waits_s) / len(self._waits_s)
        self._waits_s.clear()
        return mean_s
