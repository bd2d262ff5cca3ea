"""Reading images with YOLO labels, in the layouts of Ultralytics and of labelling tools."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sim2cam import images
from sim2cam.data.formats.writing import assign_scene_per_image, warn_about_unsupported_images
from sim2cam.data.formats.yolo.layout import YoloLayout, find_yolo_layout
from sim2cam.data.formats.yolo.lines import YoloLabelReader
from sim2cam.data.problems import AnnotationErrors
from sim2cam.data.sample import Dataset, Origin, Sample
from sim2cam.errors import RepairWarning


def read_yolo(path: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the parts ``train``, ``val`` and ``test`` of a folder with YOLO labels.

    Outlines (lines of six and more coordinates) become masks, also where they have four corners, as
    rotated boxes have. With ``kpt_shape`` in ``data.yaml`` lines hold keypoints, which are named by
    ``kpt_names`` or numbered. Labels lie where Ultralytics looks for them: in the folder of the image,
    with the last ``images`` of its path as ``labels``. An image without a label file shows no object;
    where no image of a part has one, the part is unlabelled.

    Args:
        path: the folder, or its ``data.yaml`` or ``obj.data``.
        origin: how the images were made.
        skip_invalid: leave flawed labels out with a warning.

    Raises:
        InputError: a file is missing, broken or contradicts itself, or lies outside the folder.
    """
    layout = find_yolo_layout(path)
    problems = AnnotationErrors(layout.file, skip_invalid=skip_invalid)
    lines = YoloLabelReader(layout, problems)
    found: dict[str, Dataset] = {}
    for name, files in layout.splits.items():
        samples: list[Sample] = []
        for file in files:
            with problems.collect():
                samples.append(_read_sample(file, layout.file.parent, lines, origin))
        if any(sample.objects is not None for sample in samples):
            samples = [replace(sample, objects=sample.objects or ()) for sample in samples]
        found[name] = Dataset(layout.file.parent, layout.categories, tuple(samples))
    problems.report()
    _warn_about_layout(layout, lines)
    return assign_scene_per_image(found)


def _read_sample(path: Path, root: Path, label_reader: YoloLabelReader, origin: Origin) -> Sample:
    width, height = images.read_size(path)
    name = path.relative_to(root)
    labels = root / _find_label_file(name)
    objects = tuple(label_reader.read(labels, width, height)) if labels.is_file() else None
    return Sample(name.as_posix(), path, width, height, objects, origin)


def _find_label_file(image: Path) -> Path:
    """Return where the labels of an image are, relative to the same folder."""
    steps = list(image.parent.parts)
    if "images" in steps:
        steps[len(steps) - 1 - steps[::-1].index("images")] = "labels"
    return Path(*steps, f"{image.stem}.txt")


def _warn_about_layout(layout: YoloLayout, label_reader: YoloLabelReader) -> None:
    every: Sequence[Path] = [path for files in layout.splits.values() for path in files]
    warn_about_unsupported_images(layout.file.parent, {path.parent for path in every})
    if layout.repeated_count:
        _emit_warning(
            layout,
            f"images that are listed more than once: {layout.repeated_count}. Each is read once.",
        )
    if label_reader.confidence_count:
        _emit_warning(
            layout,
            f"lines that end in a confidence, as detectors write them: {label_reader.confidence_count}. The confidences "
            "are ignored.",
        )


def _emit_warning(layout: YoloLayout, text: str) -> None:
    warnings.warn(f"{layout.file}: {text}", RepairWarning, stacklevel=2)
