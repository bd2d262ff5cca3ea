from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.models.close_ups import CLOSE_UP_PX, FILL, close_up, draw_close_up, readable
from sim2cam.models.crops import CropRules
from sim2cam.models.export import close_ups
from sim2cam.models.pictures import Picture

RULES = CropRules(scale_range=(0.75, 1.4))


def bright_on_grey(box, size=(240, 320)):
    x0, y0, x1, y1 = box
    rgb = np.full((*size, 3), 100, np.uint8)
    rgb[y0:y1, x0:x1] = 250
    return rgb


def picture_of(box):
    x0, y0, x1, y1 = box
    return Picture(
        rgb=bright_on_grey(box),
        outlines=(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], float),),
        categories=np.array([0]),
        ignored=np.array([False]),
        visible=np.array([1.0]),
        turns_freely=True,
    )


@pytest.mark.parametrize("box", [(20, 30, 40, 44), (100, 60, 150, 110), (20, 20, 300, 220)])
def test_a_close_up_shows_the_box_in_its_middle_at_one_size(box):
    """The brightness of a box of any size, over the close-up, is that of its share."""
    shown = close_up(bright_on_grey(box), np.array(box, float)).astype(float).mean(axis=2)
    assert shown.shape == (CLOSE_UP_PX, CLOSE_UP_PX)
    sides = np.array([box[3] - box[1], box[2] - box[0]])
    sides = FILL * CLOSE_UP_PX * sides / sides.max()
    inside = (shown - 100) / 150
    rows, columns = np.mgrid[:CLOSE_UP_PX, :CLOSE_UP_PX] + 0.5
    within = np.abs(np.stack([rows, columns], -1) - CLOSE_UP_PX / 2) < sides / 2 + 2
    assert inside[within.all(-1)].sum() == pytest.approx(sides.prod(), rel=0.04)
    centre = [(inside.clip(0, 1) * at * within.all(-1)).sum() for at in (rows, columns)]
    assert np.array(centre) / inside[within.all(-1)].sum() == pytest.approx(
        CLOSE_UP_PX / 2, abs=0.3
    )


def test_a_close_up_of_something_large_does_not_alias():
    stripes = np.zeros((400, 400, 3), np.uint8)
    stripes[:, ::2] = 200
    shown = close_up(stripes, np.array([40.0, 40.0, 360.0, 360.0]))[16:-16, 16:-16]
    assert np.ptp(shown) <= 40  # of 200
    assert shown.mean() == pytest.approx(100, abs=2)


def test_drawn_close_ups_hold_all_of_the_object():
    picture = picture_of((100, 60, 150, 100))
    angles = set()
    for seed in range(40):
        shown = draw_close_up(picture, 0, RULES, np.random.default_rng(seed)).astype(float)
        bright = shown.mean(axis=2) > 175
        edges = (bright[0], bright[-1], bright[:, 0], bright[:, -1])
        assert not np.concatenate(edges).any()
        share = bright.sum() / CLOSE_UP_PX**2
        assert 0.6**2 / 2 * 0.55 < share < 0.85**2
        angles.add(bright.tobytes())
    assert len(angles) == 40


def test_drawn_close_ups_are_no_finer_than_crops():
    """An object of 10 px has no more detail in a close-up than in a crop."""
    rng = np.random.default_rng(0)
    picture = picture_of((100, 60, 110, 70))
    picture.rgb[:] = rng.integers(0, 256, picture.rgb.shape)
    large = picture_of((60, 20, 160, 120))
    large.rgb[:] = rng.integers(0, 256, large.rgb.shape)

    def detail(shown):
        return np.abs(np.diff(shown.astype(float), axis=1)).mean()

    rules = CropRules(scale_range=(1.0, 1.0), free_turns=False)
    small, fine = (
        np.mean([detail(draw_close_up(p, 0, rules, np.random.default_rng(k))) for k in range(8)])
        for p in (picture, large)
    )
    assert small < 0.4 * fine


def test_objects_that_are_hardly_seen_are_not_read():
    picture = replace(picture_of((100, 60, 110, 70)), visible=np.array([0.7]))
    for least, is_read in ((0.6, True), (0.8, False)):
        assert readable(picture, replace(RULES, min_read=least)).tolist() == [is_read]
    assert not readable(replace(picture, ignored=np.array([True])), RULES).any()


@pytest.mark.parametrize("side", [12, 40, 90, 200])
def test_graphs_see_the_same_close_ups(side):
    """Of a smooth picture; sums of pixels and means of halved ones differ where it is rough."""
    rows, columns = np.mgrid[:320, :384]
    waves = [np.sin(rows / 40 + k) * np.cos(columns / 30 - k) for k in range(3)]
    rgb = (127 + 100 * np.stack(waves, -1)).astype(np.uint8)
    box = np.array([90.0, 70.0, 90.0 + side, 70.0 + 0.8 * side])
    picture = torch.from_numpy(rgb).permute(2, 0, 1)[None].float()
    fill = torch.zeros(1, 3, 1, 1)
    seen = close_ups(picture, fill, torch.from_numpy(box)[None].float())[0].permute(1, 2, 0).numpy()
    assert np.abs(seen - close_up(rgb, box)).max() < 4
    shifted = close_up(rgb, box + 0.1 * side)
    assert np.abs(seen - shifted).max() > (4 if side > 30 else 1)
