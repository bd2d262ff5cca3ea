import math

import numpy as np
import pytest
import torch

from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.models.augment.crops import SegmentationLabels
from sim2cam.models.losses.detection import (
    TargetTensors,
    detector_losses,
    generalized_iou,
    heatmap_loss,
    roi_category_loss,
    surface_losses,
)
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectionMaps
from sim2cam.models.network.roi_classifier import SURFACE_BINS, SurfaceMaps
from sim2cam.models.network.targets import make_targets, stack_targets
from sim2cam.models.training.images import Keypoints

CPU = torch.device("cpu")


def tensors_of(boxes, categories, ignored=(), keypoints=None, segments=None, is_read=None):
    made = make_targets(
        np.array(boxes, np.float64).reshape(-1, 4),
        np.array(categories, np.int64),
        np.array(ignored, np.float64).reshape(-1, 4),
        (64, 64),
        keypoints,
        segments,
        None if is_read is None else np.array(is_read),
    )
    return TargetTensors.from_targets(stack_targets([made]), CPU)


def perfect_maps(targets):
    heat = torch.where(targets.heatmap == 1, 12.0, -12.0)
    classes = torch.zeros(1, 2, 16, 16)
    for category in (0, 1):
        classes[:, category] = torch.where(targets.categories == category, 9.0, -9.0)
    return DetectionMaps(heat, targets.log_sides.clone(), classes)


def test_saying_the_truth_costs_next_to_nothing():
    targets = tensors_of([(8, 8, 40, 44), (40, 30, 60, 56)], [0, 1])
    losses = detector_losses(perfect_maps(targets), targets)
    assert losses["heatmap"] < 1e-3
    assert losses["box"] < 1e-5
    assert losses["category"] < 0.3  # smoothed labels are never reached


@pytest.mark.parametrize("name", ["heatmap", "box", "category"])
def test_each_error_costs_in_its_own_term(name):
    targets = tensors_of([(8, 8, 40, 44)], [0])
    maps = perfect_maps(targets)
    before = detector_losses(maps, targets)
    {"heatmap": maps.heatmap, "box": maps.log_sides, "category": maps.class_logits}[name].mul_(-1)
    after = detector_losses(maps, targets)
    for term, value in after.items():
        assert (value > before[term] + 0.1) == (term == name), term


def test_a_category_that_is_not_learned_costs_nothing():
    boxes = [(8, 8, 30, 34), (40, 30, 60, 56)]
    first = tensors_of(boxes, [0, 1], is_read=[True, False])
    generator = torch.Generator().manual_seed(0)
    said = torch.randn(1, 2, 16, 16, generator=generator, requires_grad=True)
    maps = perfect_maps(first)._replace(class_logits=said)
    losses = detector_losses(maps, first)
    losses["category"].backward()
    learned = first.object_weight * (first.categories == 0)  # of the second object all are 1
    assert torch.equal(said.grad[0].abs().sum(0) > 0, learned[0] > 0)
    alone = detector_losses(maps, tensors_of(boxes[:1], [0]))["category"]
    assert losses["category"].item() == pytest.approx(alone.item(), rel=1e-6)
    whole = detector_losses(maps, tensors_of(boxes, [0, 1]))
    assert {name: losses[name] for name in ("heatmap", "box")} == {
        n: whole[n] for n in ("heatmap", "box")
    }
    none = detector_losses(maps, tensors_of(boxes, [0, 1], is_read=[False, False]))
    assert none["category"] == 0
    every = detector_losses(maps, tensors_of(boxes, [0, 1], is_read=[True, True]))
    assert every == whole


def test_reading_is_the_mean_of_close_ups_that_show_a_category():
    logits = torch.tensor([[1.0, -1.0, 0.5], [0.0, 2.0, 0.0], [9.0, 0.0, 0.0]])
    log_shares = torch.log_softmax(logits, 1)
    expected = -sum(
        0.98 * log_shares[row, category] + 0.02 * log_shares[row].mean()
        for row, category in ((0, 2), (1, 1))
    )
    found = roi_category_loss(logits, torch.tensor([2, 1, -1]))
    assert found.item() == pytest.approx(expected.item() / 2, rel=1e-5)
    assert roi_category_loss(logits, torch.full((3,), -1)) == 0


def test_focal_loss_by_hand():
    logits = torch.tensor([0.0, math.log(3.0)])
    heat, weight = torch.tensor([1.0, 0.5]), torch.ones(2)
    expected = 0.25 * math.log(2) + 0.5**4 * 0.75**2 * math.log(4)
    assert heatmap_loss(logits, heat, weight) == pytest.approx(expected, rel=1e-5)


def test_ignored_cells_get_no_gradient():
    targets = tensors_of([], [], ignored=[(0, 0, 32, 64)])
    heat = torch.zeros(1, 16, 16, requires_grad=True)
    maps = DetectionMaps(heat, torch.zeros(1, 4, 16, 16), torch.zeros(1, 2, 16, 16))
    detector_losses(maps, targets)["heatmap"].backward()
    assert heat.grad[..., :8].abs().max() == 0
    assert heat.grad[..., 8:].abs().min() > 0


def test_without_objects_all_terms_are_defined():
    losses = detector_losses(
        DetectionMaps(torch.zeros(1, 16, 16), torch.zeros(1, 4, 16, 16), torch.zeros(1, 2, 16, 16)),
        tensors_of([], []),
    )
    assert losses["box"] == losses["category"] == 0
    assert torch.isfinite(losses["heatmap"])


def test_generalized_iou_is_iou_less_the_empty_part_of_the_hull():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 9, (50, 4)), rng.uniform(1, 9, (50, 4))
    ours = generalized_iou(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    signs = np.array([-1, -1, 1, 1])
    for index in range(50):
        box_a, box_b = a[index] * signs, b[index] * signs
        iou = pairwise_iou(box_a[None], box_b[None])[0, 0]
        areas = [(v[0] + v[2]) * (v[1] + v[3]) for v in (a[index], b[index])]
        union = sum(areas) / (1 + iou)
        far = np.maximum(a[index], b[index])
        hull = (far[0] + far[2]) * (far[1] + far[3])
        assert ours[index] == pytest.approx(iou - (hull - union) / hull)


BOX = (8, 8, 40, 44)
POINTS = 8
PLACES = np.random.default_rng(1).uniform(0, 60, (POINTS, 2))


def saying(places, log_spread, category=1):
    """Perfect maps that say these places (8, 2) of the keypoints in every cell, of one category; whether they
    are seen is left open.
    """
    targets = tensors_of([BOX], [1])
    maps = perfect_maps(targets)
    row, column = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    centres = (torch.stack([column, row]) + 0.5) * STRIDE_PX  # (2, 16, 16)
    unit_px = maps.log_sides[0].mean(0).exp() * UNIT_PX
    keypoints = torch.zeros(1, 2, POINTS, 4, 16, 16)
    places = torch.from_numpy(places).float()[:, :, None, None]
    keypoints[0, category, :, :2] = (places - centres) / unit_px
    keypoints[0, category, :, 2] = log_spread
    return maps._replace(keypoints=keypoints.requires_grad_())


def labelled(*places, seen=None):
    """Keypoints of objects, each of which has them at places (8, 2)."""
    seen = np.ones((len(places), POINTS)) if seen is None else np.array(seen)
    return Keypoints(np.stack(places), seen, np.tile(np.arange(POINTS), (len(places), 1)))


def keypoint_losses(maps, places, seen=None):
    labels = labelled(places, seen=None if seen is None else [seen])
    return detector_losses(maps, tensors_of([BOX], [1], keypoints=labels))


def keypoint_loss(maps, places):
    return keypoint_losses(maps, places)["keypoints"]


def test_right_keypoints_cost_only_what_they_are_not_sure_of():
    for log_spread in (-4.0, -1.0, 0.0):
        losses = keypoint_losses(saying(PLACES, log_spread), PLACES)
        assert losses["keypoints"].item() == pytest.approx(2 * log_spread, abs=1e-4)
        assert losses["keypoint_visibility"].item() == pytest.approx(math.log(2), abs=1e-5)
    assert (
        keypoint_loss(saying(PLACES, 0.0, category=0), PLACES).item() > 0.3
    )  # of the other category


def test_the_best_spread_is_the_distance():
    """Of a Laplace distribution in two coordinates the likeliest scale is half their summed distance."""
    off = np.array([3.0, -1.0])
    unit_px = (saying(PLACES, 0.0).log_sides[0].mean(0).exp() * UNIT_PX)[6, 6].item()
    best = math.log(2.0 / unit_px)
    losses = [
        keypoint_loss(saying(PLACES + off, best + step), PLACES).item() for step in (-0.3, 0.0, 0.3)
    ]
    assert losses[1] < min(losses[0], losses[2])


def test_keypoints_of_objects_that_have_none_are_not_learned():
    maps = saying(PLACES + 3.0, -1.0)
    keypoint_loss(maps, np.full((POINTS, 2), np.nan)).backward()
    assert maps.keypoints.grad.abs().max() == 0
    both = tensors_of([BOX, (44, 44, 62, 62)], [1, 0],
                      keypoints=labelled(PLACES, np.full((POINTS, 2), np.nan)))  # fmt: skip
    alone = keypoint_loss(maps, PLACES).item()
    assert detector_losses(maps, both)["keypoints"].item() == pytest.approx(alone, abs=1e-4)


def test_gradients_reach_the_head_and_move_places_toward_the_truth():
    maps = saying(PLACES + 3.0, -1.0)
    keypoint_loss(maps, PLACES).backward()
    gradient = maps.keypoints.grad[0]
    assert gradient[0].abs().max() == 0  # the other category
    learned = tensors_of([BOX], [1]).object_weight[0] > 0
    assert (gradient[1, :, :2][..., learned] > 0).all()
    assert gradient[1, :, :2][..., ~learned].abs().max() == 0
    assert gradient[1, :, 2][..., learned].abs().min() > 0


def test_keypoints_that_are_not_known_are_not_learned_and_the_others_are():
    known = np.arange(8) % 3 > 0
    maps = saying(PLACES + 3.0, -1.0)
    some = np.where(known[:, None], PLACES, np.nan)
    seen = np.where(known, np.arange(8) % 2, np.nan)
    losses = keypoint_losses(maps, some, seen)
    whole = keypoint_loss(maps, PLACES).item()
    assert losses["keypoints"].item() == pytest.approx(whole, abs=1e-4)
    (losses["keypoints"] + losses["keypoint_visibility"]).backward()
    gradient = maps.keypoints.grad[0, 1].abs().amax(dim=(2, 3)).numpy()  # (points, numbers)
    assert (gradient[known] > 0).all()
    assert gradient[~known].max() == 0
    assert not maps.keypoints.grad.isnan().any()
    maps = saying(PLACES + 3.0, -1.0)
    losses = keypoint_losses(maps, np.full((8, 2), np.nan), np.full(8, np.nan))
    (losses["keypoints"] + losses["keypoint_visibility"]).backward()
    assert maps.keypoints.grad.abs().max() == 0


def test_each_keypoint_learns_whether_it_is_seen():
    seen = np.arange(8) % 2
    maps = saying(PLACES, -1.0)
    keypoint_losses(maps, PLACES, seen)["keypoint_visibility"].backward()
    learned = tensors_of([BOX], [1]).object_weight[0] > 0
    push = maps.keypoints.grad[0, 1, :, 3][:, learned].mean(dim=1)
    assert (push < 0).tolist() == (seen == 1).tolist()


def segment_losses(said, votes):
    """The losses of cells that show, from left to right: unknown, nothing, and the second category."""
    shown = np.repeat([-1, 0, 0, 2], 4)[None].repeat(16, axis=0)
    target = np.where(shown > 0, 1.5, 0.0)[None].repeat(2, axis=0)
    targets = tensors_of([BOX], [1], segments=SegmentationLabels(shown, target, shown))
    maps = perfect_maps(targets)._replace(segmentation=said, centre_offsets=votes)
    return detector_losses(maps, targets), torch.from_numpy(shown)


def test_cells_learn_what_they_show_and_those_of_objects_where_its_centre_is():
    said = torch.zeros(1, 3, 16, 16, requires_grad=True)
    votes = torch.zeros(1, 2, 16, 16, requires_grad=True)
    losses, shown = segment_losses(said, votes)
    assert losses["semantic"].item() == pytest.approx(math.log(3), abs=1e-5)
    assert losses["centre_offsets"].item() == pytest.approx(3.0)  # of both coordinates
    (losses["semantic"] + losses["centre_offsets"]).backward()
    assert said.grad[0][:, shown < 0].abs().max() == 0
    for kind in (0, 2):
        assert (said.grad[0, kind][shown == kind] < 0).all()
    assert votes.grad[0][:, shown <= 0].abs().max() == 0
    assert (votes.grad[0][:, shown > 0] < 0).all()


def test_without_a_known_cell_masks_cost_nothing():
    unknown = np.full((16, 16), -1)
    targets = tensors_of(
        [], [], segments=SegmentationLabels(unknown, np.zeros((2, 16, 16)), unknown)
    )
    maps = perfect_maps(targets)._replace(
        segmentation=torch.zeros(1, 3, 16, 16), centre_offsets=torch.ones(1, 2, 16, 16)
    )
    losses = detector_losses(maps, targets)
    assert losses["semantic"] == losses["centre_offsets"] == 0


CELLS = 6
HALF_TURN, QUARTER_TURN = (
    torch.tensor([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) for c, s in ((-1.0, 0.0), (0.0, 1.0))
)
TURNS = torch.stack(
    [torch.stack([torch.eye(3), other]) for other in (torch.eye(3), HALF_TURN)]
)  # objects of the second category look the same after half a turn


def shown_points(*shares, seed=0):
    """Points (n, 3, h, w) of close-ups, each of which shows its object in the first share of its cells."""
    points = torch.rand(len(shares), 3, CELLS, CELLS, generator=torch.Generator().manual_seed(seed))
    order = torch.arange(CELLS**2).view(CELLS, CELLS) / CELLS**2
    hidden = torch.stack([order >= share for share in shares])
    return (2 * points - 1).masked_fill(hidden[:, None], float("nan"))


def bins_of(points):
    """Logits (n, 3, b, h, w) of someone who is sure of points (n, 3, h, w), each between two bins."""
    place = (points.nan_to_num(0.9) + 1) / 2 * (SURFACE_BINS - 1)
    number = torch.arange(SURFACE_BINS)[:, None, None]
    return (1 - (place[:, :, None] - number).abs()).clamp(min=1e-12).log()


def on_bins(points):
    """The nearest points at which all coordinates lie on bins."""
    half = (SURFACE_BINS - 1) / 2
    return (points * half + half).round() / half - 1


def saying_points(points, logit=20.0):
    """What a reader says that knows which cells show something, and which points."""
    shown = torch.where(points[:, 0].isfinite(), logit, -logit)
    return SurfaceMaps(shown.requires_grad_(), bins_of(points).requires_grad_())


def losses_of_surfaces(said, categories, truth):
    return surface_losses(said, truth, TURNS[categories])


def turned(points, turn):
    return torch.einsum("ij,njhw->nihw", turn, points)


def test_right_points_cost_nothing_but_what_lies_between_bins():
    truth = shown_points(0.5, 0.2)
    exact = on_bins(truth)
    losses = losses_of_surfaces(saying_points(exact), [0, 1], exact)
    assert losses["surface_coordinates"].item() == pytest.approx(0, abs=1e-4)
    assert losses["surface_mask"].item() == pytest.approx(0, abs=1e-6)
    between = (exact + 1 / (SURFACE_BINS - 1)).clamp(max=1 - 1 / (SURFACE_BINS - 1))
    said = saying_points(between)
    losses = losses_of_surfaces(said, [0, 1], between)
    assert losses["surface_coordinates"].item() == pytest.approx(math.log(2), abs=1e-4)
    losses["surface_coordinates"].backward()
    assert said.coordinate_logits.grad.abs().max() < 1e-5  # it cannot be told better
    assert losses_of_surfaces(saying_points(-exact), [0, 1], exact)["surface_coordinates"] > 5


def test_not_to_know_costs_as_much_everywhere():
    truth = shown_points(0.5, 0.2)
    said = saying_points(truth)
    ignorant = said._replace(coordinate_logits=torch.zeros_like(said.coordinate_logits))
    cost = losses_of_surfaces(ignorant, [0, 1], truth)["surface_coordinates"].item()
    assert cost == pytest.approx(math.log(SURFACE_BINS), abs=1e-5)


def test_cells_learn_whether_they_show_the_object():
    truth = shown_points(0.5)
    said = saying_points(truth, logit=0.0)
    losses = losses_of_surfaces(said, [0], truth)
    assert losses["surface_mask"].item() == pytest.approx(math.log(2), abs=1e-6)
    losses["surface_mask"].backward()
    push = said.mask_logits.grad[0]
    assert torch.equal(push < 0, truth[0, 0].isfinite())
    assert push.abs().min() > 0


def test_any_turn_that_changes_nothing_is_right_for_a_whole_close_up():
    truth = on_bins(shown_points(0.7, seed=1))
    for category, is_same in ((0, False), (1, True)):
        whole = saying_points(turned(truth, HALF_TURN))
        cost = losses_of_surfaces(whole, [category], truth)["surface_coordinates"].item()
        assert cost < 1e-4 if is_same else cost > 5
        quarter = saying_points(turned(truth, QUARTER_TURN))
        assert losses_of_surfaces(quarter, [category], truth)["surface_coordinates"].item() > 5
    mixed = truth.clone()
    mixed[..., ::2] = turned(truth, HALF_TURN)[..., ::2]  # half of it after the turn
    assert losses_of_surfaces(saying_points(mixed), [1], truth)["surface_coordinates"].item() > 2.5


def test_what_a_coordinate_may_be_besides_stays_possible():
    """Of a point that lies here in one close-up and there in another that looks the same, both are learned."""
    here, there = torch.full((1, 3, 1, 1), -0.6), torch.full((1, 3, 1, 1), 0.6)
    said = SurfaceMaps(torch.zeros(1, 1, 1), torch.zeros(1, 3, SURFACE_BINS, 1, 1).requires_grad_())
    for _ in range(300):
        costs = [
            losses_of_surfaces(said, [0], truth)["surface_coordinates"] for truth in (here, there)
        ]
        (step,) = torch.autograd.grad(sum(costs), said.coordinate_logits)
        said = said._replace(
            coordinate_logits=(said.coordinate_logits - 3 * step).detach().requires_grad_()
        )
    share = said.coordinate_logits.detach().softmax(2)[0, 0, :, 0, 0]
    middle = SURFACE_BINS // 2
    assert share[: middle - 2].sum().item() == pytest.approx(0.5, abs=0.02)
    assert share[middle + 2 :].sum().item() == pytest.approx(0.5, abs=0.02)


def test_close_ups_of_nothing_and_of_what_is_not_known_teach_nothing():
    truth = shown_points(0.5, 0.25, 0.0)
    said = saying_points((truth + 0.1).clamp(max=1), logit=1.0)
    losses = losses_of_surfaces(said, [0, 1, 0], truth)
    alone = [
        losses_of_surfaces(SurfaceMaps(*(part[i : i + 1] for part in said)), [i], truth[i : i + 1])
        for i in (0, 1)
    ]
    for name, loss in losses.items():
        expected = (alone[0][name] + alone[1][name]) / 2
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5), name
    sum(losses.values()).backward()
    for part in said:
        assert part.grad[:2].flatten(1).abs().amax(1).min() > 0
        assert part.grad[2].abs().max() == 0
        assert part.grad.isfinite().all()
    hidden = truth[:2, :1].isnan().expand(-1, 3, -1, -1)
    assert said.coordinate_logits.grad[:2].abs().amax(2)[hidden].max() == 0
    said = saying_points(truth[2:])
    none = losses_of_surfaces(said, [0], truth[2:])
    assert none["surface_mask"] == none["surface_coordinates"] == 0
    sum(none.values()).backward()
    assert all(part.grad.abs().max() == 0 for part in said)
