import numpy as np
import pytest

from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX
from sim2cam.models.network.targets import make_targets, stack_targets
from sim2cam.models.training.images import Keypoints

NONE = np.zeros((0, 4))


def targets(boxes, categories=None, ignored=NONE, size=(96, 128)):
    boxes = np.array(boxes, np.float64).reshape(-1, 4)
    categories = np.arange(len(boxes)) if categories is None else np.array(categories)
    return make_targets(boxes, categories, np.array(ignored, np.float64).reshape(-1, 4), size)


def test_one_centre_an_object_and_sides_that_give_the_box_back():
    boxes = [(10.0, 20.0, 51.0, 60.0), (70.0, 5.0, 101.0, 31.0)]
    made = targets(boxes, [3, 1])
    rows, columns = np.nonzero(made.heatmap == 1)
    assert len(rows) == 2
    for index, (row, column) in enumerate(
        sorted(zip(rows, columns, strict=True), key=lambda cell: cell[1])
    ):
        left, top, right, bottom = np.exp(made.log_sides[:, row, column]) * UNIT_PX
        x, y = (column + 0.5) * STRIDE_PX, (row + 0.5) * STRIDE_PX
        assert (x - left, y - top, x + right, y + bottom) == pytest.approx(boxes[index], abs=1e-3)
        assert made.categories[row, column] == (3, 1)[index]


def test_every_object_weighs_one_however_large():
    made = targets([(0, 0, 12, 12), (30, 10, 120, 90)], [0, 1])
    for category in (0, 1):
        chosen = (made.object_weight > 0) & (made.categories == category)
        assert made.object_weight[chosen].sum() == pytest.approx(1)
    assert made.object_weight.sum() == pytest.approx(2)


def test_sides_of_every_learned_cell_reach_the_box():
    box = (30.0, 10.0, 120.0, 90.0)
    made = targets([box])
    rows, columns = np.nonzero(made.object_weight)
    assert len(rows) > 5
    sides = np.exp(made.log_sides[:, rows, columns]) * UNIT_PX
    x, y = (columns + 0.5) * STRIDE_PX, (rows + 0.5) * STRIDE_PX
    given = np.stack([x - sides[0], y - sides[1], x + sides[2], y + sides[3]])
    assert given == pytest.approx(np.array(box)[:, None].repeat(len(rows), 1), abs=1e-3)


def test_nothing_is_learned_in_ignored_regions_but_of_objects_there():
    made = targets([(40, 40, 64, 64)], ignored=[(32, 32, 96, 72), (-20, -9, 3, 5)])
    assert made.heatmap_weight[8:18, 8:24].min() == 0
    assert made.heatmap_weight[13, 13] == 1  # the object's centre
    assert made.heatmap_weight[13, 20] == 0
    assert made.heatmap_weight[0, 0] == made.heatmap_weight[1, 0] == 0
    assert made.heatmap_weight[3, 0] == made.heatmap_weight[8, 25] == 1


def test_outside_the_boxes_nothing_is_learned_where_objects_may_lack_labels():
    boxes = np.array([(40.0, 40.0, 64.0, 64.0)])
    ignored = np.array([(56.0, 40.0, 96.0, 64.0)])
    made = make_targets(boxes, np.array([0]), ignored, (96, 128), is_fully_labelled=False)
    learned = np.zeros((24, 32), np.float32)
    learned[10:16, 10:14] = 1  # the box without the ignored region, 4 px a cell
    assert (made.heatmap_weight == learned).all()
    nothing = make_targets(NONE, np.zeros(0, np.int64), NONE, (96, 128), is_fully_labelled=False)
    assert not nothing.heatmap_weight.any()


def test_an_empty_crop_learns_that_nothing_is_there():
    made = targets([])
    assert made.heatmap.max() == made.object_weight.max() == 0
    assert made.heatmap_weight.min() == 1


def test_two_objects_that_share_cells_keep_their_own():
    made = targets([(10, 10, 50, 50), (18, 10, 58, 50)], [0, 1])
    row = 7
    assert made.heatmap[row, 7] == made.heatmap[row, 9] == 1
    assert made.categories[row, 7] == 0
    assert made.categories[row, 9] == 1


def test_centre_on_the_edge_stays_inside():
    assert (targets([(100, 80, 156, 112)]).heatmap == 1).sum() == 1


def test_each_learned_cell_knows_its_object():
    made = targets([(0, 0, 12, 12), (30, 10, 120, 90)], [3, 5])
    assert np.array_equal(made.object_indices >= 0, made.object_weight > 0)
    assert set(made.categories[made.object_indices == 0]) == {3}
    assert set(made.categories[made.object_indices == 1]) == {5}
    assert made.keypoints is None


def points_of(numbers, points):
    """Keypoints of objects, each of which has its number for places."""
    places = np.tile(np.array(numbers)[:, None, None], (1, points, 2))
    return Keypoints(places, np.ones(places.shape[:2]), np.zeros(places.shape[:2], int))


def test_keypoints_go_with_their_objects():
    crops = []
    for number, count in enumerate((1, 0, 2)):
        boxes = np.array([(8.0, 8, 40, 40), (50, 50, 90, 90)])[:count]
        labels = points_of([float(number)] * count, 3)
        crops.append(
            make_targets(boxes, np.zeros(count, np.int64), NONE, (96, 128), keypoints=labels)
        )
    whole = stack_targets(crops)
    assert whole.keypoints[:, 0, 0].tolist() == [0, 2, 2]
    assert whole.keypoint_visibility.shape == (3, 3)
    owners = [sorted(set(indices.ravel())) for indices in whole.object_indices]
    assert owners == [[-1, 0], [-1], [-1, 1, 2]]
    assert stack_targets([targets([(0, 0, 12, 12)])]).keypoints is None


def test_heat_lies_on_what_is_seen_and_sides_reach_the_whole_object():
    whole, seen = np.array([[20.0, 16, 84, 72]]), np.array([[64.0, 24, 84, 44]])
    made = make_targets(whole, np.array([2]), NONE, (96, 128), visible_boxes_xyxy=seen)
    ((row, column),) = np.argwhere(made.heatmap == 1)
    assert (column, row) == (int(74 / STRIDE_PX), int(34 / STRIDE_PX))
    rows, columns = np.nonzero(made.object_weight)
    x, y = (columns + 0.5) * STRIDE_PX, (rows + 0.5) * STRIDE_PX
    assert ((x > 64) & (x < 84) & (y > 24) & (y < 44)).all()
    left, top, right, bottom = np.exp(made.log_sides[:, rows, columns]) * UNIT_PX
    for got, edge in zip((x - left, y - top, x + right, y + bottom), whole[0], strict=True):
        assert got == pytest.approx(edge, abs=1e-3)
    plain = make_targets(whole, np.array([2]), NONE, (96, 128), visible_boxes_xyxy=whole)
    for name, value in vars(targets(whole, [2])).items():
        assert np.array_equal(getattr(plain, name), value), name
