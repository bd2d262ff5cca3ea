"""The losses of CycleGAN and CUT, computed again from their networks."""

import pytest
import torch

from sim2cam.adapt.reference.cut import VARIANTS, Cut
from sim2cam.adapt.reference.cyclegan import CycleGan
from sim2cam.adapt.reference.patches import make_patch_sampler

CPU = torch.device("cpu")


@pytest.fixture
def sample(sim, real, tiny):
    return make_patch_sampler(sim, real, tiny)


@pytest.fixture
def build_cut(sample, tiny):
    return lambda method: Cut(tiny, VARIANTS[method], sample, CPU)


def test_patches_are_a_function_of_the_step(sample):
    first, again, other = (sample(step) for step in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert all(p.shape == (1, 3, 32, 32) for p in first)
    assert all(p.min() >= -1.0 and p.max() <= 1.0 for p in first)


def test_losses_of_cyclegan_are_the_published_ones(sample, tiny):
    model = CycleGan(tiny, sample, CPU)
    to_real, to_sim = (model._domains[name] for name in ("real", "sim"))
    a, b = sample(0)
    with torch.no_grad():
        fake_b, fake_a = to_real.generator(a), to_sim.generator(b)
        gan = (to_real.discriminator(fake_b) - 1).square().mean()
        gan += (to_sim.discriminator(fake_a) - 1).square().mean()
        cycle = (to_sim.generator(fake_b) - a).abs().mean()
        cycle += (to_real.generator(fake_a) - b).abs().mean()
        same = (to_real.generator(b) - b).abs().mean() + (to_sim.generator(a) - a).abs().mean()
        scores = to_real.discriminator(b), to_real.discriminator(fake_b)
        discriminator = ((scores[0] - 1).square().mean() + scores[1].square().mean()) / 2
    scalars = model.train_step(0, (a, b))
    assert torch.isclose(scalars["generator"], gan + 10 * cycle + 5 * same)
    assert torch.isclose(scalars["discriminator_real"], discriminator)
    assert torch.isclose(scalars["mean_change"], (fake_b - a).abs().mean() / 2)


@pytest.mark.parametrize(
    ("method", "weight", "has_identity"), [("cut", 1.0, True), ("fastcut", 10.0, False)]
)
def test_the_generator_of_cut_has_the_published_loss(
    build_cut, sample, method, weight, has_identity
):
    model, losses = build_cut(method), []
    nce = model._compute_nce_loss
    model._compute_nce_loss = lambda *pair, **more: losses.append(nce(*pair, **more)) or losses[-1]
    scalars = model.train_step(0, sample(0))
    assert len(losses) == 1 + has_identity
    mean = torch.stack(losses).mean()
    assert torch.isclose(scalars["generator"], scalars["adversarial"] + weight * mean)


def test_networks_of_cut_start_as_published_and_all_are_trained(build_cut, sample):
    """Standard deviation by layer size: 0.02 * sqrt(2 / (inputs + outputs))."""
    model, before = build_cut("cut"), {}
    for name, trainable in model.networks.items():
        before[name] = [p.clone() for p in trainable.network.parameters()]
        largest = max((p for p in before[name] if p.ndim > 1), key=torch.numel)
        size = largest[0, 0].numel()
        std = 0.02 * (2 / (size * (largest.shape[0] + largest.shape[1]))) ** 0.5
        assert float(largest.detach().std()) == pytest.approx(std, rel=0.1), name
    model.train_step(0, sample(0))
    for name, trainable in model.networks.items():
        parameters = list(trainable.network.parameters())
        assert not all(map(torch.equal, before[name], parameters)), name
        assert all(p.requires_grad for p in parameters), name


def test_fastcut_mirrors_every_second_step_and_compares_upright(build_cut, sample):
    """A generator that keeps an image has perfect locations, mirrored or not."""
    model, mirrored = build_cut("fastcut"), []
    nce = model._compute_nce_loss

    def watched(before, after, rng, *, is_flipped):
        mirrored.append(is_flipped)
        kept = before.flip(3) if is_flipped else before
        turned = nce(before, kept, rng, is_flipped=not is_flipped)
        assert nce(before, kept, rng, is_flipped=is_flipped) < turned
        return nce(before, after, rng, is_flipped=is_flipped)

    model._compute_nce_loss = watched
    for step in range(8):
        model.train_step(step, sample(step))
    assert 0 < sum(mirrored) < 8
