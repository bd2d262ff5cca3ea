"""Pictures of any size through a published generator."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from sim2cam.adapt.card import ImageSetRecord
from sim2cam.adapt.certificate.artefacts import measure_seam_step
from sim2cam.adapt.certificate.image_pair import ImagePair
from sim2cam.adapt.reference import translator as module
from sim2cam.adapt.reference.card import ReferenceCard
from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.networks import ResnetGenerator, fix_norm_statistics
from sim2cam.adapt.reference.translator import build_translator, extract_grid_crops, load_reference
from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.errors import CheckpointError
from sim2cam.learn.weight_file import save_weights

CPU = torch.device("cpu")


def trained(*, antialias):
    """A generator that changes pictures, as after a training; nothing that it makes is cut at black or white."""
    rng = torch.Generator().manual_seed(0)
    generator = ResnetGenerator(width=4, blocks=1, antialias=antialias)
    for parameter in generator.parameters():
        if parameter.ndim > 1:
            torch.nn.init.xavier_normal_(parameter, generator=rng)
        else:
            torch.nn.init.zeros_(parameter)
    return build_translator(generator, CPU)


def scene(height, width):
    """A picture whose parts differ, so that each would be normed otherwise."""
    rng = np.random.default_rng(0)
    coarse = rng.uniform(0, 255, (height // 16 + 1, width // 16 + 1, 3)).repeat(16, 0).repeat(16, 1)
    light = np.linspace(0.2, 1.0, width)[None, :, None]
    return (coarse[:height, :width] * light).astype(np.uint8)


@pytest.mark.parametrize("antialias", [True, False])
def test_reach_covers_all_that_a_pixel_is_made_from_beside_the_norms(antialias):
    generator = trained(antialias=antialias).generator
    side, reach = 4 * generator.receptive_radius_px, generator.receptive_radius_px
    picture = torch.rand((1, 3, side, side), generator=torch.Generator().manual_seed(1)) * 2 - 1
    for place in range(side // 2, side // 2 + 4):  # each phase of the stride
        changed = picture.clone()
        changed[:, :, place, place] = -changed[:, :, place, place]
        with torch.inference_mode(), fix_norm_statistics(generator, picture):
            made = [generator(one) for one in (picture, changed)]
        differs = (
            made[0] - made[1]
        ).abs() > 1e-5  # less is rounding within a tile of a convolution
        rows = torch.nonzero(differs.any(dim=(0, 1, 3))).ravel() - place
        assert reach - 24 < rows.abs().max() <= reach


@pytest.mark.parametrize("antialias", [True, False])
def test_large_pictures_are_made_in_tiles_nearly_as_at_once(antialias, monkeypatch):
    translator, rgb = trained(antialias=antialias), scene(256, 320)
    whole = translator.apply(GBufferFrame(rgb), np.random.default_rng(0)).astype(int)
    monkeypatch.setattr(module, "MAX_UNTILED_PX", 256 * 319)
    monkeypatch.setattr(module, "TILE_PX", 128)
    monkeypatch.setattr(module, "CROP_PX", 64)
    tiled = translator.apply(GBufferFrame(rgb), np.random.default_rng(0))
    with monkeypatch.context() as patch:  # each tile normed by itself
        patch.setattr(module, "fix_norm_statistics", lambda *_: torch.inference_mode())
        careless = translator.apply(GBufferFrame(rgb), np.random.default_rng(0))
    apart = [float(np.abs(one.astype(int) - whole).mean()) for one in (tiled, careless)]
    assert apart[0] < 0.25 * apart[1]
    seams = [measure_seam_step(ImagePair(rgb, made.astype(np.uint8))) for made in (whole, tiled)]
    assert seams[1] == pytest.approx(seams[0], abs=0.5)
    again = translator.apply(GBufferFrame(rgb), np.random.default_rng(0))
    assert np.array_equal(again, tiled)


def test_a_picture_that_is_small_enough_is_normed_by_itself_afterwards(monkeypatch):
    translator, rgb = trained(antialias=False), scene(64, 64)
    before = translator.apply(GBufferFrame(rgb), np.random.default_rng(0))
    with monkeypatch.context() as patch:
        patch.setattr(module, "MAX_UNTILED_PX", 0)
        translator.apply(GBufferFrame(scene(128, 96)), np.random.default_rng(0))
    assert np.array_equal(translator.apply(GBufferFrame(rgb), np.random.default_rng(0)), before)


@pytest.mark.parametrize(("height", "width"), [(256, 256), (300, 2000), (64, 4000)])
def test_crops_are_spread_from_edge_to_edge(height, width):
    picture = torch.arange(height * width, dtype=torch.float64).view(1, 1, height, width)
    crops = extract_grid_crops(picture)
    side = min(256, height)
    assert crops.shape == (16, 1, side, side)
    assert (crops.min(), crops.max()) == (0, height * width - 1)


@pytest.mark.parametrize(
    ("name", "number"), [("blocks", 10**9), ("width", 10**6), ("width", 10**30)]
)
def test_a_card_that_asks_for_more_than_its_tensors_hold_is_refused(tmp_path, name, number):
    translator, path = trained(antialias=False), tmp_path / "weights.safetensors"
    images = ImageSetRecord("set", 20, "0" * 64)
    config = ReferenceConfig(width=4, blocks=5)
    card = ReferenceCard("cyclegan", 20, config, images, images)
    save_weights(path, translator.generator.state_dict(), asdict(card))
    words = json.loads(path.with_suffix(".json").read_text())
    words["config"][name] = number
    path.with_suffix(".json").write_text(json.dumps(words))
    with pytest.raises(CheckpointError, match=rf"the card has config\.{name} = 1000000"):
        load_reference(path)
