from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.data.known_objects import read_object_geometries, stack_symmetry_rotations
from sim2cam.models.augment.crops import CropConfig
from sim2cam.models.inference.export import crop_rois
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX
from sim2cam.models.network.roi_crops import (
    BOX_FRACTION,
    CLASSIFIER_CROP_PX,
    SURFACE_CROP_PX,
    RoiView,
    compute_roi_square,
    crop_object_coordinates,
    crop_roi,
    sample_roi_crop,
    select_classifiable,
    select_roi_views,
)
from sim2cam.models.training.images import AnnotatedImage, Tasks, read_annotated_image

RULES = CropConfig(scale_range=(0.75, 1.4))
SIDES_PX = (CLASSIFIER_CROP_PX, SURFACE_CROP_PX)
CELLS = SURFACE_CROP_PX // SURFACE_STRIDE_PX


def bright_on_grey(box, size=(240, 320)):
    x0, y0, x1, y1 = box
    rgb = np.full((*size, 3), 100, np.uint8)
    rgb[y0:y1, x0:x1] = 250
    return rgb


def picture_of(box):
    x0, y0, x1, y1 = box
    return AnnotatedImage(
        rgb=bright_on_grey(box),
        outlines=(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], float),),
        categories=np.array([0]),
        ignored=np.array([False]),
        visible_fractions=np.array([1.0]),
        inside_fractions=np.array([1.0]),
        is_rotatable=True,
    )


def middle_of(bright):
    """Where the weight (h, w) has its middle, x and y, from the upper left edge."""
    rows, columns = np.mgrid[: bright.shape[0], : bright.shape[1]] + 0.5
    return np.array([(bright * at).sum() for at in (columns, rows)]) / bright.sum()


@pytest.mark.parametrize("side", SIDES_PX)
@pytest.mark.parametrize("box", [(20, 30, 40, 44), (100, 60, 150, 110), (20, 20, 300, 220)])
def test_a_close_up_shows_the_box_in_its_middle_at_one_size(box, side):
    """The brightness of a box of any size, over the close-up, is that of its share."""
    shown = crop_roi(bright_on_grey(box), np.array(box, float), side).astype(float).mean(axis=2)
    assert shown.shape == (side, side)
    sides = np.array([box[3] - box[1], box[2] - box[0]])
    sides = BOX_FRACTION * side * sides / sides.max()
    inside = (shown - 100) / 150
    rows, columns = np.mgrid[:side, :side] + 0.5
    within = (np.abs(np.stack([rows, columns], -1) - side / 2) < sides / 2 + 2).all(-1)
    assert inside[within].sum() == pytest.approx(sides.prod(), rel=0.04)
    assert middle_of(inside.clip(0, 1) * within) == pytest.approx(side / 2, abs=0.3)


@pytest.mark.parametrize("fill", [0.5, 0.8])
def test_a_view_shows_the_box_at_its_size_and_the_other_way_round(fill):
    box = (20, 30, 40, 50)
    rgb = bright_on_grey(box)
    rgb[30:40, 20:24] = 100
    plain, mirrored = (
        crop_roi(rgb, np.array(box, float), 64, RoiView(fill, m)) for m in (False, True)
    )
    bright = (plain.astype(float).mean(axis=2) - 100) / 150
    assert bright.sum() == pytest.approx((fill * 64) ** 2 * (1 - 40 / 400), rel=0.04)
    assert np.array_equal(plain[:, ::-1], mirrored)
    assert not np.array_equal(plain, mirrored)


def test_poses_are_read_from_one_view_and_categories_from_those_that_were_learned():
    assert select_roi_views(poses=True, flips=True) == (RoiView(BOX_FRACTION, is_flipped=False),)
    assert select_roi_views(poses=False, flips=False) == (RoiView(0.65), RoiView(0.8))
    both = {
        (view.box_fraction, view.is_flipped) for view in select_roi_views(poses=False, flips=True)
    }
    assert both == {(0.65, False), (0.8, False), (0.65, True), (0.8, True)}


def test_a_close_up_of_something_large_does_not_alias():
    stripes = np.zeros((400, 400, 3), np.uint8)
    stripes[:, ::2] = 200
    shown = crop_roi(stripes, np.array([40.0, 40.0, 360.0, 360.0]), 64)[16:-16, 16:-16]
    assert np.ptp(shown) <= 40  # of 200
    assert shown.mean() == pytest.approx(100, abs=2)


@pytest.mark.parametrize("side", SIDES_PX)
def test_drawn_close_ups_hold_all_of_the_object(side):
    picture = picture_of((100, 60, 150, 100))
    angles = set()
    for seed in range(40):
        shown, _ = sample_roi_crop(picture, 0, RULES, side, np.random.default_rng(seed))
        bright = shown.astype(float).mean(axis=2) > 175
        edges = (bright[0], bright[-1], bright[:, 0], bright[:, -1])
        assert not np.concatenate(edges).any()
        share = bright.sum() / side**2
        assert 0.6**2 / 2 * 0.55 < share < 0.85**2
        angles.add(bright.tobytes())
    assert len(angles) == 40


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.0])
def test_the_map_to_a_drawn_close_up_is_where_it_shows_things(scale):
    """Of an object of 10 px, 50 px and of more than a close-up has, mirrored and not, never turned."""
    rules = CropConfig(scale_range=(0.7 * scale, scale / 0.7), rotate_90=True, rotate_any=True)
    handed = set()
    for box in ((100, 60, 110, 68), (100, 60, 150, 100), (40, 20, 290, 220)):
        for seed in range(12):
            picture = picture_of(box)
            shown, matrix = sample_roi_crop(picture, 0, rules, 96, np.random.default_rng(seed))
            bright = (shown.astype(float).mean(axis=2) - 105).clip(0, 145)
            middle = np.array([box[0] + box[2], box[1] + box[3]]) / 2
            expected = matrix[:, :2] @ middle + matrix[:, 2]
            assert middle_of(bright) == pytest.approx(expected, abs=1.0)
            assert matrix[0, 1] == matrix[1, 0] == 0 < matrix[1, 1]
            handed.add(np.sign(np.linalg.det(matrix[:, :2])))
    assert handed == {-1, 1}


def test_drawn_close_ups_are_no_finer_than_crops():
    """An object of 10 px has no more detail in a close-up than in a crop."""
    rng = np.random.default_rng(0)
    picture = picture_of((100, 60, 110, 70))
    picture.rgb[:] = rng.integers(0, 256, picture.rgb.shape)
    large = picture_of((60, 20, 160, 120))
    large.rgb[:] = rng.integers(0, 256, large.rgb.shape)

    def detail(shown):
        return np.abs(np.diff(shown.astype(float), axis=1)).mean()

    rules = CropConfig(scale_range=(1.0, 1.0))
    small, fine = (
        np.mean(
            [
                detail(sample_roi_crop(p, 0, rules, 64, np.random.default_rng(k))[0])
                for k in range(8)
            ]
        )
        for p in (picture, large)
    )
    assert small < 0.4 * fine


def test_close_ups_are_as_fine_as_the_picture_at_any_magnification_of_crops():
    """Close-ups of what was found are cut from the picture itself, so those drawn differ by its spread alone."""
    picture = picture_of((100, 60, 150, 100))
    picture.rgb[:] = np.random.default_rng(0).integers(0, 256, picture.rgb.shape)
    looks = [
        sample_roi_crop(
            picture, 0, CropConfig(scale_range=(0.75 * s, 1.4 * s)), 96, np.random.default_rng(3)
        )
        for s in (0.35, 1.0)
    ]
    assert np.abs(looks[0][0].astype(int) - looks[1][0]).max() <= 1
    assert looks[0][1] == pytest.approx(looks[1][1])


@pytest.mark.parametrize(("visible", "inside"), [(0.7, 1.0), (1.0, 0.7), (0.875, 0.8)])
def test_objects_that_are_hardly_seen_are_not_read(visible, inside):
    picture = replace(
        picture_of((100, 60, 110, 70)),
        visible_fractions=np.array([visible]),
        inside_fractions=np.array([inside]),
    )
    for least, is_read in ((0.6, True), (0.8, False)):
        assert select_classifiable(
            picture, replace(RULES, min_category_visible=least)
        ).tolist() == [is_read]
    assert not select_classifiable(replace(picture, ignored=np.array([True])), RULES).any()


@pytest.mark.parametrize("pixels", SIDES_PX)
@pytest.mark.parametrize("side", [12, 40, 90, 200])
def test_graphs_see_the_same_close_ups(side, pixels):
    """Of a smooth picture; sums of pixels and means of halved ones differ where it is rough."""
    rows, columns = np.mgrid[:320, :384]
    waves = [np.sin(rows / 40 + k) * np.cos(columns / 30 - k) for k in range(3)]
    rgb = (127 + 100 * np.stack(waves, -1)).astype(np.uint8)
    box = np.array([90.0, 70.0, 90.0 + side, 70.0 + 0.8 * side])
    picture = torch.from_numpy(rgb).permute(2, 0, 1)[None].float()
    boxes = torch.from_numpy(box)[None].float()
    seen = crop_rois(picture, torch.zeros(1, 3, 1, 1), boxes, pixels)[0].permute(1, 2, 0).numpy()
    assert np.abs(seen - crop_roi(rgb, box, pixels)).max() < 4
    shifted = crop_roi(rgb, box + 0.1 * side, pixels)
    assert np.abs(seen - shifted).max() > (4 if side > 30 else 1)


@pytest.fixture(scope="module")
def bricks(write_bricks, tmp_path_factory):
    """A data set in which a brick lies over the picture's edge and a slab before it, and what is learned."""
    root = tmp_path_factory.mktemp("bricks")
    data = write_bricks(root, n=3, places=((10, 50), (34, 60)))
    known = read_object_geometries([data]).values()
    return data, Tasks(
        coordinate_scales_m=np.array([one.max_coordinate_m for one in known]),
        symmetry_rotations=stack_symmetry_rotations(known),
    )


def off_px(sample, number, surface, places):
    """How far (n,) the points that a close-up shows are from where its cells lie in the picture."""
    label = sample.objects[number]
    points = surface[:, np.isfinite(surface[0])].T * np.abs(label.extent_m).max()
    seen = sample.lens.project(label.pose.apply(points.astype(float))) + 0.5
    return np.abs(seen - places[np.isfinite(surface[0])]).max(axis=1)


def places_of(matrix, side):
    """Where the cells of a close-up lie in the picture (h/8, w/8, 2)."""
    rows, columns = np.mgrid[: side // SURFACE_STRIDE_PX, : side // SURFACE_STRIDE_PX] + 0.5
    centres = SURFACE_STRIDE_PX * np.stack(
        [columns, rows, np.full_like(rows, 1 / SURFACE_STRIDE_PX)], -1
    )
    whole = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    return (centres @ whole.T)[..., :2]


@pytest.mark.parametrize("number", [0, 1])
def test_each_cell_knows_the_point_that_lies_there(bricks, number):
    data, tasks = bricks
    rules = CropConfig(scale_range=(0.6, 1.6), flips=False)
    beyond = shared = 0
    for seed, sample in enumerate(3 * data.samples):
        picture = read_annotated_image(sample, data.categories, tasks)
        rng = np.random.default_rng(seed)
        _, matrix = sample_roi_crop(picture, number, rules, SURFACE_CROP_PX, rng)
        surface = crop_object_coordinates(picture, number, matrix, SURFACE_CROP_PX)
        assert surface.shape == (3, CELLS, CELLS)
        assert surface.dtype == np.float32
        places = places_of(matrix, SURFACE_CROP_PX)
        off = off_px(sample, number, surface, places)
        assert len(off) > 15
        assert (
            off.max() < 0.5 + 0.02
        )  # a cell has the point of the middle of a pixel; steps of float16
        column, row = np.floor(places).astype(int).transpose(2, 0, 1)
        inside = (column >= 0) & (row >= 0) & (column < 160) & (row < 128)
        owner = np.where(inside, picture.instance_map[row.clip(0, 127), column.clip(0, 159)], 0)
        assert np.array_equal(np.isfinite(surface[0]), owner == number + 1)
        assert np.array_equal(np.isnan(surface).any(axis=0), np.isnan(surface).all(axis=0))
        beyond += (~inside).sum()
        shared += (owner == 2 - number).sum()
    assert shared > 5
    assert (beyond > 5) == (number == 0)


def test_cells_of_what_is_found_lie_where_its_close_up_has_them(bricks):
    """The square of ``crop_roi``, of which places of surfaces are said, is that of its pixels."""
    data, tasks = bricks
    sample = data.samples[1]
    picture = read_annotated_image(sample, data.categories, tasks)
    corner, reach_px = compute_roi_square(np.array(sample.objects[1].box_xyxy))
    scale = SURFACE_CROP_PX / reach_px
    matrix = np.column_stack([scale * np.eye(2), -scale * corner])
    surface = crop_object_coordinates(picture, 1, matrix, SURFACE_CROP_PX)
    steps = (np.arange(CELLS) + 0.5) * reach_px / CELLS
    places = corner + np.stack(np.meshgrid(steps, steps), -1)
    assert off_px(sample, 1, surface, places).max() < 0.52
    cut = crop_roi(picture.rgb, np.array(sample.objects[1].box_xyxy), SURFACE_CROP_PX)
    cells = cut.reshape(CELLS, 8, CELLS, 8, 3)[:, 3:5, :, 3:5].mean(axis=(1, 3))
    vivid = np.abs(cells - 110).max(axis=2) > 60  # on grey
    assert vivid[np.isfinite(surface[0])].mean() > 0.95


def test_a_picture_without_both_channels_tells_no_point(bricks):
    data, tasks = bricks
    sample = data.samples[0]
    matrix = np.array([[2.0, 0, 0], [0, 2.0, -40.0]])
    for left in ("ids", "coordinates"):
        bare = replace(sample, channels={left: sample.channels[left]})
        picture = read_annotated_image(bare, data.categories, tasks)
        assert np.isnan(crop_object_coordinates(picture, 1, matrix, SURFACE_CROP_PX)).all()
    whole = read_annotated_image(sample, data.categories, tasks)
    assert np.isfinite(crop_object_coordinates(whole, 1, matrix, SURFACE_CROP_PX)).any()
