"""Charts of a calibrated camera: lens, light, noise and edges."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.calibration.bundle_adjustment import FittableLens
from sim2cam.adapt.calibration.camera_fit import CameraFit
from sim2cam.adapt.calibration.corner_residuals import unpack_residuals
from sim2cam.errors import LensError
from sim2cam.render.sensor.sensor import develop
from sim2cam.report.canvas import COLOURS, MUTED, STYLE, WIDTH_PX, Canvas, Chart, LegendEntry
from sim2cam.report.charts import build_line_chart
from sim2cam.report.values import Curves, Series
from sim2cam.scene.sensor import Sensor

Floats = NDArray[np.float64]

_PLOT_HEIGHT = 220
_GRID_LINES = (9, 7)  # vertical and horizontal lines of the scene
_LINE_POINTS = 101
_MAX_LINE_DEG = 80.0  # off the axis, so that lines of a plane stay finite
_SPREAD = (0.025, 0.5, 0.975)  # quantiles of bands
_RESIDUAL_SHARE = 0.05  # length of a long arrow, over the width of the image
_MIN_RESIDUAL_PX, _ARROW_HEAD = 0.01, 0.3  # the head relative to the arrow
_RADIAL_BINS = 8
_EDGE_PX, _EDGE_LEVELS = 16, (0.1, 0.2)  # half width and radiance of the two sides of an edge


@matplotlib.rc_context(STYLE)
def build_line_grid_chart(fit: CameraFit) -> Chart | None:
    """Build a chart of straight lines of the scene as the lens shows them; None without a lens."""
    if fit.lens is None:
        return None
    lens, canvas = fit.lens.to_lens(), _make_image_canvas(fit)
    axes = canvas.axes
    for line in _project_grid_lines(lens, fit.width, fit.height):
        axes.plot(*line.T, color=COLOURS[0], linewidth=1.3)
    axes.plot(lens.cx_px, lens.cy_px, "+", color=COLOURS[1], markersize=11)
    legend = (
        LegendEntry(0, "straight lines of the scene"),
        LegendEntry(1, "principal point", f"({lens.cx_px:.1f}, {lens.cy_px:.1f}) px"),
    )
    description = f"Straight lines of a plane in front of the camera, in an image of {fit.width} x {fit.height} px"
    return canvas.save("Distortion", description, legend)


@matplotlib.rc_context(STYLE)
def build_projection_chart(fit: CameraFit) -> Chart | None:
    """Build a chart of image radius over angle, with the ideal pinhole; None without a lens."""
    if fit.lens is None:
        return None
    lens = fit.lens.to_lens()
    center = np.array([lens.cx_px, lens.cy_px])
    corners = np.array([(x, y) for x in (0.0, fit.width - 1) for y in (0.0, fit.height - 1)])
    corner = corners[np.linalg.norm(corners - center, axis=1).argmax()]
    pixels = center + np.linspace(0, 1, _LINE_POINTS)[:, None] * (corner - center)
    pixels = pixels[lens.can_unproject(pixels)]
    radii = np.linalg.norm(pixels - center, axis=1)
    angles = np.degrees(np.arccos(lens.unproject(pixels)[:, 2].clip(-1, 1)))
    canvas = Canvas(_PLOT_HEIGHT)
    canvas.set_labels("angle to the optical axis, degrees", "image radius, px")
    ideal_angles = angles[angles < _MAX_LINE_DEG]
    ideal = lens.fx_px * np.tan(np.radians(ideal_angles))
    canvas.axes.plot(ideal_angles, ideal, color=COLOURS[1], linestyle=(0, (3, 2)))
    canvas.axes.plot(angles, radii, color=COLOURS[0])
    canvas.axes.set(xlim=(0, float(angles[-1])), ylim=(0, 1.15 * float(radii[-1])))
    legend = (
        LegendEntry(0, f"this lens ({fit.lens.kind})"),
        LegendEntry(1, "ideal pinhole of the same focal length"),
    )
    description = (
        f"The corner of the image at {radii[-1]:.0f} px is {angles[-1]:.1f} degrees off the axis"
    )
    return canvas.save("Projection", description, legend)


@matplotlib.rc_context(STYLE)
def build_residual_chart(fit: CameraFit) -> Chart | None:
    """Build a chart of the residuals of board corners over the image; None without stored corners."""
    if fit.lens is None or not fit.lens.corner_residuals:
        return None
    rows = unpack_residuals(fit.lens.corner_residuals)
    positions, residuals = rows[:, :2], rows[:, 2:]
    lengths = np.linalg.norm(residuals, axis=1)
    scale = _RESIDUAL_SHARE * fit.width / max(float(np.quantile(lengths, 0.95)), _MIN_RESIDUAL_PX)
    canvas = _make_image_canvas(fit)
    canvas.axes.plot(*_trace_arrows(positions, scale * residuals), color=COLOURS[0], linewidth=1)
    legend = (LegendEntry(0, "observed minus projected", f"enlarged {scale:.0f} times"),)
    description = (
        f"{len(rows)} corners of boards; the median residual is {np.median(lengths):.2f} px"
    )
    return canvas.save("Residuals of board corners", description, legend)


def build_radial_error_chart(fit: CameraFit) -> Chart | None:
    """Build a chart of the RMS residual over the image radius; None without stored corners."""
    if fit.lens is None or not fit.lens.corner_residuals:
        return None
    rows = unpack_residuals(fit.lens.corner_residuals)
    center = np.array([fit.width - 1, fit.height - 1]) / 2
    radii = np.linalg.norm(rows[:, :2] - center, axis=1)
    bins = np.array_split(np.argsort(radii), min(_RADIAL_BINS, len(rows)))
    errors = [float(np.sqrt((rows[members, 2:] ** 2).sum(axis=1).mean())) for members in bins]
    label = f"{len(bins)} groups of {len(bins[0])} corners"
    series = Series(label, tuple(float(radii[members].mean()) for members in bins), tuple(errors))
    title, x_label = "RMS residual by radius", "distance from the image centre, px"
    return build_line_chart(Curves(title, "px", (series,), x_label, shows_last=False))


def build_vignetting_chart(fit: CameraFit) -> Chart | None:
    """Build a chart of the relative illumination over the image radius; None if not estimated."""
    estimate = fit.get_estimate("sensor.vignetting")
    if not isinstance(estimate.value, float):
        return None
    low, high = estimate.ci95 or (estimate.value, estimate.value)
    radii = np.linspace(0, 1, _LINE_POINTS)
    falloff = 1 - np.array([high, estimate.value, low])[:, None] * radii**2
    return _plot_band(
        "Vignetting", "radius, over that of the corner", "relative light",
        radii, falloff, "estimate with its 95 % interval",
    )  # fmt: skip


def build_noise_chart(fit: CameraFit) -> Chart | None:
    """Build a chart of the noise of the sensor over its light; None if not estimated.

    The noise is that of green before denoising, from shot and read noise (EMVA 1288).
    """
    names = ("sensor.full_well_e", "sensor.read_noise_e")
    if not all(name in fit.sensor_samples for name in names):
        return None
    full_wells, read_noises = (np.array(fit.sensor_samples[name])[:, None] for name in names)
    light = np.linspace(0, 1, _LINE_POINTS)
    noise = 100 * np.sqrt(light / full_wells + (read_noises / full_wells) ** 2)
    return _plot_band(
        "Noise of the sensor, before denoising", "light, over saturation", "standard deviation, % of saturation",
        light, np.quantile(noise, _SPREAD, axis=0), f"median and 95 % of {len(noise)} sensors that fit the photos",
    )  # fmt: skip


def build_edge_chart(fit: CameraFit) -> Chart | None:
    """Build a chart of an edge after point spread and sharpening; None if not estimated."""
    names = ("sensor.blur_px", "sensor.sharpening")
    if not all(name in fit.sensor_samples for name in names):
        return None
    pairs = zip(*(fit.sensor_samples[name] for name in names), strict=True)
    profiles = np.array([_simulate_edge(blur, sharpening) for blur, sharpening in pairs])
    positions = np.arange(-_EDGE_PX // 2, _EDGE_PX // 2, dtype=np.float64) + 0.5
    return _plot_band(
        "Edge between dark and light", "distance from the edge, px", "level, over that of the edge",
        positions, np.quantile(profiles, _SPREAD, axis=0),
        f"median and 95 % of {len(profiles)} sensors that fit the photos",
    )  # fmt: skip


def _make_image_canvas(fit: CameraFit) -> Canvas:
    """Return a canvas in pixels of the image, with its frame."""
    canvas = Canvas((WIDTH_PX - 20) * fit.height / fit.width, left=10, right=10, bottom=10)
    limits = {"xlim": (-0.5, fit.width - 0.5), "ylim": (fit.height - 0.5, -0.5)}
    canvas.axes.set(**limits, xticks=[], yticks=[])
    canvas.axes.spines[:].set(visible=True, color=MUTED)
    return canvas


def _trace_arrows(starts: Floats, vectors: Floats) -> tuple[Floats, Floats]:
    """Return x and y of one line that traces all arrows (n, 2), with gaps between them."""
    tips = starts + vectors
    left, right = (
        tips + _ARROW_HEAD * (-vectors + sign * vectors[:, ::-1] * (1, -1) / 2) for sign in (-1, 1)
    )
    gaps = np.full_like(tips, np.nan)
    x, y = np.stack([starts, tips, left, gaps, tips, right, gaps], axis=1).reshape(-1, 2).T
    return x, y


def _project_grid_lines(lens: FittableLens, width: int, height: int) -> list[Floats]:
    """Return points (n, 2) of straight lines of a plane that faces the camera, evenly spaced in the image."""
    limit = math.tan(math.radians(_MAX_LINE_DEG))
    counts, lines = _GRID_LINES, []
    for axis, (count, size) in enumerate(zip(counts, (width, height), strict=True)):
        centers = np.tile([lens.cx_px, lens.cy_px], (count, 1))
        centers[:, axis] = np.linspace(0, size - 1, count)
        rays = lens.unproject(centers[lens.can_unproject(centers)])
        for offset in (rays[:, axis] / rays[:, 2])[
            rays[:, 2] > math.cos(math.radians(_MAX_LINE_DEG))
        ]:
            points = np.ones((_LINE_POINTS * 4, 3))
            points[:, axis] = offset
            points[:, 1 - axis] = np.sinh(
                np.linspace(-math.asinh(limit), math.asinh(limit), len(points))
            )
            try:
                lines.append(lens.project(points[lens.can_project(points)]))
            except LensError:
                continue
    return lines


def _simulate_edge(blur_px: float, sharpening: float) -> Floats:
    """Return the profile of an edge without noise, 0 on its dark and 1 on its light side."""
    sensor = Sensor(0, 1, 1, 0, blur_px, 1e9, 0, 0, 1, 1, sharpening, 100, 0)
    radiance = np.full((2 * _EDGE_PX, 2 * _EDGE_PX, 3), _EDGE_LEVELS[0], np.float32)
    radiance[:, _EDGE_PX:] = _EDGE_LEVELS[1]
    levels = develop(radiance, sensor)[_EDGE_PX, :, 1].astype(np.float64)
    profile = (levels - levels[0]) / max(levels[-1] - levels[0], 1.0)
    return np.asarray(profile[_EDGE_PX // 2 : -_EDGE_PX // 2])


@matplotlib.rc_context(STYLE)
def _plot_band(
    title: str, x_label: str, y_label: str, x: Floats, band: Floats, label: str
) -> Chart:
    """Plot the middle of a band (3, n) with its lower and upper bound."""
    canvas = Canvas(_PLOT_HEIGHT)
    canvas.set_labels(x_label, y_label)
    low, middle, high = band
    canvas.axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.25, linewidth=0)
    canvas.axes.plot(x, middle, color=COLOURS[0])
    canvas.axes.set(xlim=(x[0], x[-1]), ylim=(min(0.0, 1.05 * low.min()), 1.05 * high.max()))
    texts = (
        f"{x[i]:.2g}: {middle[i]:.3g} ({low[i]:.3g} to {high[i]:.3g})"
        for i in (0, len(x) // 2, len(x) - 1)
    )
    return canvas.save(
        title, f"{y_label} by {x_label}: {'; '.join(texts)}", (LegendEntry(0, label),)
    )
