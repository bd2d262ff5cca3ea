"""Command-line workflow from meshes to scored poses, keypoints and masks."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import trimesh

from sim2cam.cli import main
from sim2cam.data.real_images import read_real_images

pytestmark = pytest.mark.slow

SIDES = np.array([(230, 40, 40), (30, 60, 220), (240, 220, 40), (40, 190, 70), (250, 250, 250),
                  (230, 90, 220)])  # fmt: skip
RECIPE = """\
base = "objects"
name = "bricks"
[assets]
folder = "assets"
[render]
width = 96
height = 96
views = 2
channels = ["depth", "ids", "keypoints", "coordinates"]
[domain.layout]
object_count = 1
distractor_count = 0
surface = "table"
[domain.view]
object_px = 210.0
aim_radius = 0.0
[domain.lens]
k1 = 0.0
k2 = 0.0
p1 = 0.0
p2 = 0.0
[train]
poses = true
flips = false
steps = 360
batch = 4
crop_px = 96
scale_range = [1.0, 1.0]
photometric = false
learning_rate = 3e-3
ema_decay = 0.95
"""


CARD = """\
unit = "m"
[keypoints]
red = [-0.03, 0, 0]
blue = [0.03, 0, 0]
green = [0, 0.02, 0]
"""


def brick():
    """Return a brick of 60 x 40 x 30 mm with a different colour on each side."""
    box = trimesh.creation.box((0.06, 0.04, 0.03))
    side = 2 * np.abs(box.get_face_normals).argmax(axis=1) + (box.get_face_normals.sum(axis=1) > 0)
    return trimesh.Trimesh(
        box.vertices[box.faces].reshape(-1, 3),
        np.arange(36).reshape(-1, 3),
        vertex_colors=SIDES[side].repeat(3, axis=0),
        process=False,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory, opengl):
    """Return a folder with a recipe and its renders, as native and as BOP dataset."""
    root = tmp_path_factory.mktemp("bricks")
    (root / "assets").mkdir()
    brick().export(root / "assets/brick.ply")
    (root / "assets/brick.toml").write_text(CARD)
    (root / "shapes.toml").write_text(
        RECIPE.replace("poses = true", "keypoints = true\nmasks = true")
    )
    (root / "bricks.toml").write_text(RECIPE)
    run("render", root / "bricks.toml", "--out", root / "sim", "--count", 6, "--workers", 1)
    run("export", root / "sim", "--out", root / "bop", "--format", "bop")
    return root


def run(*words):
    assert main([*map(str, words), "-q"]) == 0


@pytest.fixture(scope="module", autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def weights(place):
    run("train", place / "bricks.toml", "--data", place / "sim", "--out", place / "run",
        "--workers", 1)  # fmt: skip
    return place / "run/weights.safetensors"


def test_few_images_are_overfitted(place, weights, capsys):
    command = ("bench", weights, "--captures", place / "bop", "--poses", place / "poses.csv")
    run(*command, "--workers", 1, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["poses"]["images"] == 6
    assert found["poses"]["all"]["add"]["value"] >= 0.5
    assert found["ap50"]["value"] > 0.8


def test_predicted_poses_are_near_the_truth(place, weights, capsys):
    run("predict", weights, place / "sim", "--min-score", "0.3", "--workers", 1)
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    apart = []
    for sample, line in zip(read_real_images(place / "sim").samples, lines, strict=True):
        (truth,) = sample.objects
        poses = [d["pose"] for d in line["detections"] if d["pose"] is not None]
        off = [np.subtract(p["position_m"], truth.pose.position_m) for p in poses]
        apart.append(min((float(np.linalg.norm(o)) for o in off), default=1.0))
    assert np.median(apart) < 0.008


def test_same_images_train_keypoints_and_masks(place, capsys):
    run("train", place / "shapes.toml", "--data", place / "sim", "--out", place / "shapes",
        "--workers", 1)  # fmt: skip
    shapes = place / "shapes/weights.safetensors"
    run("bench", shapes, "--captures", place / "sim", "--workers", 1, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["ap50"]["value"] > 0.8
    assert found["keypoints"]["ap50"]["value"] > 0.6
    assert found["masks"]["ap50"]["value"] > 0.8
    assert found["segments"]["miou"]["value"] > 0.8
