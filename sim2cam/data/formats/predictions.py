"""Detections in files: own results, ablation results by image name, and COCO or BOP results by id."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from sim2cam.data.formats.bop.files import clip_bop_box, find_scenes, read_category_names
from sim2cam.data.formats.bop.poses import get_bop_ids, parse_scene_id
from sim2cam.data.formats.bop.reader import is_bop
from sim2cam.data.formats.coco.boxes import XYXY_MESSAGE, are_xyxy
from sim2cam.data.formats.coco.ids import CocoIds, read_coco_ids
from sim2cam.data.label_mapping import LabelMapping
from sim2cam.data.mask_file import MaskFile
from sim2cam.data.parsing import convert_validation_errors, read_json
from sim2cam.data.photo_folder import find_coco_file
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError, Sim2CamError
from sim2cam.geometry.boxes import xywh_to_xyxy
from sim2cam.images import compute_digest
from sim2cam.metrics.detection import DetectedKeypoint, Detection
from sim2cam.metrics.segmentation import PixelConfusions
from sim2cam.metrics.unsupervised import SelectionScores
from sim2cam.metrics.verdict import CommandNames, TrainingAmount

DETECTIONS, DIGESTS, LABEL_MAPPING = "detections", "digests", "label_mapping"
PIXEL_CONFUSIONS, SELECTION_SCORES = "pixel_confusions", "selection_scores"
TRAINING, NAMES = "training", "names"
"""Keys of prediction files: detections, image digests, mapping of labels to categories, pixel confusions,
unsupervised selection scores, amount of training, and names in the commands of the verdict."""

DETECTION_ROWS = "detection_rows"
"""Key of ablation result files: detections as rows, see ``parse_detection_rows``."""

T = TypeVar("T")

_MAX_BYTES = 500_000_000
_HINT = "Write the results in COCO format."

Predictions = dict[str, tuple[Detection, ...]]


class LoadedPredictions(NamedTuple):
    """Detections of a file with the images that they are scored on.

    Attributes:
        detections: detections by image name, with an entry for every image.
    """

    captures: Dataset
    detections: Predictions
    label_mapping: LabelMapping | None = None
    pixel_confusions: PixelConfusions | None = None
    selection_scores: SelectionScores | None = None
    training: TrainingAmount | None = None
    names: CommandNames = CommandNames()


@dataclass(frozen=True)
class _CocoResult:
    """COCO result; ``scene_id`` is BOP's, whose image ids are per scene."""

    image_id: int | str
    category_id: int
    score: float
    bbox: tuple[float, float, float, float] | None = None
    segmentation: Any = None
    keypoints: Any = None
    scene_id: int | None = None


_DetectionRow = tuple[str, float, float, float, float, float]

_LABEL_MAPPING: TypeAdapter[LabelMapping | None] = TypeAdapter(LabelMapping | None)
_SELECTION_SCORES: TypeAdapter[SelectionScores | None] = TypeAdapter(SelectionScores | None)
_TRAINING: TypeAdapter[TrainingAmount | None] = TypeAdapter(TrainingAmount | None)
_NAMES = TypeAdapter(CommandNames)
_PIXEL_CONFUSIONS: TypeAdapter[PixelConfusions | None] = TypeAdapter(PixelConfusions | None)
_PREDICTIONS: TypeAdapter[dict[str, tuple[Detection, ...]]] = TypeAdapter(
    dict[str, tuple[Detection, ...]]
)
_DETECTION_ROWS: TypeAdapter[dict[str, list[_DetectionRow]]] = TypeAdapter(
    dict[str, list[_DetectionRow]]
)
_DIGESTS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])
_COCO_RESULTS: TypeAdapter[list[_CocoResult]] = TypeAdapter(list[_CocoResult])


def predictions_to_json(predictions: Mapping[str, Sequence[Detection]]) -> dict[str, Any]:
    """Return detections by image name as JSON values."""
    return {name: [d.to_json() for d in detections] for name, detections in predictions.items()}


def predictions_from_json(values: Any) -> Predictions:
    """Return the detections of ``predictions_to_json``.

    Raises:
        pydantic.ValidationError: the values are invalid.
    """
    return _PREDICTIONS.validate_python(values)


def label_mapping_to_json(label_mapping: LabelMapping | None) -> dict[str, Any] | None:
    """Return a label mapping as JSON values; None without one."""
    return None if label_mapping is None else asdict(label_mapping)


def parse_detection_rows(detection_rows: Mapping[str, Sequence[Sequence[Any]]]) -> Predictions:
    """Return detections from rows of category, x0, y0, x1, y1 and score, by image name."""
    return {
        image: tuple(Detection(row[0], (row[1], row[2], row[3], row[4]), row[5]) for row in rows)
        for image, rows in detection_rows.items()
    }


def compute_file_digests(captures: Dataset) -> dict[str, str]:
    """Return the SHA-256 of each image file by image name, to detect other images of the same name.

    Raises:
        InputError: an image cannot be read.
    """
    return {sample.name: compute_digest(sample.rgb) for sample in captures.samples}


def check_digests(path: Path, digests: Mapping[str, str], captures: Dataset) -> None:
    """Raise if predictions were made on other images of the same names.

    Raises:
        InputError: an image differs or cannot be read.
    """
    for name, digest in compute_file_digests(captures).items():
        if digests.get(name) != digest:
            raise InputError(
                path,
                f"was made with another version of image {name}. Use the original captures or predict again.",
            )


def read_predictions(
    path: Path, captures: Dataset, captures_path: Path, *, limit: int | None = None
) -> LoadedPredictions:
    """Return the detections of a file.

    Args:
        path: file of ``bench --out`` or of an ablation study, or a list of COCO results.
        captures_path: source of the captures, which defines the ids of COCO results: a COCO file or
            a BOP dataset.
        limit: number of captures to use; None for all.

    Raises:
        InputError: the file is broken, or has other images or categories.
    """
    values = read_json(path, _MAX_BYTES, "list of detections")
    if isinstance(values, list):
        results = _parse_results(path, values)
        is_bop_dataset = is_bop(captures_path)
        captures = captures.take(limit)
        loaded = LoadedPredictions(
            captures,
            (_convert_bop_results if is_bop_dataset else _convert_coco_results)(
                path, results, captures, captures_path
            ),
        )
    elif isinstance(values, dict) and DETECTION_ROWS in values:
        loaded = _parse_own_file(path, _expand_rows(path, values), captures, limit)
    elif isinstance(values, dict) and DETECTIONS in values:
        loaded = _parse_own_file(path, values, captures, limit)
    else:
        raise InputError(
            path,
            "contains no detections. Allowed: a list of COCO results, a file of bench --out, or weights (.safetensors).",
        )
    sizes = {sample.name: (sample.height, sample.width) for sample in captures.samples}
    for name, detections in loaded.detections.items():
        for index, detection in enumerate(detections):
            location = f"image {name}, detection {index}"
            _check_detection(path, location, detection)
            _check_mask(path, location, detection, sizes[name])
    return loaded


def _expand_rows(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    with convert_validation_errors(path, "Predict again.", prefix=f"{DETECTION_ROWS}."):
        detections = parse_detection_rows(_DETECTION_ROWS.validate_python(values[DETECTION_ROWS]))
    metadata = {key: values[key] for key in (DIGESTS, LABEL_MAPPING) if key in values}
    return {DETECTIONS: predictions_to_json(detections), **metadata}


def _parse_own_file(
    path: Path, values: dict[str, Any], captures: Dataset, limit: int | None
) -> LoadedPredictions:
    def parse(key: str, adapter: TypeAdapter[T], default: Any = None) -> T:
        with convert_validation_errors(path, "Predict again.", prefix=f"{key}."):
            return adapter.validate_python(values.get(key, default))

    detections = parse(DETECTIONS, _PREDICTIONS)
    digests = parse(DIGESTS, _DIGESTS, {})  # older files have none
    matching = parse(LABEL_MAPPING, _LABEL_MAPPING)
    pixels = parse(PIXEL_CONFUSIONS, _PIXEL_CONFUSIONS)
    selection = parse(SELECTION_SCORES, _SELECTION_SCORES)
    training = parse(TRAINING, _TRAINING)
    names = parse(NAMES, _NAMES, {})  # older files have none
    if matching is not None:
        try:
            captures = matching.apply(captures)
        except Sim2CamError as error:
            raise InputError(path, f"does not fit the captures: {error}") from error
    images, categories = {s.name for s in captures.samples}, set(captures.categories)
    _check_known(path, "image", detections, images)
    _check_known(
        path, "category", (d.category for ds in detections.values() for d in ds), categories
    )
    captures = captures.take(limit)
    missing = [s.name for s in captures.samples if s.name not in detections]
    if missing:
        raise InputError(
            path,
            f"has no entry for {len(missing)} of {len(captures.samples)} images, e.g. {missing[0]}. Use the captures "
            "that it was made with.",
        )
    if digests:
        check_digests(path, digests, captures)
    if pixels is not None:
        _check_pixel_confusions(path, pixels, captures)
    selected = {s.name: detections[s.name] for s in captures.samples}
    return LoadedPredictions(captures, selected, matching, pixels, selection, training, names)


def _parse_results(path: Path, values: list[Any]) -> list[_CocoResult]:
    with convert_validation_errors(path, _HINT):
        return _COCO_RESULTS.validate_python(values)


def _convert_coco_results(
    path: Path, results: Sequence[_CocoResult], captures: Dataset, captures_path: Path
) -> Predictions:
    captures_path = find_coco_file(captures_path) or captures_path
    if not captures_path.is_file():
        raise InputError(
            path,
            f"COCO results need the ids of a COCO file, and {captures_path} is not one. Set --captures to it.",
        )
    ids = read_coco_ids(captures_path)
    _check_known(path, "image_id", (r.image_id for r in results), ids.image_names)
    _check_known(path, "category_id", (r.category_id for r in results), ids.categories)
    _check_boxes(path, [(r, ids.images[r.image_id].listed_size) for r in results])
    detections: dict[str, list[Detection]] = {sample.name: [] for sample in captures.samples}
    for index, result in enumerate(results):
        name = ids.image_names[result.image_id]
        if name in detections:  # not with a limit on the captures
            detections[name].append(_build_detection(path, index, result, ids))
    return {name: tuple(items) for name, items in detections.items()}


def _build_detection(path: Path, index: int, result: _CocoResult, ids: CocoIds) -> Detection:
    try:
        label = ids.build_label(
            result.image_id, result.category_id, result.bbox, result.segmentation, result.keypoints
        )
    except ValueError as error:
        raise InputError(path, f"[{index}]: {error} {_HINT}") from error
    keypoints: tuple[DetectedKeypoint, ...] | None = None
    if label.keypoints is not None:
        keypoints = tuple(DetectedKeypoint(point.name, point.xy) for point in label.keypoints)
    assert not isinstance(label.mask, MaskFile)  # masks of results are inline
    return Detection(label.category, label.box_xyxy, result.score, keypoints, label.mask)


def _convert_bop_results(
    path: Path, results: Sequence[_CocoResult], captures: Dataset, captures_path: Path
) -> Predictions:
    """Return detections of BOP results (2022 and later); those of other images are ignored."""
    scenes = [scene for split in find_scenes(captures_path).values() for scene in split]
    categories = read_category_names(scenes)
    _check_known(path, "scene_id", (r.scene_id for r in results), set(map(parse_scene_id, scenes)))
    _check_known(path, "category_id", (r.category_id for r in results), categories)
    names: dict[tuple[int | None, int | str], str] = {
        get_bop_ids(sample): sample.name for sample in captures.samples
    }
    sizes = {sample.name: (sample.width, sample.height) for sample in captures.samples}
    pairs = ((r, names.get((r.scene_id, r.image_id))) for r in results)
    _check_boxes(path, [(result, sizes[name]) for result, name in pairs if name is not None])
    by_image: dict[str, list[Detection]] = {sample.name: [] for sample in captures.samples}
    for index, result in enumerate(results):
        if result.bbox is None:
            raise InputError(path, f"[{index}]: bbox is missing. {_HINT}")
        name = names.get((result.scene_id, result.image_id))
        if name is not None:
            category = categories[result.category_id]
            detection = Detection(category, xywh_to_xyxy(result.bbox), result.score)
            # before clipping, which hides invalid boxes
            _check_detection(path, f"[{index}]", detection)
            box = clip_bop_box(result.bbox, sizes[name])
            by_image[name].append(replace(detection, box_xyxy=box))
    return {name: tuple(items) for name, items in by_image.items()}


def _check_boxes(path: Path, results: Sequence[tuple[_CocoResult, tuple[int, int]]]) -> None:
    """Raise if the boxes of results, given with image sizes, are corners."""
    pairs = [(result.bbox, size) for result, size in results if result.bbox is not None]
    boxes, sizes = [box for box, _ in pairs], [size for _, size in pairs]
    if are_xyxy(boxes, sizes, [math.nan] * len(pairs)):
        raise InputError(path, f"{XYXY_MESSAGE} {_HINT}")


def _check_known(path: Path, key: str, values: Any, known: Any) -> None:
    unknown = [value for value in dict.fromkeys(values) if value not in known]
    if unknown:
        raise InputError(
            path,
            f"{key} {unknown[0]!r} is not in the captures ({len(unknown)} unknown in all). Use the captures "
            "of these detections.",
        )


def _check_detection(path: Path, location: str, detection: Detection) -> None:
    x0, y0, x1, y1 = detection.box_xyxy
    if not all(map(math.isfinite, detection.box_xyxy)) or x1 < x0 or y1 < y0:
        raise InputError(
            path,
            f"{location}: box {list(detection.box_xyxy)} must be finite, with sides of 0 or more.",
        )
    for point in detection.keypoints or ():
        uncertainties = (
            number
            for number in (point.visibility_score, point.uncertainty_px)
            if number is not None
        )
        if not all(map(math.isfinite, (*point.xy, *uncertainties))):
            raise InputError(path, f"{location}: keypoint {point.name} must have finite numbers.")
    if not math.isfinite(detection.score):
        raise InputError(path, f"{location}: score {detection.score} must be a finite number.")


def _check_mask(path: Path, location: str, detection: Detection, size: tuple[int, int]) -> None:
    mask = detection.mask
    if mask is not None and (mask.size != size or not mask.is_valid()):
        raise InputError(
            path,
            f"{location}: the mask is invalid or not of {size[1]}x{size[0]} pixels, the image size. Predict again.",
        )


def _check_pixel_confusions(
    path: Path, pixel_confusions: PixelConfusions, captures: Dataset
) -> None:
    if pixel_confusions.categories != captures.categories:
        raise InputError(
            path,
            f"{PIXEL_CONFUSIONS}: categories are {', '.join(pixel_confusions.categories)}, not {', '.join(captures.categories)}. "
            "Predict again.",
        )
    classes = range(1 + len(pixel_confusions.categories))
    for name in (sample.name for sample in captures.samples):
        if name not in pixel_confusions.images:
            raise InputError(path, f"{PIXEL_CONFUSIONS}: image {name} is missing. Predict again.")
        for true_class, predicted_class, count in pixel_confusions.images[name]:
            if true_class not in classes or predicted_class not in classes or count < 0:
                raise InputError(
                    path,
                    f"{PIXEL_CONFUSIONS}: image {name}: [{true_class}, {predicted_class}, {count}] must be two classes from 0 to "
                    f"{classes[-1]} and a number of pixels. Predict again.",
                )
