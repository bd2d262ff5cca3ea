"""Pascal VOC: an XML file of boxes for each picture (Everingham et al. 2010).

Its pixels are counted from 1 and a box names the first and the last of them, so that ours, from x0
to x1, goes from x0 + 1 to x1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

import numpy as np

from sim2cam import images
from sim2cam.dataset.formats.pictures import (
    check_stems,
    each_a_scene,
    flat_stem,
    labels_of,
    upright_file,
)
from sim2cam.dataset.parsing import read_text, stays_inside
from sim2cam.dataset.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.masks import RunLengths

ANNOTATIONS, PICTURES, LISTS = "Annotations", "JPEGImages", "ImageSets/Main"
MASKS = "SegmentationObject"
"""Folder of pictures whose pixels have the number of their object in the XML file, from 1; 0 beside them."""
WHOLE = "train"
_BOTH = "trainval"
_SAYS = ("-1", "0", "1")  # of a picture: a category is not in it, only in a difficult way, or is
_VOID = 255  # of the rims of objects, of which nobody says whose they are
_WITHIN = 0.5  # share of a mask that lies in its object's box, or it is another's
_MOST_BYTES = 4_000_000
_CURE = "Correct the file."


def write_voc(parts: Mapping[str, Dataset], folder: Path) -> None:
    """Fills a folder with ``JPEGImages/``, ``Annotations/`` and ``ImageSets/Main/PART.txt``.

    Groups (``is_crowd``) are ``difficult``, which VOC does not score either. Masks, poses and depth
    have no place in it.

    Raises:
        InputError: an image without labels, or one that cannot be read.
        OutputError: the folder cannot be written.
    """
    for name, dataset in parts.items():
        check_stems(dataset)
        stems = [f"{name}-{flat_stem(sample)}" for sample in dataset.samples]
        for stem, sample in zip(stems, dataset.samples, strict=True):
            data, suffix = upright_file(sample)
            tree = _tree(sample, labels_of(dataset, sample), f"{stem}{suffix}")
            images.write_bytes(folder / PICTURES / f"{stem}{suffix}", data)
            images.write_bytes(folder / ANNOTATIONS / f"{stem}.xml", ElementTree.tostring(tree))
        listed = "".join(f"{stem}\n" for stem in stems)
        images.write_bytes(folder / LISTS / f"{name}.txt", listed.encode())


def _tree(sample: Sample, objects: tuple[ObjectLabel, ...], filename: str) -> ElementTree.Element:
    root = ElementTree.Element("annotation")
    _add(root, folder=PICTURES, filename=filename)
    size = ElementTree.SubElement(root, "size")
    _add(size, width=sample.width, height=sample.height, depth=3)
    for label in objects:
        entry = ElementTree.SubElement(root, "object")
        _add(entry, name=label.category, difficult=int(label.is_crowd))
        x0, y0, x1, y1 = label.box_xyxy
        box = ElementTree.SubElement(entry, "bndbox")
        _add(box, xmin=x0 + 1, ymin=y0 + 1, xmax=x1, ymax=y1)
    return root


def _add(parent: ElementTree.Element, **texts: Any) -> None:
    for name, value in texts.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        ElementTree.SubElement(parent, name).text = text


def is_voc(path: Path) -> bool:
    """Returns whether a path is a folder in VOC's layout, or of XML files beside their pictures."""
    beside = (xml.with_suffix(s) for xml in path.glob("*.xml") for s in images.SUFFIXES)
    return (path / ANNOTATIONS).is_dir() or any(picture.is_file() for picture in beside)


def read_voc(root: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Returns the parts of a folder in VOC's layout, or with XML files beside their pictures.

    What is ``difficult`` is taken for a group: neither trained on nor scored. Categories are those
    that occur, sorted. Pictures in ``SegmentationObject/`` are masks of the objects; those that it does not
    have are of photos whose objects have none.

    Raises:
        InputError: a file is missing, broken or contradicts itself, or lies outside the folder.
    """
    nested = (root / ANNOTATIONS).is_dir()
    annotations, pictures = (root / ANNOTATIONS, root / PICTURES) if nested else (root, root)
    read = {name: _files(annotations, stems) for name, stems in _lists(root, annotations).items()}
    samples = {
        name: tuple(_sample(path, pictures, root, origin) for path in paths)
        for name, paths in read.items()
    }
    found = {o.category for part in samples.values() for s in part for o in s.objects or ()}
    categories = tuple(sorted(found))
    parts = {name: Dataset(root, categories, part) for name, part in samples.items() if part}
    return each_a_scene(parts)


def _lists(root: Path, annotations: Path) -> dict[str, list[str]]:
    """Returns the names of each part's pictures; all of them where there are no lists."""
    lists = {
        path.stem: [line.strip() for line in _lines(path) if line.strip()]
        for path in sorted((root / LISTS).glob("*.txt"))
    }
    lists = {name: lines for name, lines in lists.items() if not _is_of_category(name, lines)}
    if not lists:
        return {WHOLE: sorted(path.stem for path in annotations.glob("*.xml"))}
    both = lists.pop(_BOTH, None)
    if both is not None and not {WHOLE, "val"} & set(lists):
        lists[WHOLE] = both
    return lists


def _is_of_category(name: str, lines: list[str]) -> bool:
    """Returns whether a list, as aeroplane_train, says of each picture whether it shows a category."""
    said = [line.split()[1:] for line in lines]
    return "_" in name and all(len(words) == 1 and words[0] in _SAYS for words in said)


def _lines(path: Path) -> list[str]:
    return read_text(path, _MOST_BYTES, "list of pictures").splitlines()


def _files(annotations: Path, stems: list[str]) -> Iterator[Path]:
    for stem in stems:
        if not stays_inside(stem):
            raise InputError(annotations.parent, f"'{stem}' lies outside this folder. {_CURE}")
        yield annotations / f"{stem}.xml"


def _sample(path: Path, pictures: Path, root: Path, origin: Origin) -> Sample:
    tree = _parse(path)
    name = tree.findtext("filename", "").strip()
    if not stays_inside(name):
        raise InputError(path, f"filename '{name}' lies outside the folder. {_CURE}")
    picture = pictures / PurePosixPath(name)
    width, height = images.read_size(picture)
    listed = tuple(_number(path, tree, f"size/{side}") for side in ("width", "height"))
    if listed != (width, height):
        raise InputError(
            path,
            f"{name} is {width}x{height} pixels, not {listed[0]:g}x{listed[1]:g} as listed. Export "
            "the annotations of this very image.",
        )
    objects = tuple(
        _label(path, number, entry, width, height)
        for number, entry in enumerate(tree.findall("object"))
    )
    masks = root / MASKS / f"{path.stem}.png"
    if masks.is_file():
        objects = tuple(_masked(masks, objects, (height, width)))
    return Sample(picture.relative_to(root).as_posix(), picture, width, height, objects, origin)


def _masked(
    path: Path, objects: Sequence[ObjectLabel], size: tuple[int, int]
) -> Iterator[ObjectLabel]:
    """Yields objects with the masks of a picture; without one where it shows nothing of them."""
    numbers = images.read_numbers(path)
    if numbers.shape != size:
        found = f"{numbers.shape[1]}x{numbers.shape[0]}"
        raise InputError(
            path,
            f"is {found} pixels, not {size[1]}x{size[0]} as its photo. Copy the data set again.",
        )
    strangers = sorted({*np.unique(numbers).tolist()} - {0, _VOID, *range(1, len(objects) + 1)})
    if strangers:
        raise InputError(
            path,
            f"shows object {strangers[0]}, but its XML file has {len(objects)}. They are of different "
            "versions.",
        )
    for number, label in enumerate(objects, 1):
        mask = numbers == number
        area = int(mask.sum())
        if not area:
            yield label
            continue
        x0, y0, x1, y1 = (max(0, round(side)) for side in label.box_xyxy)
        if mask[y0:y1, x0:x1].sum() < _WITHIN * area:
            raise InputError(
                path,
                f"object {number} ({label.category}) lies mostly outside its box in the XML file. They are "
                "of different versions.",
            )
        yield replace(label, mask=RunLengths.of(mask), area_px=float(area))


def _parse(path: Path) -> ElementTree.Element:
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        tree: ElementTree.Element = fromstring(read_text(path, _MOST_BYTES, "annotation"))
    except ElementTree.ParseError as error:
        raise InputError(path, f"not XML ({error}). {_CURE}") from error
    except (DefusedXmlException, ValueError) as error:
        raise InputError(
            path, "it declares entities, which no annotation needs. " + _CURE
        ) from error
    if tree.tag != "annotation":
        raise InputError(path, f"its root is <{tree.tag[:40]}>, not <annotation>. {_CURE}")
    return tree


def _label(
    path: Path, number: int, entry: ElementTree.Element, width: int, height: int
) -> ObjectLabel:
    category = entry.findtext("name", "").strip()
    if not category:
        raise InputError(path, f"object {number} has no name. {_CURE}")
    corner = [_number(path, entry, f"bndbox/{key}") for key in ("xmin", "ymin", "xmax", "ymax")]
    box: Box = corner[0] - 1, corner[1] - 1, corner[2], corner[3]
    x0, y0, x1, y1 = box
    if not (x0 < x1 and y0 < y1 and x0 < width and y0 < height and x1 > 0 and y1 > 0):
        raise InputError(
            path,
            f"object {number} ({category}): the box {corner} is empty or outside the image of "
            f"{width}x{height} pixels. {_CURE}",
        )
    difficult = entry.findtext("difficult", "0").strip() == "1"
    return ObjectLabel(category, box, (x1 - x0) * (y1 - y0), is_crowd=difficult)


def _number(path: Path, entry: ElementTree.Element, place: str) -> float:
    text = entry.findtext(place, "").strip()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(path, f"{place} is '{text[:40]}', not a number. {_CURE}")
    return value
