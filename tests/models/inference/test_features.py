from pathlib import Path

import numpy as np
import pytest
import torch

import sim2cam.models
from sim2cam.models.inference.detector import load_detector
from sim2cam.models.inference.features import extract_backbone_features

WEIGHTS = Path(sim2cam.models.__file__).parent / "weights" / "dice.safetensors"


@pytest.fixture(scope="module")
def detector():
    return load_detector(WEIGHTS)


def test_features_are_the_means_of_what_the_trunk_gives(detector):
    rgb = np.random.default_rng(0).integers(0, 256, (75, 90, 3), dtype=np.uint8)
    image = (
        torch.tensor(rgb).permute(2, 0, 1)[None] - detector.network.mean
    ) / detector.network.std
    with torch.no_grad():
        maps = detector.network.backbone(image)
    found = extract_backbone_features(detector, rgb)
    means = torch.cat([feature_map[0].mean(dim=(1, 2)) for feature_map in maps]).numpy()
    assert found.shape == means.shape
    assert found.dtype == np.float64
    assert found == pytest.approx(means, rel=1e-4, abs=1e-5)


def test_an_even_picture_is_alike_at_every_size(detector):
    small, large = (
        extract_backbone_features(detector, np.full((side, side, 3), 140, np.uint8))
        for side in (512, 1024)
    )
    edges = np.abs(small - large).mean()  # what is padded at the border counts less
    other = np.abs(
        small - extract_backbone_features(detector, np.full((512, 512, 3), 30, np.uint8))
    ).mean()
    assert edges < 0.5 * other
