import math

import pytest
import torch

from sim2cam.models.network.architectures import ARCHITECTURES
from sim2cam.models.network.detector import STRIDE_PX, UNIT_PX, DetectorNetwork, decode_points
from sim2cam.models.network.roi_classifier import SURFACE_BINS

HEADS = ("box_head", "class_head")


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_maps_have_a_cell_every_four_pixels(architecture):
    detector = DetectorNetwork(architecture, 6, torch.Generator().manual_seed(0)).eval()
    with torch.inference_mode():
        maps = detector(torch.zeros(2, 3, 64, 96, dtype=torch.uint8))
    assert maps.heatmap.shape == (2, 64 // STRIDE_PX, 96 // STRIDE_PX)
    assert maps.log_sides.shape == (2, 4, 16, 24)
    assert maps.class_logits.shape == (2, 6, 16, 24)


def test_the_scout_is_another_network_and_small():
    """Its weights, as they ship, are of at most a megabyte; nothing in it is of the others' names."""
    scout, nano = (DetectorNetwork(name, 6, torch.Generator()) for name in ("scout", "nano"))
    assert sum(value.numel() for value in scout.state_dict().values()) < 480_000
    trunks = [{n for n in d.state_dict() if not n.startswith(HEADS)} for d in (scout, nano)]
    assert trunks[0] & trunks[1] == {"mean", "std"}


@pytest.mark.parametrize(("pixel", "reaches"), [(128, True), (8, False)])
def test_the_scout_sees_around_a_cell_and_no_further(pixel, reaches):
    scout = DetectorNetwork("scout", 6, torch.Generator().manual_seed(0)).eval()
    rgb = torch.full((1, 3, 256, 256), 100.0, requires_grad=True)
    scout(rgb).class_logits[0, :, 32, 32].sum().backward()
    assert bool((rgb.grad[0, :, pixel, pixel] != 0).any()) == reaches


def test_an_untrained_detector_finds_almost_nothing():
    detector = DetectorNetwork("nano", 6, torch.Generator().manual_seed(0)).train()
    rgb = torch.randint(0, 256, (2, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    assert detector(rgb).heatmap.sigmoid().mean() < 0.05


def test_far_pixels_do_not_matter_so_tiles_and_whole_agree():
    detector = DetectorNetwork("nano", 6, torch.Generator().manual_seed(0)).eval()
    rgb = torch.randint(0, 256, (1, 3, 256, 256), generator=torch.Generator().manual_seed(0))
    changed = rgb.clone()
    changed[..., 208:] = 0
    with torch.inference_mode():
        a, b = detector(rgb), detector(changed)
    assert torch.allclose(a.heatmap[..., :8], b.heatmap[..., :8], atol=1e-5)
    assert not torch.allclose(a.heatmap[..., 52:], b.heatmap[..., 52:], atol=1e-5)


READERS = [(True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("categories", "poses"), READERS)
def test_a_reader_says_what_is_asked_and_all_of_it_learns(categories, poses):
    detector = DetectorNetwork(
        "nano", 3, torch.Generator().manual_seed(0), poses=poses, roi_classifier=categories
    ).train()
    rgb = torch.rand(4, 3, 96, 64, generator=torch.Generator().manual_seed(0)) * 255
    reading = detector.classify_crops(rgb)
    assert (reading.category_logits is not None, reading.features is not None) == (
        categories,
        poses,
    )
    said = [] if reading.category_logits is None else [reading.category_logits]
    if reading.features is not None:
        said += detector.predict_surfaces(reading.features, torch.tensor([0, 1, 2, 2]))
    shapes = [(4, 3)] * categories + [(4, 12, 8), (4, 3, SURFACE_BINS, 12, 8)] * poses
    assert [tuple(part.shape) for part in said] == shapes
    sum(part.square().sum() for part in said).backward()
    for name, parameter in detector.named_parameters():
        assert (parameter.grad is not None) == name.startswith("roi_network."), name
        assert parameter.grad is None or parameter.grad.abs().max() > 0, name


def test_an_untrained_reader_is_sure_of_nothing():
    """So that no cell, category or point costs much more than another at the first step."""
    detector = DetectorNetwork(
        "nano", 3, torch.Generator().manual_seed(0), poses=True, roi_classifier=True
    )
    rgb = torch.rand(8, 3, 96, 96, generator=torch.Generator().manual_seed(0)) * 255
    reading = detector.train().classify_crops(rgb)
    assert reading.category_logits.softmax(1).max() < 0.6
    surfaces = detector.predict_surfaces(reading.features, torch.arange(8) % 3)
    assert surfaces.mask_logits.abs().mean() < 0.5
    assert surfaces.coordinate_logits.softmax(2).max() < 0.3


def test_a_surface_is_read_as_that_of_its_category():
    detector = DetectorNetwork("nano", 3, torch.Generator().manual_seed(0), poses=True).eval()
    rgb = torch.rand(1, 3, 96, 96, generator=torch.Generator().manual_seed(0)) * 255
    with torch.inference_mode():
        features = detector.classify_crops(rgb).features
        alone = [detector.predict_surfaces(features, torch.tensor([k])) for k in range(3)]
        both = detector.predict_surfaces(features.expand(2, -1, -1, -1), torch.tensor([2, 0]))
    for one, other in zip(both.coordinate_logits, (alone[2], alone[0]), strict=True):
        assert torch.allclose(one, other.coordinate_logits[0], atol=1e-6)
    assert not torch.allclose(alone[0].coordinate_logits, alone[1].coordinate_logits, atol=1e-3)


def test_surfaces_are_said_in_single_precision():
    detector = DetectorNetwork(
        "nano", 2, torch.Generator().manual_seed(0), poses=True, roi_classifier=True
    ).eval()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        reading = detector.classify_crops(torch.zeros(1, 3, 96, 96))
        surfaces = detector.predict_surfaces(reading.features, torch.tensor([0]))
    assert surfaces.mask_logits.dtype == surfaces.coordinate_logits.dtype == torch.float32
    assert reading.category_logits.dtype == torch.float32


def test_points_grow_with_the_box():
    said = torch.tensor([[[0.5, -1.0, -2.0, 0.0]] * 3])
    near, far = (
        decode_points(said, torch.full((1, 4), size), torch.tensor([[40.0, 60.0]]))
        for size in (1.0, 0.0)
    )
    assert far[0][0, 0].tolist() == pytest.approx([40 + 0.5 * UNIT_PX, 60 - UNIT_PX])
    assert far[1][0, 0].item() == pytest.approx(UNIT_PX * math.exp(-2))
    for one, other in zip(near, far, strict=True):
        centre = torch.tensor([40.0, 60.0]) if one.ndim == 3 else 0.0
        assert torch.allclose(one - centre, (other - centre) * math.e)


def test_the_generator_alone_decides_the_first_weights():
    states = []
    for seed, global_seed in ((0, 1), (0, 2), (1, 1)):
        with torch.random.fork_rng():
            torch.random.default_generator.manual_seed(global_seed)
            made = DetectorNetwork(
                "nano", 3, torch.Generator().manual_seed(seed),
                poses=True, roi_classifier=True, n_keypoints=2, masks=True, residual=True,
            )  # fmt: skip
            states.append(made.state_dict())
    first, same, other = states
    assert all(torch.equal(first[name], same[name]) for name in first)
    stem = "backbone.stem.0.0.weight"
    assert not torch.equal(first[stem], other[stem])


@pytest.mark.parametrize(
    ("option", "head", "shapes"),
    [
        ({"n_keypoints": 5}, "keypoint_head", {"keypoints": (2, 3, 5, 4, 16, 24)}),
        (
            {"masks": True},
            "mask_head",
            {"segmentation": (2, 4, 16, 24), "centre_offsets": (2, 2, 16, 24)},
        ),
        ({"poses": True}, "roi_network", {}),
    ],
)
def test_optional_heads_have_their_maps_and_learn_and_nothing_else_is_there(option, head, shapes):
    plain, found = (
        DetectorNetwork("nano", 3, torch.Generator().manual_seed(0), **options)
        for options in ({}, option)
    )
    assert plain.state_dict().keys() <= found.state_dict().keys()
    more = found.state_dict().keys() - plain.state_dict().keys()
    assert {name.split(".")[0] for name in more} == {head}
    assert getattr(plain, head) is None
    if head == "roi_network":
        assert found.roi_network.class_head is None
        return
    maps = found.train()(torch.rand(2, 3, 64, 96, generator=torch.Generator().manual_seed(0)) * 255)
    outputs = [getattr(maps, name) for name in shapes]
    assert [output.shape for output in outputs] == list(shapes.values())
    sum(output.square().sum() for output in outputs).backward()
    assert all(p.grad.abs().max() > 0 for p in getattr(found, head).parameters())
