import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.data.formats.bop.poses import (
    PoseEstimate,
    find_test_scenes,
    read_bop_models,
    read_pose_images,
    read_pose_results,
    read_targets,
    write_pose_results,
)
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from tests.support.errors import error_text

CURE = "Correct the file."
LMO = Path(os.environ.get("SIM2CAM_REAL", "/nowhere")) / "lmo"
IDENTITY = [1, 0, 0, 0, 1, 0, 0, 0, 1]


def gt(obj_id, x_mm):
    return {"cam_R_m2c": IDENTITY, "cam_t_m2c": [x_mm, 0, 500], "obj_id": obj_id}


def info(visible):
    box = [1, 2, 10, 4]
    return {
        "bbox_obj": box, "bbox_visib": box, "px_count_visib": int(100 * visible),
        "visib_fract": visible,
    }  # fmt: skip


def data_set(root, *, targets=None, models=None):
    """One scene of one picture: three of object 5, hidden more and more, and one of object 6."""
    scene = root / "test/000002"
    write_bytes(scene / "rgb/000003.png", encode_png(np.zeros((32, 48, 3), np.uint8)))
    tables = {
        "scene_camera": {"3": {"cam_K": [50, 0, 24, 0, 50, 16, 0, 0, 1]}},
        "scene_gt": {"3": [gt(5, 0), gt(5, 10), gt(5, 20), gt(6, 30)]},
        "scene_gt_info": {"3": [info(0.05), info(0.9), info(0.2), info(0.0)]},
    }
    for name, table in tables.items():
        (scene / f"{name}.json").write_text(json.dumps(table))
    if targets is not None:
        (root / "test_targets_bop19.json").write_text(json.dumps(targets))
    if models is not None:
        (root / "models_eval").mkdir()
        (root / "models_eval/models_info.json").write_text(json.dumps(models))
    return root


def target(**changes):
    return {"scene_id": 2, "im_id": 3, "obj_id": 5, "inst_count": 1} | changes


def places_mm(view):
    return {
        o: np.round(poses[:, 0, 3] * 1000).tolist() for o, poses in view.ground_truth_poses.items()
    }


def test_as_many_as_are_sought_of_those_seen_most(tmp_path):
    (view,) = read_pose_images(find_test_scenes(data_set(tmp_path, targets=[target(inst_count=2)])))
    assert (view.scene_id, view.image_id, view.width, view.height) == (2, 3, 48, 32)
    assert places_mm(view) == {5: [10, 20]}
    assert (view.camera_matrix[0, 2], view.depth) == (24, None)


def test_without_targets_all_that_are_seen_well_enough(tmp_path):
    (view,) = read_pose_images(find_test_scenes(data_set(tmp_path)))
    assert places_mm(view) == {5: [10, 20]}


def test_targets_of_other_scenes_are_left_out(tmp_path):
    root = data_set(tmp_path, targets=[target(), target(scene_id=4)])
    assert read_targets(find_test_scenes(root)) == {(2, 3): {5: 1}}


BAD_TARGETS = {
    "none of them here": ([target(scene_id=4)],
     f"test_targets_bop19.json: has no target in scene 2. {CURE}"),
    "no instance": ([target(inst_count=0)],
     "test_targets_bop19.json: [0].inst_count: Input should be greater than or equal to 1 "
     f"(found 0). {CURE}"),
    "an image too many": ([target(im_id=4)],
     "test/000002/scene_camera.json: image 4 is missing. Copy the scene again."),
    "an instance too many": ([target(inst_count=4)],
     "test/000002/scene_gt.json: image 3: 3 instances of object 5, but test_targets_bop19.json lists 4. Use files of one dataset."),
}  # fmt: skip


@pytest.mark.parametrize(("targets", "problem"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_bad_targets_are_answered_exactly(tmp_path, targets, problem):
    root = data_set(tmp_path, targets=targets)
    assert error_text(lambda: read_pose_images(find_test_scenes(root))) == f"{root}/{problem}"


def test_the_test_part_is_scored(tmp_path):
    data_set(tmp_path)
    (tmp_path / "train").mkdir()
    (tmp_path / "test/000002").rename(tmp_path / "train/000002")
    assert [s.name for s in find_test_scenes(tmp_path)] == ["000002"]  # the only part there is
    (tmp_path / "val/000000").mkdir(parents=True)
    (tmp_path / "val/000000/scene_camera.json").write_text("{}")
    message = error_text(find_test_scenes, tmp_path)
    assert (
        message == f"{tmp_path}: has no test split. Splits: train, val. Give the folder of a split."
    )


def test_models_are_known_in_metres_with_their_symmetries(tmp_path):
    half = [-1, 0, 0, 10, 0, -1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    models = {
        "5": {"diameter": 120.0, "min_x": 1, "symmetries_discrete": [half]},
        "6": {"diameter": 50, "symmetries_continuous": [{"axis": [0, 0, 1], "offset": [10, 0, 0]}]},
    }
    root = data_set(tmp_path, models=models)
    found = read_bop_models(find_test_scenes(root))
    assert (found[5].name, found[5].diameter_m) == ("obj_000005", 0.12)
    assert found[5].mesh == root / "models_eval/obj_000005.ply"
    expected = np.array(half, float).reshape(4, 4)
    expected[0, 3] = 0.01
    np.testing.assert_array_equal(found[5].symmetries, [np.eye(4), expected])
    on_axis = found[6].symmetries @ [0.01, 0, 0.3, 1]
    np.testing.assert_allclose(on_axis, np.tile([0.01, 0, 0.3, 1], (315, 1)), atol=1e-12)


BAD_MODELS = {
    "no diameter": ({"5": {}}, f"5.diameter is missing. {CURE}"),
    "no size": ({"5": {"diameter": 0}},
     f"5.diameter: Input should be greater than 0 (found 0). {CURE}"),
    "a mirror": ({"5": {"diameter": 1, "symmetries_discrete": [np.diag([-1, 1, 1,
     1]).ravel().tolist()]}}, f"object 5: a symmetry is not a rigid transform. {CURE}"),
    "no axis": ({"5": {"diameter": 1, "symmetries_continuous": [{"axis": [0] * 3, "offset":
     [0] * 3}]}}, f"object 5: the axis of a symmetry is zero or not finite. {CURE}"),
}  # fmt: skip


@pytest.mark.parametrize(("models", "problem"), BAD_MODELS.values(), ids=BAD_MODELS)
def test_bad_models_are_answered_exactly(tmp_path, models, problem):
    root = data_set(tmp_path, models=models)
    message = error_text(lambda: read_bop_models(find_test_scenes(root)))
    assert message == f"{root}/models_eval/models_info.json: {problem}"


def test_without_meshes_it_says_where_they_belong(tmp_path):
    root = data_set(tmp_path)
    with pytest.raises(InputError) as caught:
        read_bop_models(find_test_scenes(root))
    problem = "folder models_eval/ with the meshes of the objects is missing. Unpack them there."
    assert str(caught.value) == f"{root}: {problem}"


def test_results_are_read_back_as_written(tmp_path):
    rng = np.random.default_rng(0)
    written = []
    for number in range(5):
        pose = np.eye(4)
        pose[:3, :3] = Rotation.random(rng=rng).as_matrix()
        pose[:3, 3] = rng.normal(size=3)
        written.append(PoseEstimate(1, number, 5, np.float64(rng.normal()), pose, 0.1 * number))
    write_pose_results(written, tmp_path / "poses.csv")
    for one, back in zip(written, read_pose_results(tmp_path / "poses.csv"), strict=True):
        assert (back.scene_id, back.image_id, back.object_id) == (1, one.image_id, 5)
        assert (back.score, back.time_s) == (one.score, one.time_s)
        np.testing.assert_array_equal(back.pose[:3, :3], one.pose[:3, :3])
        np.testing.assert_allclose(back.pose, one.pose, rtol=1e-15)


HEAD = "scene_id,im_id,obj_id,score,R,t,time"
R = "1 0 0 0 1 0 0 0 1"
GOOD = f"2,3,5,0.9,{R},0 0 500,-1"


def test_the_line_of_columns_and_empty_lines_do_not_matter(tmp_path):
    path = tmp_path / "poses.csv"
    spaced = HEAD.replace(",", ", ")
    for text in (f"{HEAD}\n{GOOD}\n", GOOD, f"{spaced}\r\n\r\n 2 , 3,5, 9e-1, {R} ,0 0 500,-1\r\n"):
        path.write_text(text, newline="")
        (found,) = read_pose_results(path)
        assert (found.scene_id, found.image_id, found.object_id, found.score) == (2, 3, 5, 0.9)
        assert found.pose[:3, 3].tolist() == [0, 0, 0.5]
    path.write_text(HEAD)
    assert read_pose_results(path) == ()


BAD = {
    "nothing": ("", f"is empty. A file without poses has the line {HEAD}"),
    "other columns": ("image,pose", f"line 1: 2 cells, not 7. {CURE}"),
    "a cell too few": (f"{HEAD}\n2,3,5,0.9,{R},0 0 500", f"line 2: 6 cells, not 7. {CURE}"),
    "an image by its name": (f"{HEAD}\n2,a.png,5,0.9,{R},0 0 500,-1",
     f"line 2: im_id 'a.png' must be an integer of 0 or more. {CURE}"),
    "a scene below 0": (f"-2,3,5,0.9,{R},0 0 500,-1",
     f"line 1: scene_id '-2' must be an integer of 0 or more. {CURE}"),
    "no score": (f"2,3,5,,{R},0 0 500,-1", f"line 1: score '' must be a finite number. {CURE}"),
    "a score that is none": (f"2,3,5,nan,{R},0 0 500,-1",
     f"line 1: score 'nan' must be a finite number. {CURE}"),
    "a quaternion": (f"{GOOD}\n2,3,5,0.9,1 0 0 0,0 0 500,-1",
     f"line 2: R '1 0 0 0' must be 9 finite numbers. {CURE}"),
    "a mirror": ("2,3,5,0.9,1 0 0 0 1 0 0 0 -1,0 0 500,-1",
     f"line 1: R 1 0 0 0 1 0 0 0 -1 is not a rotation. {CURE}"),
    "a scale": ("2,3,5,0.9,2 0 0 0 2 0 0 0 2,0 0 500,-1",
     f"line 1: R 2 0 0 0 2 0 0 0 2 is not a rotation. {CURE}"),
    "a flat place": (f"2,3,5,0.9,{R},0 500,-1",
     f"line 1: t '0 500' must be 3 finite numbers. {CURE}"),
    "nowhere": (f"2,3,5,0.9,{R},0 0 inf,-1",
     f"line 1: t '0 0 inf' must be 3 finite numbers. {CURE}"),
    "two times": (f"{GOOD}\n2,3,6,0.9,{R},0 0 500,0.5",
     "line 2: time 0.5, but another line of the image has -1. Give all lines the time of the whole image."),
    "no text": (b"\xff\xfe", "not a text in UTF-8. Check the path."),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD)
def test_bad_results_are_answered_exactly(tmp_path, text, problem):
    path = tmp_path / "poses.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert error_text(read_pose_results, path) == f"{path}: {problem}"


@pytest.mark.real
@pytest.mark.skipif(not LMO.is_dir(), reason="needs lmo in $SIM2CAM_REAL")
def test_lmo_has_1445_targets_and_two_objects_with_symmetries():
    scenes = find_test_scenes(LMO)
    views = read_pose_images(scenes)
    assert len(views) == 200
    assert sum(len(poses) for view in views for poses in view.ground_truth_poses.values()) == 1445
    models = read_bop_models(scenes)
    assert [n for n, m in models.items() if len(m.symmetries) > 1] == [10, 11]
    assert math.isclose(models[1].diameter_m, 0.102099)
