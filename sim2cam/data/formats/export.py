"""Exporting: a data set, in parts or whole, to a folder in the format of other tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sim2cam import files
from sim2cam.data.card import build_card, write_card
from sim2cam.data.formats.bop.models import ModelSource
from sim2cam.data.formats.bop.writer import write_bop
from sim2cam.data.formats.coco.writer import write_coco
from sim2cam.data.formats.kitti import write_kitti
from sim2cam.data.formats.voc.writer import write_voc
from sim2cam.data.formats.webdataset.writer import write_webdataset
from sim2cam.data.formats.yolo.writer import write_yolo, write_yolo_polygons
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import CARD, HEADER
from sim2cam.errors import OutputError, UsageError

FormatName = Literal["coco", "yolo", "yolo-seg", "voc", "kitti", "bop", "webdataset"]
FormatWriter = Callable[[Mapping[str, Dataset], Path], tuple[str, ...] | None]

WRITERS: dict[FormatName, FormatWriter] = {
    "coco": write_coco,
    "yolo": write_yolo,
    "yolo-seg": write_yolo_polygons,
    "voc": write_voc,
    "kitti": write_kitti,
    "webdataset": write_webdataset,
}
"""Each takes the parts by name, all with the same categories, and a new folder to fill, and may return
what it changed; that of BOP takes more."""


def export_dataset(
    splits: Mapping[str, Dataset],
    out: Path,
    format_name: FormatName,
    model_source: ModelSource | None = None,
    *,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Write a data set and its card into a new folder, which appears whole; returns what it lacks, or
    what was changed to fit the format.

    Args:
        splits: by name, as ``algebra.split`` gives them; a whole data set is one part, ``train``.
        out: the folder.
        format_name: the format.
        model_source: of the objects, for BOP's models; None where they are unknown.
        overwrite: replace an earlier export.

    Raises:
        UsageError: a part whose name cannot be that of a folder, or that the format does not know.
        InputError: labels that are not there or do not fit the format, or a broken picture.
        OutputError: the folder is not empty or cannot be written.
    """
    for name in splits:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise UsageError(f"a part named '{name}': use letters, digits, _ and - only.")
    with _create_folder(out, overwrite=overwrite) as folder:
        if format_name == "bop":
            lacks = write_bop(splits, folder, model_source)
        else:
            lacks = WRITERS[format_name](splits, folder) or ()
        write_card(build_card(*splits.values()), folder)
    return lacks


@contextmanager
def _create_folder(out: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder, which takes its name when it is filled and is removed when that fails."""
    out = out.resolve()
    check_output_folder(out, overwrite=overwrite)
    part, replaced = (
        out.with_name(out.name + files.TEMPORARY_SUFFIX),
        files.make_temporary_path(out),
    )
    with files.lock_folder(part):
        files.clear_folder(part)  # what a killed export left
        try:
            yield part
            with files.convert_write_errors(out):
                (part / files.LOCK_NAME).unlink()
                files.sync_tree(part)
                if out.exists():
                    out.rename(replaced)
                part.rename(out)
                files.sync_folder(out.parent)
        finally:
            for left in (part, replaced):
                if left.exists():
                    files.remove_path(left)


def check_output_folder(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is not empty, unless it is an earlier export that may be replaced.

    Raises:
        OutputError: saying which.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / CARD).is_file() or (out / HEADER).is_file():
        raise OutputError(out, "is not empty, and no export. Choose another --out.")
    if not overwrite:
        raise OutputError(out, "is not empty. Choose another --out, or add --overwrite.")
