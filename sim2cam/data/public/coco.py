"""Conversion of COCO's validation photos to a folder of background images with licences."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from pydantic import BaseModel

from sim2cam.data.parsing import convert_validation_errors, read_json
from sim2cam.data.photo_sources import PhotoSource, write_photo_sources
from sim2cam.errors import InputError

_ANNOTATIONS, _PHOTOS = "annotations/instances_val2017.json", "val2017"
_MAX_BYTES = 200_000_000
_CREATIVE_COMMONS = re.compile(r"creativecommons\.org/licenses/([a-z-]+)/(\d\.\d)")


class _Licence(BaseModel):
    id: int
    name: str
    url: str


class _Image(BaseModel):
    id: int
    file_name: str
    license: int
    flickr_url: str = ""


class _Category(BaseModel):
    id: int
    name: str


class _Annotation(BaseModel):
    image_id: int
    category_id: int


class _CocoFile(BaseModel):
    licenses: list[_Licence]
    images: list[_Image]
    categories: list[_Category]
    annotations: list[_Annotation]


def arrange_coco_photos(archive_dir: Path, folder: Path) -> None:
    """Fill a folder with ``images/`` and the source, licence and categories of each photo.

    Raises:
        InputError: If a file is missing or broken.
        OutputError: If the folder is not writable.
    """
    path = archive_dir / _ANNOTATIONS
    if not path.is_file():
        raise InputError(path, "is not in the archive, which has changed.")
    with convert_validation_errors(path, "Fetch it again."):
        file = _CocoFile.model_validate(read_json(path, _MAX_BYTES, "COCO file"))
    licences = {licence.id: _get_identifier(licence) for licence in file.licenses}
    categories = {category.id: category.name for category in file.categories}
    shown: dict[int, set[str]] = defaultdict(set)
    for annotation in file.annotations:
        shown[annotation.image_id].add(categories.get(annotation.category_id, ""))
    sources: dict[str, PhotoSource] = {}
    for image in file.images:
        if not (archive_dir / _PHOTOS / image.file_name).is_file():
            raise InputError(
                path, f"photo {image.file_name} is not in the archive, which has changed."
            )
        sources[f"images/{image.file_name}"] = PhotoSource(
            f"COCO val2017: {image.flickr_url or image.file_name}",
            licences.get(image.license, "unknown"),
            categories=tuple(sorted(shown[image.id])),
        )
    folder.mkdir(parents=True, exist_ok=True)
    (archive_dir / _PHOTOS).rename(folder / "images")
    write_photo_sources(folder, sources)


def _get_identifier(licence: _Licence) -> str:
    """Return the SPDX identifier of a Creative Commons licence, or else its name."""
    match = _CREATIVE_COMMONS.search(licence.url)
    return f"CC-{match[1].upper()}-{match[2]}" if match else licence.name
