"""Detections in files: our own and those of ladders, by the images' names, and COCO's results, by ids, with masks or
keypoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from sim2cam.data.formats.bop.files import clip_bop_box, find_scenes, read_category_names
from sim2cam.data.formats.bop.poses import get_bop_ids, parse_scene_id
from sim2cam.data.formats.bop.reader import is_bop
from sim2cam.data.formats.coco.boxes import XYXY_MESSAGE, are_xyxy
from sim2cam.data.formats.coco.ids import CocoIds, read_coco_ids
from sim2cam.data.mask_file import MaskFile
from sim2cam.data.matching import LabelMapping
from sim2cam.data.parsing import format_validation_error, read_json
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError, Sim2CamError
from sim2cam.geometry.boxes import xywh_to_xyxy
from sim2cam.images import compute_digest
from sim2cam.metrics.detection import DetectedKeypoint, Detection
from sim2cam.metrics.segmentation import PixelConfusions
from sim2cam.metrics.unsupervised import SelectionScores

DETECTIONS, DIGESTS, LABEL_MAPPING = "detections", "digests", "label_mapping"
PIXEL_CONFUSIONS, SELECTION_SCORES = "pixel_confusions", "selection_scores"
"""Keys in a file of ours: of the detections, of the images that they are of, of how labels were held against
them, of what the pixels of categories were taken for, and of the scores that need no labels."""

DETECTION_ROWS = "detection_rows"
"""Key in a file of a ladder: of the detections of each image, as ``parse_detection_rows`` takes them."""

_MAX_BYTES = 500_000_000
_HINT = "Write the results as COCO has them."

Predictions = dict[str, tuple[Detection, ...]]


class LoadedPredictions(NamedTuple):
    """Detections in a file, and what they are held against.

    Attributes:
        captures: with the categories that they are held against.
        detections: by the image's name, with an entry for every image.
        label_mapping: how the categories became these; None where they are the captures' own.
        pixel_confusions: what those of categories were taken for; None where they were not counted.
        selection_scores: scores that need no labels; None where they were not measured.
    """

    captures: Dataset
    detections: Predictions
    label_mapping: LabelMapping | None = None
    pixel_confusions: PixelConfusions | None = None
    selection_scores: SelectionScores | None = None


@dataclass(frozen=True)
class _CocoResult:
    """A result of COCO; ``scene_id`` is BOP's, whose image ids are of one scene."""

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
    """Return detections by the image's name as JSON values."""
    return {name: [d.to_json() for d in found] for name, found in predictions.items()}


def predictions_from_json(values: Any) -> Predictions:
    """Return the detections of ``predictions_to_json``.

    Raises:
        pydantic.ValidationError: the values are none.
    """
    return _PREDICTIONS.validate_python(values)


def label_mapping_to_json(label_mapping: LabelMapping | None) -> dict[str, Any] | None:
    """Return how labels were held against detections as JSON values; None where they are the captures' own."""
    return None if label_mapping is None else asdict(label_mapping)


def parse_detection_rows(detection_rows: Mapping[str, Sequence[Sequence[Any]]]) -> Predictions:
    """Return detections, of which a ladder writes the category, the box and the score alone."""
    return {
        image: tuple(Detection(row[0], (row[1], row[2], row[3], row[4]), row[5]) for row in rows)
        for image, rows in detection_rows.items()
    }


def compute_file_digests(captures: Dataset) -> dict[str, str]:
    """Return the SHA-256 of each image's file, by its name, which tells it from others of that name.

    Raises:
        InputError: an image cannot be read.
    """
    return {sample.name: compute_digest(sample.rgb) for sample in captures.samples}


def check_digests(path: Path, digests: Mapping[str, str], captures: Dataset) -> None:
    """Refuse what was found in other images of the same names.

    Args:
        path: file of what was found, for the error.
        digests: of the images that it was found in.
        captures: that it is held against.

    Raises:
        InputError: naming the image; or one cannot be read.
    """
    for name, digest in compute_file_digests(captures).items():
        if digests.get(name) != digest:
            raise InputError(
                path,
                f"is of another image {name} than the captures have. Name the captures that it was made of, "
                "or make it anew.",
            )


def read_predictions(
    path: Path, captures: Dataset, captures_path: Path, *, limit: int | None = None
) -> LoadedPredictions:
    """Return the detections in a file.

    Args:
        path: what ``bench --out`` or a ladder wrote, or a list of COCO results.
        captures: the images that they are of.
        captures_path: what the captures were read from; COCO results mean the ids of this COCO file, or the
            numbers of this BOP data set.
        limit: how many of the captures count; all for None.

    Raises:
        InputError: the file is broken, or is of other images or categories.
    """
    values = read_json(path, _MAX_BYTES, "list of detections")
    if isinstance(values, list):
        results = _parse_results(path, values)
        of_bop = is_bop(captures_path)
        captures = captures.take(limit)
        found = LoadedPredictions(
            captures,
            (_convert_bop_results if of_bop else _convert_coco_results)(
                path, results, captures, captures_path
            ),
        )
    elif isinstance(values, dict) and DETECTION_ROWS in values:
        found = _parse_own_file(path, _expand_rows(path, values), captures, limit)
    elif isinstance(values, dict) and DETECTIONS in values:
        found = _parse_own_file(path, values, captures, limit)
    else:
        raise InputError(
            path,
            "holds no detections: neither a list of COCO results nor what bench --out writes. Name "
            "such a file, or weights (.safetensors).",
        )
    sizes = {sample.name: (sample.height, sample.width) for sample in captures.samples}
    for name, detections in found.detections.items():
        for number, detection in enumerate(detections):
            place = f"image {name}, detection {number}"
            _check_detection(path, place, detection)
            _check_mask(path, place, detection, sizes[name])
    return found


def _expand_rows(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return a ladder's file as ``bench --out`` writes it."""
    try:
        found = parse_detection_rows(_DETECTION_ROWS.validate_python(values[DETECTION_ROWS]))
    except ValidationError as error:
        raise InputError(
            path, f"{DETECTION_ROWS}.{format_validation_error(error)}. Make it anew."
        ) from error
    told = {key: values[key] for key in (DIGESTS, LABEL_MAPPING) if key in values}
    return {DETECTIONS: predictions_to_json(found), **told}


def _parse_own_file(
    path: Path, values: dict[str, Any], captures: Dataset, limit: int | None
) -> LoadedPredictions:
    key = DETECTIONS
    try:
        found = predictions_from_json(values[key])
        key = DIGESTS
        digests = _DIGESTS.validate_python(values.get(key, {}))  # files of before have none
        key = LABEL_MAPPING
        matching = _LABEL_MAPPING.validate_python(values.get(key))
        key = PIXEL_CONFUSIONS
        pixels = _PIXEL_CONFUSIONS.validate_python(values.get(key))
        key = SELECTION_SCORES
        selection = _SELECTION_SCORES.validate_python(values.get(key))
    except ValidationError as error:
        raise InputError(path, f"{key}.{format_validation_error(error)}. Make it anew.") from error
    if matching is not None:
        try:
            captures = matching.apply(captures)
        except Sim2CamError as error:
            raise InputError(path, f"was scored on other captures: {error}") from error
    images, categories = {s.name for s in captures.samples}, set(captures.categories)
    _check_known(path, "image", found, images)
    _check_known(path, "category", (d.category for ds in found.values() for d in ds), categories)
    captures = captures.take(limit)
    missing = [s.name for s in captures.samples if s.name not in found]
    if missing:
        raise InputError(
            path,
            f"says nothing of {len(missing)} of {len(captures.samples)} images, as {missing[0]}. It is of other "
            "captures, or of fewer.",
        )
    if digests:
        check_digests(path, digests, captures)
    if pixels is not None:
        _check_pixel_confusions(path, pixels, captures)
    named = {s.name: found[s.name] for s in captures.samples}
    return LoadedPredictions(captures, named, matching, pixels, selection)


def _parse_results(path: Path, values: list[Any]) -> list[_CocoResult]:
    try:
        return _COCO_RESULTS.validate_python(values)
    except ValidationError as error:
        raise InputError(path, f"{format_validation_error(error)}. {_HINT}") from error


def _convert_coco_results(
    path: Path, results: Sequence[_CocoResult], captures: Dataset, captures_path: Path
) -> Predictions:
    if not captures_path.is_file():
        raise InputError(
            path,
            f"COCO results mean ids of a COCO file, and {captures_path} is none. Name it as --captures.",
        )
    ids = read_coco_ids(captures_path)
    _check_known(path, "image_id", (r.image_id for r in results), ids.image_names)
    _check_known(path, "category_id", (r.category_id for r in results), ids.categories)
    _check_boxes(path, [(r, ids.images[r.image_id].listed_size) for r in results])
    found: dict[str, list[Detection]] = {sample.name: [] for sample in captures.samples}
    for number, result in enumerate(results):
        name = ids.image_names[result.image_id]
        if name in found:  # not where only some of the captures are scored
            found[name].append(_build_detection(path, number, result, ids))
    return {name: tuple(detections) for name, detections in found.items()}


def _build_detection(path: Path, number: int, result: _CocoResult, ids: CocoIds) -> Detection:
    try:
        label = ids.build_label(
            result.image_id,
            result.category_id,
            result.bbox,
            result.segmentation,
            result.keypoints,
        )
    except ValueError as error:
        raise InputError(path, f"[{number}]: {error} {_HINT}") from error
    points: tuple[DetectedKeypoint, ...] | None = None
    if label.keypoints is not None:
        points = tuple(DetectedKeypoint(point.name, point.xy) for point in label.keypoints)
    assert not isinstance(label.mask, MaskFile)  # results hold their masks themselves
    return Detection(label.category, label.box_xyxy, result.score, points, label.mask)


def _convert_bop_results(
    path: Path, results: Sequence[_CocoResult], captures: Dataset, captures_path: Path
) -> Predictions:
    """Return results of BOP's challenges of 2022 and later; those of other images do not count."""
    scenes = [scene for found in find_scenes(captures_path).values() for scene in found]
    categories = read_category_names(scenes)
    _check_known(path, "scene_id", (r.scene_id for r in results), set(map(parse_scene_id, scenes)))
    _check_known(path, "category_id", (r.category_id for r in results), categories)
    names: dict[tuple[int | None, int | str], str] = {
        get_bop_ids(sample): sample.name for sample in captures.samples
    }
    sizes = {sample.name: (sample.width, sample.height) for sample in captures.samples}
    named = ((r, names.get((r.scene_id, r.image_id))) for r in results)
    _check_boxes(path, [(result, sizes[name]) for result, name in named if name is not None])
    found: dict[str, list[Detection]] = {sample.name: [] for sample in captures.samples}
    for number, result in enumerate(results):
        if result.bbox is None:
            raise InputError(path, f"[{number}]: bbox is missing. {_HINT}")
        name = names.get((result.scene_id, result.image_id))
        if name is not None:
            category = categories[result.category_id]
            whole = Detection(category, xywh_to_xyxy(result.bbox), result.score)
            _check_detection(path, f"[{number}]", whole)  # what is no box would be one at the edge
            box = clip_bop_box(result.bbox, sizes[name])
            found[name].append(replace(whole, box_xyxy=box))
    return {name: tuple(detections) for name, detections in found.items()}


def _check_boxes(path: Path, results: Sequence[tuple[_CocoResult, tuple[int, int]]]) -> None:
    """Refuse boxes that are corners, of results with the widths and heights of their pictures."""
    boxed = [(result.bbox, size) for result, size in results if result.bbox is not None]
    boxes, sizes = [box for box, _ in boxed], [size for _, size in boxed]
    if are_xyxy(boxes, sizes, [math.nan] * len(boxed)):
        raise InputError(path, f"{XYXY_MESSAGE} {_HINT}")


def _check_known(path: Path, key: str, values: Any, known: Any) -> None:
    strangers = [value for value in dict.fromkeys(values) if value not in known]
    if strangers:
        raise InputError(
            path,
            f"{key} {strangers[0]!r} is not in the captures ({len(strangers)} such). These are "
            "detections of something else, or the names differ.",
        )


def _check_detection(path: Path, location: str, detection: Detection) -> None:
    x0, y0, x1, y1 = detection.box_xyxy
    if not all(map(math.isfinite, detection.box_xyxy)) or x1 < x0 or y1 < y0:
        raise InputError(
            path,
            f"{location}: box {list(detection.box_xyxy)} must be finite, with sides of 0 or more.",
        )
    for point in detection.keypoints or ():
        said = (
            number
            for number in (point.visibility_score, point.uncertainty_px)
            if number is not None
        )
        if not all(map(math.isfinite, (*point.xy, *said))):
            raise InputError(path, f"{location}: keypoint {point.name} must have finite numbers.")
    if not math.isfinite(detection.score):
        raise InputError(path, f"{location}: score {detection.score} must be a finite number.")


def _check_mask(path: Path, location: str, detection: Detection, size: tuple[int, int]) -> None:
    mask = detection.mask
    if mask is not None and (mask.size != size or not mask.is_valid()):
        raise InputError(
            path,
            f"{location}: the mask is none of {size[1]}x{size[0]} pixels, as the image has. Make it anew.",
        )


def _check_pixel_confusions(
    path: Path, pixel_confusions: PixelConfusions, captures: Dataset
) -> None:
    if pixel_confusions.categories != captures.categories:
        raise InputError(
            path,
            f"{PIXEL_CONFUSIONS}: categories are {', '.join(pixel_confusions.categories)}, not {', '.join(captures.categories)}. "
            "Make it anew.",
        )
    classes = range(1 + len(pixel_confusions.categories))
    for name in (sample.name for sample in captures.samples):
        if name not in pixel_confusions.images:
            raise InputError(
                path, f"{PIXEL_CONFUSIONS}: says nothing of image {name}. Make it anew."
            )
        for labelled, taken, count in pixel_confusions.images[name]:
            if labelled not in classes or taken not in classes or count < 0:
                raise InputError(
                    path,
                    f"{PIXEL_CONFUSIONS}: image {name}: [{labelled}, {taken}, {count}] must be two classes of 0 to "
                    f"{classes[-1]} and a number of pixels. Make it anew.",
                )
