"""Paired images as counterfactual renders: the same scenes with one change of the recipe."""

import numpy as np
import pytest

from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.store import load_transfer
from sim2cam.adapt.transfers.transfer import read_frame
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.pairs import register_pairs
from sim2cam.images import read_rgb
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.translation import Certification, apply_transfer, train_network
from sim2cam.randomize.counterfactual import Intervention
from tests.pipeline.conftest import SMALL

WARM = Intervention({"sensor": 1}, {"exposure/red_gain": 1.3, "exposure/blue_gain": 0.7})


@pytest.fixture(scope="module")
def redrawn(sim, tmp_path_factory):
    """Render the first scenes of ``sim`` with a change."""

    def made(change, count):
        return generate(
            SMALL, tmp_path_factory.mktemp("redrawn") / "d", count=count, seed=3, change=change
        )

    return made


def test_other_camera_poses_give_no_pairs(sim, redrawn):
    found = register_pairs(sim, redrawn(Intervention({"view": 1}), 4)).record
    assert (found.pairs, found.rejected, found.unmatched) == (0, 4, 20)


def test_translator_learns_camera_from_pairs(sim, redrawn, tmp_path):
    """Check real images with other noise and blur, and with constant warm colours."""
    warm, run = redrawn(WARM, 20), tmp_path / "run"
    pairs = register_pairs(sim, warm)
    assert (pairs.record.pairs, pairs.record.rejected) == (20, 0)
    assert pairs.record.registered_fraction > 0.8
    config = TranslatorConfig(steps=40, batch=2, patch_px=64, width=8, blocks=1, learning_rate_generator=4e-3, ema_decay=0.9)  # fmt: skip
    certification = Certification(CertificateLimits())
    train_network(sim, warm, config, run, certification=certification, resume=False, device="cpu", paired=True)  # fmt: skip
    translator = load_transfer(run)
    errors = []
    for render, capture in zip(pairs.sim.samples, pairs.real.samples, strict=True):
        wanted = read_rgb(capture.rgb).astype(float)
        made = translator.apply(read_frame(render), np.random.default_rng(0))
        errors.append([np.abs(rgb - wanted).mean() for rgb in (read_rgb(render.rgb), made)])
    before, after = np.mean(errors, axis=0)
    assert after < 0.7 * before
    certificate = apply_transfer(
        run, sim, tmp_path / "adapted", certification=certification, seed=0
    )
    assert certificate.accepted_count >= 22
