"""Public datasets that can be fetched by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sim2cam.data.public.checksums import CHECKSUM_FOLDER
from sim2cam.data.public.coco import arrange_coco_photos
from sim2cam.data.public.dice import arrange_dice
from sim2cam.data.public.download import Source
from sim2cam.errors import InputError


@dataclass(frozen=True)
class PublicDataset:
    """A public dataset."""

    name: str
    description: str
    licence: str
    credit: str
    archives: tuple[tuple[Source, str], ...]
    arrange: Callable[[Path, Path], None]
    checksum_list: Path | None = None


_COCO = "https://s3.amazonaws.com/images.cocodataset.org"
_BOP_HUB = "https://huggingface.co/datasets/bop-benchmark"
_MB = 1_000_000
_MAX_ARCHIVE_BYTES = 2_000 * _MB
"""Limit for archives of unknown size."""


def _arrange_bop(name: str, archive_dir: Path, folder: Path) -> None:
    if not (archive_dir / name / "test_targets_bop19.json").is_file():
        raise InputError(
            archive_dir / name,
            "the archives have no test_targets_bop19.json, so they have changed.",
        )
    (archive_dir / name).rename(folder)


def _define_bop(
    name: str,
    description: str,
    *archives: tuple[str, int | None, str | None],
    credit: str,
    licence: str | None = None,
    revision: str = "main",
) -> PublicDataset:
    """Return a dataset of the BOP hub."""
    sources = [
        Source(
            f"{_BOP_HUB}/{name}/resolve/{revision}/{name}_{part}.zip",
            size or _MAX_ARCHIVE_BYTES,
            sha256,
            size,
        )
        for part, size, sha256 in archives
    ]
    checksum_list = CHECKSUM_FOLDER / f"{name}.txt"
    return PublicDataset(
        name,
        f"{description}; part of BOP",
        licence or f"unknown; read {_BOP_HUB}/{name} and bop.felk.cvut.cz/datasets first",
        f"{credit}, Hodan et al. 2018 (bop.felk.cvut.cz)",
        tuple((source, name if index else "") for index, source in enumerate(sources)),
        partial(_arrange_bop, name),
        checksum_list if checksum_list.is_file() else None,
    )


PUBLIC_DATASETS = {
    dataset.name: dataset
    for dataset in (
        PublicDataset(
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
            CHECKSUM_FOLDER / "dice.txt",
        ),
        PublicDataset(
            "coco-val2017",
            "COCO's 5000 validation photos of everyday scenes, as backgrounds; about 1 GB to download",
            "one of eight per photo, chosen by its author on Flickr: Creative Commons 2.0, most of them "
            "non-commercial, no known restrictions, or US government work; recorded in photographs.json. Read "
            "cocodataset.org/#termsofuse first",
            "Flickr users; collected by Lin et al. 2014 (cocodataset.org)",
            (
                (Source(f"{_COCO}/zips/val2017.zip", _MAX_ARCHIVE_BYTES), ""),
                (
                    Source(f"{_COCO}/annotations/annotations_trainval2017.zip", _MAX_ARCHIVE_BYTES),
                    "",
                ),
            ),
            arrange_coco_photos,
        ),
        _define_bop(
            "lmo",
            "Linemod-Occluded: 200 test images with depth, 6D poses of 8 objects, their meshes",
            ("base", 5_684, None),
            ("models", 5_367_178, None),
            (
                "test_bop19",
                117_550_985,
                "42d7a15f317476ca3980ee7ec0344b691cbadc796835f0b14f72c89a1dcec421",
            ),
            credit="Brachmann et al. 2014, Hinterstoisser et al. 2012",
            licence="CC BY-SA 4.0",
        ),
        _define_bop(
            "lm",
            "Linemod: test images with depth, 6D poses of 15 objects, one per image, their meshes",
            ("base", None, None),
            ("models", None, None),
            ("test_bop19", None, None),
            credit="Hinterstoisser et al. 2012",
        ),
        _define_bop(
            "tless",
            "T-LESS: 1000 test images with depth, 6D poses of 30 textureless parts, their meshes",
            ("base", 49_597, "dd70ca884b7c471a530a952f70c5ab2c212f3d2c2f371be86397442b97d70a7e"),
            (
                "models",
                33_468_762,
                "6a29c59766b8d2af05e62e71739f0ca7243ad81bc3c7f9a24925504a8cb37928",
            ),
            (
                "test_primesense_bop19",
                825_276_992,
                "1a18f6bbfb5ac4ced8529f7a35225adfed88c0f62ef38067933e2b541ef1d00b",
            ),
            credit="Hodan et al. 2017",
            licence="CC BY 4.0",
            revision="5fd309a04476a842d93abfb584fba9ee7caecdf1",
        ),
        _define_bop(
            "tudl",
            "TUD Light: 600 test images with depth, 6D poses of 3 objects in changing light, their meshes",
            ("base", 3_394, "963dc6044eaf575a0f458b2804152da552b7fbca385d0ab01c115c6285e500ad"),
            (
                "models",
                2_484_229,
                "e649682d78d8e1ea463633cd09421b49b43600b32d84587eec3bcbe4a63e6a0f",
            ),
            (
                "test_bop19",
                372_464_733,
                "cc68c55004dc7822a10910033aedffb3d40bf5bb0a39497b13e566dedddbea14",
            ),
            credit="Hodan, Michel et al. 2018",
            licence="CC BY-SA 4.0",
            revision="6527f7d4b25d3e2e8dec84529284d9797b15f7b5",
        ),
        _define_bop(
            "icbin",
            "IC-BIN: test images with depth, 6D poses of 2 objects heaped in bins, their meshes",
            ("base", None, None),
            ("models", None, None),
            ("test_bop19", None, None),
            credit="Doumanoglou et al. 2016",
        ),
        _define_bop(
            "ycbv",
            "YCB-Video: 900 test images with depth, 6D poses of 21 household objects, their meshes",
            ("base", 15_805, None),
            ("models", 524_634_729, None),
            ("test_bop19", 660_198_701, None),
            credit="Xiang et al. 2018",
            licence="MIT",
            revision="5c2c4aa229800355648cd268040aa814f8dc94f0",
        ),
    )
}
"""Datasets by name. BOP datasets without public poses of test images (itodd, hb) are left out."""
