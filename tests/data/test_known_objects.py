import json
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.data.known_objects import (
    ObjectGeometry,
    read_object_geometries,
    stack_symmetry_rotations,
)
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.poses import Pose
from sim2cam.scene.symmetry import CUBE, CUBOID, CYLINDER, NO_SYMMETRIES, Symmetries
from tests.support.errors import error_text

BRICK = ((-0.03, -0.02, -0.01), (0.03, 0.02, 0.01))
SOMEWHERE = Pose()
HALF_TURN = Symmetries(rotations_wxyz=((0.0, 0.0, 0.0, 1.0),))
NONE = {"rotations_wxyz": [], "axes": []}


def label(category="brick", extent=BRICK, pose=SOMEWHERE):
    return ObjectLabel(category, (1.0, 1.0, 9.0, 9.0), 60.0, pose=pose, extent_m=extent)


def kinds(**symmetries):
    return {"objects": {n: {"categories": [n], "symmetries": s} for n, s in symmetries.items()}}


@pytest.fixture
def make(tmp_path):
    """A function that returns a data set of one picture, whose folder holds a header alone."""

    def made(*labels, categories=("brick",), name="sim", **header):
        root = tmp_path / name
        root.mkdir()
        facts = {"format": 2, "categories": categories, **(header or kinds(brick=NONE))}
        (root / "dataset.json").write_text(json.dumps(facts))
        return Dataset(root, categories, (Sample("0", root / "0.jpg", 16, 16, labels, "sim"),))

    return made


def test_sizes_come_from_labels_and_symmetries_from_the_header(make):
    both = make(
        label(),
        label("tin"),
        categories=("tin", "brick"),
        **kinds(brick={"rotations_wxyz": [[0, 0, 0, 1]]}, tin={"axes": [[0, 0, 1]]}),
    )
    assert read_object_geometries([both]) == {
        "tin": ObjectGeometry(BRICK, Symmetries(axes=((0.0, 0.0, 1.0),))),
        "brick": ObjectGeometry(BRICK, HALF_TURN),
    }


def test_those_of_files_are_in_the_recipe(make):
    asset = {"mesh": {"category": "brick"}, "symmetries": {"rotations_wxyz": [[0, 0, 0, 1]]}}
    assert (
        read_object_geometries([make(label(), recipe={"assets": [asset]})])["brick"].symmetries
        == HALF_TURN
    )


def test_photos_without_poses_and_translations_may_stand_beside(make):
    sim = make(label())
    parent = json.dumps({"format": 2, "categories": ["brick"], "parent": "../sim"})
    (sim.root.parent / "adapted").mkdir()
    (sim.root.parent / "adapted/dataset.json").write_text(parent)
    adapted = replace(sim, root=sim.root.parent / "adapted")
    photos = replace(make(label(pose=None), label(extent=None), name="photos"))
    (photos.root / "dataset.json").unlink()
    assert read_object_geometries([photos, adapted]) == read_object_geometries([sim]) != {}


@pytest.mark.parametrize(("off", "same"), [(1e-12, True), (1e-3, False)])
def test_turns_that_machines_round_otherwise_are_the_same(make, off, same):
    headers = [
        {"objects": {"a": {"categories": ["brick"], "symmetries": {
            "rotations_wxyz": [[0, 0, 0, 1 - move]], "axes": [[move, 0, 1]]}}}}
        for move in (0, off)
    ]  # fmt: skip
    sets = [make(label(), name=f"set{n}", **header) for n, header in enumerate(headers)]
    one, other = (read_object_geometries([each])["brick"] for each in sets)
    assert one.matches(other) == same
    if same:
        assert read_object_geometries(sets)["brick"] == one
    else:
        with pytest.raises(InputError, match="differ in symmetries"):
            read_object_geometries(sets)
    assert not one.matches(replace(one, symmetries=replace(one.symmetries, axes=())))


def test_clutter_may_look_the_same_after_different_turns(make):
    turns = [[[0, 0, 1]], [[1, 0, 0]]]
    clutter = [{"mesh": {"category": ""}, "symmetries": {"axes": axes}} for axes in turns]
    brick = {"mesh": {"category": "brick"}, "symmetries": {}}
    sim = make(label(), recipe={"assets": [brick, *clutter]})
    assert set(read_object_geometries([sim])) == {"brick"}


BAD = [
    ("hidden", (label(pose=None),), {},
     "no object of category 'brick' has a pose and a size. Add rendered datasets that show it, or train without poses."),
    ("silent", (label(),), {"recipe": {"name": "bricks"}},
     "symmetries of category 'brick' are not recorded. Render it again with "
     "the channel symmetries among --channels."),
    ("sizes", (label(), label(extent=((-0.03, -0.02, -0.01), (0.03, 0.02, 0.02)))), {},
     "objects of category 'brick' differ in size: 60 x 40 x 20 mm and 60 x 40 x 30 mm. Pose estimation needs one size per category. Give each size a category, or train without poses."),
    ("ball", (label(),), kinds(brick={"axes": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}),
     "objects of category 'brick' look the same in every orientation and have no pose to estimate. Train without poses."),
    ("kinds", (label(),), {"objects": {"a": {"categories": ["brick"], "symmetries": NONE},
     "b": {"categories": ["brick"], "symmetries": {"axes": [[0, 0, 1]]}}}},
     "objects of category 'brick' differ in symmetries. Pose estimation needs the same symmetries throughout a category. Give each kind a category, or train without poses."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "labels", "header", "text"), BAD, ids=[row[0] for row in BAD])
def test_what_has_no_pose_to_learn_is_refused(make, name, labels, header, text):
    data = make(*labels, **header)
    assert error_text(read_object_geometries, [data]) == f"{data.root}: {text}"


def test_a_broken_header_is_named(make):
    data = make(label(), objects={"brick": {"categories": "brick", "symmetries": NONE}})
    with pytest.raises(InputError, match=r"dataset\.json: .* Render the dataset again\.$"):
        read_object_geometries([data])


@pytest.mark.parametrize(
    ("symmetries", "count"),
    [(NO_SYMMETRIES, 1), (CUBOID, 4), (CUBE, 24)],
    ids=["none", "cuboid", "cube"],
)
def test_turns_that_change_nothing_exchange_corners(symmetries, count):
    half = (0.01, 0.01, 0.01) if symmetries is not CUBOID else (0.03, 0.02, 0.01)
    low = tuple(-side for side in half)
    known = ObjectGeometry((low, half), symmetries)
    turns = known.compute_symmetry_rotations()
    assert turns.shape == (count, 3, 3)
    assert np.array_equal(turns[0], np.eye(3))
    assert np.linalg.det(turns) == pytest.approx(1)
    turned = known.compute_corners_m() @ turns.transpose(0, 2, 1)
    corners = {tuple(row) for row in turned[0].round(9)}
    assert all({tuple(row) for row in one.round(9) + 0.0} == corners for one in turned)
    assert len({tuple(one.round(9).ravel()) for one in turned}) == count


def test_a_cylinder_turns_in_small_steps_and_others_are_filled_up():
    tin = ObjectGeometry(BRICK, CYLINDER)
    turns = tin.compute_symmetry_rotations()
    turned = tin.compute_corners_m() @ turns.transpose(0, 2, 1)
    radius = np.hypot(0.03, 0.02)
    assert np.hypot(turned[..., 0], turned[..., 1]) == pytest.approx(radius)
    assert set(np.abs(turned[..., 2]).ravel().round(9)) == {0.01}
    nearest = np.linalg.norm(turned[1:, 0] - turned[0, 0], axis=1).min()
    assert 0 < nearest < 0.025 * radius
    both = stack_symmetry_rotations([tin, ObjectGeometry(BRICK)])
    assert both.shape == (2, *turns.shape)
    assert np.array_equal(both[0], turns)
    assert (both[1] == np.eye(3)).all()


def test_no_point_of_an_object_reaches_further_from_its_origin_than_its_reach():
    assert ObjectGeometry(BRICK).max_coordinate_m == 0.03
    assert ObjectGeometry(((-0.01, -0.05, 0.0), (0.01, 0.04, 0.02))).max_coordinate_m == 0.05
