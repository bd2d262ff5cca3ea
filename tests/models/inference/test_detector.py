import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sim2cam.data.known_objects import ObjectGeometry
from sim2cam.errors import CheckpointError
from sim2cam.images import read_rgb
from sim2cam.learn import device
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference import tiles
from sim2cam.models.inference.detections import MAX_DETECTIONS
from sim2cam.models.inference.detector import (
    NativeDetector,
    detect_dataset,
    detect_objects,
    load_detector,
    predict_image,
    predict_samples,
    save_detector,
)
from sim2cam.models.inference.tiles import compute_maps
from sim2cam.models.network.decoding import decode_maps
from sim2cam.models.network.detector import (
    STRIDE_PX,
    UNIT_PX,
    DetectionMaps,
    DetectorNetwork,
    is_peak,
)
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX, RoiOutputs
from sim2cam.models.network.roi_crops import BOX_FRACTION, SURFACE_CROP_PX
from sim2cam.models.reliability.confidence import ScoreCalibration, stack_calibration
from tests.support.networks import Says

CELLS = SURFACE_CROP_PX // SURFACE_STRIDE_PX

CARD = DetectorCard("nano", ("1", "2"), 0, {}, ())


@pytest.fixture(scope="module")
def network():
    made = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        made.box_head[1].bias[0] = 0.0  # an untrained one that finds something everywhere
    return made


@pytest.fixture
def weights(network, tmp_path):
    path = tmp_path / "dice.safetensors"
    save_detector(path, network.state_dict(), CARD)
    return path


def drawn_maps(objects, size=(40, 50)):
    """Maps of one image in which (x0, y0, x1, y1, category, heat logit) are said."""
    heat = torch.full((1, *size), -9.0)
    sides = torch.zeros(1, 4, *size)
    classes = torch.zeros(1, 2, *size)
    for x0, y0, x1, y1, category, logit in objects:
        column, row = int((x0 + x1) / 2 / STRIDE_PX), int((y0 + y1) / 2 / STRIDE_PX)
        x, y = (column + 0.5) * STRIDE_PX, (row + 0.5) * STRIDE_PX
        heat[0, row, column] = logit
        distances = torch.tensor([x - x0, y - y0, x1 - x, y1 - y])
        sides[0, :, row, column] = (distances / UNIT_PX).log()
        classes[0, category, row, column] = 20.0
    return DetectionMaps(heat, sides, classes)


def test_decode_inverts_what_targets_say():
    objects = [(10, 20, 53, 60, 1, 4.0), (100, 31, 141, 77, 0, 2.0)]
    boxes, scores, categories, heat, probabilities, *more = decode_maps(drawn_maps(objects), 0.5)
    assert more == [None, None]
    assert heat.numpy() == pytest.approx(
        [1 / (1 + np.exp(-logit)) for logit in (4.0, 2.0)], abs=1e-4
    )
    assert boxes.numpy() == pytest.approx(np.array([o[:4] for o in objects]), abs=1e-4)
    assert categories.tolist() == [1, 0]
    assert probabilities.numpy() == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-4)
    assert scores.numpy() == pytest.approx(np.sqrt(heat.numpy()), abs=1e-4)


def test_what_surely_is_an_object_votes_whatever_it_is():
    heat = torch.full((1, 8, 8), -9.0)
    heat[0, 2, 2], heat[0, 2, 3] = 3.0, 2.0  # a peak and its neighbour
    heat[0, 6, 6], heat[0, 0, 7] = 0.1, -0.1  # just sure enough, and not
    classes = torch.zeros(1, 3, 8, 8)
    classes[0, :, 2, 2] = torch.tensor([2.0, 1.0, 0.0])
    said = Says(DetectionMaps(heat, torch.full((1, 4, 8, 8), -3.0), classes))
    card = replace(CARD, categories=("1", "2", "3"))
    found = predict_image(
        NativeDetector(said, card), np.zeros((32, 32, 3), np.uint8)
    ).category_probabilities
    expected = np.exp([2.0, 1.0, 0.0]) / np.exp([2.0, 1.0, 0.0]).sum()
    assert found == pytest.approx(np.array([expected, [1 / 3] * 3]), rel=1e-5)


def test_only_peaks_are_found_and_duplicates_are_dropped():
    box = (40.0, 40.0, 80.0, 80.0)
    maps = drawn_maps([(*box, 0, 4.0)])
    row = column = 15
    for shift, logit in ((1, 3.5), (3, 3.0)):  # a neighbour, and another peak of the same object
        maps.heatmap[0, row, column + shift] = logit
        maps.class_logits[0, 1, row, column + shift] = 20.0
        distances = torch.tensor([22 + shift * 4.0, 22, 18 - shift * 4.0, 18])
        maps.log_sides[0, :, row, column + shift] = (distances / UNIT_PX).log()
    assert len(decode_maps(maps, 0.3).boxes) == 2
    rgb = np.zeros((160, 192, 3), np.uint8)
    (found,) = detect_objects(NativeDetector(Says(maps), CARD), rgb)
    assert found.category == "1"
    assert found.box_xyxy == pytest.approx(box, abs=1e-3)


def test_without_a_floor_peaks_alone_are_found():
    maps = drawn_maps([(40, 40, 80, 80, 0, 4.0)])
    rng = torch.Generator().manual_seed(0)
    maps.heatmap[:] = torch.rand(maps.heatmap.shape, generator=rng) - 9.0
    peaks = is_peak(maps.heatmap[0].sigmoid()).sum()
    assert 0 < peaks < MAX_DETECTIONS
    found = decode_maps(maps, 0.0)
    assert len(found.boxes) == peaks
    assert (found.scores > 0).all()


@pytest.mark.parametrize(("height", "width"), [(1, 1), (31, 95), (160, 192), (97, 64)])
def test_any_size_and_boxes_stay_inside(network, height, width):
    rgb = np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)
    found = detect_objects(NativeDetector(network, CARD), rgb, score_floor=0.0)
    assert found
    for detection in found:
        x0, y0, x1, y1 = detection.box_xyxy
        assert 0 <= x0 <= x1 <= width
        assert 0 <= y0 <= y1 <= height
    scores = [d.score for d in found]
    assert scores == sorted(scores, reverse=True)


def test_scale_gives_boxes_in_the_pixels_of_the_image():
    maps = drawn_maps([(20, 40, 60, 80, 0, 4.0)])
    rgb = np.zeros((80, 100, 3), np.uint8)
    (found,) = detect_objects(NativeDetector(Says(maps), CARD), rgb, input_scale=2.0)
    assert found.box_xyxy == pytest.approx((10, 20, 30, 40), abs=1e-3)


def test_floor_leaves_out(network):
    rgb = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    detector = NativeDetector(network, CARD)
    every = detect_objects(detector, rgb, score_floor=0.0)
    floor = every[len(every) // 2].score
    assert all(d.score >= floor for d in detect_objects(detector, rgb, score_floor=floor))
    assert detect_objects(detector, rgb, score_floor=1.0) == ()


def test_prediction_changes_nothing_and_repeats(network, make_dataset):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    data, told = make_dataset(n=2), []
    detector = NativeDetector(network, CARD)
    first = detect_dataset(detector, data, progress=lambda *done: told.append(done))
    assert told == [(1, 2), (2, 2)]
    assert first == detect_dataset(detector, data)
    assert all(torch.equal(before[n], v) for n, v in network.state_dict().items())


def test_weights_come_back_as_half_precision_allows(network, weights):
    loaded = load_detector(weights)
    assert loaded.card == CARD
    assert not loaded.network.training
    for name, value in network.state_dict().items():
        expected = value.half().float() if value.is_floating_point() else value
        assert torch.equal(loaded.network.state_dict()[name], expected), name


def test_nano_weights_fit_into_the_repository(weights):
    assert weights.stat().st_size < 5e6


def test_card_and_tensors_must_fit(weights):
    card = weights.with_suffix(".json")
    words = json.loads(card.read_text())
    card.write_text(json.dumps(words | {"categories": ["1", "2", "3"]}))
    with pytest.raises(CheckpointError) as caught:
        load_detector(weights)
    assert str(caught.value) == (
        f"{weights}: tensor class_head.1.bias has the shape (2,), but the card requires (3,). Copy both files again."
    )
    card.write_text(json.dumps(words | {"architecture": "smal"}))
    with pytest.raises(CheckpointError) as caught:
        load_detector(weights)
    assert str(caught.value).startswith(
        f"{card}: architecture 'smal' is not known. Did you mean 'small'? Allowed: base, deeplab"
    )
    card.write_text(json.dumps({k: v for k, v in words.items() if k != "categories"}))
    with pytest.raises(CheckpointError, match="not a card of a detector: categories: Field req"):
        load_detector(weights)
    for name, number in (("input_scale", 1e9), ("input_scale", 0), ("box_padding", -0.6)):
        card.write_text(json.dumps(words | {name: number}))
        with pytest.raises(CheckpointError, match=rf"{name} must be .*, not {float(number)}"):
            load_detector(weights)
    card.write_text(json.dumps(words | {"categories": [str(n) for n in range(9999)]}))
    with pytest.raises(CheckpointError, match=r"the card has categories \(number\) = 9999"):
        load_detector(weights)
    card.write_text(json.dumps(words | {"categories": ["1", "a\nb"]}))
    with pytest.raises(CheckpointError, match=r"a\\nb\" holds a control character"):
        load_detector(weights)
    card.write_text(json.dumps(words | {"categories": ["1", "1"]}))
    with pytest.raises(CheckpointError, match="categories must be different names"):
        load_detector(weights)


def test_tensors_must_be_all_there_and_finite(weights):
    tensors = load_file(weights)
    save_file({n: v for n, v in tensors.items() if n != "mean"}, weights)
    with pytest.raises(CheckpointError, match="tensor mean of the card is missing"):
        load_detector(weights)
    save_file(tensors | {"more": torch.zeros(1)}, weights)
    with pytest.raises(CheckpointError, match="tensor more is not in the card"):
        load_detector(weights)
    save_file(tensors | {"mean": tensors["mean"] * float("nan")}, weights)
    with pytest.raises(CheckpointError, match="tensor mean contains values that are not finite"):
        load_detector(weights)


def test_card_keeps_metrics(network, tmp_path):
    metrics = {"real": {"ap50": {"value": 0.5, "ci95": [0.4, 0.6]}}}
    path = tmp_path / "new" / "w.safetensors"
    save_detector(path, network.state_dict(), replace(CARD, metrics=metrics, licence="MIT"))
    card = load_detector(path).card
    assert (card.metrics, card.licence) == (metrics, "MIT")


def test_the_card_says_how_much_images_are_magnified_and_boxes_widened():
    maps = drawn_maps([(20, 40, 60, 80, 0, 4.0)])
    rgb = np.zeros((80, 100, 3), np.uint8)
    card = replace(CARD, input_scale=2.0, box_padding=0.02)
    (found,) = detect_objects(NativeDetector(Says(maps), card), rgb)
    assert found.box_xyxy == pytest.approx((8, 18, 32, 42), abs=1e-3)


def known(reach_m):
    return ObjectGeometry(((-reach_m, -0.01, -0.01), (reach_m / 2, 0.01, 0.02)))


POSED = replace(CARD, objects={"1": known(0.03), "2": known(0.05)})


class Reads:
    """A reader of close-ups, which says that bright cells show the point (0.5, -1, k) of category k, and, where
    it reads categories, that an object is the first where its close-up is red and the second where not.
    """

    def __init__(self, *, categories, spread=0.1):
        self.categories, self.spread = categories, spread

    def __call__(self, rgb):
        cells = torch.nn.functional.avg_pool2d(rgb.float(), SURFACE_STRIDE_PX)
        is_red = cells[:, 0].flatten(1).amax(1) > 150
        logits = torch.stack([is_red * 5.0, ~is_red * 3.0], 1) if self.categories else None
        return RoiOutputs(logits, cells)

    def surface_head(self, cells, categories):
        shown = (cells.amax(1) > 150) * 8.0 - 4.0
        points = torch.zeros(len(cells), 3, *cells.shape[2:])
        points[:, 0], points[:, 1] = 0.5, -1.0
        points[:, 2] = categories[:, None, None]
        off = torch.zeros_like(shown) + self.spread
        return SimpleNamespace(mask_logits=shown, decode_coordinates=lambda: (points, off))


def squares_on_grey(*squares, size=(80, 100)):
    """A picture with squares of 8 px around places, red or blue."""
    rgb = np.full((*size, 3), 100, np.uint8)
    for (x, y), colour in squares:
        rgb[y - 4 : y + 4, x - 4 : x + 4] = colour
    return rgb


RED, BLUE = (250, 60, 60), (60, 60, 250)


@pytest.mark.parametrize(
    ("config", "shares"), [({}, (0.9, 0.2, 0.4, 0.3)), ({"flips": False}, (0.9, 0.2))]
)
def test_a_category_is_the_mean_of_what_all_views_say(config, shares):
    """The first is said with one share in each view of the first object, with its square in those of the other."""
    seen = []

    def reads(rgb):
        seen.append(rgb.numpy())
        said = torch.tensor([share**k for share in shares for k in (1, 2)])
        return RoiOutputs(torch.stack([said, 1 - said], 1).log(), None)

    maps = drawn_maps([(20, 20, 60, 60, 1, 6.0), (100, 30, 140, 78, 1, 4.0)])
    rgb = np.random.default_rng(0).integers(0, 256, (160, 200, 3)).astype(np.uint8)
    said = NativeDetector(Says(maps, reads), replace(CARD, config=config))
    prediction = predict_image(said, rgb, score_floor=0.0)
    found = prediction.detections
    means = [np.mean(np.array(shares) ** power) for power in (1, 2)]
    assert np.sort(prediction.category_probabilities[:, 0]) == pytest.approx(
        sorted(means), rel=1e-5
    )
    for detection, heat, power in zip(
        sorted(found, key=lambda one: one.box_xyxy), (6.0, 4.0), (1, 2), strict=True
    ):
        mean = np.mean(np.array(shares) ** power)
        assert detection.category == ("1" if mean > 0.5 else "2")
        likely = max(mean, 1 - mean)
        assert detection.score == pytest.approx(np.sqrt(likely / (1 + np.exp(-heat))), abs=1e-4)
    (close_ups,) = seen
    views = close_ups.reshape(len(shares), 2, *close_ups.shape[1:])
    assert not np.array_equal(views[0], views[1])
    if len(shares) == 4:
        assert np.array_equal(views[2:], views[:2, ..., ::-1])


@pytest.mark.parametrize("magnification", [0.5, 1.0, 2.0])
def test_surfaces_come_in_the_pixels_of_the_image(magnification):
    """Where a square is, is said of the picture, whatever the close-up has to do with it."""
    box, square = np.array((50.0, 15.0, 70.0, 39.0)), (56, 31)
    maps = drawn_maps([(*box * magnification, 1, 4.0)])
    said = NativeDetector(Says(maps, Reads(categories=False)), POSED)
    rgb = squares_on_grey((square, BLUE))
    prediction = predict_image(said, rgb, input_scale=magnification)
    (found,), (seen,) = prediction.detections, prediction.surfaces
    assert found == detect_objects(said, rgb, input_scale=magnification)[0]
    assert found.category == "2"
    assert found.box_xyxy == pytest.approx(box, abs=1e-3)
    step = 24 / BOX_FRACTION / CELLS  # pixels of the picture that a cell has
    assert len(seen.image_points) == pytest.approx((8 / step) ** 2, rel=0.6)
    assert seen.image_points.mean(axis=0) == pytest.approx(square, abs=0.5 * step)
    assert np.abs(seen.image_points - square).max() < 4 + step
    assert seen.object_points_m == pytest.approx(
        np.tile([0.025, -0.05, 0.05], (len(seen.image_points), 1))
    )
    assert seen.uncertainties_px == pytest.approx(12 * 0.1, rel=1e-5)


def test_each_surface_is_that_of_the_category_that_is_finally_said_and_of_its_detection():
    first, second = (20, 20, 60, 60), (100, 30, 140, 78)
    maps = drawn_maps([(*first, 1, 6.0), (*second, 1, 4.0)])
    rgb = squares_on_grey(((32, 44), BLUE), ((118, 62), RED), size=(160, 200))
    plain, again = (
        predict_image(NativeDetector(Says(maps, Reads(categories=c)), POSED), rgb)
        for c in (False, True)
    )
    assert [d.category for d in plain.detections] == ["2", "2"]
    assert [d.category for d in again.detections] == ["1", "2"]  # red is the surest now
    assert again.detections[0].box_xyxy == plain.detections[1].box_xyxy
    for seen, order in ((plain, ((32, 44), (118, 62))), (again, ((118, 62), (32, 44)))):
        for one, surface, place in zip(seen.detections, seen.surfaces, order, strict=True):
            cell_px = np.ptp(one.box_xyxy[::2]) / BOX_FRACTION / CELLS
            assert surface.image_points.mean(axis=0) == pytest.approx(place, abs=0.5 * cell_px)
            point = (0.015, -0.03, 0.0) if one.category == "1" else (0.025, -0.05, 0.05)
            assert surface.object_points_m[0] == pytest.approx(point)
    detector = NativeDetector(Says(maps, Reads(categories=True)), POSED)
    floor = again.detections[1].score + 0.001
    sure = predict_image(detector, rgb, score_floor=floor)
    assert sure.detections == again.detections[:1]
    assert sure.surfaces[0].image_points == pytest.approx(again.surfaces[0].image_points)


@pytest.mark.parametrize("scaling", [None, ScoreCalibration(0.5, {"1": 0.3, "2": -0.4})])
def test_a_floor_is_of_what_close_ups_say(scaling):
    """Maps that cannot tell categories leave scores below those of close-ups that can."""
    card = replace(POSED, score_calibration=scaling)
    maps = drawn_maps([(12, 24, 52, 64, 1, 4.0)])
    maps = maps._replace(class_logits=torch.zeros_like(maps.class_logits))
    rgb = squares_on_grey(((32, 44), RED), size=(96, 128))
    detector = NativeDetector(Says(maps, Reads(categories=True)), card)
    (found,) = predict_image(detector, rgb).detections
    first = decode_maps(maps, None, stack_calibration(scaling, card.categories)).scores[0]
    assert first < found.score
    for floor, wanted in ((found.score - 0.001, (found,)), (found.score + 0.001, ())):
        assert predict_image(detector, rgb, score_floor=floor).detections == wanted


def test_unlikely_detections_are_not_classified():
    maps = drawn_maps([(12, 24, 52, 64, 1, 4.0), (100, 24, 140, 64, 1, -4.0)])
    rgb = squares_on_grey(((32, 44), RED), size=(96, 160))
    boxes_seen = []

    class Counting(Reads):
        def __call__(self, rgb):
            boxes_seen.append(len(rgb))
            return super().__call__(rgb)

    detector = NativeDetector(Says(maps, Counting(categories=True)), POSED)
    (found,) = predict_image(detector, rgb, input_scale=1.0).detections
    assert found.box_xyxy[0] == pytest.approx(12, abs=1)
    assert boxes_seen == [len(POSED.roi_views)]


def test_all_cells_of_a_surface_are_taken_as_sure_as_they_are():
    spread = torch.rand(CELLS, CELLS, generator=torch.Generator().manual_seed(0))
    maps = drawn_maps([(20, 20, 60, 60, 0, 4.0)])
    said = NativeDetector(Says(maps, Reads(categories=False, spread=spread)), POSED)
    (seen,) = predict_image(said, np.full((80, 100, 3), 250, np.uint8)).surfaces
    assert seen.uncertainties_px == pytest.approx(
        20 * spread.clamp(min=0.01).flatten().numpy(), rel=1e-5
    )
    assert predict_image(said, np.zeros((80, 100, 3), np.uint8)).surfaces[0].image_points.shape == (
        0,
        2,
    )


def test_without_a_detection_there_is_no_surface():
    rgb = np.zeros((80, 100, 3), np.uint8)
    nothing = Says(drawn_maps([]), Reads(categories=True))
    assert predict_image(NativeDetector(nothing, POSED), rgb).surfaces == ()
    assert predict_image(NativeDetector(Says(drawn_maps([])), CARD), rgb).surfaces is None


@pytest.fixture
def posed_weights(tmp_path):
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0), poses=True)
    with torch.no_grad():
        network.box_head[1].bias[0] = 4.0  # objects everywhere
    path = tmp_path / "posed.safetensors"
    save_detector(path, network.state_dict(), POSED)
    return path


def test_surfaces_of_whole_data_sets_are_not_kept(posed_weights, make_dataset):
    detector, data = load_detector(posed_weights), make_dataset(n=2)
    seen = predict_samples(detector, data, score_floor=0.0)
    for sample in data.samples:
        alone = predict_image(detector, read_rgb(sample.rgb), score_floor=0.0)
        assert alone.surfaces
        assert seen[sample.name] == replace(alone, surfaces=None)


def test_weights_with_poses_come_back_with_their_objects(posed_weights):
    loaded = load_detector(posed_weights)
    assert loaded.network.roi_network.surface_head is not None
    assert loaded.network.roi_network.class_head is None
    assert loaded.card.objects["1"].max_coordinate_m == 0.03


def test_objects_and_tensors_must_fit(posed_weights, weights):
    card = posed_weights.with_suffix(".json")
    words = json.loads(card.read_text())
    card.write_text(json.dumps({k: v for k, v in words.items() if k != "objects"}))
    with pytest.raises(CheckpointError, match=r"tensor roi_network\.\S* is not in the card"):
        load_detector(posed_weights)
    card.write_text(json.dumps(words | {"objects": {"1": words["objects"]["1"]}}))
    with pytest.raises(CheckpointError) as caught:
        load_detector(posed_weights)
    assert str(caught.value) == (
        f"{card}: objects are given for 1, but categories are 1, 2. Copy both files again."
    )
    plain = weights.with_suffix(".json")
    plain.write_text(json.dumps(json.loads(plain.read_text()) | {"objects": words["objects"]}))
    with pytest.raises(CheckpointError, match=r"tensor roi_network\.\S* of the card is missing"):
        load_detector(weights)


def test_keypoints_come_in_the_pixels_of_the_image_with_the_names_of_their_category():
    box, magnification = (100, 30, 140, 78), 2.0
    places = np.random.default_rng(0).uniform(0, 160, (3, 2))
    maps = drawn_maps([(*box, 1, 4.0)])
    (row, column), unit_px = (13, 30), np.sqrt(np.sqrt((22 * 18) * (24 * 24)))
    keypoints = torch.full((1, 2, 3, 4, 40, 50), float("nan"))
    keypoints[0, 1, :, :2, row, column] = torch.from_numpy((places - (122, 54)) / unit_px).float()
    keypoints[0, 1, :, 2, row, column] = -1.0
    keypoints[0, 1, :, 3, row, column] = torch.tensor([3.0, -3.0, 0.0])
    card = replace(CARD, keypoints={"1": ("a", "b", "c"), "2": ("head", "tip")})
    said = NativeDetector(Says(maps._replace(keypoints=keypoints)), card)
    (found,) = detect_objects(said, np.zeros((80, 100, 3), np.uint8), input_scale=magnification)
    assert [point.name for point in found.keypoints] == ["head", "tip"]
    for point, place, seen in zip(found.keypoints, places, (0.953, 0.047), strict=False):
        assert point.xy == pytest.approx(tuple(place / magnification - 0.5), abs=1e-3)
        assert point.visibility_score == pytest.approx(seen, abs=1e-3)
        assert point.uncertainty_px == pytest.approx(unit_px * np.exp(-1) / magnification, rel=1e-5)
    assert json.loads(json.dumps(found.to_json()))["keypoints"][0]["name"] == "head"
    plain = detect_objects(
        NativeDetector(Says(maps), CARD), np.zeros((80, 100, 3), np.uint8), input_scale=2.0
    )[0]
    assert set(plain.to_json()) == {"category", "box_xyxy", "score"}


def test_weights_with_keypoints_come_back_with_their_names(tmp_path, weights):
    names = {"1": ("head", "tip", "rim"), "2": ()}
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0), n_keypoints=3)
    path = tmp_path / "pointed.safetensors"
    save_detector(path, network.state_dict(), replace(CARD, keypoints=names))
    loaded = load_detector(path)
    assert loaded.card.keypoints == names
    assert loaded.network.keypoint_head is not None
    card = path.with_suffix(".json")
    words = json.loads(card.read_text())
    card.write_text(json.dumps(words | {"keypoints": {"1": ["head"]}}))
    with pytest.raises(CheckpointError) as caught:
        load_detector(path)
    assert str(caught.value) == (
        f"{card}: keypoints are given for 1, but categories are 1, 2. Copy both files again."
    )
    card.write_text(json.dumps(words | {"keypoints": {"1": ["head"], "2": []}}))
    with pytest.raises(
        CheckpointError, match=r"tensor keypoint_head\.1\.bias has the shape \(24,\)"
    ):
        load_detector(path)
    assert "keypoints" not in json.loads(weights.with_suffix(".json").read_text())


def test_tiles_say_what_the_whole_says(network, monkeypatch):
    rgb = np.random.default_rng(0).integers(0, 256, (190, 330, 3)).astype(np.uint8)
    detector = NativeDetector(network, CARD)
    monkeypatch.setattr(device, "_supports_bfloat16", lambda: False)
    whole, features = compute_maps(detector.fused_network, rgb, 1.0)
    monkeypatch.setattr(tiles, "TILE_PX", 96)
    monkeypatch.setattr(tiles, "CONTEXT_PX", 128)
    tiled, joined = compute_maps(detector.fused_network, rgb, 1.0)
    assert joined == pytest.approx(features, abs=1e-4)
    for name in ("heatmap", "log_sides"):
        assert getattr(tiled, name) == pytest.approx(getattr(whole, name), abs=1e-4), name
    monkeypatch.setattr(tiles, "TILE_PX", 1536)
    found = detect_objects(detector, rgb)
    monkeypatch.setattr(tiles, "TILE_PX", 96)
    assert [d.category for d in detect_objects(detector, rgb)] == [d.category for d in found]
    monkeypatch.setattr(tiles, "CONTEXT_PX", 0)
    assert compute_maps(detector.fused_network, rgb, 1.0)[1] != pytest.approx(features, abs=1e-2)
