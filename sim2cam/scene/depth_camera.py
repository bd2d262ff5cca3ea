"""Depth cameras: what each kind is made of, in numbers that were measured or can be.

A default without a source is our choice. The other eye or the projector of a triangulating camera
stands at the right of the camera whose pixels carry the depth.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from pydantic import Field

from sim2cam.scene.bounds import FRACTION_RANGE, SEED_RANGE, check_bounds

SPEED_OF_LIGHT_M_S = 299_792_458.0
UINT16_MAX = 2**16 - 1

DEPTH_CAMERA_BOUNDS: dict[str, tuple[float, float]] = {
    "baseline_m": (0.001, 10),
    "projector_m": (0, 10),
    "disparity_step_px": (0.001, 1),
    "window_px": (1, 31),
    "axial_noise_m": (0, 1),
    "axial_growth_per_m": (0, 1),
    "axial_nearest_m": (0, 10),
    "axial_slant_m": (0, 1),
    "lateral_noise_px": (0, 10),
    "lateral_slant_px": (0, 10),
    "min_return": (0, 1e6),
    "max_return": (0, 1e6),
    "max_incidence_rad": (0.01, 1.57),
    "speckle_contrast": FRACTION_RANGE,
    "modulation_hz": (1e6, 1e9),
    "ambiguity_m": (0.01, 1000),
    "modulation_contrast": (0.01, 1),
    "signal_e": (1, 1e9),
    "ambient_e": (0, 1e9),
    "read_noise_e": (0, 1e6),
    "full_well_e": (1, 1e9),
    "min_amplitude_e": (0, 1e9),
    "scatter_share": FRACTION_RANGE,
    "blur_px": (0, 10),
    "dot_spacing_rad": (0.0005, 0.5),
    "dot_radius_rad": (0.0001, 0.1),
    "ambient_share": (0, 1e6),
    "uniqueness_percent": (0, 99),
    "left_right_px": (0, 64),
    "max_error_px": (0.001, 10),
    "min_range_m": (0.01, 1000),
    "max_range_m": (0.01, 1000),
    "depth_unit_m": (1e-6, 0.1),
    "pattern_seed": SEED_RANGE,
    "noise_seed": SEED_RANGE,
}
"""What the numbers of depth cameras may be, each alone."""


@dataclass(frozen=True)
class StructuredLight:
    """A projector of one known pattern beside an infrared camera, like the first Kinect.

    Light is counted in that which a white matt surface returns that faces the lamp 1 m away.

    Attributes:
        baseline_m: between camera and projector; 7.5 cm (Khoshelham and Elberink 2012, "Accuracy
            and resolution of Kinect depth data for indoor mapping applications").
        disparity_step_px: disparities are whole numbers of it; 1/8 pixel, which is 7 cm of depth at
            5 m there.
        window_px: side of the square of pixels that is compared with the pattern, odd; 9 is
            inferred from the eight columns that the Kinect leaves empty.
        axial_noise_m, axial_growth_per_m, axial_nearest_m: standard deviation a + g (z - n)^2 of
            the depth z of a surface that faces the camera, quantization included (Nguyen, Izadi and
            Lovell 2012, "Modeling Kinect sensor noise for improved 3D reconstruction and
            tracking").
        axial_slant_m: what grazing light adds at 1 m, times t^2 / (pi/2 - t)^2 / sqrt(z / 1 m) at
            incidence t (there).
        lateral_noise_px, lateral_slant_px: standard deviation l + s t / (pi/2 - t) by which edges
            move in the picture (there).
        min_return: less light gives no reading; at 0.02 a surface of 50 % is lost at 5 m, the end
            of the range.
        max_return: more light blinds, as the glint of a polished surface does.
        max_incidence_rad: surfaces more grazing give no reading.
        speckle_contrast: relative standard deviation of the light, from pixel to pixel.
        min_range_m, max_range_m: depths outside give no reading; 0.5 to 5 m (Khoshelham and
            Elberink).
        depth_unit_m: of the 16-bit output.
        noise_seed: which noise.
    """

    baseline_m: float = 0.075
    disparity_step_px: float = 0.125
    window_px: int = 9
    axial_noise_m: float = 0.0012
    axial_growth_per_m: float = 0.0019
    axial_nearest_m: float = 0.4
    axial_slant_m: float = 0.0001
    lateral_noise_px: float = 0.8
    lateral_slant_px: float = 0.035
    min_return: float = 0.02
    max_return: float = 10.0
    max_incidence_rad: float = 1.4
    speckle_contrast: float = 0.1
    min_range_m: float = 0.5
    max_range_m: float = 5.0
    depth_unit_m: float = 0.001
    noise_seed: int = 0
    kind: Literal["structured_light"] = "structured_light"

    def __post_init__(self) -> None:
        _check_bounds(self)
        _check_range(self)
        _check_window(self)


@dataclass(frozen=True)
class TimeOfFlight:
    """A lamp of modulated light beside the lens, whose delay is measured, like the second Kinect.

    The light is counted as electrons in each of four samples of its period, summed over a frame.
    With the defaults the noise is within a quarter of that which Fankhauser et al. 2015 ("Kinect v2
    for mobile robot navigation: evaluation and modeling") measured from 1 to 4 m.

    Attributes:
        modulation_hz: the frequency that decides the noise; one of the Kinect's three.
        ambiguity_m: distances repeat after it. Half the wavelength for a camera of one frequency;
            18.75 m for the Kinect's three (Jaremo Lawin, Forssen and Ovren 2016, "Efficient
            multi-frequency phase unwrapping using kernel density estimation").
        modulation_contrast: share of the light that is counted as modulated.
        signal_e: from a white matt surface that faces the lamp 1 m away.
        ambient_e: from a white matt surface, of other light than the lamp's.
        read_noise_e: standard deviation of what the electronics add.
        full_well_e: more electrons give no reading.
        min_amplitude_e: less modulated light gives no reading.
        scatter_share: light that the lens spreads over the whole picture; one number is enough of a
            model (Schaefer, Lenzen and Garbe 2014, "Model based scattering correction in
            time-of-flight cameras").
        blur_px: standard deviation of the point spread, which mixes near and far at edges.
        min_range_m, max_range_m: depths outside give no reading; those of the Kinect.
        depth_unit_m: of the 16-bit output.
        noise_seed: which noise.
    """

    modulation_hz: float = 80e6
    ambiguity_m: float = 18.75
    modulation_contrast: float = 0.5
    signal_e: float = 200e3
    ambient_e: float = 500.0
    read_noise_e: float = 20.0
    full_well_e: float = 900e3
    min_amplitude_e: float = 300.0
    scatter_share: float = 0.002
    blur_px: float = 0.5
    min_range_m: float = 0.5
    max_range_m: float = 4.5
    depth_unit_m: float = 0.001
    noise_seed: int = 0
    kind: Literal["time_of_flight"] = "time_of_flight"

    def __post_init__(self) -> None:
        _check_bounds(self)
        _check_range(self)
        wave_m = SPEED_OF_LIGHT_M_S / (2 * self.modulation_hz)
        if self.ambiguity_m < wave_m * (1 - 1e-3):  # as rounded on data sheets
            raise ValueError(
                f"{self.kind}: distances at {self.modulation_hz:g} Hz repeat after {wave_m:.3g} m, "
                f"so ambiguity_m cannot be {self.ambiguity_m:g}. Raise it, or modulation_hz."
            )


@dataclass(frozen=True)
class ActiveStereo:
    """Two infrared cameras and a projector of dots between them, like a RealSense D415.

    Both pictures are drawn and matched. Baseline, window, uniqueness, consistency, speckle and
    range are those with which SAPIEN simulates a D415 (Zhang et al. 2022, "Close the optical
    sensing domain gap by physics-grounded active stereo sensor simulation").

    Attributes:
        baseline_m: between the cameras.
        projector_m: of the projector, from the left camera.
        window_px: side of the square of pixels that is matched, odd.
        uniqueness_percent: by which the second best match must be worse.
        left_right_px: by how much the match from the right may differ.
        max_error_px: standard deviation of the disparity, as the window tells it, above which there
            is no reading.
        disparity_step_px: disparities are whole numbers of it; 1/32 pixel (Grunnet-Jepsen et al.
            2019, "Subpixel linearity improvement for Intel RealSense depth camera D400 series").
        dot_spacing_rad, dot_radius_rad: mean distance of the projected dots, and standard deviation
            of one's profile.
        ambient_share: other infrared light, over that of the projector at 1 m.
        speckle_contrast: relative standard deviation of the laser's light, in each picture alone.
        full_well_e, read_noise_e: electrons at white, and standard deviation of the read noise.
        min_range_m, max_range_m: depths outside give no reading; the nearest decides how far is
            searched.
        depth_unit_m: of the 16-bit output; 1 mm.
        pattern_seed: which dots.
        noise_seed: which noise.
    """

    baseline_m: float = 0.055
    projector_m: float = 0.0275
    window_px: int = 7
    uniqueness_percent: int = 15
    left_right_px: int = 1
    max_error_px: float = 0.2
    disparity_step_px: float = 1 / 32
    dot_spacing_rad: float = 0.006
    dot_radius_rad: float = 0.0015
    ambient_share: float = 0.02
    speckle_contrast: float = 0.027
    full_well_e: float = 4000.0
    read_noise_e: float = 8.0
    min_range_m: float = 0.2
    max_range_m: float = 10.0
    depth_unit_m: float = 0.001
    pattern_seed: int = 0
    noise_seed: int = 0
    kind: Literal["active_stereo"] = "active_stereo"

    def __post_init__(self) -> None:
        _check_bounds(self)
        _check_range(self)
        _check_window(self)
        if self.projector_m > self.baseline_m:
            raise ValueError(
                f"{self.kind}: the projector stands between the cameras, so projector_m must be 0 "
                f"to baseline_m = {self.baseline_m:g}, not {self.projector_m:g}"
            )


AnyDepthCamera = StructuredLight | TimeOfFlight | ActiveStereo
DepthCamera = Annotated[AnyDepthCamera, Field(discriminator="kind")]
DEPTH_CAMERA_TYPES: dict[str, type[AnyDepthCamera]] = {
    kind.kind: kind for kind in (StructuredLight, TimeOfFlight, ActiveStereo)
}


def _check_bounds(camera: AnyDepthCamera) -> None:
    names = {field.name for field in fields(camera)}
    check_bounds(camera, camera.kind, {n: b for n, b in DEPTH_CAMERA_BOUNDS.items() if n in names})


def _check_range(camera: AnyDepthCamera) -> None:
    if not camera.min_range_m < camera.max_range_m:
        raise ValueError(
            f"{camera.kind}: min_range_m must be less than max_range_m = {camera.max_range_m:g}, "
            f"not {camera.min_range_m:g}"
        )
    farthest_m = UINT16_MAX * camera.depth_unit_m
    if camera.max_range_m > farthest_m:
        raise ValueError(
            f"{camera.kind}: 16 bits of depth_unit_m = {camera.depth_unit_m:g} end at "
            f"{farthest_m:g} m, before max_range_m = {camera.max_range_m:g}. Raise the unit."
        )


def _check_window(camera: StructuredLight | ActiveStereo) -> None:
    if camera.window_px % 2 == 0:
        raise ValueError(
            f"{camera.kind}: window_px must be odd, so that it has a middle, not {camera.window_px}"
        )
