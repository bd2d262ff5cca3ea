"""From a photo to what lies in it, with weights from a file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.data.sample import Dataset
from sim2cam.geometry.boxes import widened
from sim2cam.geometry.run_length import RunLengths
from sim2cam.images import read_rgb
from sim2cam.learn.device import autocast, find_device
from sim2cam.learn.weight_file import (
    card_path,
    check_sizes,
    fill_network,
    load_weights,
    save_weights,
)
from sim2cam.metrics.detection import Detection, FoundKeypoint
from sim2cam.models.card import DetectorCard, card_from_json
from sim2cam.models.inference.detections import Prediction, Surface, without_duplicates
from sim2cam.models.inference.input_scales import Level, pyramid
from sim2cam.models.inference.tiles import maps_of
from sim2cam.models.inference.torchvision_detector import NamedDetector
from sim2cam.models.network.batch_norm_fusion import folded
from sim2cam.models.network.decoding import Decoded, decode
from sim2cam.models.network.detector import Detector, Maps
from sim2cam.models.network.masks import category_masks, instance_masks
from sim2cam.models.network.roi_crops import close_up, close_up_square, side_px
from sim2cam.models.network.torchvision_models import check_operators, lacking
from sim2cam.models.network.torchvision_network import named_network
from sim2cam.models.reliability.confidence import calibrated, slopes_and_offsets
from sim2cam.models.reliability.ood import Familiar, Strangeness, distance, doubt, take_familiar
from sim2cam.models.training.config import ARCHITECTURES
from sim2cam.models.training.images import PIXEL_CENTRE

Floats = NDArray[np.float64]

SHIPPED_WEIGHTS = Path(__file__).parents[1] / "weights"

_SURE_HEAT = 0.5  # probability of there being an object, whatever it is
_LEAST_SPREAD = 0.01  # of a point of a surface, over the reach: less is not to be believed


@dataclass(frozen=True)
class LoadedDetector:
    """A detector that is ready to predict.

    Attributes:
        network: in evaluation mode, on its device.
        card: what it is.
        familiar: what its training crops look like; None where not measured.
    """

    network: Detector
    card: DetectorCard
    familiar: Familiar | None = None

    @functools.cached_property
    def folded(self) -> Detector:
        """What predicts: the network as it is when this is first asked for, made faster."""
        return folded(self.network)

    def look(
        self,
        rgb: NDArray[np.uint8],
        *,
        score_floor: float | None = None,
        scale: float | None = None,
    ) -> Prediction:
        """Returns what lies in an image; arguments are those of the function ``look``."""
        return _look(self, rgb, score_floor, scale)


AnyDetector = LoadedDetector | NamedDetector
"""What says what lies in a picture, with a network of our own or with a model of torchvision."""


def own_detector(detector: AnyDetector, what: str) -> LoadedDetector:
    """Returns a detector with a network of our own, which can do what torchvision's models cannot.

    Args:
        detector: any.
        what: of ``named.LACKS``, for the error.

    Raises:
        UsageError: it is a model of torchvision.
    """
    if isinstance(detector, NamedDetector):
        raise lacking(detector.card.architecture, what)
    return detector


def load_detector(path: Path, *, device: str = "cpu") -> AnyDetector:
    """Returns the detector that a weights file and its card describe.

    Raises:
        CheckpointError: a file is missing or broken, or card and weights do not fit.
        UsageError, BackendError: there is no such device, or operators that it needs do not load.
    """
    tensors, words = load_weights(path)
    card = card_from_json(card_path(path), words)
    place, keypoints = find_device(device), max(map(len, card.keypoints.values()), default=0)
    counts = {"categories (number)": len(card.categories), "keypoints (of a category)": keypoints}
    check_sizes(path, tensors, channels=counts)
    if card.architecture not in ARCHITECTURES:
        check_operators(card.architecture)
        named = named_network(
            card.architecture,
            len(card.categories),
            torch.Generator(),
            keypoints=keypoints,
            crop_px=card.config["crop_px"],
        )
        fill_network(path, named, tensors)
        return NamedDetector(named.eval().to(place), card)
    familiar = None
    if card.novelty is not None:
        channels = ARCHITECTURES[card.architecture].head_channels
        tensors, familiar = take_familiar(path, tensors, channels)
    network = Detector(
        card.architecture,
        len(card.categories),
        torch.Generator(),
        poses=bool(card.objects),
        keypoints=keypoints,
        masks=card.masks,
        residual=card.residual,
        reader=card.reader,
    )
    fill_network(path, network, tensors)
    network.eval().to(place)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return LoadedDetector(network, card, familiar)


def save_detector(
    path: Path,
    tensors: Mapping[str, Tensor],
    card: DetectorCard,
    familiar: Familiar | None = None,
) -> None:
    """Writes weights, in half precision, and their card.

    Args:
        path: the weights file; the card lies beside it.
        tensors: of the network.
        card: what it is.
        familiar: what its training crops look like, where the card has a limit for it.

    Raises:
        CheckpointError: the name does not end in ``.safetensors``.
        OutputError: the folder cannot be written.
    """
    more = {} if familiar is None else familiar.tensors()
    save_weights(path, {**tensors, **more}, card.to_json())


def predict(
    detector: AnyDetector,
    rgb: NDArray[np.uint8],
    *,
    score_floor: float | None = None,
    scale: float | None = None,
) -> tuple[Detection, ...]:
    """Returns what lies in an image of any size, surest first; arguments are those of ``look``."""
    return look(detector, rgb, score_floor=score_floor, scale=scale).detections


def look(
    detector: AnyDetector,
    rgb: NDArray[np.uint8],
    *,
    score_floor: float | None = None,
    scale: float | None = None,
) -> Prediction:
    """Returns what lies in an image of any size, and how unlike what was trained on the image is.

    Args:
        detector: from ``load_detector``.
        rgb: (height, width, 3) uint8.
        score_floor: less sure ones are left out; when None, those below ``SCORE_FLOOR`` before
            calibration, which keeps the order of those of one category.
        scale: the only magnification before the network. When None the picture is looked at with the
            card's and, as long as larger objects than those trained on would have room in it, ever
            halved ones: see ``pyramid``. Pixels and probabilities of categories are those of the first.
    """
    return detector.look(rgb, score_floor=score_floor, scale=scale)


def _look(
    detector: LoadedDetector,
    rgb: NDArray[np.uint8],
    score_floor: float | None,
    scale: float | None,
) -> Prediction:
    card, size = detector.card, (rgb.shape[0], rgb.shape[1])
    levels = pyramid(card.magnification, card.sizes_px, max(size))
    if scale is not None:
        levels = (Level(scale),)
    glances = [_glance(detector, rgb, level, score_floor) for level in levels]
    found = [(glance, i) for glance in glances for i in range(len(glance.boxes))]
    found.sort(key=lambda one: one[0].scores[one[1]], reverse=True)
    boxes = np.array([glance.boxes[i] for glance, i in found]).reshape(-1, 4)
    kinds = [int(glance.said.categories[i]) for glance, i in found] if card.is_amodal else None
    kept = without_duplicates(boxes, [glance.scale for glance, _ in found], kinds)
    found, boxes = [found[i] for i in kept], boxes[kept]
    masks = _masks(found, boxes, size) if card.masks else {}
    first = glances[0]
    strangeness = _strangeness(detector, glances)
    return Prediction(
        tuple(
            _detection(card, glance, i, masks.get(number))
            for number, (glance, i) in enumerate(found)
        ),
        card.novelty.novelty(strangeness) if card.novelty and strangeness else None,
        strangeness,
        tuple(_surface(card, glance, i) for glance, i in found) if card.objects else None,
        category_masks(first.maps, card.categories, size, first.scale) if card.masks else None,
        _votes(card, found),
    )


def _votes(card: DetectorCard, found: Sequence[tuple[_Glance, int]]) -> Floats:
    """Returns the probabilities (n, c) of the categories of what surely is an object."""
    sure = [
        glance.said.probabilities[i] for glance, i in found if glance.said.heat[i] >= _SURE_HEAT
    ]
    return np.array(sure, np.float64).reshape(len(sure), len(card.categories))


@dataclass(frozen=True, eq=False)
class _Glance:
    """What a detector says of a picture at one magnification.

    Attributes:
        scale: the magnification.
        maps, features: as ``maps_of`` returns them.
        said: what the maps say.
        boxes: pixels of the picture, inside it (n, 4).
        scores: (n,) the surest first.
    """

    scale: float
    maps: Maps
    features: Tensor
    said: Decoded
    boxes: Floats
    scores: list[float]


def _glance(
    detector: LoadedDetector, rgb: NDArray[np.uint8], level: Level, score_floor: float | None
) -> _Glance:
    """Returns what a detector says of a picture at one level, of objects that count there."""
    card = detector.card
    height, width = rgb.shape[:2]
    maps, features = maps_of(detector.folded, rgb, level.scale)
    is_read_again = detector.folded.reader is not None
    scaling = slopes_and_offsets(card.scaling, card.categories)
    said = decode(maps, None if is_read_again else score_floor, scaling)
    longer_px = (said.boxes[:, 2:] - said.boxes[:, :2]).amax(1)
    said = said.of((longer_px >= level.least_px) & (longer_px <= level.most_px))
    if is_read_again:
        if score_floor is not None:  # what no close-up can make sure enough is not looked at again
            said = said.of(_most(said.heat, scaling) >= score_floor)
        said = (
            _read_again(detector, rgb, said, level.scale, score_floor) if len(said.boxes) else said
        )
    boxes = widened(said.boxes.numpy().astype(np.float64) / level.scale, card.box_margin)
    boxes = boxes.clip(0, (width, height, width, height))
    return _Glance(level.scale, maps, features, said, boxes, said.scores.tolist())


def _most(heat: Tensor, scaling: Tensor | None) -> Tensor:
    """Returns the highest scores (n,) that reading the categories again may lead to."""
    scores = heat.sqrt()
    return scores if scaling is None else calibrated(scores[:, None], scaling).amax(1)


def _read_again(
    detector: LoadedDetector,
    rgb: NDArray[np.uint8],
    said: Decoded,
    scale: float,
    score_floor: float | None,
) -> Decoded:
    """Returns what is said of objects with what their close-ups show.

    Args:
        detector: from ``load_detector``.
        rgb: the picture.
        said: what its maps say, at a scale.
        scale: the magnification.
        score_floor: as for ``look``.
    """
    side, ways = side_px(poses=bool(detector.card.objects)), detector.card.views
    boxes = said.boxes.numpy().astype(np.float64) / scale
    close_ups = np.stack([close_up(rgb, box, side, way) for way in ways for box in boxes])
    network, device = detector.folded, detector.folded.mean.device
    with autocast(device, on_cpu=True):
        reading = network.read_close_ups(torch.from_numpy(close_ups).permute(0, 3, 1, 2).to(device))
    if reading.categories is not None:
        shares = reading.categories.softmax(1).reshape(len(ways), len(boxes), -1).mean(0)
        said = _recognized(detector, said, shares.cpu())
    if reading.features is not None:
        mine = network.read_surfaces(reading.features, said.categories.to(device))
        points, off = mine.points()
        surfaces = torch.cat([mine.shown[:, None], points, off[:, None]], 1)
        said = said._replace(surfaces=surfaces.cpu())
    order = said.scores.argsort(descending=True, stable=True)
    said = said.of(order)
    return said if score_floor is None else said.of(said.scores >= score_floor)


def _recognized(detector: LoadedDetector, said: Decoded, shares: Tensor) -> Decoded:
    """Returns what is said of objects with other categories and scores; their order is as it was.

    Args:
        detector: from ``load_detector``.
        said: what its maps say.
        shares: probabilities of the categories (n, c).
    """
    probability, category = shares.max(1)
    scores = (said.heat * probability).sqrt()
    scaling = slopes_and_offsets(detector.card.scaling, detector.card.categories)
    if scaling is not None:
        scores = calibrated(scores, scaling[category])
    return said._replace(scores=scores, categories=category, probabilities=shares)


def _surface(card: DetectorCard, glance: _Glance, number: int) -> Surface:
    """Returns what is seen of a detection's surface: the cells that show it."""
    assert glance.said.surfaces is not None
    reach_m = card.objects[card.categories[int(glance.said.categories[number])]].reach_m
    box = glance.said.boxes[number].numpy().astype(np.float64) / glance.scale
    corner, side = close_up_square(box)
    maps = glance.said.surfaces[number].numpy().astype(np.float64)
    shown, points, spread = maps[0], maps[1:4], maps[4].clip(_LEAST_SPREAD)
    row, column = np.nonzero(shown > 0)
    places = corner + (np.stack([column, row], 1) + 0.5) * side / len(shown)
    half_px = (box[2:] - box[:2]).max() / 2  # about as many pixels as the object reaches
    return Surface(reach_m * points[:, row, column].T, places, half_px * spread[row, column])


def _detection(
    card: DetectorCard, glance: _Glance, number: int, mask: RunLengths | None
) -> Detection:
    said = glance.said
    x0, y0, x1, y1 = glance.boxes[number].tolist()
    return Detection(
        category=card.categories[int(said.categories[number])],
        box_xyxy=(x0, y0, x1, y1),
        score=glance.scores[number],
        keypoints=_keypoints(card, said, number, glance.scale),
        mask=mask,
    )


def _masks(
    found: Sequence[tuple[_Glance, int]], boxes: Floats, size: tuple[int, int]
) -> dict[int, RunLengths]:
    """Returns the mask of each detection, from the maps of the glance that found it."""
    scores = np.array([glance.scores[i] for glance, i in found])
    masks: dict[int, RunLengths] = {}
    for glance in {id(glance): glance for glance, _ in found}.values():
        mine = [number for number, (other, _) in enumerate(found) if other is glance]
        cut = instance_masks(glance.maps, boxes, scores, size, glance.scale, of=mine)
        masks |= dict(zip(mine, cut, strict=True))
    return masks


def _strangeness(detector: LoadedDetector, glances: Sequence[_Glance]) -> Strangeness | None:
    """Returns how far a picture is from training crops and how little sure its surest object; None where
    it is not known what training crops look like.
    """
    if detector.familiar is None:
        return None
    away = distance(detector.familiar, glances[0].features, detector.card.config["crop_px"])
    return Strangeness(away, min(doubt(glance.maps.heat) for glance in glances))


def _keypoints(
    card: DetectorCard, said: Decoded, number: int, scale: float
) -> tuple[FoundKeypoint, ...] | None:
    if said.keypoints is None:
        return None
    names = card.keypoints[card.categories[int(said.categories[number])]]
    return tuple(
        FoundKeypoint(
            name, (x / scale - PIXEL_CENTRE, y / scale - PIXEL_CENTRE), seen, spread / scale
        )
        for name, (x, y, spread, seen) in zip(names, said.keypoints[number].tolist(), strict=False)
    )


def predict_dataset(
    detector: AnyDetector,
    dataset: Dataset,
    *,
    score_floor: float | None = None,
    scale: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, tuple[Detection, ...]]:
    """Returns what lies in every image of a data set, by the sample's name.

    Args:
        detector: from ``load_detector``.
        dataset: labels are not looked at.
        score_floor, scale: as for ``predict``.
        progress: is told how many images of how many are done.

    Raises:
        InputError: an image cannot be read.
    """
    seen = look_at_dataset(
        detector, dataset, score_floor=score_floor, scale=scale, progress=progress
    )
    return {name: prediction.detections for name, prediction in seen.items()}


def look_at_dataset(
    detector: AnyDetector,
    dataset: Dataset,
    *,
    score_floor: float | None = None,
    scale: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Prediction]:
    """Returns what ``look`` says of every image of a data set, by the sample's name, short of surfaces: those of
    a thousand images would fill the memory.

    Its arguments and errors are those of ``predict_dataset``.
    """
    seen = {}
    for done, sample in enumerate(dataset.samples, 1):
        rgb = read_rgb(sample.rgb)
        found = look(detector, rgb, score_floor=score_floor, scale=scale)
        seen[sample.name] = replace(found, surfaces=None)
        if progress is not None:
            progress(done, len(dataset.samples))
    return seen
