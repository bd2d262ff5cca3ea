"""Export of a dataset to a folder in the format of another tool."""

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
"""Writers by format.

Each takes splits by name with equal categories and a new folder, and may return notes on changes. BOP's writer
takes a model source too.
"""


def export_dataset(
    splits: Mapping[str, Dataset],
    out: Path,
    format_name: FormatName,
    model_source: ModelSource | None = None,
    *,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Write a dataset and its card to a new folder atomically and return notes on changes and omissions.

    Args:
        splits: datasets by name, as from ``set_operations.split_by_scene``; a whole dataset is one split,
            ``train``.
        model_source: object models for BOP; None if unknown.

    Raises:
        UsageError: the name of a split is invalid, or the format does not support it.
        InputError: labels are missing or do not fit the format, or an image is broken.
        OutputError: the folder is not empty or cannot be written.
    """
    for name in splits:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise UsageError(f"invalid split name '{name}'. Use letters, digits, _ and - only.")
    with _create_folder(out, overwrite=overwrite) as folder:
        if format_name == "bop":
            notes = write_bop(splits, folder, model_source)
        else:
            notes = WRITERS[format_name](splits, folder) or ()
        write_card(build_card(*splits.values()), folder)
    return notes


@contextmanager
def _create_folder(out: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to the output when complete and removed on failure."""
    out = out.resolve()
    check_output_folder(out, overwrite=overwrite)
    temporary, replaced = (
        out.with_name(out.name + files.TEMPORARY_SUFFIX),
        files.make_temporary_path(out),
    )
    with files.lock_folder(temporary):
        files.clear_folder(temporary)  # remains of a killed export
        try:
            yield temporary
            with files.convert_write_errors(out):
                (temporary / files.LOCK_NAME).unlink()
                files.sync_tree(temporary)
                if out.exists():
                    out.rename(replaced)
                temporary.rename(out)
                files.sync_folder(out.parent)
        finally:
            for path in (temporary, replaced):
                if path.exists():
                    files.remove_path(path)


def check_output_folder(out: Path, *, overwrite: bool) -> None:
    """Raise if a folder is not empty, unless it is an earlier export and ``overwrite`` is set.

    Raises:
        OutputError: the folder may not be replaced.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / CARD).is_file() or (out / HEADER).is_file():
        raise OutputError(out, "is not empty and not an export. Choose another --out.")
    if not overwrite:
        raise OutputError(out, "is not empty. Choose another --out, or add --overwrite.")
