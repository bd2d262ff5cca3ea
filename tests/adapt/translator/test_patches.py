from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sim2cam.adapt.translator.generator import THUMBNAIL_PX
from sim2cam.adapt.translator.patches import Batch, PatchSource, draw_batch, thumbnail_of
from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.images import encode_png, write_bytes

NAMES = ("depth", "objects")


@pytest.fixture
def sources(sim, real) -> tuple[PatchSource, PatchSource]:
    return (
        PatchSource(sim, buffers=NAMES, cache_bytes=1 << 20),
        PatchSource(real, buffers=(), cache_bytes=1 << 20),
    )


def tensors(batch: Batch) -> list[torch.Tensor]:
    sides = (batch.sim, batch.real)
    return [t for s in sides for t in (s.rgb, s.buffers, s.noise, s.thumbnail)]


def test_batch_depends_on_seed_and_step_alone(sim, real, sources, tiny):
    first = draw_batch(*sources, tiny, 3, 7)
    draw_batch(*sources, tiny, 3, 8)
    fresh = [PatchSource(sim, buffers=NAMES, cache_bytes=0), sources[1]]
    again = draw_batch(fresh[0], fresh[1], tiny, 3, 7)
    assert all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(again), strict=True))
    assert np.array_equal(first.augmentation.shift_px, again.augmentation.shift_px)
    for other in (
        draw_batch(*sources, tiny, 3, 8),
        draw_batch(*sources, replace(tiny, seed=1), 3, 7),
    ):
        assert not torch.equal(first.sim.noise, other.sim.noise)


def test_shapes_and_ranges(sources, tiny):
    batch = draw_batch(*sources, tiny, 3, 0)
    for side in (batch.sim, batch.real):
        assert side.rgb.shape == (2, 3, 32, 32)
        assert side.buffers.shape == (2, 3, 32, 32)
        assert side.noise.shape == (2, 1, 32, 32)
        assert side.thumbnail.shape == (2, 3, THUMBNAIL_PX, THUMBNAIL_PX)
        assert side.rgb.min() >= 0
        assert side.rgb.max() <= 1
    assert torch.all(batch.real.buffers == 0)
    assert torch.any(batch.sim.buffers != 0)


def test_buffers_are_cut_where_the_image_is(sim, tiny):
    source = PatchSource(sim, buffers=NAMES, cache_bytes=1 << 20)
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(40):
        cut = source.draw(rng, 32)
        ground = cut.buffers[1] == 0
        if ground.any() and not ground.all():
            seen += 1
            assert np.ptp(cut.rgb[ground], axis=0).max() == 0
            assert np.ptp(cut.rgb[~ground], axis=0).max() == 0
    assert seen > 10


def test_places_with_contrast_are_likelier(tmp_path: Path):
    rgb = np.full((64, 512, 3), 128, np.uint8)
    rgb[:, :64] = np.random.default_rng(0).integers(0, 255, (64, 64, 3))
    write_bytes(tmp_path / "a.png", encode_png(rgb))
    samples = (Sample("a", tmp_path / "a.png", 512, 64, None, "real"),)
    source = PatchSource(Dataset(tmp_path, (), samples), buffers=(), cache_bytes=1 << 20)
    rng = np.random.default_rng(1)
    rich = np.mean([source.draw(rng, 32).rgb.std() > 0 for _ in range(400)])
    assert rich > 1.5 * 64 / 480


def test_thumbnail_keeps_the_mean():
    rgb = np.random.default_rng(0).integers(0, 256, (64, 96, 3)).astype(np.uint8)
    assert thumbnail_of(rgb).mean() * 255 == pytest.approx(rgb.mean(), abs=1)
    assert thumbnail_of(rgb[:1, :1]).shape == (3, THUMBNAIL_PX, THUMBNAIL_PX)
