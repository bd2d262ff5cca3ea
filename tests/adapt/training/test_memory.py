"""What is told of memory before a training, against what trainings take."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.memory import estimate_reference_memory
from sim2cam.adapt.training.memory import META, estimate_memory
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.memory import estimate_translator_memory

TRAINING = """
import json, resource, sys
from pathlib import Path
import torch
from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.memory import estimate_reference_memory
from sim2cam.adapt.reference.training import train_reference
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.memory import estimate_translator_memory
from sim2cam.adapt.translator.training import train_translator
from sim2cam.data.real_images import read_real_images

method, patch_px, pictures, out = sys.argv[1:]
torch.set_num_threads(1)
data = read_real_images(Path(pictures))
if method == "translator":
    config = TranslatorConfig(steps=4, patch_px=int(patch_px))
    told = estimate_translator_memory(config, data, data, ())
    train_translator(data, data, config, Path(out))
else:
    config = ReferenceConfig(steps=2, patch_px=int(patch_px))
    told = estimate_reference_memory(method, config, data, data)
    train_reference(method, data, data, config, Path(out))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([told.cpu_training_bytes, peak]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("patch_px", [64, 128])
@pytest.mark.parametrize("method", ["translator", "cut", "cyclegan"])
def test_a_training_takes_what_was_told(real, tmp_path, method, patch_px):
    command = [sys.executable, "-c", TRAINING, method, str(patch_px)]
    done = subprocess.run(
        [*command, str(real.root), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
    )
    told, peak = json.loads(done.stdout)
    assert told == pytest.approx(peak, rel=0.15)


class Adding:
    """A game that holds three thousand numbers, and two thousand more for a moment of its second step."""

    def __init__(self):
        self.weights = torch.zeros(1000, device=META)
        self.moments = None

    def train_step(self, step):
        if self.moments is None:
            self.moments = torch.zeros(2000, device=META)
        elif step == 1:
            torch.zeros(1500, device=META)
            (torch.zeros(1000, device=META) + 1).sum()
        self.weights.add_(1)
        return {}

    def get_state(self):
        return {"game": {"weights": self.weights, "moments": self.moments}}


def test_what_lives_at_once_is_counted():
    found = estimate_memory(Adding(), 7)
    assert (found.step_bytes, found.state_bytes, found.images_bytes) == (4 * 5000, 4 * 3000, 7)
    assert found.gpu_bytes == 4 * 8000
    assert found.cpu_training_bytes - found.host_bytes == 4 * 5000
    assert found.base_bytes > 2e8


def test_a_step_grows_with_its_pixels_and_images_up_to_their_budget(sim, real):
    config = TranslatorConfig(batch=2, patch_px=32, width=4, blocks=1)
    small = estimate_translator_memory(config, sim, real, ("depth",))
    larger = estimate_translator_memory(replace(config, patch_px=64), sim, real, ("depth",))
    twice = estimate_translator_memory(replace(config, batch=4), sim, real, ("depth",))
    weights = (4 * small.step_bytes - larger.step_bytes) / 3
    assert larger.step_bytes > 2 * small.step_bytes
    assert twice.step_bytes - weights == pytest.approx(2 * (small.step_bytes - weights), rel=0.05)
    assert small.state_bytes == larger.state_bytes == twice.state_bytes
    renders = sum(s.width * s.height * (3 + 2) for s in sim.samples)
    captures = sum(s.width * s.height * 3 for s in real.samples)
    assert small.images_bytes == renders + captures
    assert (
        estimate_translator_memory(replace(config, cache_bytes=1000), sim, real, ()).images_bytes
        == 2000
    )


@pytest.mark.parametrize(
    "more", [{"nce_weight": 1.0}, {"flow_weight": 1.0}, {"accumulation_steps": 2}]
)
def test_all_that_is_learned_counts(sim, real, more):
    usual = TranslatorConfig(batch=2, patch_px=32, width=4, blocks=1)
    steps = [
        estimate_translator_memory(c, sim, real, ()).step_bytes
        for c in (usual, replace(usual, **more))
    ]
    assert (steps[1] < steps[0]) == ("accumulation_steps" in more)
    assert steps[1] != steps[0]


def test_published_ones_are_told_too(sim, real):
    """Networks of three are as large; CycleGAN has twice as many of two, and pools, and CUT a projector."""
    config = ReferenceConfig(patch_px=32, width=4, blocks=5)
    found = {
        m: estimate_reference_memory(m, config, sim, real) for m in ("cyclegan", "cut", "fastcut")
    }
    assert found["cut"].state_bytes == found["fastcut"].state_bytes
    assert found["cut"].step_bytes > found["fastcut"].step_bytes > found["cut"].state_bytes
    assert found["cyclegan"].state_bytes > 2 * 50 * 3 * 32 * 32 * 4
