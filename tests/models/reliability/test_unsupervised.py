"""Images count together, and labels have no part in it."""

from dataclasses import replace

import torch

from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import NativeDetector, predict_samples
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.models.reliability.unsupervised import compute_selection_scores


def test_images_are_taken_together_and_labels_not_at_all(make_dataset):
    network = DetectorNetwork("nano", 2, torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        network.box_head[1].bias[0] = 0.0  # an untrained one that finds something everywhere
    detector = NativeDetector(network, DetectorCard("nano", ("square", "disc"), 0, {}, ()))
    data = make_dataset(n=3)
    bare = replace(data, samples=tuple(replace(s, objects=None) for s in data.samples))
    seen = predict_samples(detector, bare)
    assert compute_selection_scores(seen.values()) == compute_selection_scores(
        predict_samples(detector, data).values()
    )
    each = [compute_selection_scores([one]).n_detections for one in seen.values()]
    assert compute_selection_scores(seen.values()).n_detections == sum(each) > 3
    assert compute_selection_scores([]) is None
