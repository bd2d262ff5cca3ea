"""KITTI's object labels (Geiger et al. 2012): boxes, and how much of an object is seen.

What it has for boxes in space takes for granted that objects stand upright before a level camera:
one angle says how they are turned. Objects that lie on a table any way up do not fit, so those
fields hold what KITTI's own ``DontCare`` regions hold there, and pose, extent and mask are lost;
COCO and BOP keep them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sim2cam import images
from sim2cam.dataset.formats.pictures import labels_of, upright_png
from sim2cam.dataset.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError

_UNKNOWN_BOX = "-1 -1 -1 -1000 -1000 -1000 -10"
_UNKNOWN_ANGLE = -10
_SEEN, _PARTLY, _LARGELY, _UNKNOWN = range(4)


def write_kitti(parts: Mapping[str, Dataset], folder: Path) -> None:
    """Fills a folder with ``PART/image_2/``, ``PART/label_2/`` and ``PART/samples.txt``, the names.

    A box names its first and its last pixel, from 0. Truncation is 0 where the whole box is known to
    lie inside the picture and else unknown, -1. Occlusion is 0 from 95 % seen, 1 from half, 2 below
    (KITTI gives no numbers; these are our choice), 3 where unknown. Groups are ``DontCare``.

    Raises:
        InputError: an image without labels or that cannot be read, or a category of two words.
        OutputError: the folder cannot be written.
    """
    for name, dataset in parts.items():
        for category in dataset.categories:
            if len(category.split()) != 1:
                raise InputError(
                    dataset.root, f"category '{category}': KITTI takes one word. Rename it."
                )
        for number, sample in enumerate(dataset.samples):
            objects = labels_of(dataset, sample)
            lines = "".join(f"{_line(label, sample)}\n" for label in objects)
            images.write_bytes(folder / f"{name}/image_2/{number:06d}.png", upright_png(sample))
            images.write_bytes(folder / f"{name}/label_2/{number:06d}.txt", lines.encode())
        names = "".join(f"{number:06d} {s.name}\n" for number, s in enumerate(dataset.samples))
        images.write_bytes(folder / f"{name}/samples.txt", names.encode())


def _line(label: ObjectLabel, sample: Sample) -> str:
    x0, y0, x1, y1 = label.box_xyxy
    box = f"{x0:.2f} {y0:.2f} {x1 - 1:.2f} {y1 - 1:.2f}"
    if label.is_crowd:
        return f"DontCare -1 -1 {_UNKNOWN_ANGLE} {box} {_UNKNOWN_BOX}"
    seen = f"{_truncation(label, sample)} {_occlusion(label)}"
    return f"{label.category} {seen} {_UNKNOWN_ANGLE} {box} {_UNKNOWN_BOX}"


def _truncation(label: ObjectLabel, sample: Sample) -> int:
    if label.box_amodal_xyxy is None:
        return -1
    x0, y0, x1, y1 = label.box_amodal_xyxy
    return 0 if x0 > 0 and y0 > 0 and x1 < sample.width and y1 < sample.height else -1


def _occlusion(label: ObjectLabel) -> int:
    match label.visible_fraction:
        case None:
            return _UNKNOWN
        case share if share >= 0.95:
            return _SEEN
        case share if share >= 0.5:
            return _PARTLY
    return _LARGELY
