import numpy as np
import pytest
import torch
from torch.nn import functional

from sim2cam.adapt.reference.networks import (
    NCE_LAYERS,
    BlurPool,
    PatchGan,
    PatchProjector,
    ResnetGenerator,
    initialise_weights,
    list_nce_channels,
)


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("blocks", "published"), [(9, 11_378_179), (6, 7_837_699)])
def test_generators_have_the_published_number_of_weights(blocks, published, antialias):
    assert count(ResnetGenerator(width=64, blocks=blocks, antialias=antialias)) == published


@pytest.mark.parametrize("antialias", [False, True])
def test_the_discriminator_has_the_published_number_of_weights(antialias):
    assert count(PatchGan(width=64, antialias=antialias)) == 2_764_737


def test_the_projector_has_the_published_number_of_weights():
    assert count(PatchProjector(list_nce_channels(64))) == 560_384  # "0.560 M"


def test_blur_is_a_normalised_binomial_and_keeps_every_second_pixel():
    step = torch.zeros(1, 2, 8, 8)
    step[0, 0, 4, 4] = 16.0
    found = BlurPool(2)(step)
    assert found.shape == (1, 2, 4, 4)
    assert found[0, 0, 2, 2] == 4.0
    assert not found[0, 1].any()
    assert torch.equal(BlurPool(1)(torch.ones(1, 1, 8, 8)), torch.ones(1, 1, 4, 4))


def test_growing_is_the_published_transposed_binomial():
    """The code of CUT doubles by a transposed convolution with the kernel 1 3 3 1."""
    features = torch.rand(1, 1, 5, 6, generator=torch.Generator().manual_seed(0))
    row = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8.0
    kernel = 4.0 * torch.outer(row, row)[None, None]
    padded = functional.pad(features, (1, 1, 1, 1), mode="replicate")
    published = functional.conv_transpose2d(padded, kernel, stride=2, padding=2)[:, :, 1:-1, 1:-1]
    ours = functional.interpolate(features, scale_factor=2, mode="bilinear")
    assert torch.allclose(ours, published, atol=1e-6)


@pytest.mark.parametrize("antialias", [False, True])
def test_sizes_survive_and_pictures_stay_in_range(antialias):
    generator = ResnetGenerator(width=2, blocks=5, antialias=antialias)
    found = generator(torch.rand(2, 3, 32, 44) * 2.0 - 1.0)
    assert found.shape == (2, 3, 32, 44)
    assert found.abs().max() <= 1.0


def test_verdicts_see_seventy_pixels():
    """Of a picture, only a window of 70x70 px may reach one verdict."""
    discriminator = PatchGan(width=2, antialias=False)
    for layer in discriminator.layers:
        if isinstance(layer, torch.nn.Conv2d):
            torch.nn.init.constant_(layer.weight, 0.01)
    blind = torch.nn.Sequential(  # norms see the whole picture: left out here
        *(layer for layer in discriminator.layers if not isinstance(layer, torch.nn.GroupNorm))
    )
    picture = torch.ones(1, 3, 128, 128, requires_grad=True)
    verdict = blind(picture)
    assert verdict.shape == (1, 1, 14, 14)
    verdict[0, 0, 7, 7].backward()
    rows = picture.grad.abs().sum(dim=(0, 1, 3)).nonzero().flatten()
    assert int(rows[-1] - rows[0]) + 1 == 70


def test_compared_features_are_those_of_the_named_layers():
    generator = ResnetGenerator(width=2, blocks=6, antialias=True)
    picture = torch.rand(1, 3, 32, 32)
    found = generator.extract_features(picture)
    assert [f.shape[1] for f in found] == list(list_nce_channels(2))
    assert [f.shape[2] for f in found] == [38, 32, 16, 8, 8]
    assert torch.equal(found[0], functional.pad(picture, (3, 3, 3, 3), mode="reflect"))
    assert torch.equal(found[3], generator.layers[: NCE_LAYERS[3] + 1](picture))


def test_projections_are_unit_vectors_of_the_places_asked_for():
    projector = PatchProjector((3,))
    features = torch.rand(2, 3, 4, 4)
    places = torch.tensor([0, 5, 15])
    (found,) = projector([features], [places])
    assert found.shape == (2, 3, 256)
    assert torch.allclose(found.norm(dim=2), torch.ones(2, 3))
    alone = functional.normalize(projector.heads[0](features[1, :, 1, 1]), dim=0)
    assert torch.allclose(found[1, 1], alone, atol=1e-6)


def test_equal_seeds_draw_equal_weights_of_the_right_spread():
    drawn = []
    for _ in range(2):
        generator = ResnetGenerator(width=8, blocks=5, antialias=False)
        initialise_weights(generator, torch.Generator().manual_seed(3), xavier=False)
        drawn.append(
            torch.cat([p.detach().flatten() for p in generator.parameters() if p.ndim > 1])
        )
        assert not any(p.any() for p in generator.parameters() if p.ndim == 1)
    assert torch.equal(*drawn)
    assert np.isclose(drawn[0].std(), 0.02, rtol=0.02)


def test_what_is_compared_of_two_pictures_teaches_as_each_alone_does():
    """Gradients that lie in memory by pixels go wrong through instance normalization of one picture."""
    rng = torch.Generator().manual_seed(0)
    generator = ResnetGenerator(width=4, blocks=5, antialias=True).double()
    initialise_weights(generator, rng, xavier=True)
    projector = PatchProjector(list_nce_channels(4)).double()
    initialise_weights(projector, rng, xavier=True)
    pictures = 2 * torch.rand(2, 3, 32, 32, generator=rng, dtype=torch.float64) - 1
    places = [torch.arange(20).flip(0)] * len(NCE_LAYERS)
    aims = torch.randn(2, 20, 256, generator=rng, dtype=torch.float64)

    def taught(these):
        generator.zero_grad(set_to_none=True)
        found = projector(generator.extract_features(pictures[these]), places)
        torch.stack([(vectors * aims[these]).sum() for vectors in found]).sum().backward()
        return torch.cat([p.grad.flatten() for p in generator.parameters() if p.grad is not None])

    together = taught(slice(0, 2))
    apart = taught(slice(0, 1)) + taught(slice(1, 2))
    torch.testing.assert_close(apart, together, rtol=1e-9, atol=1e-9 * float(together.abs().max()))
