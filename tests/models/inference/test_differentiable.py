from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.learn import device
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import LoadedDetector
from sim2cam.models.inference.differentiable import perceive
from sim2cam.models.inference.tiles import maps_of
from sim2cam.models.network.detector import Detector, is_peak


@pytest.mark.parametrize(
    ("magnification", "size"), [(1.0, (50, 70)), (0.5, (64, 96)), (0.4, (64, 97))]
)
def test_patches_are_seen_as_pictures_are(magnification, size, monkeypatch):
    """Smaller ones as far as means of pixels are rounded to levels."""
    monkeypatch.setattr(device, "_multiplies_bfloat16", lambda: False)
    network = Detector("nano", 2, torch.Generator().manual_seed(0)).eval()
    card = replace(DetectorCard("nano", ("a", "b"), 0, {}, ()), magnification=magnification)
    rgb = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    wanted, _ = maps_of(LoadedDetector(network, card).folded, rgb, magnification)
    patch = torch.from_numpy(rgb).permute(2, 0, 1)[None].float() / 255
    found = perceive(LoadedDetector(network, card), patch)
    atol = 1e-4 if magnification == 1 else 0.02
    for name in ("heat", "log_sides"):
        torch.testing.assert_close(
            getattr(found, name), getattr(wanted, name), rtol=0, atol=atol, msg=name
        )
    peaks = is_peak(wanted.heat)[0]  # elsewhere pictures are not asked for categories
    torch.testing.assert_close(
        found.classes[..., peaks], wanted.classes[..., peaks], rtol=0, atol=atol
    )
