import os
import threading

import numpy as np

from sim2cam.models.augment.photometric import PhotometricAugmentation

RGB = np.random.default_rng(0).integers(40, 200, (96, 96, 3)).astype(np.uint8)


def test_equal_seeds_change_equally_whatever_came_before():
    a, b = PhotometricAugmentation(), PhotometricAugmentation()
    for seed in range(5):
        b(RGB, 100 + seed)
    for seed in range(20):
        assert np.array_equal(a(RGB, seed), b(RGB, seed))


def test_threads_do_not_disturb_each_other():
    change = PhotometricAugmentation()
    expected = [change(RGB, seed) for seed in range(16)]
    found = {}

    def work(start):
        for seed in range(start, 16, 4):
            found[seed] = change(RGB, seed)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[seed], expected[seed]) for seed in range(16))


def test_looks_vary_but_stay_images_and_nothing_moves():
    dark_half = np.full((96, 96, 3), 60, np.uint8)
    dark_half[:, 48:] = 180
    change, means = PhotometricAugmentation(), []
    for seed in range(60):
        changed = change(dark_half, seed)
        assert changed.shape == dark_half.shape
        assert changed.dtype == np.uint8
        grey = changed.astype(float).mean(axis=(0, 2))
        steps = np.diff(grey)
        assert abs(int(np.argmax(steps)) - 47) <= 2
        means.append(changed.mean())
    assert np.std(means) > 10


def test_draws_of_different_changes_are_independent():
    """If all started from one seed, brightness and noise would rise and fall together."""
    flat, change = np.full((64, 64, 3), 128, np.uint8), PhotometricAugmentation()
    changed = [change(flat, seed).astype(float) for seed in range(200)]
    brightness = np.array([c.mean() for c in changed])
    noise = np.array([c.std(axis=(0, 1)).mean() for c in changed])
    assert abs(np.corrcoef(abs(brightness - 128), noise)[0, 1]) < 0.4


def test_input_is_left_alone_and_no_network_is_asked():
    before = RGB.copy()
    PhotometricAugmentation()(RGB, 3)
    assert np.array_equal(before, RGB)
    assert os.environ["NO_ALBUMENTATIONS_UPDATE"] == "1"


def test_strong_changes_are_stronger_and_keep_geometry():
    dark_half = np.full((96, 96, 3), (60, 80, 70), np.uint8)
    dark_half[:, 48:] = (180, 150, 160)
    spreads = {}
    for strong in (False, True):
        change = PhotometricAugmentation(strong=strong)
        changed = [change(dark_half, seed).astype(float) for seed in range(120)]
        spreads[strong] = np.std([image.mean(axis=(0, 1)) for image in changed], axis=0).mean()
        steps = [abs(np.diff(np.median(image.mean(axis=2), axis=0))) for image in changed]
        at_edge = [abs(int(np.argmax(step)) - 47) <= 2 for step in steps if step.max() > 12]
        assert len(at_edge) > 90
        assert np.mean(at_edge) > 0.9
    assert spreads[True] > 1.3 * spreads[False]
