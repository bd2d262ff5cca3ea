"""COCO's validation photos as background images with a licence per photo."""

import io
import json
from dataclasses import replace

import pytest
from PIL import Image

from sim2cam.data.photo_sources import PhotoSource, read_photo_sources
from sim2cam.data.public.catalogue import PUBLIC_DATASETS
from sim2cam.data.public.download import Source
from sim2cam.data.public.fetch import fetch
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import InputError
from tests.support.archives import pack

TABLES = {
    "licenses": [
        {"id": 1, "name": "x", "url": "http://creativecommons.org/licenses/by-nc-sa/2.0/"},
        {
            "id": 8,
            "name": "United States Government Work",
            "url": "http://www.usa.gov/copyright.shtml",
        },
    ],
    "images": [
        {"id": 7, "file_name": "7.jpg", "license": 1, "flickr_url": "http://flickr/7_z.jpg"},
        {"id": 9, "file_name": "9.jpg", "license": 8},
    ],
    "categories": [{"id": 44, "name": "bottle"}, {"id": 47, "name": "cup"}],
    "annotations": [{"image_id": 7, "category_id": c} for c in (47, 44, 47)],
}


@pytest.fixture
def make_dataset(server):
    """A function that serves photos and tables and returns the dataset."""

    def make(photos=("7.jpg", "9.jpg"), tables=TABLES):
        jpeg = io.BytesIO()
        Image.new("RGB", (8, 6)).save(jpeg, "JPEG")
        server.files["/val2017.zip"] = pack({f"val2017/{n}": jpeg.getvalue() for n in photos})
        tables_file = {"annotations/instances_val2017.json": json.dumps(tables)}
        server.files["/annotations.zip"] = pack(tables_file)
        sources = [
            Source(f"{server.url}/{name}.zip", 10_000) for name in ("val2017", "annotations")
        ]
        return replace(
            PUBLIC_DATASETS["coco-val2017"], archives=tuple((source, "") for source in sources)
        )

    return make


def test_each_photo_has_its_licence_and_categories(make_dataset, tmp_path):
    folder = fetch(make_dataset(), tmp_path).folder
    assert [sample.name for sample in read_real_images(folder / "images").samples] == [
        "7.jpg",
        "9.jpg",
    ]
    assert read_photo_sources(folder) == {
        "images/7.jpg": PhotoSource(
            "COCO val2017: http://flickr/7_z.jpg",
            "CC-BY-NC-SA-2.0",
            categories=("bottle", "cup"),
        ),
        "images/9.jpg": PhotoSource("COCO val2017: 9.jpg", "United States Government Work"),
    }


def test_changed_archives_are_refused(make_dataset, tmp_path):
    with pytest.raises(InputError, match=r"photo 9\.jpg is not in the archive"):
        fetch(make_dataset(photos=("7.jpg",)), tmp_path)
    with pytest.raises(InputError, match="Fetch it again"):
        fetch(make_dataset(tables={"images": []}), tmp_path)
    assert not (tmp_path / "coco-val2017").exists()
