"""Parts of a data set (train, val, test) and which of them a command reads."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from sim2cam.errors import InputError, RepairWarning, UsageError

TRAIN = ("train",)
"""Uses of parts that a detector learns from."""
STYLE = ("style", "train")
"""Uses of parts that show what images of a camera look like; without ``style`` it is ``train``."""
DEV = ("dev", "val")
"""Uses of parts that choose parameters."""
_ROLE_WORDS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "dev": ("dev",),
    "test": ("test", "testing"),
    "style": ("style",),
}
_HELD_OUT_ROLES = ("val", "dev", "test")


def find_split_role(name: str) -> str:
    """Return the use of a part by its name: BOP's ``train_pbr`` and COCO's ``train2017`` are ``train``.

    A name without a known use is its own use.
    """
    word = re.match("[a-z]*", name.lower())
    return next((use for use, words in _ROLE_WORDS.items() if word and word[0] in words), name)


def find_coco_splits(root: Path) -> dict[str, Path]:
    """Return the COCO files of a folder, or of ``annotations/`` in it, by the names of their parts."""
    found: dict[str, Path] = {}
    for folder in (root, root / "annotations"):
        for path in sorted(folder.glob("*.json")):
            name = path.stem.removeprefix("instances_")
            if find_split_role(name) in _ROLE_WORDS:
                found.setdefault(name, path)
    return found


def choose_splits(
    path: Path, names: Sequence[str], split: str | None, roles: Sequence[str]
) -> list[str]:
    """Return the names of the parts of a data set that are read, and warn of parts that are left out.

    Args:
        path: the data set.
        names: of its parts; none for a data set without parts.
        split: names or uses of wanted parts, separated by commas; None for the default.
        roles: of the parts that are read by default; all parts where empty.

    Raises:
        UsageError: ``split`` names a part that the data set does not have.
        InputError: the data set has no part of the default uses.
    """
    if split is not None:
        return _select_named_splits(path, names, split, has_default=bool(roles))
    if not roles or not names:
        return list(names)
    chosen = [name for use in roles for name in names if find_split_role(name) == use]
    if chosen and "style" in roles:
        chosen = [name for name in chosen if find_split_role(name) == find_split_role(chosen[0])]
    is_held_out = roles == TRAIN and find_split_role(names[0]) in _HELD_OUT_ROLES
    if not chosen and (len(names) > 1 or is_held_out):
        raise InputError(
            path,
            f"it has no part {' or '.join(roles)}, but {', '.join(names)}. Name a part with --split, or give "
            "its images a folder of their own.",
        )
    chosen = chosen or list(names)
    if len(chosen) < len(names):
        left = ", ".join(name for name in names if name not in chosen)
        _warn(
            f"{path}: reading {', '.join(chosen)}, leaving out {left}. --split chooses other parts."
        )
    return chosen


def _select_named_splits(
    path: Path, names: Sequence[str], split: str, *, has_default: bool
) -> list[str]:
    if not names:
        if not has_default:
            raise UsageError(f"--split {split}: {path} has no parts. Leave --split out.")
        _warn(f"{path}: has no parts, so --split has no effect. All of it is read.")
        return []
    chosen: list[str] = []
    for wanted in split.split(","):
        same = (
            [wanted]
            if wanted in names
            else [n for n in names if find_split_role(n) == find_split_role(wanted)]
        )
        if not same:
            raise UsageError(
                f"--split {split}: {path} has no part '{wanted}'. Allowed: {', '.join(names)}."
            )
        chosen += same
    return list(dict.fromkeys(chosen))


def warn_about_joined_splits(path: Path, names: Sequence[str]) -> None:
    """Warn that several parts of a data set are read as one."""
    if len(names) > 1:
        _warn(f"{path}: reading its parts {', '.join(names)} as one. --split chooses parts.")


def _warn(text: str) -> None:
    warnings.warn(text, RepairWarning, stacklevel=2)
