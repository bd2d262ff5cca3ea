"""Sessions of captures: which photos were taken together, by folder, by a column of a table or by time."""

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
"""Column of a table that names the photo, with or without its folder."""

_MAX_BYTES = 50_000_000
_EXIF_TIME_FORMAT = "%Y:%m:%d %H:%M:%S"
_FILE_NAME_TIME = re.compile(
    r"(?<!\d)(\d{4})[-_.]?(\d\d)[-_.]?(\d\d)[-_. T]?(\d\d)[-_.:]?(\d\d)[-_.:]?(\d\d)"
)


def assign_sessions(datasets: Sequence[Dataset], rule: str) -> list[Dataset]:
    """Return captures that know their sessions; those of several sets may be of the same ones.

    Args:
        datasets: captures.
        rule: ``folder``, for the folder that a photo lies in; ``FILE.csv:COLUMN``, for the words in a
            column of a table whose column ``image`` names the photos; or a number of minutes, for photos
            between which no longer pause lies. They were taken when EXIF or else the file's name
            says, as ``IMG_20191208_111228.jpg``.

    Raises:
        UsageError: the rule is none of these.
        InputError: a photo of which the rule does not tell the session, or a broken table.
    """
    samples = [sample for dataset in datasets for sample in dataset.samples]
    roots = [dataset.root for dataset in datasets for _ in dataset.samples]
    table, _, column = rule.rpartition(":")
    if rule == "folder":
        names = [_get_session_folder(s, root) for s, root in zip(samples, roots, strict=True)]
    elif table.endswith(".csv"):
        names = _read_session_table(samples, Path(table), column)
    else:
        names = _group_by_time(samples, _parse_pause(rule))
    sessions = iter(names)
    return [
        replace(d, samples=tuple(replace(s, session=next(sessions)) for s in d.samples))
        for d in datasets
    ]


def _get_session_folder(sample: Sample, root: Path) -> str:
    folder = sample.rgb.parent
    return (folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix()


def _read_session_table(samples: Sequence[Sample], path: Path, column: str) -> list[str]:
    text = read_text(path, _MAX_BYTES, "table of photos")
    try:
        rows = list(csv.DictReader(text.splitlines()))
    except csv.Error as error:
        raise InputError(
            path, f"no table ({error}). Write it as CSV with a line of names."
        ) from error
    columns = [name for name in rows[0] if name] if rows else []
    for wanted in (IMAGE_COLUMN, column):
        if wanted not in columns:
            raise InputError(path, f"has no column '{wanted}'. {suggest_name(wanted, columns)}")
    found: dict[str, str] = {}
    for row in rows:
        name, session = row[IMAGE_COLUMN], (row[column] or "").strip()
        if not session:
            raise InputError(path, f"says no {column} of image {name}. Fill it in.")
        if found.setdefault(name, session) != session:
            raise InputError(
                path, f"says {column} {found[name]} and {session} of image {name}. Leave one."
            )
    names = [s.name if s.name in found else Path(s.name).name for s in samples]
    missing = [s.name for s, name in zip(samples, names, strict=True) if name not in found]
    if missing:
        raise InputError(
            path, f"has no row of {len(missing)} of {len(samples)} images, as {missing[0]}. Add it."
        )
    return [found[name] for name in names]


def _parse_pause(rule: str) -> timedelta:
    try:
        minutes = float(rule)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise UsageError(
            f"--sessions {rule}: give folder, FILE.csv:COLUMN, or the minutes of the longest pause within a "
            "session, above 0."
        )
    return timedelta(minutes=minutes)


def _group_by_time(samples: Sequence[Sample], max_pause: timedelta) -> list[str]:
    """Return when the session of each photo began, in words."""
    times = [_read_capture_time(sample) for sample in samples]
    began: dict[datetime, datetime] = {}
    last = start = datetime.min
    for time in sorted(set(times)):
        if not began or time - last > max_pause:
            start = time
        began[time], last = start, time
    return [f"{began[time]:%Y-%m-%d %H:%M:%S}" for time in times]


def _read_capture_time(sample: Sample) -> datetime:
    """Return when a photo was taken, on its camera's clock."""
    found = _read_exif_time(sample.rgb) or _parse_file_name_time(sample.rgb.name)
    if found is None:
        raise InputError(
            sample.rgb,
            "neither its EXIF nor its name tells when it was taken. Tell sessions by folder or by a "
            "table: --sessions folder, or FILE.csv:COLUMN.",
        )
    return found


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
