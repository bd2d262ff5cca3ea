"""The commands that say what lies in pictures, and label captures by it."""

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

import tyro

from sim2cam.commands.options import (
    OutputOptions,
    Overwrite,
    Refine,
    Split,
    check_numbers,
    check_output_folder,
)
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
_MAX_RECENT_DETECTIONS = 10_000  # detections by whose sizes pictures are judged


@dataclass(frozen=True)
class Predict:
    """Say what lies in pictures, a video or a camera's view: a line of JSON for each.

    With weights that were trained with poses, and a lens that is known, also how it lies: the pose of
    each object's frame in the camera's, null where what is seen of it fits none.
    With keypoints or masks, also their places and run lengths, of objects and of categories.
    What cannot be read of several pictures is left out, and told of.
    """

    weights: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="WEIGHTS")]
    """Detector, by its file or the name of one that ships."""
    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")]
    """A picture, a folder of them, a COCO file, a video, or a camera: its number (0, 1, ...) or its address
    (rtsp://..., http://...)."""
    out: Path | None = None
    """Folder for the pictures with what was found drawn in."""
    camera: Path | None = None
    """File of the camera whose lens took the pictures: camera.json of calibrate, or what COLMAP, Kalibr, ROS or
    OpenCV wrote of one camera. Data sets know theirs."""
    refine: Refine = None
    min_score: float = 0.5
    """Leave out what the detector is less sure of, 0 to 1."""
    abstain: bool = False
    """Leave out what is found in pictures that are unlike those trained on."""
    split: Split = None
    limit: int | None = None
    """Stop after so many pictures."""
    overwrite: Overwrite = False
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    workers: int = os.cpu_count() or 1
    """Threads."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Predict; JSON lines go to stdout."""
        from sim2cam import images
        from sim2cam.models.inference.detector import predict_image
        from sim2cam.models.reliability.object_sizes import compare_sizes, compute_longer_side
        from sim2cam.report.overlay import draw_detections

        check_numbers(workers=self.workers, limit=self.limit)
        if not 0 <= self.min_score <= 1:
            raise UsageError(f"--min-score must be 0 to 1, not {self.min_score}")
        if self.out is not None:
            check_output_folder(self.out, overwrite=self.overwrite)
        detector = self._load_detector()
        shapes = self._read_shapes(detector)
        console = self.output.make_console()
        broken: list[InputError] = []
        pictures = _read_images(self.source, console, broken, self.split)
        if self.camera is not None:
            pictures = _attach_lens(self.camera, pictures)
        count = unlike = unplaced = 0
        sides_px: deque[float] = deque(maxlen=_MAX_RECENT_DETECTIONS)  # a camera has no end
        for name, rgb, lens in itertools.islice(pictures, self.limit):
            seen = predict_image(detector, rgb, score_floor=self.min_score)
            found, lines = _describe_detections(detector, seen, rgb, lens, shapes)
            abstains = self.abstain and seen.is_ood
            if abstains:
                found, lines = [], []
            sys.stdout.write(
                json.dumps(_build_record(name, seen, lines, is_abstained=abstains)) + "\n"
            )
            sys.stdout.flush()  # a program may be waiting for it
            count += 1
            unlike += seen.is_ood
            unplaced += bool(detector.card.objects) and lens is None
            magnification = detector.card.input_scale
            sides_px += [compute_longer_side(one.box_xyxy) * magnification for one, _ in found]
            if self.out is not None:
                drawn = draw_detections(rgb, found, detector.card.categories)
                suffix = "" if name.lower().endswith(".jpg") else ".jpg"
                path = self.out / f"{name}{suffix}"
                write_bytes(path, images.encode_jpeg(drawn, _JPEG_QUALITY))
        where = "" if self.out is None else f", drawn in {self.out}"
        are = "not measured" if detector.card.ood_threshold is None else unlike
        console.info(f"{count} pictures{where}; unlike those trained on: {are}")
        if unplaced:
            console.info(
                f"{unplaced} have no poses, as their lens is not known. Name it with --camera."
            )
        fit = compare_sizes(sides_px, detector.card.box_size_range_px)
        if fit is not None and fit.warning is not None:
            console.info(fit.warning)
        if broken:
            raise InputError(
                self.source,
                f"{len(broken)} pictures cannot be read, as {broken[0].path.name}, and are left out. Copy "
                "them again.",
            )

    def _load_detector(self) -> AnyDetector:
        """Return the detector, which can do what is asked for."""
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector
        from sim2cam.models.inference.poses import check_poses
        from sim2cam.pipeline.verifiers import resolve_weights

        use_threads(self.workers)
        detector = load_detector(resolve_weights(self.weights), device=self.device)
        if self.abstain and detector.card.ood_threshold is None:
            raise UsageError(
                f"--abstain: {self.weights} does not hold what pictures it was trained on. Train again, "
                "or leave --abstain out."
            )
        if self.camera is not None or self.refine is not None:
            check_poses(detector)
        return detector

    def _read_shapes(self, detector: AnyDetector) -> Mapping[str, NDArray[np.float64]]:
        """Return the shapes whose outlines are fitted, by categories."""
        from sim2cam.experiments.object_meshes import read_meshes

        return read_meshes(self.refine, detector.card.objects) if self.refine else {}


@dataclass(frozen=True)
class PseudoLabel:
    """Label captures by what a detector finds in them, to train on them or to correct by hand.

    Where nobody labels photos, a detector that was trained on renders learns from its own labels of them:
    train --data RENDERS OUT/train.json --from WEIGHTS. What it is not sure of is labelled as a crowd,
    which trainings leave out, and of what lies outside the labels nothing is learned: objects may be there.
    """

    weights: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="WEIGHTS")]
    """Detector, by its file or the name of one that ships."""
    captures: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="CAPTURES")]
    """Folder of photos, video, or captures whose labels are not read."""
    out: Path
    """Folder to write: train.json, a COCO file, and the pictures."""
    min_score: float = 0.5
    """What the detector is less sure of is no label, 0.1 to 1."""
    split: Split = None
    limit: int | None = None
    """Label only so many captures."""
    overwrite: Overwrite = False
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    workers: int = os.cpu_count() or 1
    """Threads."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Labels, and writes the labels."""
        from sim2cam.data.formats.export import check_output_folder, export_dataset
        from sim2cam.data.parts import STYLE
        from sim2cam.data.real_images import check_images_readable, read_real_images
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector
        from sim2cam.models.training.pseudo_labels import MIN_IGNORE_SCORE, pseudo_label
        from sim2cam.pipeline.verifiers import resolve_weights

        check_numbers(workers=self.workers, limit=self.limit)
        if not MIN_IGNORE_SCORE <= self.min_score <= 1:
            raise UsageError(f"--min-score must be {MIN_IGNORE_SCORE} to 1, not {self.min_score}")
        check_output_folder(self.out, overwrite=self.overwrite)
        use_threads(self.workers)
        detector = load_detector(resolve_weights(self.weights), device=self.device)
        if detector.card.score_calibration is None:
            self.output.make_console().info(
                f"warning: confidences of {self.weights} are not calibrated, so many labels may be wrong. "
                "Tune it with 19 labelled captures or more, train it with --held-out, or raise --min-score."
            )
        captures = read_real_images(
            self.captures.resolve(), skip_invalid=True, split=self.split, roles=STYLE
        ).take(self.limit)
        check_images_readable(captures)
        progress = self.output.make_console().start_progress("labelling")
        found = pseudo_label(detector, captures, min_score=self.min_score, progress=progress)
        export_dataset({"train": found}, self.out, "coco", None, overwrite=self.overwrite)
        labels = [label for sample in found.samples for label in sample.objects or ()]
        unsure = sum(label.is_crowd for label in labels)
        sure = len(labels) - unsure
        if not sure:
            self.output.make_console().info(
                f"warning: {self.weights} is sure of no object in these pictures, so they cannot be trained "
                "on alone. Lower --min-score, or name other weights."
            )
        file = self.out / "train.json"
        self.output.report(
            f"{file}: {len(found.samples)} pictures, {sure} labels, {unsure} left open",
            labels=str(file),
            images=len(found.samples),
            confident=sure,
            uncertain=unsure,
        )


def _describe_detections(
    detector: AnyDetector,
    prediction: Prediction,
    rgb: NDArray[np.uint8],
    lens: Lens | None,
    shapes: Mapping[str, NDArray[np.float64]],
) -> tuple[list[tuple[Detection, NDArray[np.float64] | None]], list[dict[str, Any]]]:
    """Return what lies in a picture, with its corners to be drawn, and as JSON with its pose."""
    from sim2cam.models.inference.poses import estimate_poses

    objects = detector.card.objects
    if lens is None or not objects:
        found = prediction.detections
        return [(one, None) for one in found], [one.to_json() for one in found]
    placed = estimate_poses(prediction, rgb, lens, shapes)
    known = [objects[one.detection.category].compute_corners_m() for one in placed]
    return [
        (one.detection, one.project_corners(corners_m, lens))
        for one, corners_m in zip(placed, known, strict=True)
    ], [one.detection.to_json() | {"pose": one.pose and asdict(one.pose)} for one in placed]


def _build_record(
    name: str, prediction: Prediction, detections: list[dict[str, Any]], *, is_abstained: bool
) -> dict[str, Any]:
    """Return what is said of a picture; of its pixels and OOD score, where that is known."""
    line: dict[str, Any] = {"image": name, "detections": detections}
    if prediction.category_masks is not None:
        line["category_masks"] = {
            n: asdict(m) for n, m in prediction.category_masks.items() if not is_abstained
        }
    if prediction.ood_score is not None:
        line |= {
            "ood_score": prediction.ood_score,
            "is_ood": prediction.is_ood,
            "abstained": is_abstained,
        }
    return line


def _read_images(
    source: str, console: Console, unreadable: list[InputError], split: str | None
) -> Iterator[tuple[str, NDArray[np.uint8], Lens | None]]:
    """Return names, pixels (height, width, 3) and lenses of what is to be looked at, one after another.

    Args:
        source: is to be looked at.
        console: is told which of several pictures cannot be read.
        unreadable: takes why.
        split: names of the parts that are read of a data set.
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
        if split is None and is_photo_folder(path):  # whose headers need not all be whole
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
    """Yield pictures with the lens of a camera's file.

    Raises:
        InputError: it is broken, knows no lens or several, or is of pictures of another size.
    """
    known = _read_intrinsics(camera)
    for name, rgb, _ in named_images:
        height, width = rgb.shape[:2]
        if (width, height) != (known.width, known.height):
            raise InputError(
                camera,
                f"is of pictures of {known.width}x{known.height} pixels, but {name} has {width}x{height}. "
                "Name the camera that took it, as it took it.",
            )
        yield name, rgb, known.lens


def _read_intrinsics(camera: Path) -> Intrinsics:
    """Return what a file of calibrate or of another tool knows of a camera."""
    from sim2cam.adapt.calibration.camera_fit import read_camera
    from sim2cam.data.camera_files.intrinsics import Intrinsics
    from sim2cam.data.camera_files.reader import is_opencv_calibration, read_cameras

    if camera.suffix.lower() != ".json" or is_opencv_calibration(camera):
        first, *others = read_cameras(camera)
        if others:
            raise InputError(
                camera,
                f"holds {1 + len(others)} cameras. Name a file of the one that took the pictures.",
            )
        return first
    fit = read_camera(camera)
    if fit.lens is None:
        raise InputError(
            camera, "knows no lens: no board was seen. Calibrate with photos of a chessboard."
        )
    return Intrinsics("", fit.width, fit.height, fit.lens.to_lens())
