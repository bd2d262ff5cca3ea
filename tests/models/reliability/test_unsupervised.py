"""Images count together, and labels have no part in it."""

from dataclasses import replace

import torch

from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import LoadedDetector, look_at_dataset
from sim2cam.models.network.detector import Detector
from sim2cam.models.reliability.unsupervised import selection_of


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
