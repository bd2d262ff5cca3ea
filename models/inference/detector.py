"""Detector with weights from a file: from an image to detections."""

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
from sim2cam.geometry.boxes import pad_boxes
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
from sim2cam.models import shipped_weights
from sim2cam.models.card import DetectorCard, card_from_json
from sim2cam.models.inference.detections import Prediction, SurfacePoints, suppress_non_maxima
from sim2cam.models.inference.input_scales import (
    MULTI_SCALE_FACTORS,
    PyramidLevel,
    build_pyramid,
)
from sim2cam.models.inference.tiles import compute_maps
from sim2cam.models.inference.torchvision_detector import TorchvisionDetector
from sim2cam.models.network.architectures import ARCHITECTURES
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
from sim2cam.models.training.images import PIXEL_CENTRE_OFFSET

Floats = NDArray[np.float64]

SHIPPED_WEIGHTS = shipped_weights.SHIPPED_WEIGHTS

_MIN_OBJECTNESS = 0.5  # for confident objects of any category
_MIN_ROI_OBJECTNESS = 0.05
"""Lowest objectness of a detection that the RoI network classifies. The network takes most of the time of a prediction,
and detections below are hardly ever correct."""
_MIN_UNCERTAINTY = 0.01  # lowest plausible one of a surface point, relative to the object's size


@dataclass(frozen=True)
class NativeDetector:
    """Detector with a network of this project, ready for prediction.

    Attributes:
        network: network in evaluation mode, on its device.
        card: card of the weights.
        feature_distribution: features of training crops for OOD detection; None if not measured.
        scale_factors: factors on the card's input scale at which images are predicted, first 1; detections of
            all are merged.
    """

    network: DetectorNetwork
    card: DetectorCard
    feature_distribution: FeatureDistribution | None = None
    scale_factors: tuple[float, ...] = (1.0,)

    @functools.cached_property
    def fused_network(self) -> DetectorNetwork:
        """Network with fused batch norms for prediction, a copy made at the first access."""
        return fuse_batch_norm(self.network)

    def predict(
        self,
        rgb: NDArray[np.uint8],
        *,
        score_floor: float | None = None,
        input_scale: float | None = None,
    ) -> Prediction:
        """Predict one image; see ``predict_image``."""
        card, size = self.card, (rgb.shape[0], rgb.shape[1])
        levels = build_pyramid(card.input_scale, card.box_size_range_px, max(size))
        base_count = len(levels)
        for factor in self.scale_factors[1:]:
            levels += build_pyramid(card.input_scale * factor, card.box_size_range_px, max(size))
        if input_scale is not None:
            levels = (PyramidLevel(input_scale),)
        level_predictions = [_decode_level(self, rgb, level, score_floor) for level in levels]
        if self.fused_network.roi_network is not None:
            level_predictions = [
                _classify_level(self, rgb, level, score_floor)
                for level in _remove_duplicates(card, level_predictions)
            ]
        candidates = _select_candidates(card, level_predictions)
        boxes = np.array([level.boxes[i] for level, i in candidates]).reshape(-1, 4)
        masks = _make_masks(candidates, boxes, size) if card.masks else {}
        first_level = level_predictions[0]
        ood_statistics = _compute_ood_statistics(self, level_predictions[:base_count])
        return Prediction(
            tuple(
                _make_detection(card, level, i, masks.get(number))
                for number, (level, i) in enumerate(candidates)
            ),
            card.ood_threshold.compute_ood_score(ood_statistics)
            if card.ood_threshold and ood_statistics
            else None,
            ood_statistics,
            tuple(_make_surface_points(card, level, i) for level, i in candidates)
            if card.objects
            else None,
            compute_category_masks(first_level.maps, card.categories, size, first_level.input_scale)
            if card.masks
            else None,
            _collect_category_probabilities(card, candidates),
        )


AnyDetector = NativeDetector | TorchvisionDetector
"""Detector with a network of this project or a torchvision model."""


def set_input_scale(
    detector: AnyDetector, input_scale: float | None, *, multi_scale: bool = False
) -> AnyDetector:
    """Return the detector with another input scale, or with several.

    Args:
        input_scale: the input scale; None for that of the card.
        multi_scale: predict at ``MULTI_SCALE_FACTORS`` times the input scale.

    Raises:
        UsageError: if a torchvision model gets several scales.
    """
    if input_scale is not None:
        detector = replace(detector, card=replace(detector.card, input_scale=input_scale))
    if multi_scale:
        native = require_native_detector(detector, "--multi-scale")
        detector = replace(native, scale_factors=MULTI_SCALE_FACTORS)
    return detector


def require_native_detector(detector: AnyDetector, feature: str) -> NativeDetector:
    """Return the detector, or raise ``UsageError`` if it is a torchvision model.

    Args:
        feature: feature that torchvision models lack, for the message.
    """
    if isinstance(detector, TorchvisionDetector):
        raise make_unsupported_error(detector.card.architecture, feature)
    return detector


def load_detector(path: Path, *, device: str = "cpu") -> AnyDetector:
    """Load a detector from a weights file and its card.

    Raises:
        CheckpointError: if a file is missing or broken, or card and weights do not fit.
        UsageError, BackendError: if the device does not exist, or operators of the network do not load.
    """
    tensors, card_json = load_weights(path)
    card = card_from_json(get_card_path(path), card_json)
    torch_device = find_device(device)
    n_keypoints = max(map(len, card.keypoints.values()), default=0)
    counts = {"categories (number)": len(card.categories), "keypoints (of a category)": n_keypoints}
    check_sizes(path, tensors, channels=counts)
    if card.architecture not in ARCHITECTURES:
        check_operators(card.architecture)
        torchvision_network = build_torchvision_network(
            card.architecture,
            len(card.categories),
            torch.Generator(),
            n_keypoints=n_keypoints,
            crop_px=card.config["crop_px"],
        )
        load_into_network(path, torchvision_network, tensors)
        return TorchvisionDetector(torchvision_network.eval().to(torch_device), card)
    feature_distribution = None
    if card.ood_threshold is not None:
        channels = ARCHITECTURES[card.architecture].head_channels
        tensors, feature_distribution = split_feature_distribution(path, tensors, channels)
    network = DetectorNetwork(
        card.architecture,
        len(card.categories),
        torch.Generator(),
        poses=bool(card.objects),
        n_keypoints=n_keypoints,
        masks=card.masks,
        residual=card.residual,
        roi_classifier=card.roi_classifier,
    )
    load_into_network(path, network, tensors)
    network.eval().to(torch_device)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return NativeDetector(network, card, feature_distribution)


def save_detector(
    path: Path,
    tensors: Mapping[str, Tensor],
    card: DetectorCard,
    feature_distribution: FeatureDistribution | None = None,
) -> None:
    """Write weights in half precision, and their card.

    Args:
        path: the weights file; the card is written next to it.
        feature_distribution: features of training crops, if the card has an OOD threshold.

    Raises:
        CheckpointError: if the name does not end in ``.safetensors``.
        OutputError: if the folder cannot be written.
    """
    ood_tensors = {} if feature_distribution is None else feature_distribution.to_tensors()
    save_weights(path, {**tensors, **ood_tensors}, card.to_json())


def detect_objects(
    detector: AnyDetector,
    rgb: NDArray[np.uint8],
    *,
    score_floor: float | None = None,
    input_scale: float | None = None,
) -> tuple[Detection, ...]:
    """Return the detections in an image by falling score; see ``predict_image``."""
    return predict_image(detector, rgb, score_floor=score_floor, input_scale=input_scale).detections


def predict_image(
    detector: AnyDetector,
    rgb: NDArray[np.uint8],
    *,
    score_floor: float | None = None,
    input_scale: float | None = None,
) -> Prediction:
    """Predict one image of any size.

    Args:
        rgb: (h, w, 3) uint8.
        score_floor: lowest score. None keeps detections from ``SCORE_FLOOR`` before calibration.
        input_scale: the only input scale. None uses that of the card, then halved ones as long as the image
            has room for larger objects than the training data (``build_pyramid``). Masks of categories come
            from the first scale.
    """
    return detector.predict(rgb, score_floor=score_floor, input_scale=input_scale)


def _collect_category_probabilities(card: DetectorCard, candidates: Sequence[_Candidate]) -> Floats:
    """Return the category probabilities (n, c) of confident objects."""
    probabilities = [
        level.decoded.probabilities[i]
        for level, i in candidates
        if level.decoded.objectness[i] >= _MIN_OBJECTNESS
    ]
    return np.array(probabilities, np.float64).reshape(len(probabilities), len(card.categories))


@dataclass(frozen=True, eq=False)
class _LevelPrediction:
    """Prediction at one input scale.

    Attributes:
        input_scale, halvings: as in ``PyramidLevel``.
        maps, features: outputs of ``compute_maps``.
        decoded: detections decoded from the maps, by falling score.
        image_size: height and width of the image.
        padding_px: padding of the boxes.
    """

    input_scale: float
    halvings: int
    maps: DetectionMaps
    features: Tensor
    decoded: DecodedDetections
    image_size: tuple[int, int]
    padding_px: float

    @functools.cached_property
    def boxes(self) -> Floats:
        """Boxes in pixels of the image, clipped to it (n, 4)."""
        height, width = self.image_size
        boxes = self.decoded.boxes.numpy().astype(np.float64) / self.input_scale
        return pad_boxes(boxes, self.padding_px).clip(0, (width, height, width, height))

    @functools.cached_property
    def scores(self) -> list[float]:
        """Falling scores (n,)."""
        scores: list[float] = self.decoded.scores.tolist()
        return scores


_Candidate = tuple[_LevelPrediction, int]
"""A detection, by its level and index."""


def _decode_level(
    detector: NativeDetector, rgb: NDArray[np.uint8], level: PyramidLevel, score_floor: float | None
) -> _LevelPrediction:
    """Return the prediction at one pyramid level, of objects in its size range, without the RoI network."""
    card = detector.card
    maps, features = compute_maps(detector.fused_network, rgb, level.input_scale)
    has_roi_network = detector.fused_network.roi_network is not None
    calibration = stack_calibration(card.score_calibration, card.categories)
    decoded = decode_maps(maps, None if has_roi_network else score_floor, calibration)
    longer_sides_px = (decoded.boxes[:, 2:] - decoded.boxes[:, :2]).amax(1)
    decoded = decoded.select(
        (longer_sides_px >= level.min_side_px) & (longer_sides_px <= level.max_side_px)
    )
    if has_roi_network:
        decoded = decoded.select(decoded.objectness >= _MIN_ROI_OBJECTNESS)
    if has_roi_network and score_floor is not None:  # skip boxes whose score cannot reach the floor
        decoded = decoded.select(
            _compute_max_scores(decoded.objectness, calibration) >= score_floor
        )
    size = (rgb.shape[0], rgb.shape[1])
    return _LevelPrediction(
        level.input_scale, level.halvings, maps, features, decoded, size, card.box_padding * max(size)
    )  # fmt: skip


def _select_candidates(
    card: DetectorCard, level_predictions: Sequence[_LevelPrediction]
) -> list[_Candidate]:
    """Return the detections of all levels by falling score, without duplicates."""
    candidates = [(level, i) for level in level_predictions for i in range(len(level.boxes))]
    candidates.sort(key=lambda candidate: candidate[0].scores[candidate[1]], reverse=True)
    kept = suppress_non_maxima(
        np.array([level.boxes[i] for level, i in candidates]).reshape(-1, 4),
        [level.halvings for level, _ in candidates],
        [int(level.decoded.categories[i]) for level, i in candidates] if card.is_amodal else None,
    )
    return [candidates[i] for i in kept]


def _remove_duplicates(
    card: DetectorCard, level_predictions: Sequence[_LevelPrediction]
) -> list[_LevelPrediction]:
    """Return the levels without duplicates, so that the slow RoI network processes each object once."""
    candidates = _select_candidates(card, level_predictions)
    indices = [[i for level, i in candidates if level is other] for other in level_predictions]
    return [
        replace(level, decoded=level.decoded.select(torch.tensor(kept, dtype=torch.long)))
        for level, kept in zip(level_predictions, indices, strict=True)
    ]


def _classify_level(
    detector: NativeDetector,
    rgb: NDArray[np.uint8],
    level: _LevelPrediction,
    score_floor: float | None,
) -> _LevelPrediction:
    """Return the level with categories and surfaces of the RoI network."""
    if not len(level.decoded.boxes):
        return level
    decoded = _classify_crops(detector, rgb, level.decoded, level.input_scale, score_floor)
    return replace(level, decoded=decoded)


def _compute_max_scores(heatmap: Tensor, calibration: Tensor | None) -> Tensor:
    """Return the highest scores (n,) that the RoI classifier can lead to."""
    scores = heatmap.sqrt()
    return scores if calibration is None else calibrate_scores(scores[:, None], calibration).amax(1)


def _classify_crops(
    detector: NativeDetector,
    rgb: NDArray[np.uint8],
    decoded: DecodedDetections,
    input_scale: float,
    score_floor: float | None,
) -> DecodedDetections:
    """Return the detections with categories and surfaces of the RoI classifier."""
    side, views = get_roi_side_px(poses=bool(detector.card.objects)), detector.card.roi_views
    boxes = decoded.boxes.numpy().astype(np.float64) / input_scale
    crops = np.stack([crop_roi(rgb, box, side, view) for view in views for box in boxes])
    network, device = detector.fused_network, detector.fused_network.mean.device
    with autocast(device, on_cpu=True):
        predictions = network.classify_crops(torch.from_numpy(crops).permute(0, 3, 1, 2).to(device))
    if predictions.category_logits is not None:
        probabilities = (
            predictions.category_logits.softmax(1).reshape(len(views), len(boxes), -1).mean(0)
        )
        decoded = _update_categories(detector, decoded, probabilities.cpu())
    if predictions.features is not None:
        surfaces = network.predict_surfaces(predictions.features, decoded.categories.to(device))
        points, uncertainties = surfaces.decode_coordinates()
        surface_maps = torch.cat([surfaces.mask_logits[:, None], points, uncertainties[:, None]], 1)
        decoded = decoded._replace(surface_maps=surface_maps.cpu())
    order = decoded.scores.argsort(descending=True, stable=True)
    decoded = decoded.select(order)
    return decoded if score_floor is None else decoded.select(decoded.scores >= score_floor)


def _update_categories(
    detector: NativeDetector, decoded: DecodedDetections, category_probabilities: Tensor
) -> DecodedDetections:
    """Return the detections with new categories and scores, in the same order."""
    probability, category = category_probabilities.max(1)
    scores = (decoded.objectness * probability).sqrt()
    calibration = stack_calibration(detector.card.score_calibration, detector.card.categories)
    if calibration is not None:
        scores = calibrate_scores(scores, calibration[category])
    return decoded._replace(
        scores=scores, categories=category, probabilities=category_probabilities
    )


def _make_surface_points(
    card: DetectorCard, level_prediction: _LevelPrediction, detection_index: int
) -> SurfacePoints:
    """Return the surface points of a detection from the cells that show the object."""
    assert level_prediction.decoded.surface_maps is not None
    max_coordinate_m = card.objects[
        card.categories[int(level_prediction.decoded.categories[detection_index])]
    ].max_coordinate_m
    box = (
        level_prediction.decoded.boxes[detection_index].numpy().astype(np.float64)
        / level_prediction.input_scale
    )
    corner, side = compute_roi_square(box)
    maps = level_prediction.decoded.surface_maps[detection_index].numpy().astype(np.float64)
    mask_logits, points, uncertainties = maps[0], maps[1:4], maps[4].clip(_MIN_UNCERTAINTY)
    row, column = np.nonzero(mask_logits > 0)
    image_points = corner + (np.stack([column, row], 1) + 0.5) * side / len(mask_logits)
    object_radius_px = (box[2:] - box[:2]).max() / 2  # about max_coordinate_m in the image
    return SurfacePoints(
        max_coordinate_m * points[:, row, column].T,
        image_points,
        object_radius_px * uncertainties[row, column],
    )


def _make_detection(
    card: DetectorCard,
    level_prediction: _LevelPrediction,
    detection_index: int,
    mask: RleMask | None,
) -> Detection:
    decoded = level_prediction.decoded
    x0, y0, x1, y1 = level_prediction.boxes[detection_index].tolist()
    return Detection(
        category=card.categories[int(decoded.categories[detection_index])],
        box_xyxy=(x0, y0, x1, y1),
        score=level_prediction.scores[detection_index],
        keypoints=_make_keypoints(card, decoded, detection_index, level_prediction.input_scale),
        mask=mask,
    )


def _make_masks(
    candidates: Sequence[tuple[_LevelPrediction, int]], boxes: Floats, size: tuple[int, int]
) -> dict[int, RleMask]:
    """Return the mask of each detection from the maps of its level."""
    scores = np.array([level.scores[i] for level, i in candidates])
    masks: dict[int, RleMask] = {}
    for level in {id(level): level for level, _ in candidates}.values():
        indices = [
            index for index, (other_level, _) in enumerate(candidates) if other_level is level
        ]
        instance_masks = compute_instance_masks(
            level.maps, boxes, scores, size, level.input_scale, indices=indices
        )
        masks |= dict(zip(indices, instance_masks, strict=True))
    return masks


def _compute_ood_statistics(
    detector: NativeDetector, level_predictions: Sequence[_LevelPrediction]
) -> OodStatistics | None:
    """Return feature distance and uncertainty of an image; None without a feature distribution."""
    if detector.feature_distribution is None:
        return None
    distance = compute_feature_distance(
        detector.feature_distribution,
        level_predictions[0].features,
        detector.card.config["crop_px"],
    )
    return OodStatistics(
        distance, min(compute_uncertainty(level.maps.heatmap) for level in level_predictions)
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
            visibility,
            uncertainty / input_scale,
        )
        for name, (x, y, uncertainty, visibility) in zip(
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
    """Return the detections in each image of a dataset by sample name.

    Args:
        score_floor, input_scale: see ``predict_image``.
        progress: called with the numbers of finished and of all images.

    Raises:
        InputError: if an image cannot be read.
    """
    predictions = predict_samples(
        detector, dataset, score_floor=score_floor, input_scale=input_scale, progress=progress
    )
    return {name: prediction.detections for name, prediction in predictions.items()}


def predict_samples(
    detector: AnyDetector,
    dataset: Dataset,
    *,
    score_floor: float | None = None,
    input_scale: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Prediction]:
    """Return the prediction for each image of a dataset by sample name, without surfaces to save memory.

    See ``detect_dataset`` for arguments and errors.
    """
    predictions = {}
    for done, sample in enumerate(dataset.samples, 1):
        rgb = read_rgb(sample.rgb)
        prediction = predict_image(detector, rgb, score_floor=score_floor, input_scale=input_scale)
        predictions[sample.name] = replace(prediction, surfaces=None)
        if progress is not None:
            progress(done, len(dataset.samples))
    return predictions
