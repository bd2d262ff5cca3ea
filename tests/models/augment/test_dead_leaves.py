import cv2
import numpy as np
import pytest

from sim2cam.data.real_images import read_real_images
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.models.augment import backgrounds
from sim2cam.models.augment.backgrounds import BackgroundAugmentation
from sim2cam.models.augment.dead_leaves import render_dead_leaves
from sim2cam.models.training.images import Tasks, read_annotated_image

GREEN = (20, 200, 60)


def drawn(seed, shape=(120, 160)):
    return render_dead_leaves(shape, np.random.default_rng(seed))


@pytest.mark.parametrize("shape", [(480, 640), (120, 1), (3, 200), (1, 1)])
def test_they_have_the_size_asked_for_and_follow_from_the_generator(shape):
    one, same, other = drawn(0, shape), drawn(0, shape), drawn(1, shape)
    assert one.shape == (*shape, 3)
    assert one.dtype == np.uint8
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_they_are_full_of_edges_and_of_colours():
    """At every place: few tenths of a side are flat; all levels and hues are somewhere."""
    many = np.stack([drawn(seed, (240, 320)) for seed in range(40)])
    edges = np.abs(np.diff(many.astype(int), axis=2)).max(axis=-1) > 20
    blocks = edges[:, :, :310].reshape(40, 10, 24, 10, 31).any(axis=(2, 4))
    assert blocks.mean() > 0.75
    assert blocks.mean(axis=0).min() > 0.4
    colours = cv2.cvtColor(many.reshape(-1, 320, 3), cv2.COLOR_RGB2HSV).reshape(-1, 3)
    assert np.percentile(colours[:, 2], [5, 95]) == pytest.approx([30, 240], abs=30)
    vivid = colours[(colours[:, 1] > 128) & (colours[:, 2] > 60)]
    assert len(vivid) > 0.1 * len(colours)
    assert (np.bincount(vivid[:, 0] // 20, minlength=9) > 0.02 * len(vivid)).all()


def behind(made, picture, monkeypatch, seed):
    monkeypatch.setattr(backgrounds, "BACKGROUND_PROBABILITY", 1.0)
    monkeypatch.setattr(backgrounds, "OCCLUDER_PROBABILITY", 0.0)
    return made.apply(picture, np.random.default_rng(seed))


def test_objects_are_seen_before_them_alone_or_before_pictures_too(
    make_dataset, monkeypatch, tmp_path
):
    data = make_dataset()
    picture = read_annotated_image(data.samples[0], data.categories, Tasks(cutouts=True))
    inside, outside = (
        cv2.erode(where.astype(np.uint8), np.ones((3, 3))) > 0
        for where in (picture.instance_map > 0, picture.instance_map == 0)
    )
    write_bytes(tmp_path / "green/0.png", encode_png(np.full((130, 160, 3), GREEN, np.uint8)))
    alone = BackgroundAugmentation(None, 0, amodal=False, dead_leaves=True)
    both = BackgroundAugmentation(
        read_real_images(tmp_path / "green"), 1 << 24, amodal=False, dead_leaves=True
    )
    for made, least, most in ((alone, 0, 0), (both, 12, 28)):
        shown = [behind(made, picture, monkeypatch, seed).rgb for seed in range(40)]
        assert all(np.array_equal(rgb[inside], picture.rgb[inside]) for rgb in shown)
        assert all((rgb[outside] != picture.rgb[outside]).mean() > 0.8 for rgb in shown)
        assert least <= sum((rgb[outside] == GREEN).all() for rgb in shown) <= most
