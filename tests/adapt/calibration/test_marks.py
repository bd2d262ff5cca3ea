"""Grain, edges and the chart."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.adapt.calibration.calibration_chart import (
    _make_flat_chart,
    _render_chart,
    measure_sensor_features,
    simulate_chart_features,
    simulate_chart_tiles,
)
from sim2cam.adapt.calibration.edges import find_edges, fit_edges
from sim2cam.adapt.calibration.noise import (
    COLOR_LAGS,
    LEVEL_BINS,
    estimate_color_noise,
    estimate_noise,
    extract_flat_tiles,
)
from sim2cam.adapt.calibration.sensor import (
    FITTED_COLOR_PARAMETERS,
    FITTED_PARAMETERS,
    _convert_joint_to_green,
    compute_green_ratios,
    fit_sensor,
)
from sim2cam.scene.sensor import Processing, Sensor

SENSOR = Sensor(0.0, 1.0, 1.0, 0.0, 0.6, 2000.0, 4.0, 0.2, 1.1, 1.0, 0.2, 95, 3)
MIDDLES = (LEVEL_BINS[1:] + LEVEL_BINS[:-1]) / 2


def greys(rng, std):
    rows = [np.full((96, 320), level) for level in MIDDLES]
    levels = np.concatenate(rows)[..., None] + rng.normal(0, std, (96 * len(rows), 320, 3))
    return levels.round().clip(0, 255).astype(np.uint8)


def test_grain_of_flat_greys_is_their_variance():
    found = estimate_noise([extract_flat_tiles(greys(np.random.default_rng(0), 6.0))])
    assert found == pytest.approx(
        np.full(found.shape, 36 / 3), rel=0.2
    )  # the mean of three colours


def test_grain_is_not_that_of_what_is_seen():
    picture = greys(np.random.default_rng(0), 3.0)
    picture[:, 160:] = (
        picture[:, 160:][:, ::-1] // 2 + (np.indices((768, 160)).sum(0) % 40)[..., None]
    )
    found = estimate_noise([extract_flat_tiles(picture)])
    known = np.isfinite(found)
    assert known[:, 0].sum() >= 4
    assert np.nanmedian(found) == pytest.approx(3.0, rel=0.2)
    assert np.isnan(estimate_noise([extract_flat_tiles(np.zeros((64, 64, 3), np.uint8))])).all()


def test_grain_of_many_tiles_is_that_of_few():
    """Photos have more flat tiles than the chart: what is chosen of many is not quieter."""
    sensor = replace(SENSOR, jpeg_quality=88, denoise=0.6, full_well_e=3000.0)
    few = estimate_noise([simulate_chart_tiles(sensor)])
    wide = np.tile(_make_flat_chart(), (4, 4, 1))
    many = estimate_noise(
        [
            extract_flat_tiles(_render_chart(wide, replace(sensor, noise_seed=seed)))
            for seed in range(2)
        ]
    )
    assert np.log(many / few).mean() == pytest.approx(0.0, abs=0.06)


def test_grain_of_differences_is_the_sum_of_both_colours():
    picture = greys(np.random.default_rng(0), np.array([6.0, 2.0, 4.0]))
    found = estimate_color_noise([extract_flat_tiles(picture)]).reshape(
        len(MIDDLES), 3, len(COLOR_LAGS)
    )
    expected = np.array([36 + 4, 16 + 4, 36 + 16])[:, None]
    assert found == pytest.approx(np.broadcast_to(expected, found.shape), rel=0.25)


def test_grain_of_colours_is_told_by_grey_tiles_of_files_with_colours_alone():
    picture = greys(np.random.default_rng(0), 3.0)
    tinted = np.clip(picture + np.array([30, 0, 0]), 0, 255).astype(np.uint8)
    for tiles in (extract_flat_tiles(tinted), extract_flat_tiles(picture, is_color=False)):
        assert np.isnan(estimate_color_noise([tiles])).all()
        assert np.isfinite(estimate_noise([tiles])).any()


@pytest.mark.parametrize("blur", [0.6, 1.0])
@pytest.mark.parametrize("sharpening", [0.0, 0.5])
def test_edges_are_as_wide_and_as_sharp_as_they_were_made(blur, sharpening):
    y, x = np.mgrid[: 256 * 4, : 256 * 4] / 4
    u, v = x * np.cos(0.35) + y * np.sin(0.35), y * np.cos(0.35) - x * np.sin(0.35)
    light = 0.03 + 0.4 * ((np.floor(u / 28) + np.floor(v / 28)) % 2)
    soft = cv2.GaussianBlur(light, (0, 0), blur * 4).reshape(256, 4, 256, 4).mean(axis=(1, 3))
    level = 255 * (1.055 * soft ** (1 / 2.4) - 0.055)
    sharp = level + sharpening * (level - cv2.GaussianBlur(level, (0, 0), 1.0))
    found = fit_edges(find_edges(sharp.round().clip(0, 255).astype(np.uint8)))
    assert len(found) >= 20
    assert np.median(found[:, :2], axis=0) == pytest.approx([blur, sharpening], abs=0.12)


def test_nothing_has_no_edges():
    assert fit_edges(find_edges(np.full((80, 80), 90, np.uint8))).shape == (0, 3)
    assert find_edges(np.zeros((5, 5), np.uint8)) == []
    assert np.isnan(
        measure_sensor_features(np.full((80, 80, 3), 90, np.uint8)).edge_blur_sharpening
    ).all()


def test_the_chart_shows_what_sensors_do():
    plain = simulate_chart_features(SENSOR)
    noisy = simulate_chart_features(replace(SENSOR, full_well_e=500.0))
    soft = simulate_chart_features(replace(SENSOR, blur_px=1.2))
    assert (estimate_noise([noisy.flat_tiles]) > 2 * estimate_noise([plain.flat_tiles])).all()
    assert soft.edge_blur_sharpening[0] > plain.edge_blur_sharpening[0] + 0.3
    assert np.isfinite(plain.edge_blur_sharpening).all()


def test_the_chart_shows_which_colour_is_noisy_and_how_coarse_its_noise_is():
    fine = replace(SENSOR, jpeg_quality=99, processing=Processing(jpeg_subsampling="444"))
    plain, red, smooth = (
        np.nanmedian(
            estimate_color_noise([simulate_chart_tiles(sensor)]).reshape(
                len(MIDDLES), 3, len(COLOR_LAGS)
            ),
            axis=0,
        )
        for sensor in (
            fine,
            replace(fine, red_response=0.3),
            replace(fine, processing=replace(fine.processing, chroma_blur_px=1.0)),
        )
    )
    assert (red[[0, 2]] > 1.5 * plain[[0, 2]]).all()  # red less green, red less blue
    assert red[1] == pytest.approx(plain[1], rel=0.3)
    assert (smooth[:, 0] < 0.5 * plain[:, 0]).all()
    assert (smooth[:, 0] < 0.7 * smooth[:, 2]).all()


def test_a_sensor_alike_in_all_colours_stands_for_one_that_is_not():
    electrons, read = compute_green_ratios(np.array([0.5, 1.0, 0.25]))
    assert electrons == pytest.approx((2 + 1 + 4) / 3)
    assert electrons / read == pytest.approx(np.sqrt((4 + 1 + 16) / 3))
    level, full, noise = 0.3, 2000.0, 9.0
    each = np.array([0.5, 1.0, 0.25]) * full * electrons
    assert (level / each).mean() == pytest.approx(level / full)
    assert ((noise * read / each) ** 2).mean() == pytest.approx((noise / full) ** 2)


def test_sensors_have_the_electrons_of_green_and_its_responses():
    grey = {
        "full_well_e": np.array([1000.0, 2000.0]),
        "read_noise_e": np.ones(2),
        "blur_px": np.ones(2),
    }
    color = {"red_response": np.array([0.5, 1.0]), "blue_response": np.array([0.25, 1.0])}
    found = _convert_joint_to_green(grey, color)
    assert found["full_well_e"] == pytest.approx([1000 * 7 / 3, 2000.0])
    assert found["red_response"].tolist() == [0.5, 1.0]
    alike = _convert_joint_to_green(grey)
    assert alike["full_well_e"].tolist() == [1000.0, 2000.0]
    assert alike["blue_response"].tolist() == [1.0, 1.0]
    edges = {"blur_px": np.ones(2)}
    assert _convert_joint_to_green(edges) == edges  # whose noise the recipe has


def test_photos_without_flats_and_edges_tell_no_sensor():
    black = measure_sensor_features(np.zeros((80, 80, 3), np.uint8))
    assert fit_sensor([black], 90, "420", np.random.default_rng(0)).samples == {}


@pytest.mark.slow
def test_noise_of_each_colour_is_found_again():
    red, blue, smooth = 0.45, 0.7, 0.3
    sensor = replace(
        SENSOR, full_well_e=900.0, red_response=red, blue_response=blue, jpeg_quality=98,
        processing=Processing(chroma_blur_px=smooth, jpeg_subsampling="444"),
    )  # fmt: skip
    shown = [simulate_chart_features(replace(sensor, noise_seed=seed)) for seed in range(4)]
    found = fit_sensor(shown, 98, "444", np.random.default_rng(0))
    truth = {"red_response": red, "blue_response": blue, "chroma_blur_px": smooth}
    assert (
        "chroma_blur_px" in found.samples
    )  # responses may be untold, as unknown saturation hides them
    for name, value in truth.items():
        for drawn in (found.samples, found.joint_samples):
            if name in drawn:
                low, high = np.quantile(drawn[name], (0.005, 0.995))
                assert low <= value <= high
    assert (
        np.median(found.joint_samples["red_response"])
        < np.median(found.joint_samples["blue_response"])
        < 1
    )


@pytest.mark.slow
def test_a_sensor_is_found_again():
    shown = [simulate_chart_features(replace(SENSOR, noise_seed=seed)) for seed in range(4)]
    found = fit_sensor(shown, 95, "420", np.random.default_rng(0))
    draws = found.samples
    rows = [
        dict(zip(found.joint_samples, row, strict=True))
        for row in zip(*found.joint_samples.values(), strict=True)
    ]
    again = [  # sensors that are drawn whole show edges as wide as those that they were told from
        simulate_chart_features(
            replace(SENSOR, **{k: v for k, v in row.items() if k != "chroma_blur_px"})
        ).edge_blur_sharpening
        for row in rows[::4]
    ]
    edges = np.median([one.edge_blur_sharpening for one in shown], axis=0)
    blur, sharpening = np.median(again, axis=0) - edges
    assert abs(blur) < 0.1
    assert abs(sharpening) < 0.3
    assert (
        {"full_well_e", "blur_px"} <= draws.keys() <= {*FITTED_PARAMETERS, *FITTED_COLOR_PARAMETERS}
    )
    for name, values in draws.items():
        low, high = np.quantile(values, (0.005, 0.995))
        assert low <= getattr(SENSOR, name) <= high
