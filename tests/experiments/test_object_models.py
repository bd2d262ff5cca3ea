"""BOP models of rendered datasets project onto their images."""

import json

import numpy as np
import pytest
import trimesh

from sim2cam.cli import main
from sim2cam.data.formats.export import export_dataset
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.experiments.object_models import create_recorded_models
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import load_recipe

RENDER = """[render]
width = 128
height = 112
views = 2
channels = ["depth", "ids", "amodal_masks"]
[domain.lens]
k1 = 0.0
k2 = 0.0
p1 = 0.0
p2 = 0.0
"""
DICE = f"""base = "dice-fixed"
name = "few"
{RENDER}"""
THINGS = f"""base = "objects"
name = "things"
[assets]
folder = "objects"
unit = "mm"
{RENDER}[domain.layout]
object_count = 2
distractor_count = 0
surface = "table"
"""
CARD = "[symmetries]\nrotations_wxyz = [[0, 0, 0, 1]]\n"


@pytest.fixture(scope="module", params=["dice", "things"])
def rendered(request, tmp_path_factory):
    """Return a dataset of dice, or of blocks and cups from files."""
    root = tmp_path_factory.mktemp(request.param)
    (root / "objects").mkdir()
    trimesh.creation.annulus(20, 25, 60).export(root / "objects/cup.stl")
    block = trimesh.creation.box((50, 40, 30))
    block.apply_translation((100, 0, 0))  # file origins are arbitrary
    block.visual.vertex_colors = np.tile([200, 30, 30, 255], (8, 1))
    block.export(root / "objects/block.ply")
    (root / "objects/block.toml").write_text(CARD)
    (root / "r.toml").write_text(DICE if request.param == "dice" else THINGS)
    recipe = load_recipe(str(root / "r.toml"))
    generate(
        recipe, root / "d", count=4, seed=1, workers=1, resume=False, overwrite=False,
        progress=lambda *_: None,
    )  # fmt: skip
    return root / "d"


def test_models_project_onto_their_images(rendered, tmp_path):
    told = export_dataset(
        {"test": read_dataset(rendered)}, tmp_path / "bop", "bop", create_recorded_models()
    )
    assert told == ()
    root = tmp_path / "bop"
    offs = []
    for scene in (root / "test").iterdir():
        cameras, poses, infos = (
            json.loads((scene / f"scene_{name}.json").read_text())
            for name in ("camera", "gt", "gt_info")
        )
        for number, camera in cameras.items():
            matrix = np.reshape(camera["cam_K"], (3, 3))
            for pose, info in zip(poses[number], infos[number], strict=True):
                model = trimesh.load(root / f"models/obj_{pose['obj_id']:06d}.ply", process=False)
                points = model.vertices @ np.reshape(pose["cam_R_m2c"], (3, 3)).T
                pixels = (points + pose["cam_t_m2c"]) @ matrix.T
                pixels = pixels[:, :2] / pixels[:, 2:]
                x, y, more_x, more_y = info["bbox_obj"]
                box = np.array([x, y, x + more_x, y + more_y])
                off = np.array([*pixels.min(axis=0), *pixels.max(axis=0)]) - box
                offs.append(off)  # also outside the image
    assert len(offs) > 2
    assert np.abs(offs).max() < 1.5  # corners may be between pixels
    assert np.abs(offs).mean() < 0.7


def test_each_shape_of_a_category_is_a_model(rendered, tmp_path):
    dataset = read_dataset(rendered)
    out = tmp_path / "bop"
    assert main(["export", str(rendered), "--format", "bop", "--out", str(out), "-q"]) == 0
    infos = json.loads((out / "models/models_info.json").read_text())
    names = json.loads((out / "categories.json").read_text())
    shown = {o.category for s in dataset.samples for o in s.objects}
    assert list(names.values()) == [name for name in dataset.categories if name in shown]
    assert names.keys() == infos.keys()
    by_name = {names[number]: info for number, info in infos.items()}
    if "block" in by_name:
        block = by_name["block"]
        assert (block["size_x"], block["size_y"], block["size_z"]) == pytest.approx((50, 40, 30))
        assert block["min_x"] == pytest.approx(75)
        half_turn = np.diag([-1.0, -1, 1, 1]).ravel()
        np.testing.assert_allclose(block["symmetries_discrete"], [half_turn], atol=1e-12)
        number = next(number for number, name in names.items() if name == "block")
        loaded = trimesh.load(out / f"models/obj_{int(number):06d}.ply", process=False)
        assert loaded.visual.vertex_colors.max(axis=0)[:3].tolist() == [200, 30, 30]
    else:
        assert {round(info["size_x"], 3) for info in by_name.values()} == {16.0}
        assert not any("symmetries_discrete" in info for info in infos.values())
    back = read_real_images(out)
    assert {o.category for s in back.samples for o in s.objects} == shown


def test_merged_datasets_use_their_own_scenes(rendered, tmp_path):
    out = tmp_path / "bop"
    twice = ["export", str(rendered), str(rendered), "--format", "bop", "--out", str(out), "-q"]
    assert main(twice) == 0
    infos = json.loads((out / "models/models_info.json").read_text())
    shown = {o.category for s in read_dataset(rendered).samples for o in s.objects}
    assert len(infos) == len(shown)


def test_real_images_have_no_models(rendered, tmp_path):
    export_dataset({"train": read_dataset(rendered)}, tmp_path / "tars", "webdataset")
    captures = read_real_images(tmp_path / "tars")
    told, *_ = export_dataset(
        {"train": captures}, tmp_path / "bop", "bop", create_recorded_models()
    )
    assert told == "models/ is left out: the scenes have no object shapes"
