from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.learn import device
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import NativeDetector
from sim2cam.models.inference.differentiable import compute_differentiable_maps
from sim2cam.models.inference.tiles import compute_maps
from sim2cam.models.network.detector import DetectorNetwork, is_peak


@pytest.mark.parametrize(
    ("magnification", "size"), [(1.0, (50, 70)), (0.5, (64, 96)), (0.4, (64, 97))]
)
def test_patches_are_seen_as_pictures_are(magnification, size, monkeypatch):
    """Smaller ones as far as means of pixels are rounded to levels."""
    monkeypatch.setattr(device, "_supports_bfloat16", lambda: False)
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0)).eval()
    card = replace(DetectorCard("nano", ("a", "b"), 0, {}, ()), input_scale=magnification)
    rgb = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    wanted, _ = compute_maps(NativeDetector(network, card).fused_network, rgb, magnification)
    patch = torch.from_numpy(rgb).permute(2, 0, 1)[None].float() / 255
    found = compute_differentiable_maps(NativeDetector(network, card), patch)
    atol = 1e-4 if magnification == 1 else 0.02
    for name in ("heatmap", "log_sides"):
        torch.testing.assert_close(
            getattr(found, name), getattr(wanted, name), rtol=0, atol=atol, msg=name
        )
    peaks = is_peak(wanted.heatmap)[0]  # elsewhere pictures are not asked for categories
    torch.testing.assert_close(
        found.class_logits[..., peaks], wanted.class_logits[..., peaks], rtol=0, atol=atol
    )
