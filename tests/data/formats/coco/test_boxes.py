import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2cam.data.formats.coco.boxes import are_xyxy
from sim2cam.data.formats.predictions import read_predictions
from sim2cam.data.real_images import read_real_images
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from tests.support.errors import error_text

WIDTH, HEIGHT = 100, 80
LOOK = "boxes look like corners (x0, y0, x1, y1): read as x, y, width, height, many reach far outside their images."

sides = st.floats(0.5, 100)


showing = st.tuples(st.floats(-60, 95), st.floats(-60, 75), sides, sides).filter(
    lambda box: box[0] + box[2] > 0 and box[1] + box[3] > 0
)
inside = st.builds(
    lambda x, y, width, height: (x, y, width * (WIDTH - x), height * (HEIGHT - y)),
    st.floats(0, 95),
    st.floats(0, 75),
    st.floats(0.01, 1),
    st.floats(0.01, 1),
)


def told(boxes, areas=None):
    areas = [math.nan] * len(boxes) if areas is None else areas
    return are_xyxy(boxes, [(WIDTH, HEIGHT)] * len(boxes), areas)


@given(st.lists(inside, max_size=30))
def test_boxes_within_their_pictures_are_right(boxes):
    assert not told(boxes)


@given(st.lists(showing, max_size=30))
def test_boxes_that_hold_the_areas_beside_them_are_right(boxes):
    assert not told(boxes, [width * height for _, _, width, height in boxes])


def drawn(rng, count):
    """Boxes of whole objects anywhere in the picture, corners in pixels (count, 4)."""
    middle = rng.uniform(0, [WIDTH, HEIGHT], (count, 2))
    half = rng.uniform(1, [WIDTH / 3, HEIGHT / 3], (count, 2))
    return np.concatenate([middle - half, middle + half], axis=1)


def coco_form(corners):
    return np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)


@pytest.mark.parametrize("count", [5, 8, 20])
def test_random_boxes_of_whole_objects_are_right_and_as_corners_are_told(count):
    rng = np.random.default_rng(count)
    ends = (WIDTH, HEIGHT, WIDTH, HEIGHT)
    found = 0
    for _ in range(1000):
        corners = drawn(rng, count)
        assert not told(coco_form(corners))
        found += told(np.clip(corners, 0, ends))
    assert found > 900


def test_four_boxes_do_not_tell():
    corners = [(50, 40, 90, 70)] * 5
    assert told(corners)
    assert not told(corners[:4])


@pytest.fixture
def tables():
    """Images of 100x80 pixels with one box each."""
    numbers = range(6)
    return {
        "images": [
            {"id": i, "file_name": f"{i}.png", "width": WIDTH, "height": HEIGHT} for i in numbers
        ],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1, "bbox": [50, 40, 40, 30]} for i in numbers
        ],
        "categories": [{"id": 1, "name": "disc"}],
    }


def written(folder, tables):
    for entry in tables["images"]:
        pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        write_bytes(folder / entry["file_name"], encode_png(pixels))
    (folder / "test.json").write_text(json.dumps(tables))
    return folder / "test.json"


def test_labels_that_are_corners_are_refused(tmp_path, tables):
    read_real_images(written(tmp_path, tables))
    for annotation in tables["annotations"]:
        annotation["bbox"] = [50, 40, 90, 70]
    message = error_text(lambda: read_real_images(written(tmp_path, tables)))
    assert message == (f"{tmp_path}/test.json: {LOOK} Export the annotations as COCO.")


def test_results_that_are_corners_are_refused(tmp_path, tables):
    labels = written(tmp_path, tables)
    captures = read_real_images(labels)
    path = tmp_path / "found.json"

    def read(bbox):
        found = {"category_id": 1, "score": 0.5, "bbox": bbox}
        path.write_text(json.dumps([found | {"image_id": i} for i in range(6)]))
        return read_predictions(path, captures, labels)

    assert read([50, 40, 40, 30]).detections["0.png"][0].box_xyxy == (50, 40, 90, 70)
    assert error_text(read, [50, 40, 90, 70]) == f"{path}: {LOOK} Write the results in COCO format."
