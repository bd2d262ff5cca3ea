"""YOLO reader, for the layouts of Ultralytics and of annotation tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sim2cam import images
from sim2cam.data.formats.writing import assign_scene_per_image, warn_about_unsupported_images
from sim2cam.data.formats.yolo.layout import YoloLayout, find_yolo_layout
from sim2cam.data.formats.yolo.lines import YoloLabelReader
from sim2cam.data.problems import AnnotationErrors, warn_about_repairs
from sim2cam.data.sample import Dataset, Origin, Sample


def read_yolo(path: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the splits ``train``, ``val`` and ``test`` of a folder with YOLO labels.

    Polygons (lines with six or more coordinates) become masks, also those with four corners, as of
    rotated boxes. With ``kpt_shape`` in ``data.yaml``, lines have keypoints, named by ``kpt_names``
    or numbered. Label files lie where Ultralytics searches them: in the image's folder with its
    last ``images`` replaced by ``labels``. An image without a label file has no objects; a split
    without any label file is unlabelled.

    Args:
        path: the folder, or its ``data.yaml`` or ``obj.data``.

    Raises:
        InputError: a file is missing, broken, inconsistent, or outside the folder.
    """
    layout = find_yolo_layout(path)
    problems = AnnotationErrors(layout.file, skip_invalid=skip_invalid)
    label_reader = YoloLabelReader(layout, problems)
    splits: dict[str, Dataset] = {}
    for name, files in layout.splits.items():
        samples: list[Sample] = []
        for file in files:
            with problems.collect():
                samples.append(_read_sample(file, layout.file.parent, label_reader, origin))
        if any(sample.objects is not None for sample in samples):
            samples = [replace(sample, objects=sample.objects or ()) for sample in samples]
        splits[name] = Dataset(layout.file.parent, layout.categories, tuple(samples))
    problems.report()
    _warn_about_layout(layout, label_reader)
    return assign_scene_per_image(splits)


def _read_sample(path: Path, root: Path, label_reader: YoloLabelReader, origin: Origin) -> Sample:
    width, height = images.read_size(path)
    name = path.relative_to(root)
    labels = root / _find_label_file(name)
    objects = tuple(label_reader.read(labels, width, height)) if labels.is_file() else None
    return Sample(name.as_posix(), path, width, height, objects, origin)


def _find_label_file(image: Path) -> Path:
    """Return the label file of an image, relative to the same folder."""
    parts = list(image.parent.parts)
    if "images" in parts:
        parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
    return Path(*parts, f"{image.stem}.txt")


def _warn_about_layout(layout: YoloLayout, label_reader: YoloLabelReader) -> None:
    folders = {path.parent for files in layout.splits.values() for path in files}
    warn_about_unsupported_images(layout.file.parent, folders)
    notes = []
    if layout.repeated_count:
        notes.append(f"images listed more than once: {layout.repeated_count}. Each is read once.")
    if label_reader.confidence_count:
        notes.append(
            f"lines with a trailing confidence: {label_reader.confidence_count}. The confidences "
            "are ignored.",
        )
    warn_about_repairs(layout.file, notes)
