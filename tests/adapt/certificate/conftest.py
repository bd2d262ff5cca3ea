"""A picture of three things on a grainy table, with their labels."""

import cv2
import numpy as np
import pytest

from sim2cam.adapt.certificate.image_pair import ImagePair, extract_object_regions
from sim2cam.data.sample import ObjectLabel
from sim2cam.geometry.boxes import mask_to_box

SHAPE = (120, 160)
THINGS = (((30, 40), (190, 60, 50)), ((80, 50), (60, 150, 90)), (((60, 120)), (230, 220, 210)))


def draw(centres=tuple(centre for centre, _ in THINGS)):
    """Returns the picture (h, w, 3) and the ids (h, w), of things in these places."""
    rng = np.random.default_rng(0)
    grain = cv2.GaussianBlur(rng.normal(0, 25, SHAPE), (0, 0), 2.0)
    rgb = np.array([120, 125, 110]) + grain[:, :, None]
    ids = np.zeros(SHAPE, np.uint16)
    y, x = np.indices(SHAPE)
    for number, ((row, column), (_, colour)) in enumerate(zip(centres, THINGS, strict=True), 1):
        inside = np.hypot(y - row, x - column) < 13
        rgb[inside] = np.array(colour) + 0.3 * grain[inside, None]
        rgb[np.hypot(y - row - 3, x - column + 2) < 4] = (30, 25, 35)
        ids[inside] = number
    smooth = cv2.GaussianBlur(rgb.clip(0, 255), (0, 0), 0.7)
    return np.rint(smooth).astype(np.uint8), ids


def labels_of(ids):
    return tuple(
        ObjectLabel("thing", mask_to_box(ids == n), float((ids == n).sum()), instance_id=int(n))
        for n in np.unique(ids)[1:]
    )


@pytest.fixture(scope="session")
def picture():
    """The picture (h, w, 3) as it was rendered; read-only."""
    rgb, _ = draw()
    rgb.setflags(write=False)
    return rgb


@pytest.fixture(scope="session")
def ids():
    _, found = draw()
    found.setflags(write=False)
    return found


@pytest.fixture
def pair(picture, ids):
    """Makes the pair of the picture and one that it became."""

    def made(after, *, has_ids=True):
        seen = ids if has_ids else None
        return ImagePair(
            picture, after, extract_object_regions(labels_of(ids), seen, picture.shape), seen
        )

    return made
