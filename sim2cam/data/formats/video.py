"""Videos as captures: frames from the first to the last, in the user's cache without loss."""

from __future__ import annotations

import functools
from pathlib import Path

from sim2cam import images
from sim2cam.data.cache import unpack_cached
from sim2cam.data.sample import Dataset, FrameInfo, Origin, Sample
from sim2cam.files import write_bytes

MAX_FRAMES = 300
"""Frames that are taken of a video, evenly spread; all of a shorter one."""

_VERSION = "video-1"  # counts up when other frames are taken


def is_video(path: Path) -> bool:
    """Return whether a path is a video, by its suffix."""
    return path.suffix.lower() in images.VIDEO_SUFFIXES and path.is_file()


def read_video(
    path: Path,
    origin: Origin,
    *,
    skip_invalid: bool = False,
) -> dict[str, Dataset]:
    """Return frames of a video as its one part, without labels, named by their numbers.

    They are of one scene, so that none of them is tested by what others taught, and of one film, whose
    pictures share what is drawn. Each knows its number and, as the file has it, its time; not where
    its camera was, nor for how long it was exposed.

    Raises:
        InputError: it is no video that can be read.
        OutputError: the cache cannot be written.
    """
    folder = unpack_cached(path, _VERSION, functools.partial(_extract_frames, path))
    frames = sorted(folder.glob("*.png"))
    width, height = images.read_size(frames[0])
    rate_hz = images.read_frame_rate_hz(path)
    samples = tuple(
        Sample(
            name=f"{path.stem}/{frame.stem}",
            rgb=frame,
            width=width,
            height=height,
            objects=None,
            origin=origin,
            frame_info=_build_frame_info(int(frame.stem), rate_hz),
        )
        for frame in frames
    )
    return {"style": Dataset(path, (), samples)}


def describe_frame_selection(captures: Dataset) -> str | None:
    """Return in words that only some frames of a video were taken; None where all were, or of no video."""
    if not is_video(captures.root):
        return None
    last = captures.samples[-1].frame_info  # of the video's last frame
    taken = len(captures.samples)
    if last is None or taken == last.frame_index + 1:
        return None
    return (
        f"{captures.root}: {taken} of {last.frame_index + 1:,} frames are taken, evenly spread. For all of them, "
        "give a folder of them as pictures."
    )


def _build_frame_info(frame_index: int, rate_hz: float | None) -> FrameInfo:
    return FrameInfo(frame_index, first_row_s=None if rate_hz is None else frame_index / rate_hz)


def _extract_frames(path: Path, folder: Path) -> None:
    """Write frames; how many there are is only known after reading all."""
    count = sum(1 for _ in images.read_video(path))
    taken = {round(i * (count - 1) / max(MAX_FRAMES - 1, 1)) for i in range(MAX_FRAMES)}
    for number, rgb in enumerate(images.read_video(path)):
        if count <= MAX_FRAMES or number in taken:
            write_bytes(folder / f"{number:06d}.png", images.encode_png(rgb))
