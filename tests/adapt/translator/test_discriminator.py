import torch

from sim2cam.adapt.translator.discriminator import (
    MultiScaleDiscriminator,
    PatchDiscriminator,
    SpectralConv2d,
    initialise_discriminator,
)


def make_discriminator() -> PatchDiscriminator:
    discriminator = PatchDiscriminator(8)
    initialise_discriminator(discriminator, torch.Generator().manual_seed(0))
    return discriminator


def test_norm_of_the_effective_weight_converges_to_one():
    conv, rng = SpectralConv2d(3, 8, 4, stride=2), torch.Generator().manual_seed(0)
    torch.nn.init.kaiming_normal_(conv.weight, generator=rng)
    image = torch.rand((1, 3, 16, 16), generator=rng)
    for _ in range(400):
        out = conv(image)
    largest = torch.linalg.matrix_norm(conv.weight.flatten(1), ord=2)
    assert conv.bias is not None
    expected = torch.nn.functional.conv2d(
        image, conv.weight / largest, conv.bias, stride=2, padding=1
    )
    assert torch.allclose(out, expected, atol=1e-4)


def test_receptive_field_is_38_pixels():
    discriminator = make_discriminator().eval()
    image = torch.rand((1, 3, 96, 96), generator=torch.Generator().manual_seed(1))
    image.requires_grad_(True)
    discriminator(image)[0, 0, 6, 6].backward()
    assert image.grad is not None
    seen = image.grad.abs().sum(dim=(0, 1)) > 0
    assert int(seen.any(dim=1).sum()) == 38
    assert int(seen.any(dim=0).sum()) == 38


def test_power_iteration_rests_in_evaluation():
    discriminator = make_discriminator()
    image = torch.rand((1, 3, 32, 32), generator=torch.Generator().manual_seed(1))
    before = {name: value.clone() for name, value in discriminator.named_buffers()}
    discriminator.eval()(image)
    after = dict(discriminator.named_buffers())
    assert all(torch.equal(before[name], after[name]) for name in before)
    discriminator.train()(image)
    after = dict(discriminator.named_buffers())
    assert not any(torch.equal(before[name], after[name]) for name in before if "head" not in name)
    assert set(before) <= set(discriminator.state_dict())


def test_each_scale_sees_a_picture_of_half_the_size_and_has_weights_of_its_own():
    scaled = MultiScaleDiscriminator(8, scales=3).eval()
    initialise_discriminator(scaled, torch.Generator().manual_seed(0))
    image = torch.rand((2, 3, 64, 96), generator=torch.Generator().manual_seed(1))
    verdicts = scaled(image)
    assert [tuple(one.shape) for one in verdicts] == [(2, 1, 8, 12), (2, 1, 4, 6), (2, 1, 2, 3)]
    halved = torch.nn.functional.avg_pool2d(image, 2)
    assert torch.equal(verdicts[1], scaled.scales[1](halved))
    assert not torch.allclose(verdicts[1], scaled.scales[0](halved))
