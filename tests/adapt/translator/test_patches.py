from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sim2cam.adapt.translator import patches
from sim2cam.adapt.translator.generator import THUMBNAIL_PX
from sim2cam.adapt.translator.patches import (
    PatchLocation,
    PatchSource,
    TranslatorBatch,
    compute_image_descriptor,
    compute_layout_descriptor,
    expand_tile_mask,
    make_thumbnail,
    sample_batch,
    sample_paired_batch,
)
from sim2cam.data.sample import Dataset, Sample
from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb

NAMES = ("depth", "objects")


@pytest.fixture
def sources(sim, real) -> tuple[PatchSource, PatchSource]:
    return (
        PatchSource(sim, buffers=NAMES, cache_bytes=1 << 20),
        PatchSource(real, buffers=(), cache_bytes=1 << 20),
    )


def tensors(batch: TranslatorBatch) -> list[torch.Tensor]:
    sides = (batch.sim, batch.real, batch.unmatched_sim)
    return [t for s in sides for t in (s.rgb, s.buffers, s.noise, s.thumbnail)]


def test_batch_depends_on_seed_and_step_alone(sim, real, sources, tiny):
    first = sample_batch(*sources, tiny, 3, 7)
    sample_batch(*sources, tiny, 3, 8)
    fresh = [PatchSource(sim, buffers=NAMES, cache_bytes=0), sources[1]]
    again = sample_batch(fresh[0], fresh[1], tiny, 3, 7)
    assert all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(again), strict=True))
    assert np.array_equal(first.augmentation.shift_px, again.augmentation.shift_px)
    for other in (
        sample_batch(*sources, tiny, 3, 8),
        sample_batch(*sources, replace(tiny, seed=1), 3, 7),
    ):
        assert not torch.equal(first.sim.noise, other.sim.noise)


@pytest.mark.parametrize("sizes", [(16, 200, 200, 200), (200, 16, 200, 200)])
def test_images_of_other_sizes_than_the_first_keep_to_the_memory_too(tmp_path, monkeypatch, sizes):
    read = []
    monkeypatch.setattr(patches, "read_rgb", lambda path: read.append(path) or read_rgb(path))
    samples = []
    for i, side in enumerate(sizes):
        path = tmp_path / f"{i}.png"
        write_bytes(path, encode_png(np.zeros((side, side, 3), np.uint8)))
        samples.append(Sample(str(i), path, side, side, None, "real"))
    dataset = Dataset(tmp_path, (), tuple(samples))
    source = PatchSource(dataset, buffers=(), cache_bytes=2 * 200 * 200 * 3)
    large = [i for i, side in enumerate(sizes) if side == 200]
    for image in large * 2:
        source.crop(PatchLocation(image, 0, 0, is_flipped=False), 16)
    assert len(read) == 2 * len(large)  # two of three are held, so each is gone when it comes again
    for image in large[1:] * 2:
        source.crop(PatchLocation(image, 0, 0, is_flipped=False), 16)
    assert len(read) == 2 * len(large)


def test_renders_are_laid_out_as_the_captures_are(sources):
    """Nearer than renders that were drawn by themselves; here they are pictures of the same kind."""
    sim, real = sources[1], sources[1]
    near, far = [], []
    for step in range(60):
        capture = real.sample_patch(np.random.default_rng(step), 32)
        wanted = compute_layout_descriptor(capture.rgb)
        chosen = sim.sample_similar_patch(capture, np.random.default_rng(1000 + step))
        others = [
            sim.sample_patch(np.random.default_rng(2000 + step + 100 * i), 32) for i in range(4)
        ]
        assert chosen.rgb.shape == capture.rgb.shape
        near.append(np.square(compute_layout_descriptor(chosen.rgb) - wanted).mean())
        far += [np.square(compute_layout_descriptor(one.rgb) - wanted).mean() for one in others]
    assert np.mean(near) < 0.8 * np.mean(far)


def test_a_layout_is_of_places_and_not_of_light():
    rng = np.random.default_rng(0)
    patch = np.full((32, 32, 3), 100, np.uint8)
    patch[:8, 16:24] += rng.integers(0, 100, (8, 8, 3), np.uint8)
    layout = compute_layout_descriptor(patch)
    assert layout.argmax() == 2
    assert layout.mean() == pytest.approx(0, abs=1e-6)
    assert np.allclose(compute_layout_descriptor(patch // 2 + 40), layout, atol=0.8)
    assert compute_layout_descriptor(np.ascontiguousarray(patch[:, ::-1])).argmax() == 1


def test_grey_captures_are_met_by_grey_renders(sources, tiny, tmp_path):
    """Else what tells renders is that they are colourful, and a translator takes the colour out of all."""
    rng = np.random.default_rng(0)
    samples = []
    for number in range(12):
        grey = rng.integers(60, 200, (48, 48, 1), np.uint8).repeat(3, 2)
        tint = (255, 40, 40) if number % 2 else (255, 255, 255)
        rgb = (grey * np.array(tint) / 255).astype(np.uint8)
        write_bytes(tmp_path / f"{number}.png", encode_png(rgb))
        samples.append(Sample(f"{number}", tmp_path / f"{number}.png", 48, 48, None, "real"))
    both = PatchSource(Dataset(tmp_path, (), tuple(samples)), buffers=(), cache_bytes=1 << 24)
    grey = PatchSource(Dataset(tmp_path, (), tuple(samples[::2])), buffers=(), cache_bytes=1 << 24)
    by_itself = np.array([chroma(both.sample_patch(rng, 32).rgb) for _ in range(40)])
    assert 0.2 < (by_itself > 50).mean() < 0.8
    batches = [sample_batch(both, grey, tiny, 0, step) for step in range(20)]
    assert max(chroma(patch) for one in batches for patch in shown(one.sim)) < 1
    assert max(chroma(patch) for one in batches for patch in shown(one.unmatched_sim)) > 50


def shown(patches):
    return 255 * patches.rgb.permute(0, 2, 3, 1).numpy()


def chroma(rgb):
    return float(np.ptp(np.asarray(rgb, np.float64), axis=2).mean())


def test_the_character_of_an_image_is_not_its_exposure():
    rng = np.random.default_rng(0)
    thumbnail = rng.uniform(0.2, 0.9, (3, THUMBNAIL_PX, THUMBNAIL_PX)).astype(np.float32)
    colour, contrast = compute_image_descriptor(thumbnail)
    assert compute_image_descriptor(thumbnail / 2) == pytest.approx((colour, contrast), rel=0.05)
    grey = np.repeat(thumbnail.mean(axis=0, keepdims=True), 3, axis=0)
    assert compute_image_descriptor(grey)[0] == 0 < colour
    assert compute_image_descriptor((thumbnail + 0.55) / 2)[1] < contrast
    assert np.isfinite(compute_image_descriptor(np.zeros_like(thumbnail))).all()


def test_shapes_and_ranges(sources, tiny):
    batch = sample_batch(*sources, tiny, 3, 0)
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
        cut = source.sample_patch(rng, 32)
        ground = cut.buffers[1] == 0
        if ground.any() and not ground.all():
            seen += 1
            assert np.ptp(cut.rgb[ground], axis=0).max() == 0
            assert np.ptp(cut.rgb[~ground], axis=0).max() == 0
    assert seen > 10


def test_pairs_are_cut_at_the_same_place(many_sim, tiny):
    """Captures are the renders themselves."""
    source = PatchSource(many_sim, buffers=("objects",), cache_bytes=1 << 24)
    bare = PatchSource(many_sim, buffers=(), cache_bytes=1 << 24)
    tiles = np.ones((3, 3), bool)
    tiles[:, 1] = False  # columns 32 to 63
    batches = [
        sample_paired_batch(source, bare, [tiles] * 40, tiny, 2, step) for step in (0, 1, 2, 0)
    ]
    for batch in batches:
        assert torch.equal(batch.sim.rgb, batch.real.rgb)
        assert torch.equal(batch.sim.thumbnail, batch.real.thumbnail)
        assert not torch.equal(batch.sim.noise, batch.real.noise)
        assert torch.all(batch.real.buffers == 0)
        assert batch.registration_mask.shape == (2, 1, 32, 32)
    shares = torch.stack([batch.registration_mask for batch in batches]).mean(dim=(1, 2, 3, 4))
    assert 0 < shares.min() < shares.max() <= 1
    assert torch.equal(batches[0].registration_mask, batches[3].registration_mask)
    assert torch.equal(batches[0].sim.rgb, batches[3].sim.rgb)


@pytest.mark.parametrize("is_mirrored", [False, True])
def test_a_place_is_cut_alike_from_image_buffers_and_mask(tmp_path, is_mirrored):
    columns = np.arange(96, dtype=np.uint8)
    rgb = np.broadcast_to(columns[None, :, None], (64, 96, 3)).copy()
    write_bytes(tmp_path / "a.png", encode_png(rgb))
    dataset = Dataset(tmp_path, (), (Sample("a", tmp_path / "a.png", 96, 64, None, "real"),))
    source = PatchSource(dataset, buffers=(), cache_bytes=1 << 20)
    place = PatchLocation(0, 16, 40, is_mirrored)
    seen = source.crop(place, 32).rgb[0, :, 0].astype(int)
    assert seen.tolist() == (list(range(71, 39, -1)) if is_mirrored else list(range(40, 72)))
    mask = expand_tile_mask(np.array([[False, True, False]]), place, 32)
    assert mask[0].tolist() == [32 <= column < 64 for column in seen]


def test_places_with_contrast_are_likelier(tmp_path: Path):
    rgb = np.full((64, 512, 3), 128, np.uint8)
    rgb[:, :64] = np.random.default_rng(0).integers(0, 255, (64, 64, 3))
    write_bytes(tmp_path / "a.png", encode_png(rgb))
    samples = (Sample("a", tmp_path / "a.png", 512, 64, None, "real"),)
    source = PatchSource(Dataset(tmp_path, (), samples), buffers=(), cache_bytes=1 << 20)
    rng = np.random.default_rng(1)
    rich = np.mean([source.sample_patch(rng, 32).rgb.std() > 0 for _ in range(400)])
    assert rich > 1.5 * 64 / 480


def test_thumbnail_keeps_the_mean():
    rgb = np.random.default_rng(0).integers(0, 256, (64, 96, 3)).astype(np.uint8)
    assert make_thumbnail(rgb).mean() * 255 == pytest.approx(rgb.mean(), abs=1)
    assert make_thumbnail(rgb[:1, :1]).shape == (3, THUMBNAIL_PX, THUMBNAIL_PX)
