import numpy as np

from sim2cam.adapt.training.sample_images import (
    SIDE_PX,
    crop_centre,
    encode_strip,
    list_sample_images,
    write_sample_images,
)
from sim2cam.adapt.transfers.transfer import GBufferFrame, read_frame
from sim2cam.images import decode_image, read_rgb


class Darker:
    def apply(self, frame, rng):
        return (frame.rgb // 2 + rng.integers(0, 2)).astype(np.uint8)


def test_the_same_renders_lie_side_by_side(many_sim, tmp_path):
    write_sample_images(tmp_path, 0, many_sim.samples, None, 0)
    write_sample_images(tmp_path, 120, many_sim.samples, Darker(), 0)
    files = list_sample_images(tmp_path)
    assert [(step, path.name) for step, path in files.items()] == [
        (0, "samples-000000.jpg"),
        (120, "samples-000120.jpg"),
    ]
    before, after = (read_rgb(path).astype(float) for path in files.values())
    assert before.shape == (72, 4 * 80, 3)
    first = read_rgb(many_sim.samples[0].rgb)
    assert np.abs(before[:, :80] - first).mean() < 3
    assert np.abs(after - before / 2).mean() < 3
    again = files[120].read_bytes()
    write_sample_images(tmp_path, 120, many_sim.samples, Darker(), 0)
    assert files[120].read_bytes() == again


def test_the_middle_is_that_of_the_buffers_too(many_sim):
    rgb = np.random.default_rng(0).integers(0, 256, (SIDE_PX + 40, SIDE_PX - 50, 3), np.uint8)
    ids = rgb[..., 0].astype(np.uint16)
    cut = crop_centre(GBufferFrame(rgb, ids=ids, categories={1: "a"}))
    assert cut.rgb.shape == (SIDE_PX, SIDE_PX - 50, 3)
    assert np.array_equal(cut.rgb, rgb[20:-20])
    assert np.array_equal(cut.ids, ids[20:-20])
    assert (cut.depth_m, cut.categories) == (None, {1: "a"})
    assert np.array_equal(
        crop_centre(read_frame(many_sim.samples[0])).rgb, read_rgb(many_sim.samples[0].rgb)
    )


def test_pictures_of_several_heights_are_as_high_as_the_lowest():
    pictures = [np.full((height, 16, 3), 90, np.uint8) for height in (32, 24)]
    assert decode_image(encode_strip(pictures)).shape == (24, 32, 3)
