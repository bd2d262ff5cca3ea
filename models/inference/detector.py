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
from sim2cam.geometry.boxes import expand_boxes
from sim2cam.geometry.run_length import RleMask
from sim2cam.images import read_rgb
from sim2cam.learn.device import autocast, find_device
from sim2cam.learn.weight_file import (
    check_sizes,
    get_card_path,
    load_into_network,
    load_weights,
    save_weights,
)
from sim2cam.metrics.detection import DetectedKeypoint, Detection
from sim2cam.models.card import DetectorCard, card_from_json
from sim2cam.models.inference.detections import Prediction, SurfacePoints, suppress_non_maxima
from sim2cam.models.inference.input_scales import PyramidLevel, build_pyramid
from sim2cam.models.inference.tiles import compute_maps
from sim2cam.models.inference.torchvision_detector import TorchvisionDetector
from sim2cam.models.network.batch_norm_fusion import fuse_batch_norm
from sim2cam.models.network.decoding import DecodedDetections, decode_maps
from sim2cam.models.network.detector import DetectionMaps, DetectorNetwork
from sim2cam.models.network.masks import compute_category_masks, compute_instance_masks
from sim2cam.models.network.roi_crops import compute_roi_square, crop_roi, get_roi_side_px
from sim2cam.models.network.torchvision_models import check_operators, make_unsupported_error
from sim2cam.models.network.torchvision_network import build_torchvision_network
from sim2cam.models.reliability.confidence import calibrate_scores, stack_calibration
from sim2cam.models.reliability.ood import (
    FeatureDistribution,
    OodStatistics,
    compute_feature_distance,
    compute_uncertainty,
    split_feature_distribution,
)
from sim2cam.models.training.config import ARCHITECTURES
from sim2cam.models.training.images import PIXEL_CENTRE_OFFSET

Floats = NDArray[np.float64]

SHIPPED_WEIGHTS = Path(__file__).parents[1] / "weights"

_MIN_OBJECTNESS = 0.5  # probability of there being an object, whatever it is
_MIN_UNCERTAINTY = 0.01  # of a point of a surface, over the reach: less is not to be believed


@dataclass(frozen=True)
class NativeDetector:
    """A detector that is ready to predict.

    Attributes:
        network: in evaluation mode, on its device.
        card: what it is.
        feature_distribution: what its training crops look like; None where not measured.
    """

    network: DetectorNetwork
    card: DetectorCard
    feature_distribution: FeatureDistribution | None = None

    @functools.cached_property
    def fused_network(self) -> DetectorNetwork:
        """What predicts: the network as it is when this is first asked for, made faster."""
        return fuse_batch_norm(self.network)

    def predict(
        self,
        rgb: NDArray[np.uint8],
        *,
        score_floor: float | None = None,
        input_scale: float | None = None,
    ) -> Prediction:
        """Return what lies in an image; arguments are those of the function ``look``."""
        return _predict_native(self, rgb, score_floor, input_scale)


AnyDetector = NativeDetector | TorchvisionDetector
"""What says what lies in a picture, with a network of our own or with a model of torchvision."""


def require_native_detector(detector: AnyDetector, feature: str) -> NativeDetector:
    """Return a detector with a network of our own, which can do what torchvision's models cannot.

    Args:
        detector: any.
        feature: of ``named.LACKS``, for the error.

    Raises:
        UsageError: it is a model of torchvision.
    """
    if isinstance(detector, TorchvisionDetector):
        raise make_unsupported_error(detector.card.architecture, feature)
    return detector


def load_detector(path: Path, *, device: str = "cpu") -> AnyDetector:
    """Return the detector that a weights file and its card describe.

    Raises:
        CheckpointError: a file is missing or broken, or card and weights do not fit.
        UsageError, BackendError: there is no such device, or operators that it needs do not load.
    """
    tensors, words = load_weights(path)
    card = card_from_json(get_card_path(path), words)
    place, keypoints = find_device(device), max(map(len, card.keypoints.values()), default=0)
    counts = {"categories (number)": len(card.categories), "keypoints (of a category)": keypoints}
    check_sizes(path, tensors, channels=counts)
    if card.architecture not in ARCHITECTURES:
        check_operators(card.architecture)
        named = build_torchvision_network(
            card.architecture,
            len(card.categories),
            torch.Generator(),
            n_keypoints=keypoints,
            crop_px=card.config["crop_px"],
        )
        load_into_network(path, named, tensors)
        return TorchvisionDetector(named.eval().to(place), card)
    familiar = None
    if card.ood_threshold is not None:
        channels = ARCHITECTURES[card.architecture].head_channels
        tensors, familiar = split_feature_distribution(path, tensors, channels)
    network = DetectorNetwork(
        card.architecture,
        len(card.categories),
        torch.Generator(),
        poses=bool(card.objects),
        n_keypoints=keypoints,
        masks=card.masks,
        residual=card.residual,
        roi_classifier=card.roi_classifier,
    )
    load_into_network(path, network, tensors)
    network.eval().to(place)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return NativeDetector(network, card, familiar)


def save_detector(
    path: Path,
    tensors: Mapping[str, Tensor],
    card: DetectorCard,
    feature_distribution: FeatureDistribution | None = None,
) -> None:
    """Write weights, in half precision, and their card.

    Args:
        path: the weights file; the card lies beside it.
        tensors: of the network.
        card: what it is.
        feature_distribution: what its training crops look like, where the card has a limit for it.

    Raises:
        CheckpointError: the name does not end in ``.safetensors``.
        OutputError: the folder cannot be written.
    """
    more = {} if feature_distribution is None else feature_distribution.to_tensors()
    save_weights(path, {**tensors, **more}, card.to_json())


def detect_objects(
    detector: AnyDetector,
    rgb: NDArray[np.uint8],
    *,
    score_floor: float | None = None,
    input_scale: float | None = None,
) -> tuple[Detection, ...]:
    """Return what lies in an image of any size, surest first; arguments are those of ``look``."""
    return predict_image(detector, rgb, score_floor=score_floor, input_scale=input_scale).detections


def predict_image(
    detector: AnyDetector,
    rgb: NDArray[np.uint8],
    *,
    score_floor: float | None = None,
    input_scale: float | None = None,
) -> Prediction:
    """Return what lies in an image of any size, and how unlike what was trained on the image is.

    Args:
        detector: from ``load_detector``.
        rgb: (height, width, 3) uint8.
        score_floor: less sure ones are left out; when None, those below ``SCORE_FLOOR`` before
            calibration, which keeps the order of those of one category.
        input_scale: the only magnification before the network. When None the picture is looked at with the
            card's and, as long as larger objects than those trained on would have room in it, ever
            halved ones: see ``pyramid``. Pixels and probabilities of categories are those of the first.
    """
    return detector.predict(rgb, score_floor=score_floor, input_scale=input_scale)


def _predict_native(
    detector: NativeDetector,
    rgb: NDArray[np.uint8],
    score_floor: float | None,
    input_scale: float | None,
) -> Prediction:
    card, size = detector.card, (rgb.shape[0], rgb.shape[1])
    levels = build_pyramid(card.input_scale, card.box_size_range_px, max(size))
    if input_scale is not None:
        levels = (PyramidLevel(input_scale),)
    glances = [_predict_level(detector, rgb, level, score_floor) for level in levels]
    found = [(glance, i) for glance in glances for i in range(len(glance.boxes))]
    found.sort(key=lambda one: one[0].scores[one[1]], reverse=True)
    boxes = np.array([glance.boxes[i] for glance, i in found]).reshape(-1, 4)
    kinds = [int(glance.decoded.categories[i]) for glance, i in found] if card.is_amodal else None
    kept = suppress_non_maxima(boxes, [glance.input_scale for glance, _ in found], kinds)
    found, boxes = [found[i] for i in kept], boxes[kept]
    masks = _make_masks(found, boxes, size) if card.masks else {}
    first = glances[0]
    strangeness = _compute_ood_statistics(detector, glances)
    return Prediction(
        tuple(
            _make_detection(card, glance, i, masks.get(number))
            for number, (glance, i) in enumerate(found)
        ),
        card.ood_threshold.compute_ood_score(strangeness)
        if card.ood_threshold and strangeness
        else None,
        strangeness,
        tuple(_make_surface_points(card, glance, i) for glance, i in found)
        if card.objects
        else None,
        compute_category_masks(first.maps, card.categories, size, first.input_scale)
        if card.masks
        else None,
        _collect_category_probabilities(card, found),
    )


def _collect_category_probabilities(
    card: DetectorCard, candidates: Sequence[tuple[_LevelPrediction, int]]
) -> Floats:
    """Return the probabilities (n, c) of the categories of what surely is an object."""
    sure = [
        glance.decoded.probabilities[i]
        for glance, i in candidates
        if glance.decoded.objectness[i] >= _MIN_OBJECTNESS
    ]
    return np.array(sure, np.float64).reshape(len(sure), len(card.categories))


@dataclass(frozen=True, eq=False)
class _LevelPrediction:
    """What a detector says of a picture at one magnification.

    Attributes:
        input_scale: the magnification.
        maps, features: as ``compute_maps`` returns them.
        decoded: what the maps say.
        boxes: pixels of the picture, inside it (n, 4).
        scores: (n,) the surest first.
    """

    input_scale: float
    maps: DetectionMaps
    features: Tensor
    decoded: DecodedDetections
    boxes: Floats
    scores: list[float]


def _predict_level(
    detector: NativeDetector, rgb: NDArray[np.uint8], level: PyramidLevel, score_floor: float | None
) -> _LevelPrediction:
    """Return what a detector says of a picture at one level, of objects that count there."""
    card = detector.card
    height, width = rgb.shape[:2]
    maps, features = compute_maps(detector.fused_network, rgb, level.input_scale)
    is_read_again = detector.fused_network.roi_network is not None
    scaling = stack_calibration(card.score_calibration, card.categories)
    said = decode_maps(maps, None if is_read_again else score_floor, scaling)
    longer_px = (said.boxes[:, 2:] - said.boxes[:, :2]).amax(1)
    said = said.select((longer_px >= level.min_side_px) & (longer_px <= level.max_side_px))
    if is_read_again:
        if score_floor is not None:  # what no close-up can make sure enough is not looked at again
            said = said.select(_compute_max_scores(said.objectness, scaling) >= score_floor)
        said = (
            _classify_crops(detector, rgb, said, level.input_scale, score_floor)
            if len(said.boxes)
            else said
        )
    boxes = expand_boxes(
        said.boxes.numpy().astype(np.float64) / level.input_scale, card.box_expansion
    )
    boxes = boxes.clip(0, (width, height, width, height))
    return _LevelPrediction(level.input_scale, maps, features, said, boxes, said.scores.tolist())


def _compute_max_scores(heatmap: Tensor, calibration: Tensor | None) -> Tensor:
    """Return the highest scores (n,) that reading the categories again may lead to."""
    scores = heatmap.sqrt()
    return scores if calibration is None else calibrate_scores(scores[:, None], calibration).amax(1)


def _classify_crops(
    detector: NativeDetector,
    rgb: NDArray[np.uint8],
    decoded: DecodedDetections,
    input_scale: float,
    score_floor: float | None,
) -> DecodedDetections:
    """Return what is said of objects with what their close-ups show.

    Args:
        detector: from ``load_detector``.
        rgb: the picture.
        decoded: what its maps say, at a scale.
        input_scale: the magnification.
        score_floor: as for ``look``.
    """
    side, ways = get_roi_side_px(poses=bool(detector.card.objects)), detector.card.roi_views
    boxes = decoded.boxes.numpy().astype(np.float64) / input_scale
    close_ups = np.stack([crop_roi(rgb, box, side, way) for way in ways for box in boxes])
    network, device = detector.fused_network, detector.fused_network.mean.device
    with autocast(device, on_cpu=True):
        reading = network.classify_crops(torch.from_numpy(close_ups).permute(0, 3, 1, 2).to(device))
    if reading.category_logits is not None:
        shares = reading.category_logits.softmax(1).reshape(len(ways), len(boxes), -1).mean(0)
        decoded = _update_categories(detector, decoded, shares.cpu())
    if reading.features is not None:
        mine = network.predict_surfaces(reading.features, decoded.categories.to(device))
        points, off = mine.decode_coordinates()
        surfaces = torch.cat([mine.mask_logits[:, None], points, off[:, None]], 1)
        decoded = decoded._replace(surface_maps=surfaces.cpu())
    order = decoded.scores.argsort(descending=True, stable=True)
    decoded = decoded.select(order)
    return decoded if score_floor is None else decoded.select(decoded.scores >= score_floor)


def _update_categories(
    detector: NativeDetector, decoded: DecodedDetections, category_probabilities: Tensor
) -> DecodedDetections:
    """Return what is said of objects with other categories and scores; their order is as it was.

    Args:
        detector: from ``load_detector``.
        decoded: what its maps say.
        category_probabilities: probabilities of the categories (n, c).
    """
    probability, category = category_probabilities.max(1)
    scores = (decoded.objectness * probability).sqrt()
    scaling = stack_calibration(detector.card.score_calibration, detector.card.categories)
    if scaling is not None:
        scores = calibrate_scores(scores, scaling[category])
    return decoded._replace(
        scores=scores, categories=category, probabilities=category_probabilities
    )


def _make_surface_points(
    card: DetectorCard, level_prediction: _LevelPrediction, detection_index: int
) -> SurfacePoints:
    """Return what is seen of a detection's surface: the cells that show it."""
    assert level_prediction.decoded.surface_maps is not None
    reach_m = card.objects[
        card.categories[int(level_prediction.decoded.categories[detection_index])]
    ].max_coordinate_m
    box = (
        level_prediction.decoded.boxes[detection_index].numpy().astype(np.float64)
        / level_prediction.input_scale
    )
    corner, side = compute_roi_square(box)
    maps = level_prediction.decoded.surface_maps[detection_index].numpy().astype(np.float64)
    shown, points, spread = maps[0], maps[1:4], maps[4].clip(_MIN_UNCERTAINTY)
    row, column = np.nonzero(shown > 0)
    places = corner + (np.stack([column, row], 1) + 0.5) * side / len(shown)
    half_px = (box[2:] - box[:2]).max() / 2  # about as many pixels as the object reaches
    return SurfacePoints(reach_m * points[:, row, column].T, places, half_px * spread[row, column])


def _make_detection(
    card: DetectorCard,
    level_prediction: _LevelPrediction,
    detection_index: int,
    mask: RleMask | None,
) -> Detection:
    said = level_prediction.decoded
    x0, y0, x1, y1 = level_prediction.boxes[detection_index].tolist()
    return Detection(
        category=card.categories[int(said.categories[detection_index])],
        box_xyxy=(x0, y0, x1, y1),
        score=level_prediction.scores[detection_index],
        keypoints=_make_keypoints(card, said, detection_index, level_prediction.input_scale),
        mask=mask,
    )


def _make_masks(
    candidates: Sequence[tuple[_LevelPrediction, int]], boxes: Floats, size: tuple[int, int]
) -> dict[int, RleMask]:
    """Return the mask of each detection, from the maps of the glance that found it."""
    scores = np.array([glance.scores[i] for glance, i in candidates])
    masks: dict[int, RleMask] = {}
    for glance in {id(glance): glance for glance, _ in candidates}.values():
        mine = [number for number, (other, _) in enumerate(candidates) if other is glance]
        cut = compute_instance_masks(
            glance.maps, boxes, scores, size, glance.input_scale, indices=mine
        )
        masks |= dict(zip(mine, cut, strict=True))
    return masks


def _compute_ood_statistics(
    detector: NativeDetector, level_predictions: Sequence[_LevelPrediction]
) -> OodStatistics | None:
    """Return how far a picture is from training crops and how little sure its surest object; None where
    it is not known what training crops look like.
    """
    if detector.feature_distribution is None:
        return None
    away = compute_feature_distance(
        detector.feature_distribution,
        level_predictions[0].features,
        detector.card.config["crop_px"],
    )
    return OodStatistics(
        away, min(compute_uncertainty(glance.maps.heatmap) for glance in level_predictions)
    )


def _make_keypoints(
    card: DetectorCard, decoded: DecodedDetections, detection_index: int, input_scale: float
) -> tuple[DetectedKeypoint, ...] | None:
    if decoded.keypoints is None:
        return None
    names = card.keypoints[card.categories[int(decoded.categories[detection_index])]]
    return tuple(
        DetectedKeypoint(
            name,
            (x / input_scale - PIXEL_CENTRE_OFFSET, y / input_scale - PIXEL_CENTRE_OFFSET),
            seen,
            spread / input_scale,
        )
        for name, (x, y, spread, seen) in zip(
            names, decoded.keypoints[detection_index].tolist(), strict=False
        )
    )


def detect_dataset(
    detector: AnyDetector,
    dataset: Dataset,
    *,
    score_floor: float | None = None,
    input_scale: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, tuple[Detection, ...]]:
    """Return what lies in every image of a data set, by the sample's name.

    Args:
        detector: from ``load_detector``.
        dataset: labels are not looked at.
        score_floor, input_scale: as for ``predict``.
        progress: is told how many images of how many are done.

    Raises:
        InputError: an image cannot be read.
    """
    seen = predict_samples(
        detector, dataset, score_floor=score_floor, input_scale=input_scale, progress=progress
    )
    return {name: prediction.detections for name, prediction in seen.items()}


def predict_samples(
    detector: AnyDetector,
    dataset: Dataset,
    *,
    score_floor: float | None = None,
    input_scale: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Prediction]:
    """Return what ``look`` says of every image of a data set, by the sample's name, short of surfaces: those of
    a thousand images would fill the memory.

    Its arguments and errors are those of ``detect_dataset``.
    """
    seen = {}
    for done, sample in enumerate(dataset.samples, 1):
        rgb = read_rgb(sample.rgb)
        found = predict_image(detector, rgb, score_floor=score_floor, input_scale=input_scale)
        seen[sample.name] = replace(found, surfaces=None)
        if progress is not None:
            progress(done, len(dataset.samples))
    return seen
