"""Splits of a dataset (train, val, test) and their selection by name or role."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from sim2cam.errors import InputError, RepairWarning, UsageError

TRAIN = ("train",)
"""Roles of training splits."""
STYLE = ("style", "train")
"""Roles of splits that show the camera style; ``train`` is used without ``style``."""
DEV = ("dev", "val")
"""Roles of splits for parameter selection."""
_ROLE_WORDS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "dev": ("dev",),
    "test": ("test", "testing"),
    "style": ("style",),
}
_HELD_OUT_ROLES = ("val", "dev", "test")


def find_split_role(name: str) -> str:
    """Return the role of a split by its name: ``train`` for BOP's ``train_pbr`` and COCO's ``train2017``.

    A name without a known role is its own role.
    """
    word = re.match("[a-z]*", name.lower())
    return next((role for role, words in _ROLE_WORDS.items() if word and word[0] in words), name)


def find_coco_splits(root: Path) -> dict[str, Path]:
    """Return the COCO files in a folder or its ``annotations/`` by split name."""
    files: dict[str, Path] = {}
    for folder in (root, root / "annotations"):
        for path in sorted(folder.glob("*.json")):
            name = path.stem.removeprefix("instances_")
            if find_split_role(name) in _ROLE_WORDS:
                files.setdefault(name, path)
    return files


def choose_splits(
    path: Path, names: Sequence[str], split: str | None, roles: Sequence[str]
) -> list[str]:
    """Return the names of the splits to read, and warn about splits that are left out.

    Args:
        names: Names of its splits; empty for a dataset without splits.
        split: Comma-separated names or roles of splits; None for the default.
        roles: Roles that are read by default; all splits if empty.

    Raises:
        UsageError: If ``split`` names a split that the dataset lacks.
        InputError: If the dataset has no split of the default roles.
    """
    if split is not None:
        return _select_named_splits(path, names, split, has_default=bool(roles))
    if not roles or not names:
        return list(names)
    chosen = [name for role in roles for name in names if find_split_role(name) == role]
    if chosen and "style" in roles:
        chosen = [name for name in chosen if find_split_role(name) == find_split_role(chosen[0])]
    is_held_out = roles == TRAIN and find_split_role(names[0]) in _HELD_OUT_ROLES
    if not chosen and (len(names) > 1 or is_held_out):
        raise InputError(
            path,
            f"has no split {' or '.join(roles)}, only {', '.join(names)}. Choose one with --split, or "
            "move the images to a separate folder.",
        )
    chosen = chosen or list(names)
    if len(chosen) < len(names):
        omitted = ", ".join(name for name in names if name not in chosen)
        _warn(
            f"{path}: reading {', '.join(chosen)}, leaving out {omitted}. Choose other splits with --split."
        )
    return chosen


def _select_named_splits(
    path: Path, names: Sequence[str], split: str, *, has_default: bool
) -> list[str]:
    if not names:
        if not has_default:
            raise UsageError(f"--split {split}: {path} has no splits. Omit --split.")
        _warn(f"{path}: has no splits, so --split has no effect.")
        return []
    chosen: list[str] = []
    for wanted in split.split(","):
        matches = (
            [wanted]
            if wanted in names
            else [n for n in names if find_split_role(n) == find_split_role(wanted)]
        )
        if not matches:
            raise UsageError(
                f"--split {split}: {path} has no split '{wanted}'. Allowed: {', '.join(names)}."
            )
        chosen += matches
    return list(dict.fromkeys(chosen))


def warn_about_joined_splits(path: Path, names: Sequence[str]) -> None:
    """Warn that several splits of a dataset are read as one."""
    if len(names) > 1:
        _warn(f"{path}: reading the splits {', '.join(names)} as one. Choose splits with --split.")


def _warn(text: str) -> None:
    warnings.warn(text, RepairWarning, stacklevel=2)
