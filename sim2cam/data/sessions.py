"""Capture sessions of photos by folder, by a column of a table or by time."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from sim2cam.data.parsing import read_text
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError, UsageError, suggest_name
from sim2cam.images import read_header

IMAGE_COLUMN = "image"
"""Column of a table with the photo's name, with or without its folder."""

_MAX_BYTES = 50_000_000
_EXIF_TIME_FORMAT = "%Y:%m:%d %H:%M:%S"
_FILE_NAME_TIME = re.compile(
    r"(?<!\d)(\d{4})[-_.]?(\d\d)[-_.]?(\d\d)[-_. T]?(\d\d)[-_.:]?(\d\d)[-_.:]?(\d\d)"
)


def assign_sessions(datasets: Sequence[Dataset], rule: str) -> list[Dataset]:
    """Return real images with their sessions; a session may span several datasets.

    Args:
        datasets: Real images.
        rule: ``folder`` for the photo's folder; ``FILE.csv:COLUMN`` for a column of a table whose column
            ``image`` names the photos; or the longest pause within a session in minutes. Capture times come from
            EXIF or else from file names, as ``IMG_20191208_111228.jpg``.

    Raises:
        UsageError: If the rule has none of these forms.
        InputError: If the session of a photo is unknown or the table is broken.
    """
    samples = [sample for dataset in datasets for sample in dataset.samples]
    roots = [dataset.root for dataset in datasets for _ in dataset.samples]
    table, _, column = rule.rpartition(":")
    if rule == "folder":
        names = [
            _get_session_folder(sample, root) for sample, root in zip(samples, roots, strict=True)
        ]
    elif table.endswith(".csv"):
        names = _read_session_table(samples, Path(table), column)
    else:
        names = _group_by_time(samples, _parse_pause(rule))
    sessions = iter(names)
    return [
        replace(
            dataset,
            samples=tuple(replace(sample, session=next(sessions)) for sample in dataset.samples),
        )
        for dataset in datasets
    ]


def _get_session_folder(sample: Sample, root: Path) -> str:
    folder = sample.rgb.parent
    return (folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix()


def _read_session_table(samples: Sequence[Sample], path: Path, column: str) -> list[str]:
    text = read_text(path, _MAX_BYTES, "table of photos")
    try:
        rows = list(csv.DictReader(text.splitlines()))
    except csv.Error as error:
        raise InputError(path, f"not a table ({error}). Write CSV with a header line.") from error
    columns = [name for name in rows[0] if name] if rows else []
    for required in (IMAGE_COLUMN, column):
        if required not in columns:
            raise InputError(path, f"has no column '{required}'. {suggest_name(required, columns)}")
    sessions: dict[str, str] = {}
    for row in rows:
        name, session = row[IMAGE_COLUMN], (row[column] or "").strip()
        if not session:
            raise InputError(path, f"{column} of image {name} is empty. Fill it in.")
        if sessions.setdefault(name, session) != session:
            raise InputError(
                path,
                f"image {name} has two values of {column}: {sessions[name]} and {session}. Keep one.",
            )
    full_names = [sample.name for sample in samples]
    names = [name if name in sessions else Path(name).name for name in full_names]
    missing = [full for full, name in zip(full_names, names, strict=True) if name not in sessions]
    if missing:
        raise InputError(
            path,
            f"{len(missing)} of {len(samples)} images have no row (first: {missing[0]}). Add them.",
        )
    return [sessions[name] for name in names]


def _parse_pause(rule: str) -> timedelta:
    try:
        minutes = float(rule)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise UsageError(
            f"--sessions {rule} is invalid. Allowed: folder, FILE.csv:COLUMN, or the longest pause within a "
            "session in minutes, above 0."
        )
    return timedelta(minutes=minutes)


def _group_by_time(samples: Sequence[Sample], max_pause: timedelta) -> list[str]:
    times = [_read_capture_time(sample) for sample in samples]
    session_starts: dict[datetime, datetime] = {}
    previous = start = datetime.min
    for time in sorted(set(times)):
        if not session_starts or time - previous > max_pause:
            start = time
        session_starts[time], previous = start, time
    return [f"{session_starts[time]:%Y-%m-%d %H:%M:%S}" for time in times]


def _read_capture_time(sample: Sample) -> datetime:
    time = _read_exif_time(sample.rgb) or _parse_file_name_time(sample.rgb.name)
    if time is None:
        raise InputError(
            sample.rgb,
            "neither EXIF nor file name holds the capture time. Define sessions by folder or table: "
            "--sessions folder, or FILE.csv:COLUMN.",
        )
    return time


def _read_exif_time(path: Path) -> datetime | None:
    try:
        return datetime.strptime(
            str(read_header(path).exif.get("DateTimeOriginal")), _EXIF_TIME_FORMAT
        )
    except ValueError:
        return None


def _parse_file_name_time(name: str) -> datetime | None:
    for match in _FILE_NAME_TIME.finditer(name):
        year, month, day, hour, minute, second = map(int, match.groups())
        try:
            return datetime(year, month, day, hour, minute, second)
        except ValueError:
            continue
    return None
