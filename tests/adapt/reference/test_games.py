"""The losses of both games, worked out again from their networks."""

import pytest
import torch

from sim2cam.adapt.reference.cut import VARIANTS, Cut
from sim2cam.adapt.reference.cyclegan import CycleGan
from sim2cam.adapt.reference.patches import UnpairedBatchSource

CPU = torch.device("cpu")


def test_patches_are_a_function_of_the_step(sim, real, tiny):
    pairs = UnpairedBatchSource(sim, real, tiny)
    first, again, other = (pairs.sample_local_batch(step, CPU) for step in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert all(p.shape == (1, 3, 32, 32) for p in first)
    assert all(p.min() >= -1.0 and p.max() <= 1.0 for p in first)


def test_losses_of_cyclegan_are_the_published_ones(sim, real, tiny):
    pairs = UnpairedBatchSource(sim, real, tiny)
    game = CycleGan(tiny, pairs, CPU)
    to_real, to_sim = (game._domains[name] for name in ("real", "sim"))
    a, b = pairs.sample_local_batch(0, CPU)
    with torch.no_grad():
        fake_b, fake_a = to_real.generator(a), to_sim.generator(b)
        gan = (to_real.discriminator(fake_b) - 1).square().mean()
        gan += (to_sim.discriminator(fake_a) - 1).square().mean()
        cycle = (to_sim.generator(fake_b) - a).abs().mean()
        cycle += (to_real.generator(fake_a) - b).abs().mean()
        same = (to_real.generator(b) - b).abs().mean() + (to_sim.generator(a) - a).abs().mean()
        verdict = to_real.discriminator(b), to_real.discriminator(fake_b)
        judged = ((verdict[0] - 1).square().mean() + verdict[1].square().mean()) / 2
    found = game.train_step(0)
    assert torch.isclose(found["generator"], gan + 10 * cycle + 5 * same)
    assert torch.isclose(found["discriminator_real"], judged)
    assert torch.isclose(found["mean_change"], (fake_b - a).abs().mean() / 2)


@pytest.mark.parametrize(
    ("method", "weight", "kept"), [("cut", 1.0, True), ("fastcut", 10.0, False)]
)
def test_the_generator_of_cut_has_the_published_loss(sim, real, tiny, method, weight, kept):
    game = Cut(tiny, VARIANTS[method], UnpairedBatchSource(sim, real, tiny), CPU)
    compared = []
    nce = game._compute_nce_loss
    game._compute_nce_loss = lambda *pair, **more: (
        compared.append(nce(*pair, **more)) or compared[-1]
    )
    found = game.train_step(0)
    assert len(compared) == 1 + kept
    mean = torch.stack(compared).mean()
    assert torch.isclose(found["generator"], found["adversarial"] + weight * mean)


def test_every_network_of_cut_begins_as_the_published_code_has_it(sim, real, tiny):
    """Deviations by the layer's size: 0.02 * sqrt(2 / (inputs + outputs)), the projector's too."""
    game = Cut(tiny, VARIANTS["cut"], UnpairedBatchSource(sim, real, tiny), CPU)
    for name, network in game._networks.items():
        largest = max((p for p in network.parameters() if p.ndim > 1), key=torch.numel)
        size = largest[0, 0].numel()
        wanted = 0.02 * (2 / (size * (largest.shape[0] + largest.shape[1]))) ** 0.5
        assert float(largest.detach().std()) == pytest.approx(wanted, rel=0.1), name


def test_fastcut_mirrors_every_second_step_and_compares_upright(sim, real, tiny):
    """A generator that keeps a picture has perfect places, mirrored or not."""
    pairs = UnpairedBatchSource(sim, real, tiny)
    game = Cut(tiny, VARIANTS["fastcut"], pairs, CPU)
    mirrored = []
    nce = game._compute_nce_loss

    def watched(before, after, rng, *, is_flipped):
        mirrored.append(is_flipped)
        kept = before.flip(3) if is_flipped else before
        turned = nce(before, kept, rng, is_flipped=not is_flipped)
        assert nce(before, kept, rng, is_flipped=is_flipped) < turned
        return nce(before, after, rng, is_flipped=is_flipped)

    game._compute_nce_loss = watched
    for step in range(8):
        game.train_step(step)
    assert 0 < sum(mirrored) < 8


def test_only_the_players_whose_turn_it_is_move(sim, real, tiny):
    game = Cut(tiny, VARIANTS["cut"], UnpairedBatchSource(sim, real, tiny), CPU)
    before = {name: [p.clone() for p in n.parameters()] for name, n in game._networks.items()}
    game.train_step(0)
    for name, network in game._networks.items():
        moved = [
            not torch.equal(a, b) for a, b in zip(before[name], network.parameters(), strict=True)
        ]
        assert any(moved), name
        assert all(p.requires_grad for p in network.parameters()), name
