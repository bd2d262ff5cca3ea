"""Which places count, and that labels have no part in it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sim2cam.models.card import DetectorCard
from sim2cam.models.detector import Detector, Maps
from sim2cam.models.prediction import LoadedDetector, look, look_at_dataset
from sim2cam.models.selection import selection_of


class Says(torch.nn.Module):
    """A network that says the same of every image."""

    reader = None

    def __init__(self, maps):
        super().__init__()
        self.maps = maps
        self.register_buffer("mean", torch.zeros(1, 3, 1, 1))

    def features(self, rgb):
        return torch.zeros(1, 1, 8, 8)

    def read(self, features, cells):
        return self.maps


def test_what_surely_is_an_object_counts_whatever_it_is():
    heat = torch.full((1, 8, 8), -9.0)
    heat[0, 2, 2], heat[0, 2, 3] = 3.0, 2.0  # a peak and its neighbour
    heat[0, 6, 6], heat[0, 0, 7] = 0.1, -0.1  # just sure enough, and not
    classes = torch.zeros(1, 3, 8, 8)
    classes[0, :, 2, 2] = torch.tensor([2.0, 1.0, 0.0])
    card = DetectorCard("nano", ("a", "b", "c"), 0, {}, ())
    said = Says(Maps(heat, torch.full((1, 4, 8, 8), -3.0), classes))
    found = look(LoadedDetector(said, card), np.zeros((32, 32, 3), np.uint8)).votes
    expected = np.exp([2.0, 1.0, 0.0]) / np.exp([2.0, 1.0, 0.0]).sum()
    assert found == pytest.approx(np.array([expected, [1 / 3] * 3]), rel=1e-5)


def test_images_are_taken_together_and_labels_not_at_all(make_dataset):
    network = Detector("nano", 2, torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        network.where[1].bias[0] = 0.0  # an untrained one that finds something everywhere
    detector = LoadedDetector(network, DetectorCard("nano", ("square", "disc"), 0, {}, ()))
    data = make_dataset(n=3)
    bare = replace(data, samples=tuple(replace(s, objects=None) for s in data.samples))
    seen = look_at_dataset(detector, bare)
    assert selection_of(seen.values()) == selection_of(look_at_dataset(detector, data).values())
    each = [selection_of([one]).detections for one in seen.values()]
    assert selection_of(seen.values()).detections == sum(each) > 3
    assert selection_of([]) is None
