"""Parameters of depth cameras, with sources of their defaults.

Defaults without a source are our choice. The second camera or projector of a triangulating camera is at the right
of the camera with the depth image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sim2cam.scene.parameters import Between, Fraction, Seed, check_ranges

SPEED_OF_LIGHT_M_S = 299_792_458.0
UINT16_MAX = 2**16 - 1


@dataclass(frozen=True)
class StructuredLight:
    """An infrared camera with a projector of one known pattern, as the first Kinect.

    Light is relative to the return of a white matt surface that faces the lamp at 1 m.

    Attributes:
        baseline_m: Distance of camera and projector; 7.5 cm (Khoshelham and Elberink 2012, "Accuracy and
            resolution of Kinect depth data for indoor mapping applications").
        disparity_step_px: Quantization of disparities; 1/8 pixel, or 7 cm of depth at 5 m (ibid.).
        window_px: Side of the matching window, odd; 9 follows from the eight empty columns of the Kinect.
        axial_noise_m, axial_growth_per_m, axial_nearest_m: Standard deviation a + g (z - n)^2 of the depth z of
            a frontal surface, including quantization (Nguyen, Izadi and Lovell 2012, "Modeling Kinect sensor
            noise for improved 3D reconstruction and tracking").
        axial_slant_m: Additional deviation at incidence t: this value times t^2 / (pi/2 - t)^2 / sqrt(z / 1 m)
            (ibid.).
        lateral_noise_px, lateral_slant_px: Standard deviation l + s t / (pi/2 - t) of edge positions (ibid.).
        min_return: Least light for a reading; 0.02 loses a surface of 50 % at 5 m, the end of the range.
        max_return: Most light for a reading; exceeded by glints of polished surfaces.
        max_incidence_rad: Largest incidence angle for a reading.
        speckle_contrast: Relative standard deviation of the light between pixels.
        min_range_m, max_range_m: Depth range; 0.5 to 5 m (Khoshelham and Elberink).
        depth_unit_m: Unit of the 16-bit output.
        noise_seed: Seed of the noise.
    """

    baseline_m: Annotated[float, Between(0.001, 10)] = 0.075
    disparity_step_px: Annotated[float, Between(0.001, 1)] = 0.125
    window_px: Annotated[int, Between(1, 31)] = 9
    axial_noise_m: Annotated[float, Between(0, 1)] = 0.0012
    axial_growth_per_m: Annotated[float, Between(0, 1)] = 0.0019
    axial_nearest_m: Annotated[float, Between(0, 10)] = 0.4
    axial_slant_m: Annotated[float, Between(0, 1)] = 0.0001
    lateral_noise_px: Annotated[float, Between(0, 10)] = 0.8
    lateral_slant_px: Annotated[float, Between(0, 10)] = 0.035
    min_return: Annotated[float, Between(0, 1e6)] = 0.02
    max_return: Annotated[float, Between(0, 1e6)] = 10.0
    max_incidence_rad: Annotated[float, Between(0.01, 1.57)] = 1.4
    speckle_contrast: Fraction = 0.1
    min_range_m: Annotated[float, Between(0.01, 1000)] = 0.5
    max_range_m: Annotated[float, Between(0.01, 1000)] = 5.0
    depth_unit_m: Annotated[float, Between(1e-06, 0.1)] = 0.001
    noise_seed: Seed = 0
    kind: Literal["structured_light"] = "structured_light"

    def __post_init__(self) -> None:
        check_ranges(self, self.kind)
        _check_range(self)
        _check_window(self)


@dataclass(frozen=True)
class TimeOfFlight:
    """A camera that measures the delay of modulated light, as the second Kinect.

    Light is in electrons in each of four samples per period, summed over a frame. With the defaults the noise is
    within a quarter of the measurements of Fankhauser et al. 2015 ("Kinect v2 for mobile robot navigation: evaluation
    and modeling") from 1 to 4 m.

    Attributes:
        modulation_hz: Frequency that determines the noise; one of the Kinect's three.
        ambiguity_m: Distance after which readings repeat. Half the wavelength for a single frequency; 18.75 m
            for the Kinect's three (Jaremo Lawin, Forssen and Ovren 2016, "Efficient multi-frequency phase
            unwrapping using kernel density estimation").
        modulation_contrast: Fraction of the light counted as modulated.
        signal_e: Signal of a white matt surface that faces the lamp at 1 m.
        ambient_e: Ambient light from a white matt surface.
        read_noise_e: Standard deviation of the read noise.
        full_well_e: Most electrons for a reading.
        min_amplitude_e: Least modulated light for a reading.
        scatter_share: Fraction of light that the lens scatters over the whole image, the single parameter of
            Schaefer, Lenzen and Garbe 2014, "Model based scattering correction in time-of-flight cameras".
        blur_px: Standard deviation of the point spread function, which mixes depths at edges.
        min_range_m, max_range_m: Depth range; that of the Kinect.
        depth_unit_m: Unit of the 16-bit output.
        noise_seed: Seed of the noise.
    """

    modulation_hz: Annotated[float, Between(1e6, 1e9)] = 80e6
    ambiguity_m: Annotated[float, Between(0.01, 1000)] = 18.75
    modulation_contrast: Annotated[float, Between(0.01, 1)] = 0.5
    signal_e: Annotated[float, Between(1, 1e9)] = 200e3
    ambient_e: Annotated[float, Between(0, 1e9)] = 500.0
    read_noise_e: Annotated[float, Between(0, 1e6)] = 20.0
    full_well_e: Annotated[float, Between(1, 1e9)] = 900e3
    min_amplitude_e: Annotated[float, Between(0, 1e9)] = 300.0
    scatter_share: Fraction = 0.002
    blur_px: Annotated[float, Between(0, 10)] = 0.5
    min_range_m: Annotated[float, Between(0.01, 1000)] = 0.5
    max_range_m: Annotated[float, Between(0.01, 1000)] = 4.5
    depth_unit_m: Annotated[float, Between(1e-06, 0.1)] = 0.001
    noise_seed: Seed = 0
    kind: Literal["time_of_flight"] = "time_of_flight"

    def __post_init__(self) -> None:
        check_ranges(self, self.kind)
        _check_range(self)
        half_wavelength_m = SPEED_OF_LIGHT_M_S / (2 * self.modulation_hz)
        if self.ambiguity_m < half_wavelength_m * (1 - 1e-3):  # data sheets round
            raise ValueError(
                f"{self.kind}: distances at {self.modulation_hz:g} Hz repeat after {half_wavelength_m:.3g} m, "
                f"so ambiguity_m cannot be {self.ambiguity_m:g}. Raise it, or modulation_hz."
            )


@dataclass(frozen=True)
class ActiveStereo:
    """Two infrared cameras with a dot projector between them, as a RealSense D415.

    Both images are rendered and matched. Baseline, window, uniqueness, consistency, speckle and range are those of
    SAPIEN's D415 (Zhang et al. 2022, "Close the optical sensing domain gap by physics-grounded active stereo sensor
    simulation").

    Attributes:
        baseline_m: Distance of the cameras.
        projector_m: Distance of the projector from the left camera.
        window_px: Side of the matching window, odd.
        uniqueness_percent: Margin by which the second best match must be worse.
        left_right_px: Largest difference between the left-to-right and the right-to-left match.
        max_error_px: Largest standard deviation of the disparity, estimated in the window, for a reading.
        disparity_step_px: Quantization of disparities; 1/32 pixel (Grunnet-Jepsen et al. 2019, "Subpixel
            linearity improvement for Intel RealSense depth camera D400 series").
        dot_spacing_rad, dot_radius_rad: Mean distance of projected dots, and standard deviation of a dot's
            profile.
        ambient_share: Ambient infrared light relative to the projector at 1 m.
        speckle_contrast: Relative standard deviation of the laser light, independent in each image.
        full_well_e, read_noise_e: Electrons at white, and standard deviation of the read noise.
        min_range_m, max_range_m: Depth range; the minimum sets the search range.
        depth_unit_m: Unit of the 16-bit output; 1 mm.
        pattern_seed: Seed of the dots.
        noise_seed: Seed of the noise.
    """

    baseline_m: Annotated[float, Between(0.001, 10)] = 0.055
    projector_m: Annotated[float, Between(0, 10)] = 0.0275
    window_px: Annotated[int, Between(1, 31)] = 7
    uniqueness_percent: Annotated[int, Between(0, 99)] = 15
    left_right_px: Annotated[int, Between(0, 64)] = 1
    max_error_px: Annotated[float, Between(0.001, 10)] = 0.2
    disparity_step_px: Annotated[float, Between(0.001, 1)] = 1 / 32
    dot_spacing_rad: Annotated[float, Between(0.0005, 0.5)] = 0.006
    dot_radius_rad: Annotated[float, Between(0.0001, 0.1)] = 0.0015
    ambient_share: Annotated[float, Between(0, 1e6)] = 0.02
    speckle_contrast: Fraction = 0.027
    full_well_e: Annotated[float, Between(1, 1e9)] = 4000.0
    read_noise_e: Annotated[float, Between(0, 1e6)] = 8.0
    min_range_m: Annotated[float, Between(0.01, 1000)] = 0.2
    max_range_m: Annotated[float, Between(0.01, 1000)] = 10.0
    depth_unit_m: Annotated[float, Between(1e-06, 0.1)] = 0.001
    pattern_seed: Seed = 0
    noise_seed: Seed = 0
    kind: Literal["active_stereo"] = "active_stereo"

    def __post_init__(self) -> None:
        check_ranges(self, self.kind)
        _check_range(self)
        _check_window(self)
        if self.projector_m > self.baseline_m:
            raise ValueError(
                f"{self.kind}: the projector is between the cameras, so projector_m must be 0 "
                f"to baseline_m = {self.baseline_m:g}, not {self.projector_m:g}"
            )


AnyDepthCamera = StructuredLight | TimeOfFlight | ActiveStereo
DepthCamera = Annotated[AnyDepthCamera, Field(discriminator="kind")]
DEPTH_CAMERA_TYPES: dict[str, type[AnyDepthCamera]] = {
    kind.kind: kind for kind in (StructuredLight, TimeOfFlight, ActiveStereo)
}


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
        raise ValueError(f"{camera.kind}: window_px must be odd, not {camera.window_px}")
