"""Perception models: load weights, predict images."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from sim2cam.api.inputs import encode_html_image, load_rgb
from sim2cam.errors import InputError, UsageError

if TYPE_CHECKING:
    from sim2cam.api.dataset import Dataset
    from sim2cam.api.inputs import ImageInput
    from sim2cam.commands.bench import BenchScores
    from sim2cam.geometry.lens import Lens
    from sim2cam.geometry.poses import Pose
    from sim2cam.metrics.detection import DetectedKeypoint, Detection
    from sim2cam.models.inference.detector import AnyDetector

    ImageList = list[ImageInput] | tuple[ImageInput, ...]

MIN_SCORE = 0.5
"""Default of the smallest score that ``Model.predict`` returns, as of the command."""


@dataclass(frozen=True, eq=False)
class PredictionResult:
    """Objects that a model detects in one image, by falling score.

    Attributes:
        image: RGB image uint8 (H, W, 3).
        detections: Detections.
        categories: Categories of the model.
        ood_score: OOD score relative to the threshold of the model, above 1 for OOD; None without one.
        poses: Pose of each object in the camera frame, None where none fits; None without a lens.
        cuboids_px: Projected corners (8, 2) of each object's box in 3D, or None; None without a lens.
    """

    image: NDArray[np.uint8]
    detections: tuple[Detection, ...]
    categories: tuple[str, ...]
    ood_score: float | None
    poses: tuple[Pose | None, ...] | None = None
    cuboids_px: tuple[NDArray[np.float64] | None, ...] | None = None

    def __len__(self) -> int:
        return len(self.detections)

    @property
    def boxes_xyxy(self) -> NDArray[np.float64]:
        """Boxes (N, 4) in pixels."""
        return np.array([d.box_xyxy for d in self.detections], np.float64).reshape(-1, 4)

    @property
    def labels(self) -> tuple[str, ...]:
        """Category of each object."""
        return tuple(d.category for d in self.detections)

    @property
    def scores(self) -> NDArray[np.float64]:
        """Confidences (N,), 0 to 1."""
        return np.array([d.score for d in self.detections], np.float64)

    @property
    def masks(self) -> NDArray[np.bool_] | None:
        """Masks (N, H, W) of visible pixels; None if the objects have none."""
        masks = [d.mask.decode() for d in self.detections if d.mask is not None]
        if len(masks) < len(self.detections):
            return None
        return np.array(masks, bool).reshape(-1, *self.image.shape[:2])

    @property
    def keypoints(self) -> tuple[tuple[DetectedKeypoint, ...], ...] | None:
        """Keypoints of each object; None if the objects have none."""
        keypoints = [d.keypoints for d in self.detections if d.keypoints is not None]
        return tuple(keypoints) if len(keypoints) == len(self.detections) else None

    @property
    def is_ood(self) -> bool:
        """Whether the image is out-of-distribution, so that the detections may be worthless."""
        return self.ood_score is not None and self.ood_score > 1

    def plot(self) -> NDArray[np.uint8]:
        """Return the image with boxes, masks, keypoints and poses drawn, uint8 (H, W, 3)."""
        from sim2cam.report.overlay import draw_detections

        cuboids = self.cuboids_px or (None,) * len(self)
        return draw_detections(
            self.image, list(zip(self.detections, cuboids, strict=True)), self.categories
        )

    def __repr__(self) -> str:
        height, width = self.image.shape[:2]
        return f"PredictionResult({len(self)} objects in {width}x{height} px, ood_score={self.ood_score})"

    def _repr_html_(self) -> str:
        counts = {label: self.labels.count(label) for label in dict.fromkeys(self.labels)}
        text = ", ".join(f"{count} × {escape(label)}" for label, count in counts.items())
        warning = " (out-of-distribution image)" if self.is_ood else ""
        return f"<p>{text or 'no objects'}{warning}</p>{encode_html_image(self.plot())}"


class Model:
    """Perception model.

    Args:
        detector: Detector, from ``load_detector``.
        weights: Weights file.
        device: Device of the detector.
    """

    def __init__(self, detector: AnyDetector, weights: Path, device: str) -> None:
        self._detector = detector
        self._device = device
        self.weights = weights

    @property
    def name(self) -> str:
        """Name of the weights."""
        return self.weights.stem

    def __repr__(self) -> str:
        return f"Model({self.name!r}, categories={list(self.categories)})"

    @property
    def categories(self) -> tuple[str, ...]:
        """Categories that the model detects."""
        return self._detector.card.categories

    @overload
    def predict(
        self, images: ImageInput, *, min_score: float = ..., lens: Lens | None = ...
    ) -> PredictionResult: ...

    @overload
    def predict(
        self, images: ImageList, *, min_score: float = ..., lens: Lens | None = ...
    ) -> list[PredictionResult]: ...

    def predict(
        self,
        images: ImageInput | ImageList,
        *,
        min_score: float = MIN_SCORE,
        lens: Lens | None = None,
    ) -> PredictionResult | list[PredictionResult]:
        """Detect objects in one image or in several.

        Args:
            images: Image, or list or tuple of images: path, PIL image, array (H, W) or (H, W, 1 | 3 | 4), or tensor
                with channels first. Integers are uint8 or uint16, floats 0 to 1.
            min_score: Smallest score of a detection.
            lens: Lens of the camera, for poses; only with weights that predict poses.

        Returns:
            One result for one image, a list of results for a list or tuple.

        Raises:
            InputError: If a file is missing or damaged.
            UsageError: If the type, shape or value range of an image is not supported, or the weights predict
                no poses and a lens is given.
        """
        if not 0 <= min_score <= 1:
            raise UsageError(f"min_score must be 0 to 1, not {min_score}.")
        if lens is not None and not self._detector.card.objects:
            raise UsageError(f"{self.name} predicts no poses. Omit the lens.")
        if isinstance(images, (list, tuple)):
            return [self._predict_one(image, min_score, lens) for image in images]
        return self._predict_one(images, min_score, lens)

    def evaluate(self, captures: str | Path | Dataset, **options: Any) -> BenchScores:
        """Score the model on labelled real images.

        Args:
            captures: Labelled images: dataset, COCO file, YOLO, VOC, BOP or KITTI folder.
            options: Options of ``sim2cam.commands.bench``, such as ``map`` and ``sessions``.

        Raises:
            InputError: If the images are missing, broken or unlabelled, or have unknown categories.
        """
        from sim2cam.api.dataset import Dataset
        from sim2cam.commands.bench import Bench, BenchScores
        from sim2cam.commands.results import build_command

        values = captures.values if isinstance(captures, Dataset) else None
        path = captures.root if isinstance(captures, Dataset) else captures
        options = {"device": self._device} | options
        scores = build_command(Bench, self.weights, captures=path, **options).run(values)
        if not isinstance(scores, BenchScores):
            raise InputError(path, "has no labels. Use sim2cam.commands.bench for other scores.")
        return scores

    def _predict_one(
        self, image: ImageInput, min_score: float, lens: Lens | None
    ) -> PredictionResult:
        from sim2cam.models.inference.detector import predict_image
        from sim2cam.models.inference.poses import estimate_poses

        rgb = load_rgb(image)
        prediction = predict_image(self._detector, rgb, score_floor=min_score)
        card = self._detector.card
        if lens is None:
            return PredictionResult(
                rgb, prediction.detections, card.categories, prediction.ood_score
            )
        estimates = estimate_poses(prediction, rgb, lens)
        return PredictionResult(
            rgb,
            tuple(estimate.detection for estimate in estimates),
            card.categories,
            prediction.ood_score,
            tuple(estimate.pose for estimate in estimates),
            tuple(
                estimate.project_corners(
                    card.objects[estimate.detection.category].compute_corners_m(), lens
                )
                for estimate in estimates
            ),
        )


def load(name_or_path: str | Path, *, device: str = "cpu") -> Model:
    """Load a perception model.

    Args:
        name_or_path: Shipped name, such as ``dice``, or weights file (``.safetensors``).
        device: ``cpu``, ``cuda`` or ``cuda:0``.

    Raises:
        UsageError: If no shipped weights have the name.
        CheckpointError: If the file is missing or damaged.
    """
    from sim2cam.models.inference.detector import load_detector
    from sim2cam.models.shipped_weights import resolve_weights

    path = resolve_weights(Path(name_or_path))
    return Model(load_detector(path, device=device), path, device)
