from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch

from sim2cam.adapt.training.adversarial import read_metrics
from sim2cam.adapt.translator.patches import FramePairPatches, PatchBatch, PatchSource
from sim2cam.adapt.translator.sequences import SHARPNESS, FramePairSource, flow_loss, warp_by_flow
from sim2cam.adapt.translator.training import train_translator
from sim2cam.data.channels import FLOW_OCCLUDED, FLOW_VISIBLE, encode_channel
from sim2cam.data.sample import FrameInfo
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.poses import Pose
from sim2cam.images import encode_png
from tests.support.interruption import assert_resumes_exactly

SIDE = 32


def random(*shape, seed):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def film(sim, tmp_path):
    """Two films of three pictures of a texture that moves by (3, -2) pixels a picture."""
    rng = np.random.default_rng(0)
    samples = []
    for index in range(6):
        if index % 3 == 0:
            texture = rng.integers(40, 200, (80, 90, 3)).astype(np.uint8)
        shift = index % 3
        rgb = texture[20 + 2 * shift : 68 + 2 * shift, 20 - 3 * shift : 73 - 3 * shift]
        flow = np.zeros((48, 53, 3), np.float32)
        flow[..., 0], flow[..., 1], flow[..., 2] = -3.0, 2.0, FLOW_VISIBLE
        flow[:, :5, 2] = FLOW_OCCLUDED
        paths = tmp_path / f"rgb{index}.png", tmp_path / f"flow{index}.png"
        write_bytes(paths[0], encode_png(np.ascontiguousarray(rgb)))
        write_bytes(paths[1], encode_channel("flow_backward", flow))
        sample = replace(
            sim.samples[0], name=str(index), rgb=paths[0], scene_index=index // 3,
            channels={"flow_backward": paths[1]}, digest=f"film{index}",
            frame_info=FrameInfo(shift, 0.1 * shift, 0.0, 0.0, Pose()),
        )  # fmt: skip
        samples.append(sample)
    return replace(sim, samples=tuple(samples))


def source_of(film):
    return FramePairSource(film, PatchSource(film, buffers=(), cache_bytes=1 << 20))


def test_pairs_are_neighbours_of_one_film_and_flow_leads_from_one_to_the_other(film):
    drawn = source_of(film).sample_frame_pairs(np.random.default_rng(0), SIDE, 8, 0)
    seen = drawn.flow[:, 2:] > 0
    assert set(drawn.flow[:, 0].unique().tolist()) == {-3.0}
    brought = warp_by_flow(drawn.earlier.rgb, drawn.flow[:, :2])
    assert 0.7 < seen.float().mean() < 0.9  # without what leaves the patch, or is hidden
    assert ((brought - drawn.later.rgb).abs() * seen).max() < 1e-4
    assert ((brought - drawn.later.rgb).abs() * ~seen).max() > 0.1
    assert torch.equal(drawn.earlier.noise, drawn.later.noise)


def test_the_loss_equals_numbers_worked_out_alone():
    """With OpenCV's remapping, at places between pixels."""
    before, after, first, second = (random(2, 3, SIDE, SIDE, seed=n) for n in range(4))
    after = 0.9 * before + 0.1 * after
    flow = torch.cat([4 * random(2, 2, SIDE, SIDE, seed=4) - 2, torch.ones(2, 1, SIDE, SIDE)], 1)
    y, x = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    ends = torch.stack([torch.from_numpy(x), torch.from_numpy(y)]) + flow[:, :2]
    flow[:, 2] = ((ends >= 0) & (ends <= SIDE - 1)).all(1).float()
    film = FramePairPatches(
        *(PatchBatch(rgb, rgb[:, :0], rgb[:, :1], rgb) for rgb in (before, after)), flow
    )
    total = 0.0
    for n in range(2):
        places = [ends[n, axis].numpy() for axis in (0, 1)]
        source, made = (
            cv2.remap(value[n].permute(1, 2, 0).numpy(), *places, cv2.INTER_LINEAR)
            for value in (before, first)
        )
        later, render = (value[n].permute(1, 2, 0).numpy() for value in (second, after))
        weight = flow[n, 2].numpy() * np.exp(-SHARPNESS * ((render - source) ** 2).sum(2))
        total += (weight * np.abs(later - made).mean(2)).sum()
    wanted = total / float(flow[:, 2].sum())
    assert float(flow_loss(film, first, second)) == pytest.approx(wanted, rel=0.02)


def test_flicker_is_punished_and_what_moves_along_is_not(film):
    drawn = source_of(film).sample_frame_pairs(np.random.default_rng(0), SIDE, 4, 0)
    steady = [0.8 * drawn.earlier.rgb, 0.8 * drawn.later.rgb]
    assert flow_loss(drawn, *steady) < 1e-4
    assert flow_loss(drawn, steady[0] + 0.1, steady[1]) == pytest.approx(0.1, rel=0.01)


def test_trainings_take_films_and_places_and_resume_to_the_bit(
    film, sim, real, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr("sim2cam.adapt.training.adversarial.LOG_INTERVAL_STEPS", 2)
    config = replace(tiny, steps=4, flow_weight=1.0, nce_weight=1.0)

    def train(run, checkpoint_interval_s=30, **options):
        return train_translator(
            film, real, config, run, checkpoint_s=checkpoint_interval_s, **options
        )

    assert_resumes_exactly(train, tmp_path)
    assert {"flow", "nce"} <= read_metrics(tmp_path / "whole")[0].scalars.keys()
    with pytest.raises(InputError) as caught:
        train_translator(sim, real, config, tmp_path / "none")
    assert str(caught.value) == (
        f"{sim.root}: has no two consecutive frames of a sequence with flow between them. Render "
        "sequences with the channel flow_backward, or set flow_weight = 0."
    )
