"""Published CycleGAN equals our reference, and failed cases are reported."""

import json
import runpy
from pathlib import Path

import torch
from peers.published_cyclegan import PublishedCycleGan

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.cyclegan import CycleGan


class Noise:
    """The same pictures in every step."""

    def __init__(self):
        rng = torch.Generator().manual_seed(0)
        self.pictures = [2 * torch.rand(1, 3, 32, 32, generator=rng).double() - 1 for _ in range(2)]

    def __call__(self, _step):
        return self.pictures


def test_cyclegan_as_published_learns_what_ours_does():
    config, cpu, noise = ReferenceConfig(patch_px=32, blocks=5), torch.device("cpu"), Noise()
    ours = CycleGan(config, noise, cpu)
    peer = PublishedCycleGan(config.blocks, noise)
    sides = [ours._domains[name] for name in ("real", "sim")]
    networks = [*(side.generator for side in sides), *(side.discriminator for side in sides)]
    for one, other in zip(networks, peer.networks(), strict=True):
        one.double()
        other.double()
        for source, target in zip(one.parameters(), other.parameters(), strict=True):
            target.data.copy_(source.data)
    ours.train_step(0, noise(0))
    peer.train_step(0)
    for one, other in zip(networks, peer.networks(), strict=True):
        for source, target in zip(one.parameters(), other.parameters(), strict=True):
            most = float(target.grad.abs().max())
            torch.testing.assert_close(
                source.grad, target.grad, rtol=0, atol=1e-9 * most + 1e-12
            )  # offsets before norms have none


def test_what_fails_says_why():
    benchmark = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "adapt.py"))
    assert benchmark["_run_in_process"](json.loads, '{"median": 1.5}') == {"median": 1.5}
    assert benchmark["_run_in_process"](json.loads, "{") == {
        "failed": "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 "
        "(char 1)"
    }
