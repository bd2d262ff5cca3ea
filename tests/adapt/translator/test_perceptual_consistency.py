from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from sim2cam.adapt.transfers.transfer import read_frame
from sim2cam.adapt.translation import Verification
from sim2cam.adapt.translator.perceptual_consistency import (
    PerceptionModel,
    PerceptionRecord,
    perception_consistency_loss,
)
from sim2cam.adapt.translator.training import train_translator
from sim2cam.errors import CheckpointError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.learn.weight_file import load_card


class Said(NamedTuple):
    heatmap: torch.Tensor
    log_sides: torch.Tensor
    class_logits: torch.Tensor


def said(seed):
    rng = torch.Generator().manual_seed(seed)
    shapes = (2, 3, 4), (2, 4, 3, 4), (2, 5, 3, 4)
    return Said(*(2 * torch.randn(shape, generator=rng) for shape in shapes))


def test_it_equals_numbers_worked_out_alone():
    """With the definitions of both divergences, cell by cell."""
    before, after = said(0), said(1)
    p, q = (1 / (1 + np.exp(-one.heatmap.double().numpy())) for one in (before, after))
    centres = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    names = []
    for one in (before, after):
        powers = np.exp(one.class_logits.double().numpy())
        names.append(powers / powers.sum(1, keepdims=True))
    names = (names[0] * np.log(names[0] / names[1])).sum(1)
    edges = np.abs((before.log_sides - after.log_sides).double().numpy()).mean(1)
    wanted = (centres.sum() + (p * (names + edges)).sum()) / p.sum()
    assert float(perception_consistency_loss(before, after)) == pytest.approx(wanted, rel=1e-5)


def test_it_is_nothing_of_the_same_and_its_gradients_stay_finite():
    same = said(0)
    assert float(perception_consistency_loss(same, same)) == pytest.approx(0.0, abs=1e-6)
    sure = Said(*(1000.0 * value.sign() for value in said(0)))
    other = Said(*((-value).requires_grad_(True) for value in sure))
    perception_consistency_loss(sure, other).backward()
    assert all(value.grad.isfinite().all() for value in other)
    source = said(0).heatmap.requires_grad_(True)
    perception_consistency_loss(Said(source, *said(0)[1:]), other).backward()
    assert source.grad is None


@pytest.fixture
def coloured(sim, tmp_path):
    """Renders of squares that are red or blue by their number, on grey."""
    samples = []
    for index, sample in enumerate(sim.samples[:5]):
        rgb = np.full((48, 53, 3), 120, np.uint8)
        rgb[8:28, 6:30] = (150, 110, 90) if index % 2 else (90, 110, 150)
        path = tmp_path / f"coloured{index}.png"
        write_bytes(path, encode_png(rgb))
        samples.append(replace(sample, rgb=path, channels={}, digest=f"coloured{index}"))
    return replace(sim, samples=tuple(samples))


def by_colour(rgb):
    """Says of every pixel whether it is red or blue, and that all are of objects."""
    red = 60 * (rgb[:, 0] - rgb[:, 2])
    heat = torch.full_like(red, 4.0)
    return Said(
        heat, torch.zeros_like(rgb[:, :1]).expand(-1, 4, -1, -1), torch.stack([red, -red], 1)
    )


def share_kept(translator, renders):
    """Share of the pixels of squares whose category stays."""
    kept = []
    for sample in renders.samples:
        frame = read_frame(sample)
        made = translator.apply(frame, np.random.default_rng(0)).astype(int)
        for rgb in (frame.rgb.astype(int), made):
            kept.append(np.sign(rgb[..., 0] - rgb[..., 2])[8:28, 6:30])
    pairs = zip(kept[::2], kept[1::2], strict=True)
    return np.mean([before == after for before, after in pairs])


def test_categories_that_are_colours_stay(coloured, real, tiny, tmp_path):
    """All captures are warm, so that without a detector blue squares become red."""
    config = replace(
        tiny, steps=40, learning_rate_generator=4e-3, identity_weight=0.0, structure_weight=0.0,
        ema_decay=0.5, perception_weight=3.0,
    )  # fmt: skip
    perception = PerceptionModel(by_colour, PerceptionRecord("abc", 0.9, 5))
    free = train_translator(coloured, real, config, tmp_path / "free")
    held = train_translator(
        coloured, real, config, tmp_path / "held", verification=Verification(perception=perception)
    )
    assert share_kept(free, coloured) < 0.7
    assert share_kept(held, coloured) > 0.9
    assert load_card(tmp_path / "held" / "weights.safetensors")["perception"] == {
        "digest": "abc", "ap50": 0.9, "renders": 5,
    }  # fmt: skip
    assert "perception" not in load_card(tmp_path / "free" / "weights.safetensors")
    with pytest.raises(CheckpointError, match="perception was 'abc' and is now None"):
        train_translator(coloured, real, config, tmp_path / "held", resume=True)
