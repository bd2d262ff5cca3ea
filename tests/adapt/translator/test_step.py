from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.patches import (
    FramePairPatches,
    PatchSource,
    sample_batch,
    sample_nce_locations,
)
from sim2cam.adapt.translator.step import (
    build_networks,
    compute_generator_losses,
    nce_loss,
    translate_patches,
    update_discriminator,
    update_generator,
    update_networks,
)

CPU = torch.device("cpu")
USUAL = TranslatorConfig()
WEIGHTED = {
    "adversarial": USUAL.adversarial_weight,
    "identity": USUAL.identity_weight,
    "structure": USUAL.structure_weight,
    "structure_residual": USUAL.structure_residual_weight,
    "range": USUAL.range_weight,
}


@pytest.fixture
def batch(sim, real, tiny):
    sources = [PatchSource(side, buffers=(), cache_bytes=1 << 20) for side in (sim, real)]
    return sample_batch(*sources, tiny, 0, 0)


def weights_of(network: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in network.parameters()]


def test_each_player_learns_from_its_own_update_alone(batch, tiny):
    players = build_networks(tiny, (), CPU)
    fake = translate_patches(players, batch.sim)
    generator, discriminator = weights_of(players.generator), weights_of(players.discriminator)

    update_discriminator(players, [fake.rgb.detach()], [batch], tiny, step=0)
    assert all(map(torch.equal, generator, weights_of(players.generator)))
    moved = weights_of(players.discriminator)
    kernels = [(a, b) for a, b in zip(discriminator, moved, strict=True) if a.ndim > 1]
    assert not any(torch.equal(before, after) for before, after in kernels)

    update_generator(players, [fake], [batch], tiny)
    assert all(map(torch.equal, moved, weights_of(players.discriminator)))
    assert not all(map(torch.equal, generator, weights_of(players.generator)))


def test_places_are_looked_for_again_as_the_paper_has_it(batch, tiny):
    """Cross-entropies worked out alone, of the projected features of each layer."""
    config = replace(tiny, nce_weight=1.0)
    players = build_networks(config, (), CPU)
    places = sample_nce_locations(config, 0)
    assert [len(chosen) for chosen in places] == [256, 64, 64]
    changed = (batch.sim.rgb * 0.7 + 0.1).clamp(0, 1)
    shown = [players.generator.extract_features(rgb) for rgb in (batch.sim.rgb, changed)]
    found = float(nce_loss(players.projector, *shown, places))
    means = []
    for layer, chosen in enumerate(places):
        head = players.projector.heads[layer]
        vectors = []
        for features in (one[layer] for one in shown):
            flat = features.flatten(2)[:, :, chosen].transpose(1, 2)
            out = head(flat).detach().double().numpy()
            vectors.append(out / np.linalg.norm(out, axis=2, keepdims=True))
        alike = vectors[1] @ vectors[0].transpose(0, 2, 1) / 0.07  # (n, p, p)
        own = np.einsum("npp->np", alike)
        means.append(np.mean(np.log(np.exp(alike - own[..., None]).sum(2))))
    assert found == pytest.approx(np.mean(means), rel=1e-3)
    moved = players.generator.extract_features(batch.sim.rgb.roll(5, dims=3))
    assert nce_loss(players.projector, shown[0], moved, places) > nce_loss(
        players.projector, shown[0], shown[0], places
    )


def test_the_projector_learns_and_is_gone_on_with(batch, tiny):
    config = replace(tiny, nce_weight=1.0)
    players = build_networks(config, (), CPU)
    before = weights_of(players.projector)
    scalars = update_networks(
        players, replace(batch, nce_locations=sample_nce_locations(config, 0)), config, 0
    )
    assert scalars["nce"] > 0
    assert not all(map(torch.equal, before, weights_of(players.projector)))
    assert build_networks(tiny, (), CPU).projector is None


def test_translations_learn_to_look_as_their_renders_to_a_network(batch, tiny):
    """The squared distance stands for LPIPS: of the identity nothing, then its mean, with its weight."""

    def squared(first, second):
        assert first is batch.sim.rgb
        return (first - second).square().mean(dim=(1, 2, 3))

    config = replace(tiny, lpips_weight=3.0)
    players = build_networks(config, (), CPU, lpips=squared)
    assert build_networks(tiny, (), CPU, lpips=squared).lpips is None
    assert (
        compute_generator_losses(players, translate_patches(players, batch.sim), batch)["lpips"]
        == 0.0
    )
    with torch.no_grad():
        players.generator.colour_head.matrix.bias.fill_(0.5)
    fake = translate_patches(players, batch.sim)
    wanted = (fake.rgb - batch.sim.rgb).square().mean().item()
    scalars = update_generator(players, [fake], [batch], config)
    assert scalars["lpips"].item() == pytest.approx(wanted, rel=1e-5)
    others = {name: value for name, value in scalars.items() if name in WEIGHTED}
    sum_of_others = sum(WEIGHTED[name] * value for name, value in others.items())
    assert scalars["generator"].item() == pytest.approx(
        float(sum_of_others) + 3.0 * wanted, rel=1e-4
    )


@pytest.mark.slow
def test_compiled_networks_learn_what_others_do(batch, tiny):
    """With a gradient penalty in the first step, which differentiates twice."""
    learned, before = [], torch._dynamo.utils.counters["frames"]["ok"]
    for config in (tiny, replace(tiny, compile=True)):
        players = build_networks(config, (), CPU)
        scalars = [update_networks(players, batch, config, step) for step in range(4)]
        learned.append((scalars, players))
    (eager, own), (compiled, other) = learned
    assert torch._dynamo.utils.counters["frames"]["ok"] > before
    assert "gradient_penalty" in eager[0]
    for one, same in zip(eager, compiled, strict=True):
        assert {n: float(v) for n, v in same.items()} == pytest.approx(
            {n: float(v) for n, v in one.items()}, rel=1e-3, abs=1e-4
        )
    assert list(own.generator.state_dict()) == list(other.generator.state_dict())
    assert list(own.discriminator.state_dict()) == list(other.discriminator.state_dict())


def test_losses_of_the_identity(batch, tiny):
    players = build_networks(tiny, (), CPU)
    with torch.no_grad():
        losses = compute_generator_losses(players, translate_patches(players, batch.sim), batch)
    assert losses["identity"] == 0.0
    assert losses["range"] == 0.0
    assert losses["structure"] == pytest.approx(0.0, abs=1e-4)


def test_renders_unlike_the_captures_keep_what_they_show_too(batch, tiny):
    """What the translator does to them is asked to keep structure and range, and nothing else."""
    players = build_networks(tiny, (), CPU)
    players.discriminator.eval()  # its spectral norms stay as they are
    with torch.no_grad():
        players.generator.residual.head.weight.normal_(
            std=0.3, generator=torch.Generator().manual_seed(0)
        )
        bright = replace(batch.unmatched_sim, rgb=1 - 0.1 * batch.unmatched_sim.rgb)
        fake = translate_patches(players, batch.sim)
        alone, both, with_bright = (
            compute_generator_losses(players, fake, replace(batch, unmatched_sim=others))
            for others in (None, batch.unmatched_sim, bright)
        )
    for name in ("structure", "range"):
        assert both[name] != alone[name]
        assert with_bright[name] > both[name]
    for name in ("adversarial", "identity"):
        assert both[name] == alone[name] == with_bright[name]


def test_gradient_penalty_comes_now_and_then(batch, tiny):
    players = build_networks(tiny, (), CPU)
    found = ["gradient_penalty" in update_networks(players, batch, tiny, step) for step in range(7)]
    assert found == [True, False, False, True, False, False, True]


def test_discriminator_learns_to_tell_and_the_generator_to_pass(sim, real, tiny):
    config = replace(tiny, batch=4, learning_rate_discriminator=5e-3)
    sources = [PatchSource(side, buffers=(), cache_bytes=1 << 20) for side in (sim, real)]
    players = build_networks(config, (), CPU)
    for step in range(60):
        batch = sample_batch(*sources, config, 0, step)
        fake = batch.sim.rgb
        scalars = update_discriminator(players, [fake], [batch], config, step)
    assert scalars["discriminator_accuracy"] > 0.8

    first = update_networks(players, batch, config, 60)
    for step in range(61, 90):
        last = update_networks(players, sample_batch(*sources, config, 0, step), config, step)
    assert first["mean_change"] == 0.0
    assert last["mean_change"] > 0.005
    assert last["adversarial"] < first["adversarial"]


def test_a_batch_in_parts_has_the_gradients_of_the_whole(sim, real, tiny):
    config = replace(tiny, batch=4, gradient_penalty_every=1)
    sources = [PatchSource(side, buffers=(), cache_bytes=1 << 20) for side in (sim, real)]
    batch = sample_batch(*sources, config, 0, 0)
    found = []
    for parts in (1, 4):
        players = build_networks(config, (), CPU)
        scalars = update_networks(players, batch, replace(config, accumulation_steps=parts), 0)
        gradients = torch.cat([p.grad.flatten() for p in players.discriminator.parameters()])
        found.append((scalars, gradients))
    (whole, gradients), (parted, others) = found
    assert whole.keys() == parted.keys()
    assert torch.nn.functional.cosine_similarity(gradients, others, dim=0) > 0.99
    for name in ("discriminator", "identity", "mean_change"):
        assert float(parted[name]) == pytest.approx(float(whole[name]), rel=0.05, abs=1e-6)


class Said(NamedTuple):
    heatmap: torch.Tensor
    log_sides: torch.Tensor
    class_logits: torch.Tensor


def brightness(rgb):
    """What a detector might say that sees objects where it is bright."""
    means = torch.nn.functional.avg_pool2d(rgb, 8)
    return Said(20 * means[:, 0] - 10, means[:, [0, 1, 2, 0]], 5 * means)


def test_parts_of_a_batch_teach_the_generator_what_the_whole_does(sim, real, tiny):
    """Also where pictures differ in what a loss is a mean over: contrast, pairs, objects, what films show twice."""
    config = replace(tiny, batch=4, flow_weight=1.0, nce_weight=1.0)
    sources = [PatchSource(side, buffers=(), cache_bytes=1 << 20) for side in (sim, real)]
    batch = sample_batch(*sources, config, 0, 0)
    flat = batch.sim.rgb.clone()
    flat[1:] = flat[1:].mean(dim=(2, 3), keepdim=True)
    flat[3, :, 8:24] = 0.9
    earlier = replace(batch.sim, rgb=batch.sim.rgb.roll(1, dims=3))
    seen = torch.zeros(4, 3, config.patch_px, config.patch_px)
    seen[0, 2], seen[2, 2, :3] = 1, 1
    registered = torch.zeros(4, 1, config.patch_px, config.patch_px)
    registered[1, :, 5:], registered[2, :, :, :2] = 1, 1
    batch = replace(
        batch,
        sim=replace(batch.sim, rgb=flat),
        registration_mask=registered,
        frame_pairs=FramePairPatches(earlier, batch.sim, seen),
        nce_locations=sample_nce_locations(config, 0),
    )
    found = []
    for parts in (1, 2, 4):
        players = build_networks(config, (), CPU, brightness)
        players.discriminator.eval()  # its spectral norms stay as they are
        with torch.no_grad():
            players.generator.residual.head.weight.normal_(
                std=0.3, generator=torch.Generator().manual_seed(0)
            )
        pieces = batch.split(parts)
        fakes = [translate_patches(players, piece.sim) for piece in pieces]
        scalars = update_generator(players, fakes, pieces, config)
        gradients = torch.cat([p.grad.flatten() for p in players.generator.parameters()])
        found.append((scalars, gradients))
    (whole, gradients), *others = found
    assert min(whole[name] for name in ("structure", "paired", "perception", "nce", "flow")) > 1e-3
    for parted, same in others:
        assert parted.keys() == whole.keys()
        for name, value in whole.items():
            assert float(parted[name]) == pytest.approx(float(value), rel=1e-4, abs=1e-6)
        assert (same - gradients).norm() < 1e-3 * gradients.norm()


def test_parts_of_a_batch_are_all_of_it(batch):
    parts = batch.split(2)
    assert [len(part.sim.rgb) for part in parts] == [1, 1]
    assert torch.equal(torch.cat([part.real.noise for part in parts]), batch.real.noise)
    assert torch.equal(
        torch.cat([part.unmatched_sim.rgb for part in parts]), batch.unmatched_sim.rgb
    )
    assert parts[1].augmentation.cutout_px.tolist() == batch.augmentation.cutout_px[1:].tolist()


def test_half_precision_leaves_the_identity_and_the_spectral_norm_alone(batch, tiny, monkeypatch):
    """As on CUDA, here as on a CPU that multiplies bfloat16."""
    monkeypatch.setattr("sim2cam.learn.device._supports_bfloat16", lambda: True)
    config = replace(tiny, bfloat16=True)
    players = build_networks(config, (), CPU)
    fake = translate_patches(players, batch.sim)
    assert torch.equal(fake.rgb, batch.sim.rgb)
    update_networks(players, batch, config, 0)
    singly = build_networks(tiny, (), CPU)
    update_networks(singly, batch, tiny, 0)
    assert not torch.equal(
        translate_patches(singly, batch.sim).unclamped,
        translate_patches(players, batch.sim).unclamped,
    )  # it was computed otherwise
    again = translate_patches(players, batch.sim)
    assert again.unclamped.dtype == torch.float32
    assert not torch.equal(again.unclamped, fake.unclamped)
    buffers = dict(players.discriminator.named_buffers())
    assert {value.dtype for value in buffers.values()} == {torch.float32}
