"""Writing Pascal VOC: an XML file of boxes for each image (Everingham et al. 2010).

Its pixels are counted from 1 and a box names the first and the last of them, so that ours, from x0
to x1, goes from x0 + 1 to x1.
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
"""Folder of pictures whose pixels have the number of their object in the XML file, from 1; 0 beside them."""
DEFAULT_SPLIT = "train"
_BOTH = "trainval"
_SAYS = ("-1", "0", "1")  # of a picture: a category is not in it, only in a difficult way, or is
_VOID = 255  # of the rims of objects, of which nobody says whose they are
_WITHIN = 0.5  # share of a mask that lies in its object's box, or it is another's
_MOST_BYTES = 4_000_000
_CURE = "Correct the file."


def write_voc(splits: Mapping[str, Dataset], folder: Path) -> None:
    """Fill a folder with ``JPEGImages/``, ``Annotations/`` and ``ImageSets/Main/PART.txt``.

    Groups (``is_crowd``) are ``difficult``, which VOC does not score either. Masks, poses and depth
    have no place in it.

    Raises:
        InputError: an image without labels, or one that cannot be read.
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
        listed = "".join(f"{stem}\n" for stem in stems)
        write_bytes(folder / LIST_FOLDER / f"{name}.txt", listed.encode())


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
