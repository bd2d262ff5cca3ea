import re

import pytest
from pydantic import TypeAdapter, ValidationError

from sim2cam.scene.depth_camera import (
    ActiveStereo,
    DepthCamera,
    StructuredLight,
    TimeOfFlight,
)

ADAPTER = TypeAdapter(DepthCamera)


@pytest.mark.parametrize(
    "camera",
    [StructuredLight(noise_seed=3), TimeOfFlight(modulation_hz=20e6), ActiveStereo(window_px=9)],
    ids=lambda camera: camera.kind,
)
def test_json_brings_back_an_equal_camera(camera):
    assert ADAPTER.validate_json(ADAPTER.dump_json(camera)) == camera


def test_a_kind_is_enough():
    assert ADAPTER.validate_python({"kind": "time_of_flight"}) == TimeOfFlight()


BAD = [
    (
        StructuredLight,
        {"baseline_m": 0.0},
        "structured_light: baseline_m must be 0.001 to 10, not 0",
    ),
    (
        StructuredLight,
        {"min_return": float("nan")},
        "structured_light: min_return must be 0 to 1e+06, not nan",
    ),
    (
        StructuredLight,
        {"window_px": 8},
        "structured_light: window_px must be odd, not 8",
    ),
    (
        StructuredLight,
        {"max_incidence_rad": 1.6},
        "structured_light: max_incidence_rad must be 0.01 to 1.57, not 1.6",
    ),
    (
        StructuredLight,
        {"noise_seed": -1},
        "structured_light: noise_seed must be 0 to 9.22337e+18, not -1",
    ),
    (
        TimeOfFlight,
        {"min_range_m": 4.5},
        "time_of_flight: min_range_m must be less than max_range_m = 4.5, not 4.5",
    ),
    (
        TimeOfFlight,
        {"depth_unit_m": 5e-5},
        "time_of_flight: 16 bits of depth_unit_m = 5e-05 end at 3.27675 m, before max_range_m = "
        "4.5. Raise the unit.",
    ),
    (
        TimeOfFlight,
        {"modulation_hz": 20e6, "ambiguity_m": 5.0},
        "time_of_flight: distances at 2e+07 Hz repeat after 7.49 m, so ambiguity_m cannot be 5. "
        "Raise it, or modulation_hz.",
    ),
    (
        TimeOfFlight,
        {"scatter_share": 1.5},
        "time_of_flight: scatter_share must be 0 to 1, not 1.5",
    ),
    (
        ActiveStereo,
        {"window_px": 6},
        "active_stereo: window_px must be odd, not 6",
    ),
    (
        ActiveStereo,
        {"projector_m": 0.06},
        "active_stereo: the projector is between the cameras, so projector_m must be 0 to "
        "baseline_m = 0.055, not 0.06",
    ),
    (
        ActiveStereo,
        {"uniqueness_percent": 100},
        "active_stereo: uniqueness_percent must be 0 to 99, not 100",
    ),
]


@pytest.mark.parametrize(("kind", "values", "problem"), BAD)
def test_a_bad_camera_is_refused(kind, values, problem):
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        kind(**values)


def test_every_number_of_every_kind_is_bounded():
    for kind in (StructuredLight, TimeOfFlight, ActiveStereo):
        numbers = [name for name in kind.__dataclass_fields__ if name != "kind"]
        for name in numbers:
            with pytest.raises(ValueError, match=rf"^{kind().kind}: {name} must be .* not -1$"):
                kind(**{name: -1})


def test_a_recipe_s_reader_says_which_number_is_wrong():
    with pytest.raises(ValidationError, match="structured_light: baseline_m must be"):
        ADAPTER.validate_python({"kind": "structured_light", "baseline_m": 50})
