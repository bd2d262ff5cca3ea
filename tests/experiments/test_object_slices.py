from dataclasses import replace

from sim2cam.experiments.object_slices import slice_errors
from sim2cam.metrics.detection import Detection


def test_slices_by_size_and_visibility(sim):
    """Check a detector that finds only objects of at least 16 px."""
    found = {
        s.name: tuple(
            Detection(o.category, o.box_xyxy, 0.9)
            for o in s.objects
            if max(o.box_xyxy[2] - o.box_xyxy[0], o.box_xyxy[3] - o.box_xyxy[1]) >= 16
        )
        for s in sim.samples
    }
    slices = slice_errors(sim, found, 0.5)
    sizes = {s.value: s for s in slices if s.attribute == "size"}
    assert sizes["below 16 px"].miss_rate == 1
    assert sizes["16 to 32 px"].recall.value == 1
    objects = sum(len(s.objects) for s in sim.samples)
    for about in ("size", "visible", "distance", "brightness"):
        assert sum(s.objects for s in slices if s.attribute == about) == objects
    assert not any(s.attribute == "origin" for s in slices)  # all images are renders


def test_unknown_attributes_have_no_slice(sim):
    def bare_objects(sample):
        return tuple(replace(o, visible_fraction=None, pose=None) for o in sample.objects)

    bare = replace(sim, samples=tuple(replace(s, objects=bare_objects(s)) for s in sim.samples))
    abouts = {s.attribute for s in slice_errors(bare, {s.name: () for s in sim.samples}, 0.5)}
    assert abouts == {"size", "brightness"}


def test_slices_by_kitti_occlusion_level(sim):
    sample = next(s for s in sim.samples if len(s.objects) > 2)
    levels = (0, 2, *(None for _ in sample.objects[2:]))
    objects = tuple(
        replace(o, visible_fraction=None, occlusion=level)
        for o, level in zip(sample.objects, levels, strict=True)
    )
    one = replace(sim, samples=(replace(sample, objects=objects),))
    found = {sample.name: (Detection(objects[0].category, objects[0].box_xyxy, 0.9),)}
    slices = [s for s in slice_errors(one, found, 0.5) if s.attribute == "occlusion"]
    missed = [(s.value, s.miss_rate) for s in slices]
    assert missed == [("fully visible", 0), ("largely occluded", 1)]
