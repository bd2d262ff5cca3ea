"""Videos as datasets: evenly spaced frames, cached as PNG."""

from __future__ import annotations

import functools
from pathlib import Path

from sim2cam import images
from sim2cam.data.cache import unpack_cached
from sim2cam.data.sample import Dataset, FrameInfo, Origin, Sample
from sim2cam.files import write_bytes

MAX_FRAMES = 300
"""Maximum number of frames per video, evenly spaced."""

_VERSION = "video-1"  # change when the selection of frames changes


def is_video(path: Path) -> bool:
    """Return whether a path is a video, by its suffix."""
    return path.suffix.lower() in images.VIDEO_SUFFIXES and path.is_file()


def read_video(path: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the frames of a video as one unlabelled split, ``style``, named by frame index.

    All frames belong to one scene, so that a split does not separate them, and to one sequence.
    Frames have an index and, if the file gives a frame rate, a time; camera poses and exposure
    times are unknown.

    Raises:
        InputError: the file is not a readable video.
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
    """Return a note if only some frames of a video are used; None otherwise."""
    if not is_video(captures.root):
        return None
    last_frame = captures.samples[-1].frame_info
    n_frames = len(captures.samples)
    if last_frame is None or n_frames == last_frame.frame_index + 1:
        return None
    return (
        f"{captures.root}: {n_frames} of {last_frame.frame_index + 1:,} frames are used, evenly spaced. To use all "
        "frames, extract them to a folder."
    )


def _build_frame_info(frame_index: int, rate_hz: float | None) -> FrameInfo:
    return FrameInfo(frame_index, first_row_s=None if rate_hz is None else frame_index / rate_hz)


def _extract_frames(path: Path, folder: Path) -> None:
    """Write the selected frames; the video is read twice, as its length is unknown before."""
    count = sum(1 for _ in images.read_video(path))
    selected = {round(i * (count - 1) / max(MAX_FRAMES - 1, 1)) for i in range(MAX_FRAMES)}
    for number, rgb in enumerate(images.read_video(path)):
        if count <= MAX_FRAMES or number in selected:
            write_bytes(folder / f"{number:06d}.png", images.encode_png(rgb))
