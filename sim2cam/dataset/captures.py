"""Captures: photos as users have them, labelled or not, and which of them may be scored."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from sim2cam import images
from sim2cam.dataset.coco_reader import read_coco
from sim2cam.dataset.reader import read_dataset
from sim2cam.dataset.sample import Dataset, Origin, Sample
from sim2cam.errors import InputError

_STYLE_FILES = ("style.json", "train.json")
_DEV_FILE = "dev.json"
_TEST_FILE = "test.json"


@dataclass(frozen=True)
class CaptureSets:
    """Captures apart by their use.

    Attributes:
        style: what the camera's look is learned from; without labels, so that none can leak.
        test: what is scored; labelled.
        dev: labelled, neither trained on nor scored: what a detector is tuned on; None without.
    """

    style: Dataset
    test: Dataset
    dev: Dataset | None = None


def read_captures(path: Path, *, origin: Origin = "real") -> Dataset:
    """Returns the captures of a COCO file, a folder of photos, or a data set of sim2cam.

    The photos of a folder are unlabelled (``objects`` is None) and sorted by name.

    Args:
        path: a COCO detection file, with the images relative to its folder; or a folder.
        origin: how the photos were made; a data set of sim2cam says so itself.

    Raises:
        InputError: nothing there, no images, or a file that is broken or contradicts itself.
    """
    if (path / "dataset.json").is_file():
        return read_dataset(path)
    return _read_folder(path, origin) if path.is_dir() else read_coco(path, origin)


def split_captures(path: Path, *, origin: Origin = "real") -> CaptureSets:
    """Returns captures apart by their use.

    Args:
        path: a folder with ``test.json``, ``style.json`` (or else ``train.json``) and perhaps
            ``dev.json``; or one COCO file, of which half of the images, chosen by the hash of their
            bytes, are style only.
        origin: how the photos were made.

    Raises:
        InputError: a file is missing or broken, a test image is in another file too, or there are
            no labels to score against or to tune on.
    """
    if not path.is_dir():
        style, test = _halves(read_coco(path, origin))
        _check_labelled(test, path)
        return CaptureSets(_unlabelled(style), test)
    style, test, dev = _read_splits(path, origin)
    _check_labelled(test, path / _TEST_FILE)
    if dev is not None:
        _check_labelled(dev, path / _DEV_FILE)
    return CaptureSets(_unlabelled(style), test, dev)


def _unlabelled(dataset: Dataset) -> Dataset:
    samples = tuple(replace(sample, objects=None) for sample in dataset.samples)
    return replace(dataset, samples=samples)


def _check_labelled(dataset: Dataset, path: Path) -> None:
    if any(sample.objects is None for sample in dataset.samples):
        raise InputError(
            path,
            "there is no list 'annotations' in it, so nothing can be scored. Label the images.",
        )


def _read_folder(root: Path, origin: Origin) -> Dataset:
    found = (p for p in root.iterdir() if p.suffix.lower() in images.SUFFIXES and p.is_file())
    paths = sorted(p for p in found if not p.name.startswith("."))
    if not paths:
        raise InputError(
            root, f"no images in it (JPEG, PNG, BMP, TIFF, WebP).{_other_reading(root)}"
        )
    samples = []
    for index, path in enumerate(paths):
        width, height = images.read_size(path)
        samples.append(Sample(path.name, path, width, height, None, origin, scene_index=index))
    return Dataset(root, (), tuple(samples))


def _other_reading(root: Path) -> str:
    files = sorted(p.name for p in root.glob("*.json"))
    return f" Name the COCO file itself: {', '.join(files)}." if files else " Check the path."


def _read_splits(root: Path, origin: Origin) -> tuple[Dataset, Dataset, Dataset | None]:
    """Returns style, test and, when there is one, the development split."""
    found = [root / name for name in _STYLE_FILES if (root / name).is_file()]
    if not found or not (root / _TEST_FILE).is_file():
        raise InputError(
            root,
            f"captures need {_TEST_FILE} and {' or '.join(_STYLE_FILES)} in their folder (COCO "
            "detection files). Add them, or name one COCO file, of which half is then style only.",
        )
    style, test = read_coco(found[0], origin), read_coco(root / _TEST_FILE, origin)
    _check_apart(style, test, found[0])
    if not (root / _DEV_FILE).is_file():
        return style, test, None
    dev = read_coco(root / _DEV_FILE, origin)
    _check_apart(dev, test, root / _DEV_FILE)
    return style, test, dev


def _check_apart(learned: Dataset, test: Dataset, path: Path) -> None:
    scored = {sample.rgb.resolve() for sample in test.samples}
    for sample in learned.samples:
        if sample.rgb.resolve() in scored:
            raise InputError(
                path,
                f"image {sample.name} is in {_TEST_FILE} too: what is scored must not be learned "
                "from. Keep it in one of them.",
            )


def _halves(dataset: Dataset) -> tuple[Dataset, Dataset]:
    """Returns the half with the lower hashes, rounded down, and the other; copies stay together."""
    digests = {s.name: hashlib.sha256(s.rgb.read_bytes()).digest() for s in dataset.samples}
    ranked = sorted(set(digests.values()))
    lower = set(ranked[: len(ranked) // 2])
    first = [name for name, digest in digests.items() if digest in lower]
    second = [name for name, digest in digests.items() if digest not in lower]
    return dataset.only(first), dataset.only(second)
