import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh

from sim2cam.assets.importer import import_assets
from sim2cam.data.channels import read_channel
from sim2cam.data.formats.bop.models import ModelSource, ObjectModel, compute_diameter
from sim2cam.data.formats.bop.poses import read_pose_images
from sim2cam.data.formats.bop.reader import read_bop
from sim2cam.data.formats.export import export_dataset
from sim2cam.data.real_images import read_real_images, split_real_images
from sim2cam.data.sample import FrameInfo
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.errors import InputError, RepairWarning
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import mask_to_box
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.geometry.run_length import RleMask
from sim2cam.geometry.triangles import project_triangles, rasterize_triangles
from sim2cam.images import encode_png, read_rgb
from sim2cam.learn.torch_dataset import TorchDetectionDataset
from sim2cam.objects.block import Block
from sim2cam.objects.primitives import Sphere
from tests.support.errors import error_text

CURE = "Correct the file."
SKIP = "Correct the file, or leave flawed annotations out with --skip-invalid."
PINHOLE = BrownConrady(50.0, 51.0, 24.0, 16.0)
TURNED = Pose((0.5, 0.5, -0.5, 0.5), (0.01, -0.02, 0.5))
LMO = Path(os.environ.get("SIM2CAM_REAL", "/nowhere")) / "lmo"


def posed(dataset, lens=PINHOLE):
    """The data set with a pose, a whole box and a whole mask of each object."""
    samples = []
    for sample in dataset.samples:
        ids = read_channel("ids", sample.channels["ids"])
        objects = []
        for label in sample.objects:
            whole = ids == label.instance_id
            if label.instance_id == 1:
                whole[4:16, int(label.box_xyxy[2]) : int(label.box_xyxy[2]) + 4] = True
            fraction = label.area_px / whole.sum()
            objects.append(
                replace(
                    label,
                    pose=TURNED,
                    box_amodal_xyxy=mask_to_box(whole),
                    amodal_mask=RleMask.from_mask(whole),
                    visible_fraction=float(fraction),
                )
            )
        samples.append(replace(sample, lens=lens, objects=tuple(objects)))
    return replace(dataset, samples=tuple(samples))


def test_what_is_exported_is_read_back(exported):
    root, parts = exported("bop", posed)
    back = read_bop(root, "sim")
    assert back.keys() == parts.keys()
    for name, part in parts.items():
        for sample, original in zip(back[name].samples, part.samples, strict=True):
            assert np.array_equal(read_rgb(sample.rgb), read_rgb(original.rgb))
            assert sample.lens == original.lens
            for label, known in zip(sample.objects, original.objects, strict=True):
                for fact in ("category", "box_xyxy", "box_amodal_xyxy", "area_px"):
                    assert getattr(label, fact) == getattr(known, fact)
                assert label.visible_fraction == pytest.approx(known.visible_fraction)
                np.testing.assert_allclose(label.pose.matrix(), known.pose.matrix(), atol=1e-12)
    assert sorted({s.scene_index for part in back.values() for s in part.samples}) == [0, 1]


def test_units_masks_and_depth_are_bops(exported):
    root, parts = exported("bop", posed)
    (sample, *_) = parts["train"].samples
    scene = root / f"train/{sample.scene_index:06d}"
    (pose, *_) = json.loads((scene / "scene_gt.json").read_text())["0"]
    assert pose["cam_t_m2c"] == [10, -20, 500]
    assert np.reshape(pose["cam_R_m2c"], (3, 3)) == pytest.approx(TURNED.matrix()[:3, :3])
    camera = json.loads((scene / "scene_camera.json").read_text())["0"]
    assert camera["cam_K"] == [50, 0, 24, 0, 51, 16, 0, 0, 1]
    (back, *_) = read_bop(root, "sim")["train"].samples
    depth_m = read_channel("sensor_depth", back.channels["sensor_depth"]) * back.depth_unit_m
    np.testing.assert_allclose(depth_m, read_channel("depth", sample.channels["depth"]), atol=1e-7)
    ids = read_channel("ids", sample.channels["ids"])
    for index, label in enumerate(sample.objects):
        name = f"000000_{index:06d}.png"
        assert np.array_equal(read_rgb(scene / "mask_visib" / name)[..., 0] > 0, ids == index + 1)
        whole = read_rgb(scene / "mask" / name)[..., 0] > 0
        assert np.array_equal(whole, label.amodal_mask.decode())


def test_masks_are_read_when_they_are_asked_for(exported):
    root, parts = exported("bop", posed)
    back = read_real_images(root)
    samples = [sample for name in sorted(parts) for sample in parts[name].samples]
    for sample, original in zip(back.samples, samples, strict=True):
        for mask, known in zip(
            read_visible_masks(sample), read_visible_masks(original), strict=True
        ):
            assert np.array_equal(mask, known)
    _, target = TorchDetectionDataset(back, with_masks=True)[0]
    assert target["masks"].sum(dim=(1, 2)).tolist() == target["area"].tolist()
    export_dataset({"train": back}, root.with_name("tars"), "webdataset")
    again = read_real_images(root.with_name("tars"))
    assert [o.mask for s in again.samples for o in s.objects] == [
        RleMask.from_mask(mask) for s in back.samples for mask in read_visible_masks(s)
    ]
    path = back.samples[0].objects[0].mask.path
    write_bytes(path, encode_png(np.zeros((2, 3), np.uint8)))
    with pytest.raises(InputError) as caught:
        read_visible_masks(read_real_images(root).samples[0])
    problem = "the mask has 3x2 pixels, its image 48x32. Copy the dataset again."
    assert str(caught.value) == f"{path}: {problem}"
    path.unlink()
    assert read_visible_masks(read_real_images(root).samples[0])[0] is None


def test_boxes_hold_the_first_pixel_and_how_many_more_there_are(exported):
    root, parts = exported("bop", posed)
    (sample, *_) = parts["train"].samples
    path = root / f"train/{sample.scene_index:06d}/scene_gt_info.json"
    (info, *_) = json.loads(path.read_text())["0"]
    x0, y0, x1, y1 = sample.objects[0].box_xyxy
    assert info["bbox_visib"] == [x0, y0, x1 - x0 - 1, y1 - y0 - 1]
    assert (info["px_count_visib"], info["px_count_all"], info["px_count_valid"]) == (96, 144, 144)


def test_a_bent_lens_is_straightened_with_its_labels(tmp_path, dataset):
    lens = BrownConrady(50.0, 50.0, 24.0, 16.0, k1=-0.3)
    export_dataset({"train": posed(dataset, lens)}, tmp_path / "bop", "bop")
    (sample, *_) = read_real_images(tmp_path / "bop").samples
    assert sample.lens == replace(lens, k1=0.0)
    scene = sample.rgb.parents[1]
    for index, label in enumerate(sample.objects):
        mask = read_rgb(scene / f"mask_visib/000000_{index:06d}.png")[..., 0] > 0
        assert (mask_to_box(mask), int(mask.sum())) == (label.box_xyxy, label.area_px)
        # the corners of the box of an object, as the bent lens and as the pinhole see them
        x0, y0, x1, y1 = dataset.samples[0].objects[index].box_xyxy
        corners = np.array([[x0, y0], [x1 - 1, y0], [x0, y1 - 1], [x1 - 1, y1 - 1]])
        straight = sample.lens.project(lens.unproject(corners))
        outer = np.array([*straight.min(axis=0), *straight.max(axis=0)])
        assert np.abs(np.array(label.box_xyxy) - [0, 0, 1, 1] - outer).max() < 1
    assert sample.objects[0].box_xyxy != dataset.samples[0].objects[0].box_xyxy


def test_where_the_camera_stands_is_kept(tmp_path, dataset):
    camera = Pose((0.5, 0.5, 0.5, 0.5), (1.0, 2.0, 3.0))
    samples = tuple(
        replace(sample, frame_info=FrameInfo(0, 0.0, 0.0, 0.0, camera))
        for sample in posed(dataset).samples
    )
    export_dataset({"train": replace(dataset, samples=samples)}, tmp_path / "bop", "bop")
    facts = json.loads((tmp_path / "bop/train/000000/scene_camera.json").read_text())["0"]
    world = np.eye(4)
    world[:3, :3] = np.reshape(facts["cam_R_w2c"], (3, 3))
    world[:3, 3] = np.array(facts["cam_t_w2c"]) / 1000
    np.testing.assert_allclose(world @ camera.matrix(), np.eye(4), atol=1e-12)


def test_where_the_camera_stands_is_left_out_where_no_one_knows(tmp_path, dataset):
    samples = tuple(replace(sample, frame_info=FrameInfo(0)) for sample in posed(dataset).samples)
    export_dataset({"train": replace(dataset, samples=samples)}, tmp_path / "bop", "bop")
    facts = json.loads((tmp_path / "bop/train/000000/scene_camera.json").read_text())["0"]
    assert facts.keys() == {"cam_K", "depth_scale"}


def without(fact):
    def change(dataset):
        sample = posed(dataset).samples[0]
        label = replace(sample.objects[0], **{fact: None})
        return replace(dataset, samples=(replace(sample, objects=(label,)),))

    return change


def without_ids(dataset):
    sample = replace(posed(dataset).samples[0], channels={})
    return replace(dataset, samples=(sample,))


OBJECT = "image 000000: an object of category square has no"
REFUSED = {
    "no pose": (without("pose"), f"{OBJECT} pose, which BOP requires."),
    "no whole box": (without("box_amodal_xyxy"), f"{OBJECT} box_amodal_xyxy, which BOP requires."),
    "no fraction": (without("visible_fraction"), f"{OBJECT} visible_fraction, which BOP requires."),
    "no ids": (without_ids,
     "image 000000 has no channel ids for masks. Render with ids in --channels."),
}  # fmt: skip


@pytest.mark.parametrize(("change", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_bop_cannot_hold_is_refused(tmp_path, dataset, change, problem):
    message = error_text(
        lambda: export_dataset({"train": change(dataset)}, tmp_path / "bop", "bop")
    )
    assert message == f"{dataset.root}: {problem}"


def test_a_pinhole_needs_no_whole_masks(tmp_path, dataset):
    export_dataset({"train": without("amodal_mask")(dataset)}, tmp_path / "bop", "bop")
    scene = tmp_path / "bop/train/000000"
    assert not (scene / "mask").exists()
    (info,) = json.loads((scene / "scene_gt_info.json").read_text())["0"]
    assert (info["px_count_visib"], info["px_count_all"]) == (96, 144)


LACKS = [
    "models/ is left out: the scenes have no object shapes",
    "mask/ is left out without amodal masks; to write it, render with amodal_masks in --channels",
    "bbox_obj and px_count_all of undistorted images without amodal masks are estimated from the undistorted "
    "box and the visible fraction",
]


def test_a_bent_lens_needs_none_either_and_what_is_estimated_is_said(tmp_path, dataset):
    bent = BrownConrady(50.0, 50.0, 24.0, 16.0, k1=-0.3)
    whole = posed(dataset, bent)
    samples = (
        replace(s, objects=tuple(replace(o, amodal_mask=None) for o in s.objects))
        for s in whole.samples
    )
    without = replace(whole, samples=tuple(samples))
    told = [
        export_dataset({"train": each}, tmp_path / name, "bop")
        for name, each in (("with", whole), ("without", without))
    ]
    assert told == [tuple(LACKS[:1]), tuple(LACKS)]
    pairs = zip(*(read_real_images(tmp_path / n).samples for n in ("with", "without")), strict=True)
    for known, estimated in pairs:
        for one, other in zip(known.objects, estimated.objects, strict=True):
            assert (one.box_xyxy, one.area_px) == (other.box_xyxy, other.area_px)
            assert np.abs(np.subtract(one.box_amodal_xyxy, other.box_amodal_xyxy)).max() <= 1
            assert other.visible_fraction == pytest.approx(one.visible_fraction, abs=0.1)
    assert not list((tmp_path / "without").rglob("mask"))
    assert not (tmp_path / "without/models").exists()


CUBE, BALL = Block((0.02, 0.02, 0.02), 0.0, "square"), Sphere(0.01)


def model_of(_, asset):
    """A tetrahedron for a ball, and for a cube a cube."""
    if asset is BALL:
        corners = np.array([[0.0, 0, 0], [0.03, 0, 0], [0, 0.04, 0], [0, 0, 0.01]])
        faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
        mesh = trimesh.Trimesh(corners, faces)
    else:
        mesh = trimesh.creation.box((0.02, 0.02, 0.02))
    rgb = np.arange(3 * len(mesh.vertices), dtype=np.uint8).reshape(-1, 3)
    normals = np.array(mesh.vertex_normals)
    return ObjectModel(np.array(mesh.vertices), normals, mesh.faces, rgb, asset.get_symmetries())


def test_models_are_in_millimetres_with_their_symmetries(tmp_path, dataset):
    shapes = ModelSource(lambda _: {1: CUBE, 2: BALL}, model_of)
    told = export_dataset({"test": posed(dataset)}, tmp_path / "bop", "bop", shapes)
    assert told == ()
    infos = json.loads((tmp_path / "bop/models/models_info.json").read_text())
    assert list(infos) == ["1", "2"]
    cube, ball = infos.values()
    assert cube["diameter"] == pytest.approx(20 * 3**0.5)
    assert (cube["min_x"], cube["size_z"]) == pytest.approx((-10, 20))
    assert (ball["diameter"], ball["min_y"], ball["size_y"]) == pytest.approx((50, 0, 40))
    turns = np.reshape(cube["symmetries_discrete"], (-1, 4, 4))
    assert len(turns) == 23
    np.testing.assert_allclose(
        turns[:, :3, :3] @ turns[:, :3, :3].transpose(0, 2, 1), [np.eye(3)] * 23, atol=1e-12
    )
    assert not np.isclose(np.trace(turns, axis1=1, axis2=2), 4).any()
    assert (turns[:, :3, 3] == 0).all()
    axes = [one["axis"] for one in ball["symmetries_continuous"]]
    assert axes == np.eye(3).tolist()
    assert [one["offset"] for one in ball["symmetries_continuous"]] == [[0, 0, 0]] * 3
    for number, asset in ((1, CUBE), (2, BALL)):
        loaded = trimesh.load(tmp_path / f"bop/models/obj_{number:06d}.ply", process=False)
        model = model_of(None, asset)
        np.testing.assert_allclose(loaded.vertices, 1000 * model.vertices_m, atol=1e-5)
        assert np.array_equal(loaded.faces, model.faces)
        assert np.array_equal(loaded.visual.vertex_colors[:, :3], model.rgb)


def test_models_can_be_thrown_again(tmp_path, dataset):
    shapes = ModelSource(lambda _: {1: CUBE, 2: BALL}, model_of)
    export_dataset({"test": posed(dataset)}, tmp_path / "bop", "bop", shapes)
    names = ["obj_000001.ply", "obj_000002.ply"]
    cube, ball = import_assets(tmp_path / "bop/models", names)
    assert cube.info.size_m == pytest.approx((0.02, 0.02, 0.02))
    assert len(cube.info.symmetries.rotations_wxyz) == 23
    assert ball.info.low_m == pytest.approx((0, 0, 0), abs=1e-9)
    assert ball.info.symmetries.axes == BALL.get_symmetries().axes


def test_a_model_is_what_shows_a_category_in_a_shape(tmp_path, dataset):
    def assets_of(sample):  # squares have two sizes
        return {1: replace(CUBE, size_m=(0.01 * (1 + sample.scene_index),) * 3), 2: BALL}

    export_dataset(
        {"test": posed(dataset)}, tmp_path / "bop", "bop", ModelSource(assets_of, model_of)
    )
    names = json.loads((tmp_path / "bop/categories.json").read_text())
    assert names == {"1": "square", "2": "square", "3": "disc"}
    back = read_real_images(tmp_path / "bop")
    assert back.categories == ("square", "disc")
    assert [o.category for s in back.samples for o in s.objects] == ["square", "disc"] * 4
    targets = json.loads((tmp_path / "bop/test_targets_bop19.json").read_text())
    assert targets[:2] == [
        {"im_id": 0, "inst_count": 1, "obj_id": 1, "scene_id": 0},
        {"im_id": 0, "inst_count": 1, "obj_id": 3, "scene_id": 0},
    ]
    assert {t["obj_id"] for t in targets if t["scene_id"] == 1} == {2, 3}


ALONE = ModelSource(lambda _: {1: CUBE}, model_of)
FAR = BrownConrady(
    500.0, 500.0, 24.0, 16.0
)  # hardly any perspective: the cube is a square of 20 px


def one_cube(dataset, x_px, lens=FAR, y_px=15.5, changes=None):
    """A data set of one picture, in which a cube's middle lies at a column and a row."""
    position = (0.49 * (x_px - 24) / 500, 0.49 * (y_px - 16) / 500, 0.5)
    corners = lens.project(model_of(None, CUBE).vertices_m + position)
    (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
    whole = np.zeros((32, 48), bool)  # as the renderer has it: middles of pixels
    whole[max(int(np.ceil(y0)), 0) : int(y1) + 1, max(int(np.ceil(x0)), 0) : int(x1) + 1] = True
    sample = dataset.samples[0]
    write_bytes(sample.channels["ids"], encode_png(whole.astype(np.uint16)))
    label = replace(
        sample.objects[0],
        box_xyxy=mask_to_box(whole),
        area_px=whole.sum(),
        box_amodal_xyxy=mask_to_box(whole),
        visible_fraction=1.0,
        amodal_mask=RleMask.from_mask(whole),
        pose=Pose(position_m=position),
    )
    label = replace(label, **(changes or {}))
    return replace(dataset, samples=(replace(sample, lens=lens, objects=(label,)),))


def info_of(root):
    (info,) = json.loads((root / "test/000000/scene_gt_info.json").read_text())["0"]
    return info


@pytest.mark.parametrize("changes", [{}, {"amodal_mask": None}], ids=["masks", "no masks"])
@pytest.mark.parametrize(
    ("place", "share", "first"),
    [
        ((23.5, 15.5), 1.0, (13.5, 5.5)),
        ((-0.5, 15.5), 0.5, (-10.5, 5.5)),
        ((47.5, 15.5), 0.5, (37.5, 5.5)),
        ((23.5, 31.5), 0.5, (13.5, 21.5)),
        ((-0.5, -0.5), 0.25, (-10.5, -10.5)),
    ],
)
def test_whole_objects_go_on_beyond_the_edge(tmp_path, dataset, place, share, first, changes):
    cut = one_cube(dataset, place[0], y_px=place[1], changes=changes)
    told = export_dataset({"test": cut}, tmp_path / "bop", "bop", ALONE)
    assert not any("edge" in what for what in told)
    info = info_of(tmp_path / "bop")
    assert info["visib_fract"] == pytest.approx(share, abs=0.05)
    assert info["px_count_visib"] == cut.samples[0].objects[0].area_px
    assert info["px_count_all"] == pytest.approx(20.4**2, abs=25)
    assert info["bbox_obj"] == pytest.approx([*first, 20, 20], abs=1.1)
    (label,) = read_real_images(tmp_path / "bop").samples[0].objects
    assert label.box_amodal_xyxy == cut.samples[0].objects[0].box_amodal_xyxy
    assert label.visible_fraction == info["visib_fract"]
    assert len(json.loads((tmp_path / "bop/test_targets_bop19.json").read_text())) == 1


def test_an_object_that_is_nearly_outside_is_no_target(tmp_path, dataset):
    export_dataset({"test": one_cube(dataset, -9.6)}, tmp_path / "bop", "bop", ALONE)
    assert info_of(tmp_path / "bop")["visib_fract"] < 0.1
    assert json.loads((tmp_path / "bop/test_targets_bop19.json").read_text()) == []


def test_the_canvas_of_whole_objects_ends_too(tmp_path, dataset):
    wide = BrownConrady(6000.0, 600.0, 24.0, 16.0)  # the cube is 245 pixels wide
    export_dataset({"test": one_cube(dataset, 24.0, wide)}, tmp_path / "bop", "bop", ALONE)
    info = info_of(tmp_path / "bop")
    assert (info["bbox_obj"][0], info["bbox_obj"][2]) == (-48, 3 * 48 - 1)
    assert info["visib_fract"] == pytest.approx(1 / 3)


def test_what_a_bent_lens_does_not_see_belongs_to_whole_objects(tmp_path, dataset):
    bent = replace(FAR, k1=40.0)  # a pincushion: the pinhole sees a rim that the picture lacks
    export_dataset({"test": one_cube(dataset, 0.0, bent)}, tmp_path / "bop", "bop", ALONE)
    info = info_of(tmp_path / "bop")
    x0, more = info["bbox_obj"][0], info["bbox_obj"][2]
    assert (x0, x0 + more) == pytest.approx((-10, 10), abs=1.1)
    assert info["px_count_all"] == pytest.approx(20.4**2, abs=40)
    mask = read_rgb(tmp_path / "bop/test/000000/mask/000000_000000.png")[..., 0] > 0
    assert mask[15, :10].all()
    assert info["px_count_visib"] < mask.sum() < info["px_count_all"]


def test_shapes_without_models_still_tell_how_objects_go_on(tmp_path, dataset, monkeypatch):
    monkeypatch.setattr("sim2cam.data.formats.bop.writer._MAX_MODELS", 0)
    (told,) = export_dataset({"test": one_cube(dataset, -0.5)}, tmp_path / "bop", "bop", ALONE)
    assert told.startswith("models/ is left out: 1 object shapes")
    assert info_of(tmp_path / "bop")["visib_fract"] == pytest.approx(0.5, abs=0.05)


def test_objects_of_unknown_shape_end_at_the_edge_and_it_is_said(tmp_path, dataset):
    cut = one_cube(dataset, -0.5)
    told = export_dataset({"test": cut}, tmp_path / "bop", "bop")
    assert told[1:] == (
        "bbox_obj, px_count_all and visib_fract of objects without models are clipped at the image border",
    )
    assert info_of(tmp_path / "bop")["visib_fract"] == 1


def test_what_is_hardly_seen_is_no_target(tmp_path, dataset):
    hidden = posed(dataset).samples[0]
    label = replace(hidden.objects[0], amodal_mask=None, visible_fraction=0.05)
    one = replace(dataset, samples=(replace(hidden, objects=(label, hidden.objects[1])),))
    export_dataset({"test": one}, tmp_path / "bop", "bop")
    (target,) = json.loads((tmp_path / "bop/test_targets_bop19.json").read_text())
    assert target["obj_id"] == 2


def test_too_many_shapes_have_no_models(tmp_path, dataset, monkeypatch):
    monkeypatch.setattr("sim2cam.data.formats.bop.writer._MAX_MODELS", 1)
    shapes = ModelSource(lambda _: {1: CUBE, 2: BALL}, model_of)
    (told,) = export_dataset({"test": posed(dataset)}, tmp_path / "bop", "bop", shapes)
    assert told == (
        "models/ is left out: 2 object shapes exceed the maximum of 1; fix sizes, e.g. with --set die/edge_m=0.016"
    )
    assert not (tmp_path / "bop/models").exists()


def test_a_shape_whose_file_is_gone_has_no_model(tmp_path, dataset):
    def gone(sample, asset):
        raise InputError("mug.obj", "no such file. Check the path.")

    shapes = ModelSource(lambda _: {1: CUBE, 2: BALL}, gone)
    (told,) = export_dataset({"test": posed(dataset)}, tmp_path / "bop", "bop", shapes)
    assert told == "models/ is left out: mug.obj: no such file. Check the path"
    names = json.loads((tmp_path / "bop/categories.json").read_text())
    assert names == {"1": "square", "2": "disc"}


@pytest.mark.real
@pytest.mark.skipif(not LMO.is_dir(), reason="needs lmo in $SIM2CAM_REAL")
def test_diameters_are_those_that_bop_gives():
    known = json.loads((LMO / "models/models_info.json").read_text())
    for number in (1, 8):
        path = LMO / f"models/obj_{number:06d}.ply"
        vertices = np.array(trimesh.load(path, process=False).vertices)
        assert compute_diameter(vertices) == pytest.approx(
            known[str(number)]["diameter"], abs=0.002
        )


@pytest.mark.real
@pytest.mark.skipif(not LMO.is_dir(), reason="needs lmo in $SIM2CAM_REAL")
def test_silhouettes_beyond_the_edge_are_those_that_bop_gives():
    scene = LMO / "test/000002"
    cameras, poses, infos = (
        json.loads((scene / f"scene_{name}.json").read_text())
        for name in ("camera", "gt", "gt_info")
    )
    cut = [
        (cameras[number]["cam_K"], pose, info)
        for number in cameras
        for pose, info in zip(poses[number], infos[number], strict=True)
        if info["bbox_obj"][1] < 0 and info["px_count_visib"]
    ]
    for matrix, pose, info in cut[:5]:
        model = trimesh.load(LMO / f"models/obj_{pose['obj_id']:06d}.ply", process=False)
        points = model.vertices @ np.reshape(pose["cam_R_m2c"], (3, 3)).T + pose["cam_t_m2c"]
        corners = project_triangles(points / 1000, model.faces, np.reshape(matrix, (3, 3)))
        mask = rasterize_triangles(corners, (-640, -480, 1280, 960))
        x0, y0, x1, y1 = mask_to_box(mask)
        box = [x0 - 640, y0 - 480, x1 - x0 - 1, y1 - y0 - 1]
        assert box == pytest.approx(info["bbox_obj"], abs=1)
        assert mask.sum() == pytest.approx(info["px_count_all"], rel=0.02)


CAMERA = {"cam_K": [50, 0, 24, 0, 50, 16, 0, 0, 1], "depth_scale": 1.0}
GT = {"cam_R_m2c": [1, 0, 0, 0, 1, 0, 0, 0, 1], "cam_t_m2c": [0, 0, 500], "obj_id": 5}
INFO = {
    "bbox_obj": [1, 2, 10, 4], "bbox_visib": [1, 2, 5, 4], "px_count_all": 55, "px_count_visib": 30,
    "visib_fract": 0.54,
}  # fmt: skip


def scene(folder, *, camera=None, gt=None, info=None, number="3", **texts):
    """A scene with one picture of one object, each table changed as given, or replaced by a text."""
    write_bytes(folder / "rgb/000003.png", encode_png(np.zeros((32, 48, 3), np.uint8)))
    tables = {
        "scene_camera": {number: CAMERA | (camera or {})},
        "scene_gt": {"3": [GT | (gt or {})]},
        "scene_gt_info": {"3": [INFO | (info or {})]},
    }
    for name, table in tables.items():
        (folder / f"{name}.json").write_text(texts.get(name, json.dumps(table)))
    return folder


def test_a_scene_is_read_alone_and_without_labels(tmp_path):
    root = scene(tmp_path / "test/000002")
    (sample,) = read_real_images(root).samples
    (label,) = sample.objects
    assert (label.category, label.box_xyxy) == ("obj_000005", (1, 2, 7, 7))
    assert (label.box_amodal_xyxy, label.area_px) == ((1, 2, 12, 7), 30)
    assert label.pose.position_m == (0, 0, 0.5)
    (root / "scene_gt.json").unlink()
    (sample,) = read_real_images(root.parent).samples
    assert (sample.name, sample.objects) == ("000002/rgb/000003.png", None)


@pytest.mark.parametrize(
    ("inside", "given"), [("test", "."), ("test", "000002"), ("test/000002", ".")]
)
def test_paths_may_be_relative(tmp_path, monkeypatch, inside, given):
    root = scene(tmp_path / "test/000002")
    monkeypatch.chdir(tmp_path / inside)
    captures = read_real_images(Path(given))
    assert [o.category for o in captures.samples[0].objects] == ["obj_000005"]
    assert [s.rgb for s in captures.samples] == [root / "rgb/000003.png"]


def test_boxes_end_at_the_pictures_edge(tmp_path):
    root = scene(tmp_path, info={"bbox_obj": [-7, 2, 100, 40]})
    assert read_real_images(root).samples[0].objects[0].box_amodal_xyxy == (0, 2, 48, 32)


def test_what_is_hidden_whole_is_left_out(tmp_path):
    hidden = {"bbox_visib": [-1, -1, -1, -1], "px_count_visib": 0, "visib_fract": 0.0}
    assert read_real_images(scene(tmp_path, info=hidden)).samples[0].objects == ()


def test_parts_have_their_use(tmp_path):
    scene(tmp_path / "train_pbr/000000")
    scene(tmp_path / "train_real/000000")
    scene(tmp_path / "test/000000")
    sets = split_real_images(tmp_path)
    assert (len(sets.style.samples), len(sets.test.samples)) == (2, 1)


BAD = {
    "no JSON": ({"scene_gt": "{"},
     "scene_gt.json: not JSON (Expecting property name enclosed in double quotes: line 1 column 2 "
     "(char 1)). "),
    "a list": ({"scene_camera": "[]"},
     "scene_camera.json: Input should be a valid dictionary (found []). "),
    "a number of words": ({"number": "three"},
     "scene_camera.json: three: Input should be a valid integer, unable to parse string as "
     'an integer (found "three"). '),
    "a matrix of eight": ({"camera": {"cam_K": [1] * 8}},
     "scene_camera.json: 3.cam_K: List should have at least 9 items after validation, not 8 (found "
     "[1, 1, 1, 1, 1, 1, 1, 1]). "),
    "a skew": ({"camera": {"cam_K": [50, 1, 24, 0, 50, 16, 0, 0, 1]}},
     "scene_camera.json: image 3: cam_K must be fx 0 cx, 0 fy cy, 0 0 1. "),
    "no focal length": ({"camera": {"cam_K": [0, 0, 24, 0, 50, 16, 0, 0, 1]}},
     "scene_camera.json: image 3: fx_px of a lens is 0.0. It must be above 0."),
    "no rotation": ({"gt": {"cam_R_m2c": [1, 0, 0, 0, 2, 0, 0, 0, 1]}},
     "scene_gt.json: image 3, object 0: cam_R_m2c is not a rotation, or cam_t_m2c is not finite. "),
    "a mirror": ({"gt": {"cam_R_m2c": [1, 0, 0, 0, 1, 0, 0, 0, -1]}},
     "scene_gt.json: image 3, object 0: cam_R_m2c is not a rotation, or cam_t_m2c is not finite. "),
    "nowhere": ({"scene_gt": json.dumps({"3": [GT | {"cam_t_m2c": [0, 0, float("nan")]}]})},
     "scene_gt.json: image 3, object 0: cam_R_m2c is not a rotation, or cam_t_m2c is not finite. "),
    "no such picture": ({"number": "4"},
     ": image 4 of scene_camera.json is missing in rgb/ and gray/. Copy the scene again."),
    "an object too many": ({"scene_gt_info": '{"3": []}'},
     "scene_gt_info.json: image 3: 0 objects, but scene_gt.json has 1. Run calc_gt_info.py again."),
    "an impossible box": ({"info": {"bbox_visib": [1, 2, -5, 4]}},
     "scene_gt_info.json: image 3, object 0: invalid box or visib_fract. "),
    "a box beside the picture": ({"info": {"bbox_obj": [48, 2, 5, 4]}},
     "scene_gt_info.json: image 3, object 0: invalid box or visib_fract. "),
    "more than all of it": ({"info": {"visib_fract": 1.5}},
     "scene_gt_info.json: image 3, object 0: invalid box or visib_fract. "),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), BAD.values(), ids=BAD)
def test_bad_files_are_answered_exactly(tmp_path, changes, problem):
    root = scene(tmp_path / "test/000002", **changes)
    with pytest.raises(InputError) as caught:
        read_real_images(root)
    place = str(root) if problem.startswith(":") else f"{root}/"
    cure = SKIP if ", object 0: " in problem else CURE
    assert str(caught.value) == place + problem + (cure if problem.endswith(". ") else "")


@pytest.mark.real
@pytest.mark.skipif(not LMO.is_dir(), reason="needs lmo in $SIM2CAM_REAL")
def test_lmo_is_read_whole():
    dataset = read_real_images(LMO / "test")
    assert (len(dataset.samples), len(dataset.categories)) == (200, 8)
    labels = [label for sample in dataset.samples for label in sample.objects]
    assert len(labels) == 1514  # of 1517 poses, three are hidden whole
    assert all(0.3 < label.pose.position_m[2] < 1.6 for label in labels)


def sensors(folder, *names):
    """A scene whose tables are of several sensors, as those of BOP of 2024."""
    scene(folder)
    for path in list(folder.glob("scene_*.json")):
        for name in names:
            shutil.copy(path, path.with_name(f"{path.stem}_{name}.json"))
        path.unlink()
    return folder


def test_of_several_sensors_rgb_is_read(tmp_path):
    one = read_real_images(scene(tmp_path / "a/test/000002")).samples
    root = sensors(tmp_path / "b/test/000002", "gray1", "rgb")
    several = read_real_images(root).samples
    assert [s.objects for s in several] == [s.objects for s in one]
    assert [s.lens for s in several] == [s.lens for s in one]
    assert len(read_pose_images([root])) == 1


def test_sensors_of_other_names_are_named(tmp_path):
    root = sensors(tmp_path / "test/000002", "cam1", "cam2")
    message = error_text(read_real_images, root)
    assert message == (
        f"{root}: has images of the sensors cam1, cam2, but not of rgb. Rename the files of one sensor, e.g. scene_camera_cam1.json to scene_camera.json."
    )


def test_poses_without_boxes_name_what_calculates_them(tmp_path):
    root = scene(tmp_path / "train_pbr/000000")
    (root / "scene_gt_info.json").unlink()
    message = error_text(read_real_images, root)
    assert message == (
        f"{root}/scene_gt_info.json: missing, with boxes and visibility of the poses in scene_gt.json. Create it with calc_gt_info.py of bop_toolkit."
    )


def test_flawed_objects_can_be_left_out(tmp_path):
    root = scene(tmp_path, info={"visib_fract": 7})
    with pytest.warns(RepairWarning, match="1 flawed annotation is left out"):
        assert read_real_images(root, skip_invalid=True).samples[0].objects == ()
