"""Titles, units and groups of the parameters of a calibrated camera."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ParameterText:
    """Plain name of a camera parameter.

    Attributes:
        unit: unit of the value; empty for ratios.
        scale: what a value without a unit is relative to, and its range.
    """

    title: str
    unit: str = ""
    scale: str = ""


PARAMETER_GROUPS: Mapping[str, Mapping[str, ParameterText]] = {
    "Lens": {
        "lens.fx_px": ParameterText("horizontal focal length", "px"),
        "lens.fy_px": ParameterText("vertical focal length", "px"),
        "lens.cx_px": ParameterText("principal point x", "px"),
        "lens.cy_px": ParameterText("principal point y", "px"),
        **{f"lens.k{i}": ParameterText(f"radial distortion k{i}") for i in range(1, 7)},
        **{f"lens.p{i}": ParameterText(f"tangential distortion p{i}") for i in (1, 2)},
        **{f"lens.s{i}": ParameterText(f"thin-prism distortion s{i}") for i in range(1, 5)},
        "glass.lateral_color.red": ParameterText(
            "lateral chromatic aberration of red", scale="scale of the image, minus 1"
        ),
        "glass.lateral_color.blue": ParameterText(
            "lateral chromatic aberration of blue", scale="scale of the image, minus 1"
        ),
    },
    "Exposure and colour": {
        "sensor.exposure_ev": ParameterText("exposure", "stops"),
        "sensor.red_gain": ParameterText("white balance of red", scale="relative to green"),
        "sensor.blue_gain": ParameterText("white balance of blue", scale="relative to green"),
        "sensor.vignetting": ParameterText(
            "vignetting", scale="share of light lost in the corners"
        ),
        "sensor.tone_contrast": ParameterText("contrast of the tone curve", scale="1 is sRGB"),
        "sensor.tone_shoulder": ParameterText("shoulder of the tone curve", scale="linear level"),
        "sensor.saturation": ParameterText("colour saturation", scale="1 is neutral"),
    },
    "Noise and sharpness": {
        "sensor.full_well_e": ParameterText("full-well capacity", "electrons"),
        "sensor.read_noise_e": ParameterText("read noise", "electrons"),
        "sensor.red_response": ParameterText("response of red", scale="relative to green"),
        "sensor.blue_response": ParameterText("response of blue", scale="relative to green"),
        "sensor.denoise": ParameterText("denoising", scale="0 to 1"),
        "sensor.processing.chroma_blur_px": ParameterText(
            "chroma denoising", "px", "standard deviation"
        ),
        "sensor.blur_px": ParameterText("point spread function", "px", "standard deviation"),
        "sensor.sharpening": ParameterText("sharpening", scale="weight of the unsharp mask"),
    },
    "File": {
        "sensor.file_format": ParameterText("file format"),
        "sensor.jpeg_quality": ParameterText("JPEG quality", scale="1 to 100"),
        "sensor.processing.jpeg_subsampling": ParameterText("chroma subsampling"),
    },
    "Shutter and motion": {
        "shutter.exposure_s": ParameterText("exposure time", "s"),
        "shutter.readout_s": ParameterText("readout time of the rolling shutter", "s"),
        "twist.spin_rad_s": ParameterText("rotation by hand shake", "rad/s", "standard deviation"),
    },
}
"""Texts of all parameters by group, in the order of the page."""
