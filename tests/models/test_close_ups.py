import numpy as np
import pytest
import torch

from sim2cam.models.crops import CropRules
from sim2cam.models.pictures import Picture
from sim2cam.models.reader import CLOSE_UP_PX, FILL, Reader, close_up, draw_close_up

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


def test_equal_seeds_read_alike_and_other_seeds_do_not():
    shown = torch.randint(0, 256, (3, 3, CLOSE_UP_PX, CLOSE_UP_PX), dtype=torch.uint8)
    first, same, other = (
        Reader(6, torch.Generator().manual_seed(seed)).eval()(shown) for seed in (0, 0, 1)
    )
    assert first.shape == (3, 6)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
