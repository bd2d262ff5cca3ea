"""The pictures that a training was begun with have to stay as they were until it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sim2cam.errors import CheckpointError, InputError
from sim2cam.learn.checkpoint import load_facts
from sim2cam.learn.run_folder import CHECKPOINT

PICTURES = "pictures"
"""The fact of a checkpoint that has the digests of pictures by their names, of each side."""

_TOLD = 3


def check_unchanged(run_dir: Path, digests: Mapping[str, Mapping[str, str]]) -> None:
    """Refuses to go on with other pictures than a training was begun with, by name.

    Nothing is refused where there is no checkpoint, or one that does not say.

    Args:
        run_dir: of the training.
        digests: of the pictures that there are now: by side, by name.

    Raises:
        CheckpointError: one is gone, is another one now, or is new.
    """
    path = run_dir / CHECKPOINT
    for side, before in load_facts(path).get(PICTURES, {}).items():
        now = digests[side]
        found = {
            "gone": [name for name in before if name not in now],
            "no longer as before": [
                n for n, digest in before.items() if now.get(n, digest) != digest
            ],
            "new": [name for name in now if name not in before],
        }
        for what, names in found.items():
            if names:
                raise CheckpointError(path, _told(side, what, names))


@contextmanager
def damage_told() -> Iterator[None]:
    """Says what to do when a picture that is learned from cannot be read any more.

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


def _told(side: str, what: str, names: list[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    is_one = len(names) == 1
    cure = ("Take {} away" if what == "new" else "Put {} back").format("it" if is_one else "them")
    return (
        f"this training was begun with other pictures of --{side}: {', '.join(names[:_TOLD])}{more} "
        f"{'is' if is_one else 'are'} {what}. {cure} and go on with --resume, which keeps all that was learned so far; or run with "
        "--overwrite to start again."
    )
