"""The public data sets that can be fetched by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sim2cam.errors import InputError
from sim2cam.pipeline.fetch.dice import arrange_dice
from sim2cam.pipeline.fetch.download import Source


@dataclass(frozen=True)
class DataSet:
    """A public data set.

    Attributes:
        name: it is called by.
        about: what it shows.
        licence: what its makers ask.
        credit: whose it is.
        archives: zip files, and into which folder of it each unpacks.
        arrange: brings what was unpacked (its first argument) into a folder (its second).
    """

    name: str
    about: str
    licence: str
    credit: str
    archives: tuple[tuple[Source, str], ...]
    arrange: Callable[[Path, Path], None]


def _bop(name: str) -> Callable[[Path, Path], None]:
    def arrange(unpacked: Path, folder: Path) -> None:
        """Takes the folder that BOP's archives fill."""
        if not (unpacked / name / "test_targets_bop19.json").is_file():
            raise InputError(
                unpacked / name, "its archives hold no test_targets_bop19.json. They were changed."
            )
        (unpacked / name).rename(folder)

    return arrange


_BOP = "https://huggingface.co/datasets/bop-benchmark"
_MB = 1_000_000

DATA_SETS = {
    one.name: one
    for one in (
        DataSet(
            "dice",
            "250 phone photos of thrown dice, boxes with the upward face; 200 to train, 50 to test",
            "BSD-3-Clause",
            "Nell Byler, github.com/nell-byler/dice_detection at commit aa69c12b",
            (
                (
                    Source(
                        "https://github.com/nell-byler/dice_detection/archive/aa69c12b.zip",
                        200 * _MB,
                    ),
                    "",
                ),
            ),
            arrange_dice,
        ),
        DataSet(
            "lmo",
            "Linemod-Occluded of BOP: 200 test images with depth, 6D poses of 8 objects, their meshes",
            "CC BY-SA 4.0",
            "Brachmann et al. 2014, Hinterstoisser et al. 2012, Hodan et al. 2018 (bop.felk.cvut.cz)",
            (
                (Source(f"{_BOP}/lmo/resolve/main/lmo_base.zip", _MB), ""),
                (Source(f"{_BOP}/lmo/resolve/main/lmo_models.zip", 50 * _MB), "lmo"),
                (Source(f"{_BOP}/lmo/resolve/main/lmo_test_bop19.zip", 300 * _MB), "lmo"),
            ),
            _bop("lmo"),
        ),
    )
}
"""By name. No digest of these files is known beforehand: that of the first fetch is kept."""
