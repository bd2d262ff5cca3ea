"""Benchmarking: weights on labelled captures, with intervals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sim2cam.data.formats.predictions import (
    DETECTIONS,
    DIGESTS,
    MATCHING,
    PIXELS,
    SELECTION,
    Found,
    file_digests,
    matching_to_json,
    predictions_to_json,
)
from sim2cam.data.matching import Matching
from sim2cam.data.sample import Dataset
from sim2cam.data.silhouettes import seen_masks
from sim2cam.data.writer import write_json
from sim2cam.experiments.pose_benchmark import PoseBench
from sim2cam.experiments.pose_scores_file import POSES, pictures_json
from sim2cam.experiments.reliability import (
    Trust,
    novelty_by_name,
    trust_in_detections,
    trust_in_detector,
    unlike_json,
    unlike_share,
)
from sim2cam.geometry.run_length import RunLengths
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.detection import (
    Detection,
    DetectionScore,
    count_objects,
    evaluate,
    is_ignored,
)
from sim2cam.metrics.error_analysis import best_threshold, count_category_errors, count_errors
from sim2cam.metrics.instances import ShapeScore
from sim2cam.metrics.keypoints import evaluate_keypoints
from sim2cam.metrics.masks import Masks, evaluate_masks
from sim2cam.metrics.segmentation import (
    Confusions,
    SegmentScore,
    check_counted,
    count_pixels,
    evaluate_segments,
)
from sim2cam.metrics.slices import Slice
from sim2cam.metrics.unsupervised import SelectionScores
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.inference.detector import AnyDetector, look_at_dataset, own_detector
from sim2cam.models.reliability.unsupervised import selection_of
from sim2cam.seeds import stream


@dataclass(frozen=True)
class BenchResult:
    """What a detector found on captures, and how good that is.

    Attributes:
        captures: the labelled images it was scored on, with the categories that it was scored for.
        predictions: by the image's name.
        score: with 95 % intervals.
        trust: how far what it says is to be trusted.
        keypoints, masks, segments: how good points, masks of objects and pixels of categories are; None
            where they were not looked for, or are not labelled.
        matching: how their categories became these; None where they are the captures' own.
        pixels: what those of categories were taken for, of which ``segments`` are; None with these.
        selection: scores that need no labels, to be seen beside those that do; None where not measured.
    """

    captures: Dataset
    predictions: Mapping[str, tuple[Detection, ...]]
    score: DetectionScore
    trust: Trust
    keypoints: ShapeScore | None = None
    masks: ShapeScore | None = None
    segments: SegmentScore | None = None
    matching: Matching | None = None
    pixels: Confusions | None = None
    selection: SelectionScores | None = None

    @functools.cached_property
    def threshold(self) -> float:
        """Score from which on detections are held against labels: that of the best F1 on these captures."""
        return best_threshold(self.captures, self.predictions)

    def scores_json(self) -> dict[str, Any]:
        """Returns all scores as JSON values, and of how many images there is no detection."""
        more = {name: getattr(self, name) for name in ("keypoints", "masks", "segments")}
        without = sum(not found for found in self.predictions.values())
        scores = self.score.to_json() | {"images_without": without}
        return scores | {n: one.to_json() for n, one in more.items() if one}


def bench(
    detector: AnyDetector,
    captures: Dataset,
    *,
    renamed: Mapping[str, str] | None = None,
    ignore_unmatched: bool = False,
    known: Mapping[Path, Prediction] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BenchResult:
    """Returns how well a detector does on labelled captures.

    Args:
        detector: from ``load_detector``.
        captures: labelled images.
        renamed: category of the captures -> category of the detector, where the names differ.
        ignore_unmatched: leave out objects of categories that the detector does not know, instead
            of refusing.
        known: what the detector said already, by the images' files; these are not looked at again.
        progress: is told how many images of how many are done.

    Raises:
        InputError: as ``match_captures``, or keypoints have other names.
    """
    matching, matched = match_captures(
        detector, captures, renamed=renamed, ignore_unmatched=ignore_unmatched
    )
    seen = {s.name: known[s.rgb] for s in matched.samples if known and s.rgb in known}
    others = matched.only([s.name for s in matched.samples if s.name not in seen])
    seen |= look_at_dataset(detector, others, progress=progress)
    predictions = {name: one.detections for name, one in seen.items()}
    score = evaluate(matched, predictions, rng=stream(0, "bench"))
    card = detector.card
    labelled = labelled_masks(matched) if card.masks else {}
    segments = {name: one.segments or {} for name, one in seen.items()}
    pixels = count_pixels(matched, segments, labelled) if labelled else None
    return BenchResult(
        matched,
        predictions,
        score,
        trust_in_detector(matched, card, seen),
        _keypoint_score(matched, predictions) if card.keypoints else None,
        _mask_score(matched, predictions, labelled) if labelled else None,
        _segment_score(matched, pixels),
        matching,
        pixels,
        selection_of(seen.values()),
    )


def match_captures(
    detector: AnyDetector,
    captures: Dataset,
    *,
    renamed: Mapping[str, str] | None = None,
    ignore_unmatched: bool = False,
) -> tuple[Matching, Dataset]:
    """Returns how labels become a detector's, and labelled captures with these; arguments are those of
    ``bench``.

    Raises:
        InputError: an object of a category that the detector does not know, captures without labels or
            without objects.
    """
    card = detector.card
    matching = Matching(card.categories, renamed or {}, ignore_unmatched, card.is_amodal)
    matched = matching.of(captures)
    count_objects(matched)
    return matching, matched


@dataclass(frozen=True)
class UnlabelledResult:
    """What a detector says of captures without labels.

    Attributes:
        images: how many captures there are.
        selection: scores by which detectors may be chosen; None where it found next to nothing, or
            knows one category.
        unlike: share of the captures that are unlike what it was trained on; None where not measured.
        false_alarms: that share, at most, among familiar pictures; None where not measured.
    """

    images: int
    selection: SelectionScores | None
    unlike: Estimate | None
    false_alarms: float | None

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        unlike = unlike_json(self.unlike, self.false_alarms)
        selection = self.selection.to_json() if self.selection else None
        return {"images": self.images, "selection": selection, "unlike": unlike}


def bench_unlabelled(
    detector: AnyDetector,
    captures: Dataset,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> UnlabelledResult:
    """Returns what a detector says of captures that nobody labelled.

    Args:
        detector: from ``load_detector``.
        captures: at least one image.
        progress: is told how many images of how many are done.

    Raises:
        InputError: an image cannot be read.
        UsageError: it is a model of torchvision.
    """
    own = own_detector(detector, "scores without labels")
    seen = look_at_dataset(own, captures, progress=progress)
    limit = own.card.novelty
    return UnlabelledResult(
        len(captures.samples),
        selection_of(seen.values()),
        unlike_share(novelty_by_name(seen)),
        limit.false_alarms if limit else None,
    )


def score_predictions(found: Found) -> BenchResult:
    """Returns how good what a file says is found is.

    Args:
        found: held against labelled captures.

    Raises:
        InputError: captures without labels, detections that are not of them, keypoints of other names, or
            pixels that were counted against other labels.
    """
    captures, predictions, pixels = found.captures, found.detections, found.pixels
    score = evaluate(captures, predictions, rng=stream(0, "bench"))
    each = [detection for detections in predictions.values() for detection in detections]
    has_masks = any(one.mask for one in each)
    labelled = labelled_masks(captures) if has_masks or pixels else {}
    if pixels is not None:
        check_counted(captures, pixels, labelled)
    return BenchResult(
        captures,
        predictions,
        score,
        trust_in_detections(captures, predictions),
        _keypoint_score(captures, predictions) if any(one.keypoints for one in each) else None,
        _mask_score(captures, predictions, labelled) if has_masks and labelled else None,
        _segment_score(captures, pixels),
        found.matching,
        pixels,
        found.selection,
    )


def _keypoint_score(
    captures: Dataset, predictions: Mapping[str, tuple[Detection, ...]]
) -> ShapeScore | None:
    """Returns how good keypoints are; None where none is labelled."""
    if not has_keypoints(captures):
        return None
    return evaluate_keypoints(captures, predictions, rng=stream(0, "bench"))


def has_keypoints(captures: Dataset) -> bool:
    """Returns whether a keypoint of an object that counts is labelled."""
    labels = [o for sample in captures.samples for o in sample.objects or () if not is_ignored(o)]
    return any(point.visibility for label in labels for point in label.keypoints or ())


def _mask_score(
    captures: Dataset, predictions: Mapping[str, tuple[Detection, ...]], labelled: Masks
) -> ShapeScore:
    return evaluate_masks(captures, predictions, labelled, rng=stream(0, "bench"))


def _segment_score(captures: Dataset, pixels: Confusions | None) -> SegmentScore | None:
    if pixels is None:
        return None
    return evaluate_segments(captures, pixels, rng=stream(0, "bench"))


def labelled_masks(captures: Dataset) -> Masks:
    """Returns the labelled masks of captures, by the image's name; empty where no object that counts has one."""
    found = {
        sample.name: [None if m is None else RunLengths.of(m) for m in seen_masks(sample)]
        for sample in captures.samples
    }
    counts = any(
        mask is not None and mask.area_px() and not is_ignored(label)
        for sample in captures.samples
        for label, mask in zip(sample.objects or (), found[sample.name], strict=True)
    )
    return found if counts else {}


def write_bench(
    result: BenchResult,
    slices: Sequence[Slice],
    path: Path,
    poses: PoseBench | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Writes scores, how far they are to be trusted, how objects of a kind fare, what is wrong with every
    category, and in every image, and how unlike those trained on it is, what its pixels were taken for, the detections, how well
    every instance was placed, and by what the scores may mislead.

    Raises:
        InputError: an image is no longer there.
        OutputError: the file cannot be written.
    """
    novelty = result.trust.novelty or {}
    errors = count_errors(result.captures, result.predictions, result.threshold)
    facts: dict[str, Any] = {
        "scores": result.scores_json(),
        "threshold": result.threshold,
        "trust": result.trust.to_json(),
        SELECTION: None if result.selection is None else result.selection.to_json(),
        "slices": [s.to_json() for s in slices],
        "warnings": list(warnings),
        "categories": [
            asdict(e)
            for e in count_category_errors(result.captures, result.predictions, result.threshold)
        ],
        "images": [asdict(e) | {"novelty": novelty.get(e.name)} for e in errors],
        MATCHING: matching_to_json(result.matching),
        PIXELS: None if result.pixels is None else result.pixels.to_json(),
        DIGESTS: file_digests(result.captures),
        DETECTIONS: predictions_to_json(result.predictions),
    }
    if poses is not None:
        facts["scores"] |= {POSES: poses.to_json()}
        facts[POSES] = pictures_json(poses)
    write_json(path, facts)
