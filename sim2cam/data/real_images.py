"""Captures: photos as users have them, labelled or not, and which of them may be scored."""

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
from sim2cam.data.matching import LabelMapping
from sim2cam.data.parsing import find_category_problem, find_name_problem
from sim2cam.data.parts import (
    choose_splits,
    find_coco_splits,
    find_split_role,
    warn_about_joined_splits,
)
from sim2cam.data.photo_folder import list_photos
from sim2cam.data.reader import read_dataset
from sim2cam.data.sample import PSEUDO_LABELLED, Dataset, Origin, Sample
from sim2cam.data.sessions import assign_sessions
from sim2cam.data.writer import HEADER
from sim2cam.errors import InputError

Splits = dict[str, tuple[Path, Dataset]]
"""By name: what an error is about, and the captures."""


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
"""How folders of other formats than COCO are told, and what reads their parts by name."""

_STYLE_ROLES, _DEV_ROLES, _TEST_ROLES, _TRAIN_ROLES = (
    ("style", "train"),
    ("dev", "val"),
    ("test",),
    ("train",),
)
_SYNTHETIC_SPLITS = ("train_pbr", "train_synt")  # what BOP calls parts that nobody photographed


@dataclass(frozen=True)
class RealImageSplits:
    """Captures apart by their use.

    Attributes:
        style: what the camera's look is learned from; without labels, so that none can leak.
        test: what is scored; labelled.
        dev: labelled, neither trained on nor scored: what a detector is tuned on; None without.
        train: labelled, for trainings on photos, which are not tuned and may hold those of ``style``
            and ``dev``; None without, or where it was not asked for.
        label_mapping: how their labels became those that are held against detectors; None where they are
            the captures' own.
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
    """Return captures: those of a COCO file, of a folder in the layout of another tool (YOLO, VOC, LabelMe,
    CVAT, BOP, KITTI), of WebDataset's tar files, of a folder of photos, of a video, or a data set of sim2cam.

    The photos of a folder and its subfolders are unlabelled (``objects`` is None), named and sorted by their
    relative paths. Of a folder with several parts (``train``, ``test``) these are all, unless ``split`` or
    ``roles`` chooses.

    Args:
        path: a COCO file, with the images relative to its folder; or a folder, the ``data.yaml`` of
            YOLO, a tar file, or a video.
        origin: how the photos were made; a data set of sim2cam says so itself.
        skip_invalid: leave flawed annotations out with a warning; not those of a data set of sim2cam.
        split: names of the parts that are read, separated by commas; None for the default.
        roles: of the parts that are read by default, as ``parts.TRAIN``; all parts where empty.

    Raises:
        UsageError: there is no such part.
        InputError: nothing there, no images, a file that is broken or contradicts itself, an image in
            several parts, or no part of the default uses.
    """
    parts = read_splits(path, origin=origin, skip_invalid=skip_invalid, split=split, roles=roles)
    if split is None and not roles:
        warn_about_joined_splits(path, list(parts))
    return join_splits(path, parts)


def read_splits(
    path: Path,
    *,
    origin: Origin = "real",
    skip_invalid: bool = False,
    split: str | None = None,
    roles: Sequence[str] = (),
) -> dict[str, Dataset]:
    """Return the parts of captures by name; captures without parts are the part ``train``.

    Args and errors are those of ``read_real_images``. With ``split`` or ``roles``, the COCO files of a folder
    (``train.json``) are parts too.
    """
    is_ours = (path / HEADER).is_file()
    parts = {} if is_ours else _read_layout_splits(path, origin, skip_invalid)
    files = find_coco_splits(path) if not parts and not is_ours and (split or roles) else {}
    if split is None and not any(find_split_role(name) in roles for name in files):
        files = {}
    chosen = choose_splits(path, [*parts, *files], split, roles)
    if parts:
        return {name: parts[name][1] for name in chosen}
    if files:
        return {name: _read_coco(files[name], origin, skip_invalid) for name in chosen}
    if is_ours:
        return {"train": _validate_names(path, read_dataset(path))}
    is_folder = path.is_dir()
    whole = _read_folder(path, origin) if is_folder else _read_coco(path, origin, skip_invalid)
    return {"train": whole}


def join_splits(path: Path, splits: Mapping[str, Dataset]) -> Dataset:
    """Return the parts of captures as one.

    Args:
        path: of the captures, for errors.
        splits: by name.

    Raises:
        InputError: an image is in several parts.
    """
    owners: dict[str, str] = {}
    for name, part in splits.items():
        for sample in part.samples:
            owner = owners.setdefault(sample.name, name)
            if owner != name:
                raise InputError(
                    path,
                    f"image {sample.name} is in the parts {owner} and {name}. Keep it in one, or choose a part "
                    "with --split.",
                )
    return _concatenate(list(splits.values()))


def read_evaluation_images(
    path: Path,
    *,
    session_rule: str | None = None,
    skip_invalid: bool = False,
    split: str | None = None,
) -> Dataset:
    """Return captures as detections in them are scored.

    They are those of ``read_real_images``; of a BOP data set with a list of targets, those of its test
    images that it names, with boxes of whole objects.

    Args:
        path: as ``read_real_images`` takes it.
        session_rule: rule of ``assign_sessions`` that tells which were taken together; None without one.
        skip_invalid: as ``read_real_images`` takes it.
        split: as ``read_real_images`` takes it.

    Raises:
        UsageError: there is no such rule, or no such part.
        InputError: as ``read_real_images``, the list is broken, the rule does not fit the captures, or a
            detector labelled them.
    """
    is_listed = is_bop(path) and has_targets(path)
    captures = read_real_images(
        path, skip_invalid=skip_invalid, split=split, roles=_TEST_ROLES if is_listed else ()
    )
    check_no_pseudo_labels(captures, path)
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
    """Return captures apart by their use.

    Args:
        path: a folder with the parts ``test``, ``style`` (or else ``train``) and perhaps ``dev`` (or
            else ``val``), as COCO files ``test.json`` and so on, or in a layout that
            ``read_real_images`` knows; or one COCO file, of which half of the images, chosen by the hash of their
            bytes, are style only, or half of the sessions, chosen by the hash of their names.
        origin: how the photos were made.
        with_train: whether photos to train on are wanted: the part ``train`` where it has labels; of
            one COCO file the half that is style, with its labels.
        session_rule: rule of ``assign_sessions`` that tells which were taken together; None without one.
        skip_invalid: as ``read_real_images`` takes it.

    Raises:
        UsageError: there is no such rule.
        InputError: a part is missing or broken, a test image is in another part too, or there are
            no labels to score against or to tune on; or the rule does not fit the captures.
    """
    parts = _read_layout_splits(path, origin, skip_invalid)
    if not parts and not path.is_dir():
        read = _read_coco(path, origin, skip_invalid)
        whole = _assign_split_sessions({"all": (path, read)}, session_rule)["all"][1]
        style, test = _split_in_half(whole, path)
        _check_labelled(test, path)
        return RealImageSplits(_drop_labels(style), test, train=style if with_train else None)
    parts = _assign_split_sessions(
        parts or _read_coco_splits(path, origin, with_train, skip_invalid), session_rule
    )
    return _assemble_splits(path, parts, with_train)


def _assign_split_sessions(splits: Splits, rule: str | None) -> Splits:
    """Return parts that know their sessions, where there is a rule."""
    if rule is None:
        return splits
    told = assign_sessions([part for _, part in splits.values()], rule)
    return {name: (path, new) for (name, (path, _)), new in zip(splits.items(), told, strict=True)}


def _read_layout_splits(path: Path, origin: Origin, skip_invalid: bool) -> Splits:
    """Return the parts of a folder that is neither COCO's nor ours; none where it is one of them."""
    for is_one, read in _LAYOUTS:
        if is_one(path):
            parts = read(path, origin, skip_invalid=skip_invalid)
            return {name: (path, _validate_names(path, part)) for name, part in parts.items()}
    return {}


def _read_coco(path: Path, origin: Origin, skip_invalid: bool) -> Dataset:
    return _validate_names(path, read_coco(path, origin, skip_invalid=skip_invalid))


def _validate_names(path: Path, dataset: Dataset) -> Dataset:
    """Refuse names that cannot stand in a line of text or be those of files."""
    problems = [("category", find_category_problem(name)) for name in dataset.categories]
    problems += [("image", find_name_problem(sample.name)) for sample in dataset.samples]
    for what, problem in problems:
        if problem:
            raise InputError(path, f"{what} {problem}")
    return dataset


def _read_coco_splits(root: Path, origin: Origin, with_train: bool, skip_invalid: bool) -> Splits:
    """Return what is to be used of the COCO files in a folder, under the first name of each use."""
    found: Splits = {}
    for uses in (_STYLE_ROLES, _DEV_ROLES, _TEST_ROLES, *([_TRAIN_ROLES] if with_train else [])):
        files = [root / f"{use}.json" for use in uses if (root / f"{use}.json").is_file()]
        for path in files[:1]:
            found[path.stem] = path, _read_coco(path, origin, skip_invalid)
    return found


def _assemble_splits(root: Path, splits: Splits, with_train: bool) -> RealImageSplits:
    """Return captures by their use; what is tested has no other one."""
    style, test, dev = (
        _select_role(splits, uses) for uses in (_STYLE_ROLES, _TEST_ROLES, _DEV_ROLES)
    )
    photos = {name: part for name, part in splits.items() if name not in _SYNTHETIC_SPLITS}
    train = _select_role(photos, _TRAIN_ROLES) if with_train else None
    if style is None or test is None:
        raise InputError(
            root,
            "captures need test.json and style.json or train.json in their folder (COCO detection "
            "files), or such parts in the layout of YOLO, VOC, BOP, KITTI or WebDataset. Add them, or "
            "name one COCO file, of which half is then style only.",
        )
    for path, learned in filter(None, (style, dev, train)):
        _check_disjoint(learned, test[1], path)
    for path, scored in filter(None, (test, dev)):
        _check_labelled(scored, path)
    has_labels = train is not None and all(s.objects is not None for s in train[1].samples)
    return RealImageSplits(
        _drop_labels(style[1]), test[1], dev and dev[1], train[1] if train and has_labels else None
    )


def _select_role(splits: Splits, roles: tuple[str, ...]) -> tuple[Path, Dataset] | None:
    """Return the parts of the first use that there is; BOP calls them ``train_pbr`` and so on."""
    for use in roles:
        found = [part for name, part in splits.items() if name.split("_")[0] == use]
        if found:
            return found[0][0], _concatenate([part for _, part in found])
    return None


def _concatenate(datasets: Sequence[Dataset]) -> Dataset:
    """Return parts of the same categories as one."""
    return replace(datasets[0], samples=tuple(s for part in datasets for s in part.samples))


def _drop_labels(dataset: Dataset) -> Dataset:
    samples = tuple(replace(sample, objects=None) for sample in dataset.samples)
    return replace(dataset, samples=samples)


def _check_labelled(dataset: Dataset, path: Path) -> None:
    if any(sample.objects is None for sample in dataset.samples):
        raise InputError(
            path,
            "its images have no labels, so nothing can be scored. Label them.",
        )
    check_no_pseudo_labels(dataset, path)


def check_no_pseudo_labels(dataset: Dataset, path: Path) -> None:
    """Refuse labels that a detector gave where something is scored against them.

    Raises:
        InputError: naming an image.
    """
    for sample in dataset.samples:
        if sample.origin == PSEUDO_LABELLED:
            raise InputError(
                path,
                f"a detector labelled image {sample.name}, so nothing can be scored against it. Name "
                "captures that people labelled.",
            )


def check_images_readable(dataset: Dataset) -> None:
    """Refuse pictures that cannot be read, before anything long begins.

    Raises:
        InputError: naming the first, and how many there are.
    """
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
    """Return whether a path is a folder of photos, and nothing else that ``read_real_images`` knows."""
    known = (path / HEADER).is_file() or any(is_one(path) for is_one, _ in _LAYOUTS)
    return path.is_dir() and not known


def _read_folder(root: Path, origin: Origin) -> Dataset:
    samples = []
    for index, path in enumerate(list_photos(root)):
        width, height = images.read_size(path)
        name = path.relative_to(root).as_posix()
        samples.append(Sample(name, path, width, height, None, origin, scene_index=index))
    return _validate_names(root, Dataset(root, (), tuple(samples)))


def _check_disjoint(training: Dataset, test: Dataset, path: Path) -> None:
    scored = {sample.rgb.resolve() for sample in test.samples}
    for sample in training.samples:
        if sample.rgb.resolve() in scored:
            raise InputError(
                path,
                f"image {sample.name} is in test too: what is scored must not be learned "
                "from. Keep it in one of them.",
            )


def _split_in_half(dataset: Dataset, path: Path) -> tuple[Dataset, Dataset]:
    """Return the half with the lower hashes, rounded down, and the other.

    Copies stay together, and sessions where they are known.
    """
    digests = {s.name: _hash_sample(s) for s in dataset.samples}
    ranked = sorted(set(digests.values()))
    if len(ranked) == 1 and dataset.samples[0].session is not None:
        raise InputError(
            path,
            "its photos are all of one session, which cannot be both learned from and scored. Add "
            "another, or leave --sessions out.",
        )
    lower = set(ranked[: len(ranked) // 2])
    first = [name for name, digest in digests.items() if digest in lower]
    second = [name for name, digest in digests.items() if digest not in lower]
    return dataset.select_by_name(first), dataset.select_by_name(second)


def _hash_sample(sample: Sample) -> bytes:
    kept_together = sample.rgb.read_bytes() if sample.session is None else sample.session.encode()
    return hashlib.sha256(kept_together).digest()
