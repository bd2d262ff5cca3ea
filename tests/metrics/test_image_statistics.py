import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.errors import UsageError
from sim2cam.metrics.image_statistics import (
    STATISTIC_NAMES,
    compute_image_statistics,
    select_statistics,
)
from tests.support.evaluation import refused


def picture(seed=0):
    """Coloured patches of several sizes on grey, as smooth as a lens makes them."""
    rng = np.random.default_rng(seed)
    rgb = np.full((120, 160, 3), 130.0)
    for side in (40, 20, 10, 6, 4):
        for _ in range(6):
            y, x = rng.integers(0, 120 - side), rng.integers(0, 160 - side)
            rgb[y : y + side, x : x + side] = rng.uniform(40, 210, 3)
    return cv2.GaussianBlur(rgb, (0, 0), 0.8).round().astype(np.uint8)


def noisy(rgb, sigma):
    noise = np.random.default_rng(1).normal(0, sigma, rgb.shape)
    return (rgb + noise).clip(0, 255).round().astype(np.uint8)


def change(rgb):
    changes = compute_image_statistics(rgb) - compute_image_statistics(picture())
    return dict(zip(STATISTIC_NAMES, changes, strict=True))


def test_every_number_has_one_name_and_one_aspect():
    numbers = compute_image_statistics(picture())
    assert len(numbers) == len(STATISTIC_NAMES) == len(set(STATISTIC_NAMES))
    parts = np.concatenate([select_statistics(a) for a in ("color", "structure", "detail")])
    assert sorted(parts) == list(range(len(STATISTIC_NAMES)))


def test_light_shows_in_the_quantiles_and_in_no_contrast_of_colours():
    found = change(picture() + np.uint8(20))
    assert found["color/luma_q50"] == pytest.approx(20 / 255, abs=1e-3)
    others = [name for name in STATISTIC_NAMES if not name.startswith("color/luma")]
    assert max(abs(found[name]) for name in others) < 0.06


def test_a_cast_shows_in_its_axis_alone():
    warm = picture().astype(int)
    warm[..., 2] -= 15
    found = change(warm.astype(np.uint8))
    assert found["color/yellow_blue"] == pytest.approx(15 / 255, abs=1e-3)
    assert found["color/red_green"] == 0


def test_noise_shows_in_detail_and_not_in_coarse_structure():
    found = change(noisy(picture(), 4))
    parts = ("dark", "middle", "bright", "color")
    assert min(found[f"detail/noise_{part}"] for part in parts) > 0.5
    assert abs(found["structure/luma_32_px"]) < 0.05


def test_a_noise_filter_widens_the_noise():
    grey = np.full((120, 160, 3), 128, np.uint8)
    raw, filtered = noisy(grey, 8), cv2.medianBlur(noisy(grey, 8), 3)
    width = STATISTIC_NAMES.index("detail/noise_correlation")
    assert compute_image_statistics(raw)[width] < 0.05
    assert compute_image_statistics(filtered)[width] > compute_image_statistics(raw)[width] + 0.2


def test_blur_takes_the_finest_first():
    found = change(cv2.GaussianBlur(picture(), (0, 0), 1.5))
    assert found["detail/luma_1_px"] < found["detail/luma_2_px"] < found["structure/luma_8_px"] < 0
    assert found["detail/gradient_q99"] < -0.2


def test_blocks_are_those_of_jpeg():
    grainy = noisy(picture(), 6)
    blocks = STATISTIC_NAMES.index("detail/jpeg_blocking")
    found = [
        compute_image_statistics(images.decode_image(images.encode_jpeg(grainy, q, "444")))[blocks]
        for q in (95, 50, 15)
    ]
    assert found[0] < found[1] < found[2]
    assert found[0] == pytest.approx(compute_image_statistics(grainy)[blocks], abs=0.08)


def test_dark_corners_are_corner_light():
    y, x = np.ogrid[-1:1:120j, -1:1:160j]
    falloff = (1 - 0.3 * (x * x + y * y) / 2)[..., None]
    assert change((picture() * falloff).astype(np.uint8))["color/vignetting"] < -0.1


def test_structure_lies_where_things_are_of_that_size():
    def squares(side):
        rgb = np.full((256, 256, 3), 100, np.uint8)
        rgb[(np.indices((256, 256)) // side % 2).sum(axis=0) == 1] = 150
        return rgb

    bands = [STATISTIC_NAMES.index(f"structure/luma_{size}_px") for size in (4, 8, 16, 32, 64)]
    numbers = [compute_image_statistics(squares(side))[bands] for side in (4, 8, 16, 32)]
    peaks = [int(bands.argmax()) for bands in numbers]
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[-1]


def test_few_small_things_are_sparse():
    few, many = (np.full((128, 128, 3), 100, np.uint8) for _ in range(2))
    few[40:48, 40:48] = many[40:48, 40:48] = 160
    for i in range(0, 128, 16):
        many[i : i + 8, ::16] = 160
    sparse = STATISTIC_NAMES.index("structure/sparseness_8_px")
    assert compute_image_statistics(few)[sparse] > compute_image_statistics(many)[sparse] + 0.3


def test_a_grey_and_even_picture_has_finite_numbers():
    assert np.isfinite(compute_image_statistics(np.full((64, 64, 3), 90, np.uint8))).all()


def test_what_is_too_small_is_refused():
    small = "an image of 100 x 63 pixels is too small for statistics."
    with refused(UsageError, f"{small} Both sides must be at least 64 pixels."):
        compute_image_statistics(np.zeros((63, 100, 3), np.uint8))
