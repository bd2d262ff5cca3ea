"""Parts of cameras out of range are refused."""

import re
from dataclasses import fields, replace

import pytest
from pydantic import TypeAdapter, ValidationError

from sim2cam.scene.camera import Shutter
from sim2cam.scene.depth_camera import ActiveStereo, DepthCamera, StructuredLight, TimeOfFlight
from sim2cam.scene.lens_effects import (
    Defocus,
    Dirt,
    Droplets,
    Falloff,
    FieldBlur,
    Glare,
    LateralColor,
    LensEffects,
)
from sim2cam.scene.parameters import list_parameters
from sim2cam.scene.sensor import Automatics, Mosaic, Processing

NAN = float("nan")
PARTS = {
    "defocus": Defocus(0.004, 0.3), "lateral_color": LateralColor(), "field_blur": FieldBlur(),
    "glare": Glare(), "dirt": Dirt(0.1, 0.2), "droplets": Droplets(3, 0.02),
    "falloff": Falloff(-0.4),
    "mosaic": Mosaic("RGGB"), "processing": Processing(), "automatics": Automatics(),
    "structured_light": StructuredLight(), "time_of_flight": TimeOfFlight(),
    "active_stereo": ActiveStereo(),
}  # fmt: skip
ADAPTER = TypeAdapter(DepthCamera)


def test_every_lens_effect_is_listed():
    assert {field.name for field in fields(LensEffects)} <= PARTS.keys()


@pytest.mark.parametrize("name", PARTS)
def test_every_number_of_every_part_is_bounded(name):
    for parameter in list_parameters(type(PARTS[name])).values():
        if parameter.type in ("number", "integer"):
            for value in (parameter.low - 1, 2 * parameter.high + 1):
                with pytest.raises(
                    ValueError, match=rf"^{name}: {parameter.name} must be .*, not "
                ):
                    replace(PARTS[name], **{parameter.name: value})


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("defocus", {"aperture_m": -0.01}, "aperture_m must be 0 to 0.1, not -0.01"),
        ("defocus", {"focus_m": 0.0}, "focus_m must be 0.0001 to 1e+06, not 0"),
        ("defocus", {"focus_m": NAN}, "focus_m must be 0.0001 to 1e+06, not nan"),
        ("lateral_color", {"red": 1.0}, "red must be -0.05 to 0.05, not 1"),
        ("field_blur", {"corner_px": -1.0}, "corner_px must be 0 to 20, not -1"),
        ("glare", {"veil": 2.0}, "veil must be 0 to 1, not 2"),
        ("glare", {"veil": 0.5, "bloom": 0.4, "ghost": 0.2}, "the sum of veil, bloom and ghost must be at most 1, not 1.1"),
        ("dirt", {"loss": 1.5}, "loss must be 0 to 1, not 1.5"),
        ("droplets", {"count": 10_000}, "count must be 0 to 200, not 10000"),
        ("mosaic", {"bits": 18}, "bits must be 8 to 16, not 18"),
        ("mosaic", {"prnu": -0.1}, "prnu must be 0 to 0.5, not -0.1"),
        ("processing", {"local_tone": 2.0}, "local_tone must be 0 to 1, not 2"),
        ("automatics", {"white_lag_s": -1}, "white_lag_s must be 0 to 60, not -1"),
        ("automatics", {"fixed_gain": 0.0}, "fixed_gain must be 1e-09 to 1e+09, not 0"),
        ("structured_light", {"baseline_m": 0.0}, "baseline_m must be 0.001 to 10, not 0"),
        ("structured_light", {"min_return": NAN}, "min_return must be 0 to 1e+06, not nan"),
        ("structured_light", {"window_px": 8}, "window_px must be odd, not 8"),
        ("structured_light", {"max_incidence_rad": 1.6}, "max_incidence_rad must be 0.01 to 1.57, not 1.6"),
        ("structured_light", {"noise_seed": -1}, "noise_seed must be 0 to 9.22337e+18, not -1"),
        ("time_of_flight", {"min_range_m": 4.5}, "min_range_m must be less than max_range_m = 4.5, not 4.5"),
        ("time_of_flight", {"depth_unit_m": 5e-5}, "16 bits of depth_unit_m = 5e-05 end at 3.27675 m, before max_range_m = 4.5. Raise the unit."),
        ("time_of_flight", {"modulation_hz": 20e6, "ambiguity_m": 5.0}, "distances at 2e+07 Hz repeat after 7.49 m, so ambiguity_m cannot be 5. Raise it, or modulation_hz."),
        ("time_of_flight", {"scatter_share": 1.5}, "scatter_share must be 0 to 1, not 1.5"),
        ("active_stereo", {"window_px": 6}, "window_px must be odd, not 6"),
        ("active_stereo", {"projector_m": 0.06}, "the projector is between the cameras, so projector_m must be 0 to baseline_m = 0.055, not 0.06"),
        ("active_stereo", {"uniqueness_percent": 100}, "uniqueness_percent must be 0 to 99, not 100"),
    ],
)  # fmt: skip
def test_a_part_out_of_range_is_refused(name, values, problem):
    with pytest.raises(ValueError, match=f"^{re.escape(f'{name}: {problem}')}$"):
        replace(PARTS[name], **values)


@pytest.mark.parametrize(
    ("values", "message"),
    [((value, 0.0), f"exposure_s must be above 0 and at most 10, not {value}") for value in (0.0, -0.1, NAN, 11.0)]
    + [((0.1, value), f"readout_s must be -10 to 10, not {value}") for value in (20.0, NAN)],
)  # fmt: skip
def test_an_impossible_shutter_is_refused(values, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Shutter(*values)


def test_depth_cameras_are_read_from_their_kind():
    assert ADAPTER.validate_python({"kind": "time_of_flight"}) == TimeOfFlight()
    with pytest.raises(ValidationError, match="structured_light: baseline_m must be"):
        ADAPTER.validate_python({"kind": "structured_light", "baseline_m": 50})


@pytest.mark.parametrize(
    ("share", "bits", "black"), [(0.0, 8, 0), (1 / 16, 10, 64), (1 / 16, 12, 256)]
)
def test_levels_are_those_of_the_bits(share, bits, black):
    mosaic = Mosaic("RGGB", bits, share)
    assert (mosaic.black_level(), mosaic.white_level()) == (black, 2**bits - 1)
