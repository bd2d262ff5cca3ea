import numpy as np
import pytest

from sim2cam import images
from sim2cam.adapt.calibration.calibration_chart import _make_checkerboard
from sim2cam.experiments.isp_features import compare_isp_features, extract_isp_features
from sim2cam.render.sensor.sensor import capture_image
from sim2cam.scene.sensor import Sensor


def imprints(rng, **other):
    """Return ISP features of checkerboards from nearly equal sensors with one common change."""
    found = []
    for seed in range(12):
        numbers = {
            "exposure_ev": rng.normal(0, 0.1), "red_gain": rng.normal(1, 0.03), "blue_gain": 1.0,
            "vignetting": 0.0, "blur_px": rng.normal(0.7, 0.05), "full_well_e": 4000.0,
            "read_noise_e": 3.0, "denoise": 0.0, "tone_contrast": rng.normal(1, 0.03),
            "saturation": 1.0, "sharpening": rng.uniform(0.2, 0.3), "jpeg_quality": 95,
        } | other  # fmt: skip
        sensor = Sensor(noise_seed=seed + rng.integers(1000), **numbers)
        found.append(
            extract_isp_features(
                images.decode_image(capture_image(_make_checkerboard().copy(), sensor).encoded)
            )
        )
    return np.array(found)


@pytest.fixture(scope="module")
def wanted():
    return imprints(np.random.default_rng(0))


OTHER = {
    "exposure": {"exposure_ev": -0.6},
    "sharpness": {"blur_px": 1.4},
    "noise": {"full_well_e": 500.0},
    "jpeg": {"jpeg_quality": 30},
}


@pytest.mark.parametrize("step", OTHER)
def test_camera_differs_in_the_changed_stage(wanted, step):
    gaps = compare_isp_features(wanted, imprints(np.random.default_rng(1), **OTHER[step]), 0)
    assert gaps[step].value > 0.95
    assert gaps[step].p_value < 0.01


def test_equal_cameras_differ_in_no_stage(wanted):
    again = imprints(np.random.default_rng(2))
    gaps = compare_isp_features(wanted, again, 0)
    assert max(gap.value for gap in gaps.values()) < 0.85
    assert min(gap.p_value for gap in gaps.values()) > 0.01
    again[:3, 0] = np.nan
    assert "lens" not in compare_isp_features(wanted, again, 0)
    assert "noise" in compare_isp_features(wanted, again, 0)
