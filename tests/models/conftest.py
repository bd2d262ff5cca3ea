"""Small labelled images: of blue squares and red discs, with instance ids, and of bricks in space."""

import json

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.data import channels
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.files import write_bytes
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose, quaternion
from sim2cam.images import encode_png

CATEGORIES = ("square", "disc")
COLOURS = ((30, 60, 220), (230, 40, 40))


@pytest.fixture(scope="session")
def write_dataset():
    """A function that writes a data set of n images of 160x128 pixels with two objects each."""

    def write(root, *, n=6, seed=0, with_ids=True):
        rng = np.random.default_rng(seed)
        return Dataset(
            root, CATEGORIES, tuple(_write_sample(root, i, rng, with_ids) for i in range(n))
        )

    return write


@pytest.fixture
def make_dataset(write_dataset, tmp_path):
    """The same below the folder of a test, by name."""

    def make(name="set", **choice):
        return write_dataset(tmp_path / name, **choice)

    return make


def _write_sample(root, index, rng, with_ids):
    rgb = rng.integers(90, 130, (128, 160, 3)).astype(np.uint8)
    ids = np.zeros((128, 160), np.uint16)
    objects = []
    for number, (x, y) in enumerate(((40, 42), (120, 85)), 1):
        kind, half = int(rng.integers(2)), int(rng.integers(10, 18))
        mask = np.zeros((128, 160), np.uint8)
        if kind == 1:
            cv2.circle(mask, (x, y), half, 1, -1)
        else:
            mask[y - half : y + half, x - half : x + half] = 1
        rgb[mask > 0] = COLOURS[kind]
        ids[mask > 0] = number
        rows, columns = np.nonzero(mask)
        box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        objects.append(
            ObjectLabel(
                CATEGORIES[kind],
                tuple(float(edge) for edge in box),
                float(mask.sum()),
                visible_fraction=1.0,
                instance_id=number,
            )
        )
    rgb_path, ids_path = root / f"{index}.png", root / f"{index}-ids.png"
    write_bytes(rgb_path, encode_png(rgb))
    write_bytes(ids_path, encode_png(ids))
    channels = {"ids": ids_path} if with_ids else {}
    return Sample(str(index), rgb_path, 160, 128, tuple(objects), "sim", channels)


LENS = BrownConrady(160.0, 161.0, 79.0, 64.0, -0.05, 0.02)
EXTENTS = {
    "brick": ((-0.03, -0.02, -0.015), (0.03, 0.02, 0.015)),
    "slab": ((-0.025, -0.02, -0.005), (0.025, 0.02, 0.01)),  # its origin is not its middle
}
HALF_TURN = [0.0, 0.0, 0.0, 1.0]
SIDES = np.array([(230, 40, 40), (30, 60, 220), (240, 220, 40), (40, 190, 70), (250, 250, 250),
                  (230, 90, 220)], np.uint8)  # fmt: skip


@pytest.fixture(scope="session")
def write_bricks():
    """A function that writes a data set of n images of 160x128 pixels with a brick and a slab each, and which
    points of them every pixel shows; slabs look the same after half a turn about their z.
    """

    def write(root, *, n=6, seed=0, places=((45, 42), (115, 85))):
        rng = np.random.default_rng(seed)
        samples = tuple(_write_bricks(root, i, rng, places) for i in range(n))
        kinds = {
            name: {
                "categories": [name],
                "symmetries": {"rotations_wxyz": [HALF_TURN] if name == "slab" else []},
            }
            for name in EXTENTS
        }
        header = {"format": 2, "categories": list(EXTENTS), "objects": kinds}
        (root / "dataset.json").write_text(json.dumps(header))
        return Dataset(root, tuple(EXTENTS), samples)

    return write


def _write_bricks(root, index, rng, places):
    pixels = np.stack(np.meshgrid(np.arange(160.0), np.arange(128.0)), -1).reshape(-1, 2)
    rays = LENS.unproject(pixels)
    rgb = rng.integers(90, 130, (128 * 160, 3)).astype(np.uint8)
    ids, depth = np.zeros(128 * 160, np.uint16), np.full(128 * 160, np.inf)
    coordinates = np.full((128 * 160, 3), np.nan, np.float32)
    poses = []
    for number, (name, place) in enumerate(zip(EXTENTS, places, strict=True), 1):
        middle = LENS.unproject(np.add(place, rng.uniform(-3, 3, (1, 2))))[0] * rng.uniform(
            0.2, 0.3
        )
        pose = Pose(quaternion(Rotation.random(rng=rng)), tuple(middle.tolist()))
        far, share, side = _cast(rays, pose, np.array(EXTENTS[name]))
        seen = far < depth
        depth[seen], ids[seen], coordinates[seen] = far[seen], number, share[seen]
        if name == "slab":
            side = np.where(side < 4, side - side % 2, side)  # one colour each of x and y
        rgb[seen] = SIDES[side][seen]
        poses.append(pose)
    paths = {name: root / f"{index}-{name}.png" for name in ("ids", "coordinates")}
    write_bytes(root / f"{index}.png", encode_png(rgb.reshape(128, 160, 3)))
    write_bytes(paths["ids"], channels.encode_channel("ids", ids.reshape(128, 160)))
    shares = coordinates.reshape(128, 160, 3)
    write_bytes(paths["coordinates"], channels.encode_channel("coordinates", shares))
    labels = []
    for number, (name, pose) in enumerate(zip(EXTENTS, poses, strict=True), 1):
        rows, columns = np.nonzero(ids.reshape(128, 160) == number)
        box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        labels.append(ObjectLabel(
            name, tuple(map(float, box)), float(len(rows)), visible_fraction=1.0, instance_id=number,
            pose=pose, extent_m=EXTENTS[name],
        ))  # fmt: skip
    return Sample(
        str(index), root / f"{index}.png", 160, 128, tuple(labels), "sim", paths, lens=LENS
    )


def _cast(rays, pose, extent):
    """Returns how far rays (n, 3) go to a brick, the point over its extent, and the number of the side."""
    low, high = extent
    back = pose.inverse()
    start, way = np.array(back.position_m), back.rotation().apply(rays)
    ends = np.stack([(low - start) / way, (high - start) / way])
    enters, leaves = ends.min(axis=0), ends.max(axis=0)
    axis = enters.argmax(axis=1)
    far = enters.max(axis=1)
    met = (far < leaves.min(axis=1)) & (far > 0)
    points = start + far[:, None] * way
    side = 2 * axis + (way[np.arange(len(way)), axis] < 0)
    return np.where(met, far, np.inf), (points - low) / (high - low), side
