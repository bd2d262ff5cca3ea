"""Checks that the images of a training stay unchanged until it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sim2cam.errors import CheckpointError, InputError
from sim2cam.learn.checkpoint import load_extra_state
from sim2cam.learn.run_folder import CHECKPOINT

IMAGE_DIGESTS = "image_digests"
"""Key of a checkpoint's extra state: digests of the images by side and name."""

_MAX_LISTED = 3


def check_images_unchanged(run_dir: Path, image_digests: Mapping[str, Mapping[str, str]]) -> None:
    """Raise if the images differ from those recorded in the checkpoint.

    Passes without a checkpoint and for checkpoints without digests.

    Args:
        run_dir: run folder of the training.
        image_digests: digests of the current images, by side and name.

    Raises:
        CheckpointError: an image is missing, changed or new.
    """
    path = run_dir / CHECKPOINT
    for side, before in load_extra_state(path).get(IMAGE_DIGESTS, {}).items():
        now = image_digests[side]
        names_by_change = {
            "missing": [name for name in before if name not in now],
            "changed": [n for n, digest in before.items() if now.get(n, digest) != digest],
            "new": [name for name in now if name not in before],
        }
        for change, names in names_by_change.items():
            if names:
                raise CheckpointError(path, _format_change(side, change, names))


@contextmanager
def explain_unreadable_images() -> Iterator[None]:
    """Add a remedy to the error of an image that can no longer be read during a training.

    Raises:
        InputError: an image cannot be read.
    """
    try:
        yield
    except InputError as error:
        if type(error) is not InputError:  # subclasses are not about images
            raise
        path, problem = error.args
        raise InputError(
            path,
            f"{problem} Restore the file and continue with --resume; progress so far is kept.",
        ) from error


def _format_change(side: str, change: str, names: list[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    is_single = len(names) == 1
    remedy = ("Remove {}" if change == "new" else "Restore {}").format(
        "it" if is_single else "them"
    )
    return (
        f"the images of --{side} differ from those at the start of the training: "
        f"{', '.join(names[:_MAX_LISTED])}{more} {'is' if is_single else 'are'} {change}. {remedy} and continue "
        "with --resume, or start again with --overwrite."
    )
