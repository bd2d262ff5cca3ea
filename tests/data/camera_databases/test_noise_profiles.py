import json

import numpy as np
import pytest
from camera_databases import NOISE

from sim2cam.data.camera_databases.noise_profiles import NoiseProfile, read_noise_profiles
from sim2cam.errors import InputError
from sim2cam.render.sensor.sensor import _read_sensor
from sim2cam.scene.sensor import Sensor

LEVELS = np.linspace(0.2, 0.7, 6)
PROFILE = NoiseProfile("Acme One", 800, (8e-4, 4e-4, 6e-4), (0.0, 4e-5, 0.0))


def measure_like_darktable(image):
    """Return the robust standard deviation of the finest diagonal Haar coefficients of each channel."""
    p, q, r, s = image[::2, ::2], image[::2, 1::2], image[1::2, ::2], image[1::2, 1::2]
    details = (p - q - r + s) / 4
    return np.median(np.abs(details), axis=(0, 1)) / 0.6745


def test_simulated_sensor_has_the_measured_noise():
    sensor = Sensor(
        exposure_ev=0, red_gain=1, blue_gain=1, vignetting=0, blur_px=0, denoise=0, tone_contrast=1,
        saturation=1, sharpening=0, jpeg_quality=90, noise_seed=5, **PROFILE.to_sensor_factors(),
    )  # fmt: skip
    variances = []
    for level in LEVELS:
        flat = np.full((512, 512, 3), level, np.float32)
        variances.append(measure_like_darktable(_read_sensor(flat, sensor)[0]) ** 2)
    slopes, offsets = np.polyfit(LEVELS, np.array(variances), 1)
    assert slopes == pytest.approx(PROFILE.a, rel=0.04)
    assert offsets[1] == pytest.approx(PROFILE.b[1], rel=0.2)


def test_electrons_and_responses():
    factors = PROFILE.to_sensor_factors()
    assert factors["full_well_e"] == pytest.approx(625)
    assert factors["read_noise_e"] == pytest.approx(np.sqrt(4 * 4e-5) * 625)
    assert factors["red_response"] == pytest.approx(0.5)
    assert factors["blue_response"] == pytest.approx(2 / 3)


def test_clipped_fits_stay_in_the_range_of_the_sensor():
    clipped = NoiseProfile("x", 100, (0.0, 1e-5, 1e-6), (0.0, -1e-6, 0.0)).to_sensor_factors()
    assert clipped["read_noise_e"] == 0
    assert (clipped["red_response"], clipped["blue_response"]) == (1, 1)


def test_profiles_to_skip_are_left_out(tmp_path):
    path = tmp_path / "noiseprofiles.json"
    path.write_text(json.dumps(NOISE))
    profiles = read_noise_profiles(path)
    assert [(profile.camera, profile.iso) for profile in profiles] == [
        ("Acme One", 100), ("Acme One", 800), ("Bolt B-2", 1600),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1, 2", "not JSON"),
        ("[" * 100_000, "nested"),
        ('{"noiseprofiles": 3}', "noiseprofiles"),
        ('{"version": 0}', "noiseprofiles is missing"),
        ('{"noiseprofiles": [{"maker": "A", "models": [{"model": "B", "profiles": [{"iso": 1, "a": [1, 2], "b": [0, 0, 0]}]}]}]}', "a"),
        ('{"noiseprofiles": [{"maker": "A", "models": [{"model": "B", "profiles": [{"iso": 1, "a": [1, NaN, 1], "b": [0, 0, 0]}]}]}]}', "finite"),
        ('{"noiseprofiles": [{"maker": "A\\u0000", "models": [{"model": "B"}]}]}', "control character"),
    ],
)  # fmt: skip
def test_broken_file_is_refused(tmp_path, text, problem):
    path = tmp_path / "noiseprofiles.json"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read_noise_profiles(path)


def test_huge_file_is_refused(tmp_path):
    path = tmp_path / "noiseprofiles.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InputError, match="more than"):
        read_noise_profiles(path)
