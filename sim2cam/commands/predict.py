"""Command ``predict``: detections in images, videos and camera streams."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import (
    Argument,
    Device,
    InputScale,
    MultiScale,
    OutputOptions,
    Overwrite,
    Rare,
    Refine,
    Split,
    Threads,
    check_inputs,
    check_numbers,
    check_output_folder,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.errors import InputError, UsageError
from sim2cam.files import write_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sim2cam.commands.console import Console
    from sim2cam.data.camera_files.intrinsics import Intrinsics
    from sim2cam.geometry.lens import Lens
    from sim2cam.metrics.detection import Detection
    from sim2cam.models.inference.detections import Prediction
    from sim2cam.models.inference.detector import AnyDetector

_JPEG_QUALITY = 92
_MAX_RECENT_DETECTIONS = 10_000  # for the comparison of box sizes with the training data


@dataclass(frozen=True)
class Predict:
    """Detect objects in images, a video or a camera stream.

    Prints one JSON line per image. Includes keypoints, run-length masks and category masks if the weights predict them. If the weights
    predict object coordinates and the lens is given, includes the pose of each object in the camera
    frame, or null if no pose fits. Skips unreadable images with a message.
    """

    weights: Annotated[Path, Argument("WEIGHTS")]
    """Detector: file or shipped name."""
    source: Annotated[str, Argument("INPUT")]
    """Image, image folder, COCO file, video, or camera by number (0, 1, ...) or address (rtsp://..., http://...)."""
    out: Path | None = None
    """Folder for the images with drawn detections."""
    camera: Rare[Path | None] = None
    """Camera file with the lens, for weights that predict poses: camera.json of calibrate, or a COLMAP, Kalibr, ROS or OpenCV file of one camera; default: the lens of the dataset."""
    refine: Refine = None
    min_score: float = 0.5
    """Minimum score of detections, 0 to 1."""
    abstain: bool = False
    """Print no detections for out-of-distribution images."""
    split: Split = None
    limit: int | None = None
    """Stop after this many images."""
    input_scale: InputScale = None
    multi_scale: MultiScale = False
    overwrite: Overwrite = False
    device: Device = "cpu"
    workers: Threads = os.cpu_count() or 1
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> PredictResult:
        """Return the records; each image is predicted when its record is reached."""
        check_numbers(workers=self.workers, limit=self.limit, input_scale=self.input_scale)
        if not 0 <= self.min_score <= 1:
            raise UsageError(f"--min-score must be 0 to 1, not {self.min_score}")
        if self.out is not None:
            check_output_folder(self.out, overwrite=self.overwrite)
        is_camera = self.source.isdecimal() or "://" in self.source
        check_inputs(
            None if is_camera else Path(self.source),
            self.camera,
            self.refine,
            weights=self.weights,
        )
        detector = self._load_detector()
        return PredictResult(self, detector, self._read_shapes(detector))

    def _load_detector(self) -> AnyDetector:
        """Load the detector; raise if it does not support the flags."""
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector, set_input_scale
        from sim2cam.models.inference.poses import check_poses
        from sim2cam.models.shipped_weights import resolve_weights

        use_threads(self.workers)
        detector = load_detector(resolve_weights(self.weights), device=self.device)
        if self.abstain and detector.card.ood_threshold is None:
            raise UsageError(
                f"--abstain: {self.weights} has no OOD threshold. Train again, or omit --abstain."
            )
        if self.camera is not None or self.refine is not None:
            check_poses(detector)
        return set_input_scale(detector, self.input_scale, multi_scale=self.multi_scale)

    def _read_shapes(self, detector: AnyDetector) -> Mapping[str, NDArray[np.float64]]:
        """Return the meshes for contour-based pose refinement, by category."""
        from sim2cam.experiments.object_meshes import read_meshes

        return read_meshes(self.refine, detector.card.objects) if self.refine else {}


@dataclass
class PredictResult(Result):
    """Predictions, one JSON record per image; can be iterated once.

    Attributes:
        options: Options of the command.
        detector: Detector.
        shapes: Meshes for contour-based pose refinement, by category.
        image_count, ood_count, without_lens_count, enlarged_count: Numbers of images so far: predicted,
            out-of-distribution, without a lens, and enlarged for drawing.
        unreadable: Errors of skipped images so far.
    """

    options: Predict
    detector: AnyDetector
    shapes: Mapping[str, NDArray[np.float64]]
    image_count: int = 0
    ood_count: int = 0
    without_lens_count: int = 0
    enlarged_count: int = 0
    unreadable: list[InputError] = field(default_factory=list)
    _sides_px: deque[float] = field(  # limited, because camera streams are endless
        default_factory=lambda: deque(maxlen=_MAX_RECENT_DETECTIONS)
    )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        from sim2cam import images
        from sim2cam.models.inference.detector import predict_image
        from sim2cam.models.reliability.object_sizes import compute_longer_side
        from sim2cam.report.overlay import draw_detections

        options, detector, card = self.options, self.detector, self.detector.card
        console = options.output.make_console()
        named_images = _read_images(options.source, console, self.unreadable, options.split)
        if options.camera is not None:
            named_images = _attach_lens(options.camera, named_images)
        for name, rgb, lens in itertools.islice(named_images, options.limit):
            prediction = predict_image(detector, rgb, score_floor=options.min_score)
            detections, records = _describe_detections(detector, prediction, rgb, lens, self.shapes)
            abstains = options.abstain and prediction.is_ood
            if abstains:
                detections, records = [], []
            yield _build_record(name, prediction, records, is_abstained=abstains)
            self.image_count += 1
            self.ood_count += prediction.is_ood
            self.without_lens_count += bool(card.objects) and lens is None
            self._sides_px += [
                compute_longer_side(d.box_xyxy) * card.input_scale for d, _ in detections
            ]
            if options.out is not None:
                overlay = draw_detections(rgb, detections, card.categories)
                self.enlarged_count += overlay.shape != rgb.shape
                suffix = "" if name.lower().endswith(".jpg") else ".jpg"
                path = options.out / f"{name}{suffix}"
                write_bytes(path, images.encode_jpeg(overlay, _JPEG_QUALITY))

    def to_json(self) -> dict[str, Any]:
        """Return the remaining records."""
        return {"images": list(self)}

    def iterate_output(self, *, as_json: bool) -> Iterator[str]:
        """Yield one line per image, with ``--json`` or without."""
        del as_json
        if sys.stdout.isatty():  # the lines themselves show the progress
            yield from map(json.dumps, self)
            return
        with self.options.output.make_console().show_progress("predicting") as stages:
            progress = stages("predicting")
            for record in self:
                yield json.dumps(record)
                progress(self.image_count, 0)

    @property
    def next_step(self) -> str:
        """Command that draws or scores the detections."""
        if self.options.out is None:
            source = self.options.source
            return format_command("predict", self.options.weights, source, "--out", "drawn")
        return format_command("bench", self.options.weights, "--captures", "LABELLED")

    def summary(self) -> str:
        """Return the numbers of images, and warnings."""
        from sim2cam.models.reliability.domain_shift import TargetStatistics, compare_with_training
        from sim2cam.report.overlay import MIN_LONGER_SIDE_PX

        out, card = self.options.out, self.detector.card
        ood = "not measured" if card.ood_threshold is None else self.ood_count
        drawn = "" if out is None else f", drawn in {out}"
        lines = [f"{self.image_count} images{drawn}; out-of-distribution: {ood}"]
        if self.enlarged_count:
            lines.append(
                f"{self.enlarged_count} drawn images are enlarged to {MIN_LONGER_SIDE_PX} px; the printed "
                "boxes are in pixels of the original images."
            )
        if self.ood_count:
            lines.append(
                "Out-of-distribution images are unlike the training data; their detections may be "
                + (
                    "worthless and are not printed."
                    if self.options.abstain
                    else "worthless. Add --abstain to omit them."
                )
            )
        if self.without_lens_count:
            lines.append(
                f"{self.without_lens_count} images have no poses, because their lens is unknown. Give it "
                "with --camera."
            )
        sides = TargetStatistics(tuple(self._sides_px))
        lines += map(str, compare_with_training(sides, None, card.box_size_range_px).findings)
        return "\n".join(lines)

    @property
    def failure(self) -> str | None:
        """Why the command line exits with 1: unreadable images."""
        if not self.unreadable:
            return None
        return (
            f"{self.options.source}: {len(self.unreadable)} images cannot be read and are skipped, such as "
            f"{self.unreadable[0].path.name}. Copy them again."
        )


def _describe_detections(
    detector: AnyDetector,
    prediction: Prediction,
    rgb: NDArray[np.uint8],
    lens: Lens | None,
    shapes: Mapping[str, NDArray[np.float64]],
) -> tuple[list[tuple[Detection, NDArray[np.float64] | None]], list[dict[str, Any]]]:
    """Return detections with the projected corners of their poses, and JSON records."""
    from sim2cam.models.inference.poses import estimate_poses

    objects = detector.card.objects
    if lens is None or not objects:
        detections = prediction.detections
        return [(d, None) for d in detections], [_to_record(d) for d in detections]
    estimates = estimate_poses(prediction, rgb, lens, shapes)
    corners = [objects[e.detection.category].compute_corners_m() for e in estimates]
    return [
        (e.detection, e.project_corners(corners_m, lens))
        for e, corners_m in zip(estimates, corners, strict=True)
    ], [_to_record(e.detection) | {"pose": e.pose and asdict(e.pose)} for e in estimates]


def _to_record(detection: Detection) -> dict[str, Any]:
    """Return the JSON values of a detection, with its box rounded to 0.01 pixels."""
    box = [round(value, 2) for value in detection.box_xyxy]
    return detection.to_json() | {"box_xyxy": box}


def _build_record(
    name: str, prediction: Prediction, detections: list[dict[str, Any]], *, is_abstained: bool
) -> dict[str, Any]:
    """Return the JSON record of one image."""
    record: dict[str, Any] = {"image": name, "detections": detections}
    if prediction.category_masks is not None:
        record["category_masks"] = {
            n: asdict(m) for n, m in prediction.category_masks.items() if not is_abstained
        }
    if prediction.ood_score is not None:
        record |= {
            "ood_score": prediction.ood_score,
            "is_ood": prediction.is_ood,
            "abstained": is_abstained,
        }
    return record


def _read_images(
    source: str, console: Console, unreadable: list[InputError], split: str | None
) -> Iterator[tuple[str, NDArray[np.uint8], Lens | None]]:
    """Yield name, pixels (H, W, 3) and lens of each image.

    Args:
        source: Image, folder, dataset, video or camera.
        console: Console for messages on unreadable images.
        unreadable: List to which their errors are appended.
        split: Names of the dataset splits to read.
    """
    from sim2cam import images
    from sim2cam.data.photo_folder import list_photos
    from sim2cam.data.real_images import is_photo_folder, read_real_images

    path = Path(source)
    if source.isdecimal() and not path.exists():
        yield from _number_frames(images.watch_camera(int(source)))
    elif "://" in source:
        yield from _number_frames(images.watch_camera(source))
    elif path.suffix.lower() in images.VIDEO_SUFFIXES:
        yield from _number_frames(images.read_video(path))
    elif path.suffix.lower() in images.IMAGE_SUFFIXES:
        yield path.name, images.read_rgb(path), None
    else:
        files: Iterator[tuple[str, Path, Lens | None]]
        if split is None and is_photo_folder(path):  # read_real_images would fail on broken headers
            files = ((p.relative_to(path).as_posix(), p, None) for p in list_photos(path))
        else:
            files = (
                (s.name, s.rgb, s.lens)
                for s in read_real_images(path, skip_invalid=True, split=split).samples
            )
        for name, file, lens in files:
            try:
                rgb = images.read_rgb(file)
            except InputError as error:
                console.info(str(error))
                unreadable.append(error)
                continue
            yield name, rgb, lens


def _number_frames(
    frames: Iterator[NDArray[np.uint8]],
) -> Iterator[tuple[str, NDArray[np.uint8], None]]:
    return ((f"{number:06d}", frame, None) for number, frame in enumerate(frames))


def _attach_lens(
    camera: Path, named_images: Iterator[tuple[str, NDArray[np.uint8], Lens | None]]
) -> Iterator[tuple[str, NDArray[np.uint8], Lens | None]]:
    """Yield images with the lens of a camera file.

    Raises:
        InputError: If the file is invalid, has no or several lenses, or another image size.
    """
    intrinsics = _read_intrinsics(camera)
    for name, rgb, _ in named_images:
        height, width = rgb.shape[:2]
        if (width, height) != (intrinsics.width, intrinsics.height):
            raise InputError(
                camera,
                f"has an image size of {intrinsics.width}x{intrinsics.height}, but {name} has "
                f"{width}x{height}. Use the file of the camera that took the image, at full size.",
            )
        yield name, rgb, intrinsics.lens


def _read_intrinsics(camera: Path) -> Intrinsics:
    """Read the intrinsics from a file of ``calibrate`` or another tool."""
    from sim2cam.adapt.calibration.camera_fit import read_camera
    from sim2cam.data.camera_files.intrinsics import Intrinsics
    from sim2cam.data.camera_files.reader import is_opencv_calibration, read_cameras

    if camera.suffix.lower() != ".json" or is_opencv_calibration(camera):
        first, *others = read_cameras(camera)
        if others:
            raise InputError(
                camera, f"contains {1 + len(others)} cameras. Give a file with one camera."
            )
        return first
    fit = read_camera(camera)
    if fit.lens is None:
        raise InputError(
            camera, "has no lens: no board was detected. Calibrate with photos of a chessboard."
        )
    return Intrinsics("", fit.width, fit.height, fit.lens.to_lens())
