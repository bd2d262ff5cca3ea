"""The pictures that a training was begun with have to stay as they were until it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sim2cam.errors import CheckpointError, InputError
from sim2cam.learn.checkpoint import load_extra_state
from sim2cam.learn.run_folder import CHECKPOINT

IMAGE_DIGESTS = "image_digests"
"""The fact of a checkpoint that has the digests of pictures by their names, of each side."""

_MAX_LISTED = 3


def check_images_unchanged(run_dir: Path, image_digests: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse to go on with other pictures than a training was begun with, by name.

    Nothing is refused where there is no checkpoint, or one that does not say.

    Args:
        run_dir: of the training.
        image_digests: of the pictures that there are now: by side, by name.

    Raises:
        CheckpointError: one is gone, is another one now, or is new.
    """
    path = run_dir / CHECKPOINT
    for side, before in load_extra_state(path).get(IMAGE_DIGESTS, {}).items():
        now = image_digests[side]
        found = {
            "gone": [name for name in before if name not in now],
            "no longer as before": [
                n for n, digest in before.items() if now.get(n, digest) != digest
            ],
            "new": [name for name in now if name not in before],
        }
        for what, names in found.items():
            if names:
                raise CheckpointError(path, _format_change(side, what, names))


@contextmanager
def explain_unreadable_images() -> Iterator[None]:
    """Say what to do when a picture that is learned from cannot be read any more.

    Raises:
        InputError: it cannot.
    """
    try:
        yield
    except InputError as error:
        if type(error) is not InputError:  # nor is it a picture
            raise
        path, problem = error.args
        raise InputError(
            path,
            f"{problem} Put a whole one in its place and go on with --resume, which keeps all that was learned "
            "so far.",
        ) from error


def _format_change(side: str, change: str, names: list[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    is_one = len(names) == 1
    cure = ("Take {} away" if change == "new" else "Put {} back").format("it" if is_one else "them")
    return (
        f"this training was begun with other pictures of --{side}: {', '.join(names[:_MAX_LISTED])}{more} "
        f"{'is' if is_one else 'are'} {change}. {cure} and go on with --resume, which keeps all that was learned so far; or run with "
        "--overwrite to start again."
    )
