"""Reading real images, labelled or unlabelled, and their splits by use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sim2cam import images
from sim2cam.data.formats.bop.poses import has_targets, select_bop_targets
from sim2cam.data.formats.bop.reader import is_bop, read_bop
from sim2cam.data.formats.coco.reader import read_coco
from sim2cam.data.formats.cvat import is_cvat, read_cvat
from sim2cam.data.formats.kitti import is_kitti, read_kitti
from sim2cam.data.formats.labelme import is_labelme, read_labelme
from sim2cam.data.formats.video import is_video, read_video
from sim2cam.data.formats.voc.reader import is_voc, read_voc
from sim2cam.data.formats.webdataset.reader import is_webdataset, read_webdataset
from sim2cam.data.formats.yolo.layout import is_yolo
from sim2cam.data.formats.yolo.reader import read_yolo
from sim2cam.data.label_mapping import LabelMapping
from sim2cam.data.parsing import find_category_problem, find_name_problem
from sim2cam.data.photo_folder import (
    find_coco_file,
    format_coco_files,
    list_coco_files,
    list_photos,
)
from sim2cam.data.reader import read_dataset
from sim2cam.data.sample import PSEUDO_LABELLED, Dataset, Origin, Sample
from sim2cam.data.sessions import assign_sessions
from sim2cam.data.splits import (
    choose_splits,
    find_coco_splits,
    find_split_role,
    warn_about_joined_splits,
)
from sim2cam.data.writer import HEADER
from sim2cam.errors import InputError

Splits = dict[str, tuple[Path, Dataset]]
"""Path for errors and dataset of each split, by name."""


class _LayoutReader(Protocol):
    def __call__(
        self, path: Path, origin: Origin, /, *, skip_invalid: bool
    ) -> dict[str, Dataset]: ...


_LAYOUTS: tuple[tuple[Callable[[Path], bool], _LayoutReader], ...] = (
    (is_yolo, read_yolo),
    (is_voc, read_voc),
    (is_cvat, read_cvat),
    (is_labelme, read_labelme),
    (is_bop, read_bop),
    (is_kitti, read_kitti),
    (is_webdataset, read_webdataset),
    (is_video, read_video),
)
"""Detector and reader of each folder layout except COCO."""

_STYLE_ROLES, _DEV_ROLES = ("style", "train"), ("dev", "val")
_TEST_ROLES, _TRAIN_ROLES = ("test",), ("train",)
_SYNTHETIC_SPLITS = ("train_pbr", "train_synt")  # BOP's names of rendered splits


@dataclass(frozen=True)
class RealImageSplits:
    """Real images by use.

    Attributes:
        style: Images from which the camera style is learned; without labels, to prevent leakage.
        test: Labelled images for evaluation.
        dev: Labelled images for tuning a detector, disjoint from ``test``; None without them.
        train: Labelled images for training on photos; may overlap ``style`` and ``dev``. None without them or if
            not requested.
        label_mapping: Mapping from the images' labels to those of the detector; None for original labels.
    """

    style: Dataset
    test: Dataset
    dev: Dataset | None = None
    train: Dataset | None = None
    label_mapping: LabelMapping | None = None


def read_real_images(
    path: Path,
    *,
    origin: Origin = "real",
    skip_invalid: bool = False,
    split: str | None = None,
    roles: Sequence[str] = (),
) -> Dataset:
    """Read real images from a file or folder.

    Supported are COCO files, folders with images and one COCO file, folders in the layout of YOLO, VOC, LabelMe,
    CVAT, BOP or KITTI, WebDataset tar files, folders of photos, videos and sim2cam datasets. Photos of a folder
    and its subfolders are unlabelled (``objects`` is None), named by and sorted by relative path. Of a folder with
    splits (``train``, ``test``) all are read, unless ``split`` or ``roles`` selects some.

    Args:
        path: A COCO file, with images relative to its folder; a folder; a YOLO ``data.yaml``; a tar file; or a
            video.
        origin: Origin of the images; sim2cam datasets record their own.
        skip_invalid: Leave flawed annotations out with a warning; not for sim2cam datasets.
        split: Comma-separated names of splits; None for the default.
        roles: Roles of the splits that are read by default, as ``splits.TRAIN``; all splits if empty.

    Raises:
        UsageError: If there is no such split.
        InputError: If there are no images, a file is broken or inconsistent, an image is in several splits, or
            no split has a default role.
    """
    splits = read_splits(path, origin=origin, skip_invalid=skip_invalid, split=split, roles=roles)
    if split is None and not roles:
        warn_about_joined_splits(path, list(splits))
    return join_splits(path, splits)


def read_splits(
    path: Path,
    *,
    origin: Origin = "real",
    skip_invalid: bool = False,
    split: str | None = None,
    roles: Sequence[str] = (),
) -> dict[str, Dataset]:
    """Read the splits of real images by name; images without splits are the split ``train``.

    Arguments and errors are those of ``read_real_images``. With ``split`` or ``roles``, the COCO files of a
    folder (``train.json``) are splits too.
    """
    is_sim2cam = (path / HEADER).is_file()
    splits = {} if is_sim2cam else _read_layout_splits(path, origin, skip_invalid)
    coco_files = {} if splits or is_sim2cam else _find_coco_files(path, split, roles)
    names = choose_splits(path, [*splits, *coco_files], split, roles)
    if splits:
        return {name: splits[name][1] for name in names}
    if coco_files:
        return {name: _read_coco(coco_files[name], origin, skip_invalid) for name in names}
    if is_sim2cam:
        return {"train": _validate_names(path, read_dataset(path))}
    is_folder = path.is_dir()
    dataset = _read_folder(path, origin) if is_folder else _read_coco(path, origin, skip_invalid)
    return {"train": dataset}


def _find_coco_files(path: Path, split: str | None, roles: Sequence[str]) -> dict[str, Path]:
    """Return the COCO files of a folder by split: the only one, or those if a split or role selects some."""
    only = find_coco_file(path)
    if only is not None:
        name = only.stem.removeprefix("instances_")
        return {name if find_coco_splits(path) else "train": only}
    files = find_coco_splits(path)
    is_selected = split is not None or any(find_split_role(name) in roles for name in files)
    return files if is_selected else {}


def join_splits(path: Path, splits: Mapping[str, Dataset]) -> Dataset:
    """Return the splits of real images as one dataset.

    Raises:
        InputError: If an image is in several splits.
    """
    owners: dict[str, str] = {}
    for name, split in splits.items():
        for sample in split.samples:
            owner = owners.setdefault(sample.name, name)
            if owner != name:
                raise InputError(
                    path,
                    f"image {sample.name} is in the splits {owner} and {name}. Keep it in one, or choose a "
                    "split with --split.",
                )
    return _concatenate(list(splits.values()))


def read_evaluation_images(
    path: Path,
    *,
    session_rule: str | None = None,
    skip_invalid: bool = False,
    split: str | None = None,
) -> Dataset:
    """Read real images for evaluation.

    The images are those of ``read_real_images``. For a BOP dataset with a target list they are the listed test
    images, with amodal boxes.

    Raises:
        UsageError: If the rule or split does not exist.
        InputError: As in ``read_real_images``; or if the target list is broken, the rule does not fit the
            images, or labels are pseudo-labels.
    """
    is_listed = is_bop(path) and has_targets(path)
    captures = read_real_images(
        path, skip_invalid=skip_invalid, split=split, roles=_TEST_ROLES if is_listed else ()
    )
    check_no_pseudo_labels(captures, path)
    is_labelled = any(sample.objects is not None for sample in captures.samples)
    if not is_labelled and is_photo_folder(path) and list_coco_files(path)[1:]:
        raise InputError(
            path,
            f"contains several COCO files: {format_coco_files(path)}. Give one of them, or choose a split "
            "with --split.",
        )
    captures = select_bop_targets(path, captures) if is_listed else captures
    return captures if session_rule is None else assign_sessions([captures], session_rule)[0]


def split_real_images(
    path: Path,
    *,
    origin: Origin = "real",
    with_train: bool = False,
    session_rule: str | None = None,
    skip_invalid: bool = False,
) -> RealImageSplits:
    """Read real images and return them by use.

    Args:
        path: A folder with the splits ``test``, ``style`` (or ``train``) and optionally ``dev`` (or ``val``), as
            COCO files ``test.json`` and so on or in a layout that ``read_real_images`` supports. Or one COCO file or
            a folder with it, of which half is used for style only: half of the images by the hash of their bytes, or
            half of the sessions by the hash of their names.
        with_train: Whether to return photos for training: the labelled split ``train``, or the style half of a
            single COCO file with its labels.

    Raises:
        UsageError: If the rule does not exist.
        InputError: If a split is missing or broken, a test image is in another split, labels for evaluation or
            tuning are missing, or the rule does not fit the images.
    """
    splits = _read_layout_splits(path, origin, skip_invalid)
    file = None if splits else _find_single_file(path)
    if file is not None:
        whole = {"all": (file, _read_coco(file, origin, skip_invalid))}
        _, dataset = _assign_split_sessions(whole, session_rule)["all"]
        style, test = _split_in_half(dataset, file)
        _check_labelled(test, file)
        return RealImageSplits(_drop_labels(style), test, train=style if with_train else None)
    splits = _assign_split_sessions(
        splits or _read_coco_splits(path, origin, with_train, skip_invalid), session_rule
    )
    return _assemble_splits(path, splits, with_train)


def _find_single_file(path: Path) -> Path | None:
    """Return the COCO file to split in half: the path, or the only file of a folder if it is no split."""
    if not path.is_dir():
        return path
    return None if find_coco_splits(path) else find_coco_file(path)


def _assign_split_sessions(splits: Splits, rule: str | None) -> Splits:
    if rule is None:
        return splits
    datasets = assign_sessions([dataset for _, dataset in splits.values()], rule)
    paths = (path for path, _ in splits.values())
    return dict(zip(splits, zip(paths, datasets, strict=True), strict=True))


def _read_layout_splits(path: Path, origin: Origin, skip_invalid: bool) -> Splits:
    """Return the splits of a folder in the layout of another tool; none for COCO, sim2cam and photo folders."""
    for is_layout, read in _LAYOUTS:
        if is_layout(path):
            splits = read(path, origin, skip_invalid=skip_invalid)
            return {
                name: (path, _validate_names(path, dataset)) for name, dataset in splits.items()
            }
    return {}


def _read_coco(path: Path, origin: Origin, skip_invalid: bool) -> Dataset:
    return _validate_names(path, read_coco(path, origin, skip_invalid=skip_invalid))


def _validate_names(path: Path, dataset: Dataset) -> Dataset:
    """Raise InputError if a category or image name is invalid; return the dataset."""
    problems = [("category", find_category_problem(name)) for name in dataset.categories]
    problems += [("image", find_name_problem(sample.name)) for sample in dataset.samples]
    for kind, problem in problems:
        if problem:
            raise InputError(path, f"{kind} {problem}")
    return dataset


def _read_coco_splits(root: Path, origin: Origin, with_train: bool, skip_invalid: bool) -> Splits:
    """Return the COCO files in a folder, the first name of each role only."""
    splits: Splits = {}
    for roles in (_STYLE_ROLES, _DEV_ROLES, _TEST_ROLES, *([_TRAIN_ROLES] if with_train else [])):
        files = [root / f"{role}.json" for role in roles if (root / f"{role}.json").is_file()]
        for path in files[:1]:
            splits[path.stem] = path, _read_coco(path, origin, skip_invalid)
    return splits


def _assemble_splits(root: Path, splits: Splits, with_train: bool) -> RealImageSplits:
    """Return splits by use; test images must not be used otherwise."""
    style, test, dev = (
        _select_role(splits, roles) for roles in (_STYLE_ROLES, _TEST_ROLES, _DEV_ROLES)
    )
    photo_splits = {name: split for name, split in splits.items() if name not in _SYNTHETIC_SPLITS}
    train = _select_role(photo_splits, _TRAIN_ROLES) if with_train else None
    if style is None or test is None:
        raise InputError(
            root,
            "real images need the splits test and style or train, as COCO files (test.json) or in the "
            "layout of YOLO, VOC, BOP, KITTI or WebDataset. Add them, or give one COCO file, which is "
            "split in half.",
        )
    for path, used in filter(None, (style, dev, train)):
        _check_disjoint(used, test[1], path)
    for path, labelled in filter(None, (test, dev)):
        _check_labelled(labelled, path)
    has_labels = train is not None and all(s.objects is not None for s in train[1].samples)
    return RealImageSplits(
        _drop_labels(style[1]), test[1], dev and dev[1], train[1] if train and has_labels else None
    )


def _select_role(splits: Splits, roles: tuple[str, ...]) -> tuple[Path, Dataset] | None:
    """Return the splits of the first role that exists; BOP names them ``train_pbr`` and so on."""
    for role in roles:
        selected = [split for name, split in splits.items() if name.split("_")[0] == role]
        if selected:
            return selected[0][0], _concatenate([dataset for _, dataset in selected])
    return None


def _concatenate(datasets: Sequence[Dataset]) -> Dataset:
    return replace(
        datasets[0], samples=tuple(sample for dataset in datasets for sample in dataset.samples)
    )


def _drop_labels(dataset: Dataset) -> Dataset:
    samples = tuple(replace(sample, objects=None) for sample in dataset.samples)
    return replace(dataset, samples=samples)


def _check_labelled(dataset: Dataset, path: Path) -> None:
    if any(sample.objects is None for sample in dataset.samples):
        raise InputError(path, "its images have no labels to evaluate against. Label them.")
    check_no_pseudo_labels(dataset, path)


def check_no_pseudo_labels(dataset: Dataset, path: Path) -> None:
    """Raise InputError if an image has pseudo-labels, which cannot serve as ground truth."""
    for sample in dataset.samples:
        if sample.origin == PSEUDO_LABELLED:
            raise InputError(
                path,
                f"image {sample.name} has pseudo-labels of a detector, which are no ground truth. Give "
                "manually labelled images.",
            )


def check_images_readable(dataset: Dataset) -> None:
    """Raise InputError if an image cannot be decoded; count the unreadable images."""
    broken = []
    for sample in dataset.samples:
        try:
            images.read_rgb(sample.rgb)
        except InputError as error:
            broken.append(error)
    if broken:
        path, problem = broken[0].args
        more = f" {len(broken) - 1} more cannot be read either." if len(broken) > 1 else ""
        raise InputError(path, f"{problem}{more}")


def is_photo_folder(path: Path) -> bool:
    """Return whether a path is a folder of photos and no other layout that ``read_real_images`` supports."""
    is_other_layout = (path / HEADER).is_file() or any(is_layout(path) for is_layout, _ in _LAYOUTS)
    return path.is_dir() and not is_other_layout


def _read_folder(root: Path, origin: Origin) -> Dataset:
    samples = []
    for index, path in enumerate(list_photos(root)):
        width, height = images.read_size(path)
        name = path.relative_to(root).as_posix()
        samples.append(Sample(name, path, width, height, None, origin, scene_index=index))
    return _validate_names(root, Dataset(root, (), tuple(samples)))


def _check_disjoint(training: Dataset, test: Dataset, path: Path) -> None:
    test_paths = {sample.rgb.resolve() for sample in test.samples}
    for sample in training.samples:
        if sample.rgb.resolve() in test_paths:
            raise InputError(
                path,
                f"image {sample.name} is in test too; test images must not be used for training. "
                "Keep it in one of them.",
            )


def _split_in_half(dataset: Dataset, path: Path) -> tuple[Dataset, Dataset]:
    """Return the half with the lower hashes, rounded down, and the other half.

    Duplicates stay together, as do sessions if they are known.
    """
    digests = {sample.name: _hash_sample(sample) for sample in dataset.samples}
    ranked = sorted(set(digests.values()))
    if len(ranked) == 1 and dataset.samples[0].session is not None:
        raise InputError(
            path,
            "all photos are of one session, which cannot be split in half. Add another session, or omit --sessions.",
        )
    lower_half = set(ranked[: len(ranked) // 2])
    first = [name for name, digest in digests.items() if digest in lower_half]
    second = [name for name, digest in digests.items() if digest not in lower_half]
    return dataset.select_by_name(first), dataset.select_by_name(second)


def _hash_sample(sample: Sample) -> bytes:
    content = sample.rgb.read_bytes() if sample.session is None else sample.session.encode()
    return hashlib.sha256(content).digest()
