"""Which places count, and that labels have no part in it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.models.card import DetectorCard
from sim2cam.models.detector import Detector, Maps
from sim2cam.models.prediction import LoadedDetector
from sim2cam.models.selection import category_probabilities, look_without_labels


def test_sure_peaks_count_whatever_lies_there():
    heat = torch.full((1, 8, 8), -9.0)
    heat[0, 2, 2], heat[0, 2, 3] = 3.0, 2.0  # a peak and its neighbour
    heat[0, 6, 6], heat[0, 0, 7] = 0.1, -0.1  # just sure enough, and not
    classes = torch.zeros(1, 3, 8, 8)
    classes[0, :, 2, 2] = torch.tensor([2.0, 1.0, 0.0])
    found = category_probabilities(Maps(heat, torch.zeros(1, 4, 8, 8), classes))
    expected = np.exp([2.0, 1.0, 0.0]) / np.exp([2.0, 1.0, 0.0]).sum()
    assert found == pytest.approx(np.array([expected, [1 / 3] * 3]), rel=1e-5)


def test_images_are_taken_together_and_labels_not_at_all(make_dataset):
    network = Detector("nano", 2, torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        network.where[1].bias[0] = 0.0  # an untrained one that finds something everywhere
    detector = LoadedDetector(network, DetectorCard("nano", ("square", "disc"), 0, {}, ()))
    data = make_dataset(n=3)
    bare = replace(data, samples=tuple(replace(s, objects=None) for s in data.samples))
    told = []
    found = look_without_labels(detector, bare, progress=lambda *done: told.append(done))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert found == look_without_labels(detector, data)
    assert found.novelty == {}
    each = [look_without_labels(detector, replace(bare, samples=(s,))) for s in bare.samples]
    assert found.selection.detections == sum(one.selection.detections for one in each)
