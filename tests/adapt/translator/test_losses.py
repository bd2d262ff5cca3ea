import numpy as np
import pytest
import torch

from sim2cam.adapt.translator.discriminator import MultiScaleDiscriminator, initialise_discriminator
from sim2cam.adapt.translator.losses import (
    discriminator_hinge_loss,
    generator_hinge_loss,
    gradient_penalty,
    paired_loss,
    range_loss,
    structure_loss,
    structure_residual_loss,
)


@pytest.fixture
def image() -> torch.Tensor:
    picture = torch.full((1, 3, 48, 48), 0.4)
    picture[:, :, 16:32, 16:32] = 0.7
    picture[:, :, 22:26, 22:26] = 0.2
    return picture


def test_structure_is_free_for_brightness_and_contrast(image):
    assert structure_loss(image, image) == pytest.approx(0.0, abs=1e-4)
    assert structure_loss(image, 0.6 * image + 0.1) == pytest.approx(0.0, abs=1e-4)
    gain = torch.tensor([1.2, 0.8, 0.5]).view(1, 3, 1, 1)
    assert structure_loss(image, gain * image + 0.05) == pytest.approx(0.0, abs=1e-4)


def test_structure_costs_more_the_further_edges_move(image):
    costs = [float(structure_loss(image, image.roll(px, dims=-1))) for px in (1, 2, 3)]
    assert 0.02 < costs[0] < costs[1] < costs[2]


def test_structure_forbids_erasing_and_turning_round(image):
    assert structure_loss(image, torch.full_like(image, 0.4)) == pytest.approx(1.0, abs=1e-3)
    assert structure_loss(image, 1.0 - image) == pytest.approx(2.0, abs=1e-3)


def test_structure_sees_a_change_in_one_channel(image):
    haloed = image.clone()
    haloed[:, 0, 13:16, 13:35] -= 0.1
    assert structure_loss(image, haloed) > 0.003


def test_flat_regions_may_get_texture():
    flat = torch.full((1, 3, 32, 32), 0.5)
    noise = 0.1 * torch.randn(flat.shape, generator=torch.Generator().manual_seed(0))
    assert structure_loss(flat, flat + noise) == 0.0


@pytest.mark.parametrize("window_px", [1, 4, 9])
def test_structure_is_one_less_the_mean_correlation_of_windows(window_px):
    before, after = torch.rand(2, 1, 3, 20, 24, generator=torch.Generator().manual_seed(0))
    costs = []
    for x, y in zip(before.flatten(0, 1).numpy(), after.flatten(0, 1).numpy(), strict=True):
        pairs = (
            np.lib.stride_tricks.sliding_window_view(v, (window_px, window_px)) for v in (x, y)
        )
        for row in zip(*pairs, strict=True):
            costs += [
                1 - np.corrcoef(one.ravel(), other.ravel())[0, 1]
                for one, other in zip(*row, strict=True)
                if one.std() > 0.02
            ]
    mean = np.mean(costs) if costs else 0.0
    found = structure_loss(before.double(), after.double(), window_px=window_px)
    assert found == pytest.approx(mean, abs=1e-5)


def test_structure_has_a_finite_gradient_everywhere(image):
    after = torch.full_like(image, 0.5).requires_grad_(True)
    structure_loss(image, after).backward()
    assert after.grad is not None
    assert torch.isfinite(after.grad).all()


def test_what_cameras_change_is_shared(image):
    noise = 0.03 * torch.randn(image.shape, generator=torch.Generator().manual_seed(0))
    gain = torch.tensor([1.2, 0.8, 0.9]).view(1, 3, 1, 1)
    for after in (image, 0.6 * image + 0.1, gain * image + 0.05, image + noise, image - 0.3):
        assert structure_residual_loss(image, after) < 0.002


def test_unshared_is_the_worst_windows_deviation_that_the_other_does_not_explain():
    before, after = torch.rand(2, 1, 3, 20, 24, generator=torch.Generator().manual_seed(0)).double()
    lumas = []
    for rgb in (before, after):
        luma = np.tensordot((0.299, 0.587, 0.114), rgb[0].numpy(), 1)
        lumas.append(np.lib.stride_tricks.sliding_window_view(luma, (3, 3)).mean(axis=(2, 3)))
    pairs = [np.lib.stride_tricks.sliding_window_view(v, (9, 9)).reshape(-1, 81) for v in lumas]
    explained = [np.clip(np.corrcoef(x, y)[0, 1], 0, 1) ** 2 for x, y in zip(*pairs, strict=True)]
    worst = [(one.std(axis=1) * (1 - np.array(explained))).max() for one in pairs]
    found = structure_residual_loss(before, after)
    assert found == pytest.approx(np.mean(worst) - 3 / 255, rel=1e-3)


def test_one_spot_costs_as_much_in_a_large_picture():
    flat = torch.full((1, 3, 40, 40), 0.4)
    spot = flat.clone()
    spot[:, :, 12:21, 12:21] += 0.2
    cost = float(structure_residual_loss(flat, spot))
    assert cost > 0.03
    assert structure_residual_loss(spot, flat) == pytest.approx(cost, rel=1e-4)
    wide = [torch.nn.functional.pad(v, (0, 200, 0, 200), mode="replicate") for v in (flat, spot)]
    assert structure_residual_loss(*wide) == pytest.approx(cost, rel=1e-4)
    two = torch.cat([flat, flat]), torch.cat([spot, flat])
    assert structure_residual_loss(*two) == pytest.approx(cost / 2, rel=1e-4)


def test_moved_and_inverted_structure_is_not_shared(image):
    costs = [float(structure_residual_loss(image, image.roll(px, dims=-1))) for px in (0, 2, 4)]
    assert costs[0] < 0.001
    assert 0.02 < costs[1] < costs[2]
    assert structure_residual_loss(image, 1.0 - image) > 0.1


def test_what_is_not_shared_has_a_finite_gradient_everywhere(image):
    faint = (
        0.4
        + 0.1 * image
        + 0.05 * torch.rand(image.shape, generator=torch.Generator().manual_seed(0))
    )
    for after, is_pulled in ((torch.full_like(image, 0.5), False), (faint, True)):
        after.requires_grad_(True)
        structure_residual_loss(image, after).backward()
        assert after.grad is not None
        assert torch.isfinite(after.grad).all()
        assert bool(after.grad.abs().sum() > 0) is is_pulled


def test_range_counts_only_what_is_outside():
    assert range_loss(torch.tensor([0.0, 0.5, 1.0])) == 0.0
    assert range_loss(torch.tensor([-0.2, 0.5, 1.4, 1.0])) == pytest.approx(0.15)


def test_hinge_rests_beyond_the_margin():
    sure, unsure = torch.full((2, 1, 3, 3), 1.5), torch.zeros(2, 1, 3, 3)
    assert discriminator_hinge_loss([sure], [-sure]) == 0.0
    assert discriminator_hinge_loss([unsure], [unsure]) == 2.0
    assert generator_hinge_loss([sure]) == -1.5


def test_scales_have_as_much_to_say_as_each_other():
    sure, unsure = torch.full((2, 1, 8, 8), 1.5), torch.zeros(2, 1, 4, 4)
    assert discriminator_hinge_loss([sure, unsure], [-sure, unsure]) == 1.0
    assert generator_hinge_loss([sure, unsure]) == -0.75


def test_gradient_penalty_is_that_of_finite_differences():
    discriminator = MultiScaleDiscriminator(4, scales=2).eval().double()
    initialise_discriminator(discriminator, torch.Generator().manual_seed(0))
    real = torch.rand(
        (1, 3, 16, 16), generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    step = 1e-6
    squares = 0.0
    for index in range(real.numel()):
        bump = torch.zeros(real.numel(), dtype=torch.float64)
        bump[index] = step
        with torch.no_grad():
            above, below = (
                torch.stack(
                    [one.mean() for one in discriminator(real + sign * bump.view_as(real))]
                ).mean()
                for sign in (1, -1)
            )
        squares += float((above - below) / (2 * step)) ** 2
    assert float(gradient_penalty(discriminator, real).detach()) == pytest.approx(squares, rel=1e-3)


def test_gradient_penalty_reaches_the_weights():
    discriminator = MultiScaleDiscriminator(4, scales=2)
    initialise_discriminator(discriminator, torch.Generator().manual_seed(0))
    gradient_penalty(discriminator, torch.full((1, 3, 16, 16), 0.3)).backward()
    for scale in discriminator.scales:
        first = scale.layers[0].weight.grad
        assert first is not None
        assert first.abs().sum() > 0


def test_pairs_are_compared_where_they_show_the_same(image):
    everywhere = torch.ones_like(image[:, :1])
    assert paired_loss(image, image, everywhere) == pytest.approx(0.0, abs=1e-7)
    far = paired_loss(image + 0.5, image, everywhere)
    assert far == pytest.approx(0.5, abs=0.005)  # as the distance, less the foot of the parabola
    assert paired_loss(image + 1.0, image, everywhere) == pytest.approx(2 * float(far), rel=0.01)
    broken = image.clone()
    broken[:, :, :24] += 0.7
    assert paired_loss(broken, image, everywhere) == pytest.approx(0.35, abs=0.005)
    below = everywhere.clone()
    below[:, :, :24] = 0
    assert paired_loss(broken, image, below) == pytest.approx(0.0, abs=1e-7)
    assert paired_loss(broken, image, 0 * everywhere) == 0.0
