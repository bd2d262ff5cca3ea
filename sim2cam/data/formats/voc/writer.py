"""Pascal VOC writer: an XML file of boxes for each image (Everingham et al. 2010).

VOC counts pixels from 1, and a box is its first and last pixel: x0 to x1 becomes x0 + 1 to x1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sim2cam.data.formats.writing import (
    check_unique_stems,
    encode_upright,
    get_flat_stem,
    require_labels,
)
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.files import write_bytes

ANNOTATION_FOLDER, IMAGE_FOLDER, LIST_FOLDER = "Annotations", "JPEGImages", "ImageSets/Main"
MASK_FOLDER = "SegmentationObject"
"""Folder of instance masks: pixel values are object numbers in the XML file, from 1; 0 is background."""
DEFAULT_SPLIT = "train"


def write_voc(splits: Mapping[str, Dataset], folder: Path) -> None:
    """Write ``JPEGImages/``, ``Annotations/`` and ``ImageSets/Main/SPLIT.txt``.

    Crowds are ``difficult``, which VOC does not score. Masks, poses and depth are left out.

    Raises:
        InputError: an image is unlabelled or unreadable.
        OutputError: the folder cannot be written.
    """
    for name, dataset in splits.items():
        check_unique_stems(dataset)
        stems = [f"{name}-{get_flat_stem(sample)}" for sample in dataset.samples]
        for stem, sample in zip(stems, dataset.samples, strict=True):
            data, suffix = encode_upright(sample)
            tree = _build_tree(sample, require_labels(dataset, sample), f"{stem}{suffix}")
            write_bytes(folder / IMAGE_FOLDER / f"{stem}{suffix}", data)
            write_bytes(folder / ANNOTATION_FOLDER / f"{stem}.xml", ElementTree.tostring(tree))
        names = "".join(f"{stem}\n" for stem in stems)
        write_bytes(folder / LIST_FOLDER / f"{name}.txt", names.encode())


def _build_tree(
    sample: Sample, objects: tuple[ObjectLabel, ...], filename: str
) -> ElementTree.Element:
    root = ElementTree.Element("annotation")
    _add_elements(root, folder=IMAGE_FOLDER, filename=filename)
    size = ElementTree.SubElement(root, "size")
    _add_elements(size, width=sample.width, height=sample.height, depth=3)
    for label in objects:
        entry = ElementTree.SubElement(root, "object")
        _add_elements(entry, name=label.category, difficult=int(label.is_crowd))
        x0, y0, x1, y1 = label.box_xyxy
        box = ElementTree.SubElement(entry, "bndbox")
        _add_elements(box, xmin=x0 + 1, ymin=y0 + 1, xmax=x1, ymax=y1)
    return root


def _add_elements(parent: ElementTree.Element, **texts: Any) -> None:
    for name, value in texts.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        ElementTree.SubElement(parent, name).text = text
