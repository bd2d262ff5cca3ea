import pytest
import torch

from sim2cam.adapt.translator.generator import Generator, ReplicatePadConv2d, initialise_generator

BUFFERS = 3


def make_generator(seed: int = 0) -> Generator:
    generator = Generator(buffers=BUFFERS, width=8, blocks=2, colour_bound=0.3, local_bound=0.2)
    initialise_generator(generator, torch.Generator().manual_seed(seed))
    return generator


def make_inputs(height: int = 24, width: int = 32) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    shapes = [(2, 3, height, width), (2, BUFFERS, height, width), (2, 1, height, width)]
    return [torch.rand(shape, generator=rng) for shape in [*shapes, (2, 3, 32, 32)]]


def test_begins_as_the_exact_identity():
    inputs = make_inputs()
    out = make_generator()(*inputs)
    assert torch.equal(out.unclamped, inputs[0])
    assert torch.equal(out.rgb, inputs[0])


def test_wild_weights_stay_within_the_bounds():
    generator = make_generator()
    with torch.no_grad():
        for parameter in generator.parameters():
            parameter.normal_(0.0, 3.0, generator=torch.Generator().manual_seed(2))
    rgb, *others = make_inputs()
    out = generator(rgb, *others)
    assert out.residual.abs().max() <= 0.2
    assert out.colour_delta.abs().max() <= 0.3
    assert out.residual.abs().max() > 0.15
    assert out.rgb.min() >= 0.0
    assert out.rgb.max() <= 1.0
    change = (
        torch.einsum("nij,njhw->nihw", out.colour_delta[..., :3], rgb)
        + out.colour_delta[..., 3:, None]
    )
    assert torch.allclose(out.unclamped, rgb + change + out.residual, atol=1e-6)


def test_every_weight_is_reached_by_the_gradient_once_the_heads_have_moved():
    generator = make_generator()
    with torch.no_grad():
        generator.residual.head.weight.fill_(0.01)
        generator.colour_head.matrix.weight.fill_(0.01)
    generator(*make_inputs()).unclamped.square().mean().backward()
    for name, parameter in generator.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_heads_are_reached_at_step_zero():
    generator = make_generator()
    generator(*make_inputs()).unclamped.square().mean().backward()
    for head in (generator.residual.head, generator.colour_head.matrix):
        assert head.weight.grad is not None
        assert head.weight.grad.abs().sum() > 0


def test_weights_depend_on_the_seed_alone():
    first, again, other = (make_generator(seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["residual.to_half.weight"], other["residual.to_half.weight"])


@pytest.mark.parametrize("channel", ["buffers", "noise", "thumbnail"])
def test_every_input_matters_once_trained(channel):
    generator = make_generator()
    with torch.no_grad():
        generator.residual.head.weight.normal_(generator=torch.Generator().manual_seed(3))
        generator.colour_head.matrix.weight.normal_(generator=torch.Generator().manual_seed(4))
    inputs = make_inputs()
    before = generator(*inputs).unclamped
    inputs[["rgb", "buffers", "noise", "thumbnail"].index(channel)] *= 0.5
    assert not torch.equal(before, generator(*inputs).unclamped)


def test_demo_size_has_the_stated_number_of_weights():
    generator = Generator(buffers=BUFFERS, width=32, blocks=4, colour_bound=0.3, local_bound=0.2)
    assert 300_000 < sum(p.numel() for p in generator.parameters()) < 400_000


@pytest.mark.parametrize("stride", [1, 2])
def test_edges_are_seen_once_more_compiled_or_not(monkeypatch, stride):
    layer = ReplicatePadConv2d(4, 6, stride=stride)
    features = torch.rand((2, 4, 8, 10), generator=torch.Generator().manual_seed(0))
    usual = layer(features)
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: True)
    assert torch.equal(layer(features), usual)
    flat = torch.ones((1, 4, 8, 10))
    out = layer(flat)
    assert torch.allclose(out, out[..., :1, :1])  # no frame
