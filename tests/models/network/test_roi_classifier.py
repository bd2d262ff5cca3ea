"""Which points of a surface a reader means, by the shares that it gives to the bins of their coordinates."""

import pytest
import torch

from sim2cam.models.network.roi_classifier import SURFACE_BINS, SurfaceMaps

PLACES = torch.linspace(-1, 1, SURFACE_BINS)
STEP = 2 / (SURFACE_BINS - 1)


def maps_of(*shares):
    """Maps of one cell for each of the shares (3, b) of the bins of its coordinates."""
    logits = torch.stack(shares).clamp(min=1e-12).log()[..., None, None]
    return SurfaceMaps(torch.zeros(len(shares), 1, 1), logits)


def between(*values):
    """Shares (3, b) of the two bins beside each of three values."""
    return (1 - (torch.tensor(values)[:, None] - PLACES).abs() / STEP).clamp(min=0)


@pytest.mark.parametrize("values", [(-1.0, 0.0, 1.0), (0.31, -0.77, 0.05), (-0.999, 0.999, 0.5)])
def test_shares_of_two_bins_are_what_lies_between(values):
    points, off = maps_of(between(*values)).decode_coordinates()
    assert points.flatten().tolist() == pytest.approx(values, abs=1e-5)
    assert off.item() < 3**0.5 * STEP


def test_of_two_possibilities_one_is_said_and_how_far_off_the_other_is():
    one, other = between(-0.6, -0.6, -0.6), between(0.6, 0.6, 0.6)
    points, off = maps_of(0.6 * one + 0.4 * other, one).decode_coordinates()
    assert points[0].flatten().tolist() == pytest.approx([-0.6] * 3, abs=1e-5)
    assert off[0].item() == pytest.approx((3 * 0.4) ** 0.5 * 1.2, rel=0.05)
    assert off[1].item() < 0.1


def test_who_knows_nothing_says_that_it_is_far_off():
    _, off = maps_of(torch.full((3, SURFACE_BINS), 1 / SURFACE_BINS)).decode_coordinates()
    assert off.item() > 0.8
