"""The result: its form on disk, what recipes draw from it, and that every number is a camera's."""

import dataclasses
import json
import typing
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from PIL import Image

from sim2cam import images
from sim2cam.adapt.calibration.camera_calibration import (
    _estimate_lens,
    _estimate_white_balance,
    calibrate,
    calibrate_files,
)
from sim2cam.adapt.calibration.camera_domain import (
    _FACTOR_OF_PARAMETER,
    LENS_SAMPLES,
    make_recipe_tables,
)
from sim2cam.adapt.calibration.camera_fit import (
    JOINT_PARAMETERS,
    CameraFit,
    ParameterEstimate,
    read_camera,
    write_camera,
)
from sim2cam.adapt.calibration.lens import FittedLens
from sim2cam.adapt.calibration.photo_measurements import (
    list_photo_files,
    measure_photos,
    select_common_orientation,
    split_by_orientation,
)
from sim2cam.adapt.calibration.sensor import (
    COLOR_PRIOR_RANGES,
    PRIOR_RANGES,
    SensorFit,
    _find_at_bounds,
    _run_abc,
    _select_determined,
)
from sim2cam.adapt.calibration.shutter import estimate_readout, estimate_shutter, estimate_spin
from sim2cam.commands.calibrate import _describe_fit
from sim2cam.errors import InputError, RecipeError
from sim2cam.files import write_bytes
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.scene.camera import Camera, Shutter
from sim2cam.scene.lens_effects import LateralColor, LensEffects
from sim2cam.scene.sensor import Processing, Sensor


def lens(kind="brown_conrady", **numbers):
    found = {"fx_px": 500.0, "fy_px": 502.0, "cx_px": 322.0, "cy_px": 236.0} | numbers
    covariance = np.diag([4.0, 4.0, 1.0, 1.0, *[1e-6] * len(numbers)])
    covariance[0, 1] = covariance[1, 0] = 3.9
    rows = tuple(map(tuple, covariance.tolist()))
    return FittedLens(
        kind, tuple(found), tuple(found.values()), rows, 0.2, {kind: 0.3}, {"bad.jpg": 9.0}, 0.9
    )


ROWS_OF_SENSORS = 40


def sensors():
    """Sensors whose blur and sharpening hang together: what is blurred more is sharpened more."""
    rng = np.random.default_rng(5)
    blur = rng.uniform(0.5, 1.3, ROWS_OF_SENSORS)
    found = {
        "full_well_e": 1000 * 4 ** rng.uniform(0, 1, ROWS_OF_SENSORS),
        "blur_px": blur,
        "sharpening": 1.2 * blur + rng.normal(0, 0.05, ROWS_OF_SENSORS),
        "read_noise_e": np.full(ROWS_OF_SENSORS, 3.0),
        "processing.chroma_blur_px": 2.0 - blur,
        "exposure_ev": -blur,
    }
    return {f"sensor.{name}": tuple(values.tolist()) for name, values in found.items()}


def fit(of=None):
    return CameraFit(
        "Kodak One, 640x480", 640, 480, photos=12, boards=10,
        estimates=(
            ParameterEstimate("lens.fx_px", 500.0, (496.0, 504.0)),
            ParameterEstimate("sensor.vignetting", 0.02, (-0.01, 0.05)),
            ParameterEstimate("sensor.full_well_e", 2000.0, (1000.0, 4000.0)),
            ParameterEstimate("sensor.jpeg_quality", 90.0, (90.0, 90.0), 2.0),
            ParameterEstimate("sensor.red_gain", 1.1, (1.05, 1.15), 0.05),
            ParameterEstimate("sensor.denoise", None, note="too faint."),
            ParameterEstimate("sensor.processing.jpeg_subsampling", "422"),
            ParameterEstimate("glass.lateral_color.red", 0.001, (0.001, 0.001)),
        ),
        lens=of or lens(k1=-0.1, k2=0.02),
        sensor_samples=sensors(),
        other_cameras={"Kodak Two, 640x480": 3},
        software="2.1",
        statistics={"sensor.blur_px": ((0.7,), (None,)) * 6},
    )  # fmt: skip


def test_it_survives_its_file(tmp_path):
    write_camera(tmp_path / "camera.json", fit())
    assert read_camera(tmp_path / "camera.json") == fit()
    bare = dataclasses.replace(fit(), lens=None)
    write_camera(tmp_path / "camera.json", bare)
    assert read_camera(tmp_path / "camera.json") == bare


def bad_lens(**parts):
    return {"lens": fit().to_json()["lens"] | parts}


def bad_finding(*parts):
    return {"estimates": [{"name": "sensor.blur_px", "value": 0.7} | part for part in parts]}


NAMES = ["fx_px", "fy_px", "cx_px", "cy_px", "k1"]
LENS_NAMES = (
    "lens: parameters of a brown_conrady lens must be fx_px, fy_px, cx_px, cy_px and any of k1, k2, p1, p2, k3, each once. "
    "Calibrate again."
)
COUNTS = ": width, height and photos must be 1 or more, boards and border_px 0 or more. Calibrate"
BAD = [
    ("", "not JSON"),
    ("[1]", "not a camera file of version 4 (found None). Calibrate again."),
    ({"version": 3}, "not a camera file of version 4 (found 3). Calibrate again."),
    ({"width": 0}, COUNTS),
    ({"boards": -1}, COUNTS),
    ({"colour": 1}, "colour: Unexpected keyword argument (found 1). Calibrate again."),
    (bad_finding({"color": 1}), "estimates[0].color: Unexpected keyword argument (found 1). "),
    (bad_lens(color=1), "lens.color: Unexpected keyword argument (found 1). Calibrate again."),
    (
        bad_finding({"name": "sensor.blurr_px"}),
        "estimates: unknown parameter 'sensor.blurr_px'. Did you mean 'sensor.blur_px'",
    ),
    (bad_finding({}, {}), ": estimates: duplicate sensor.blur_px. Calibrate again."),
    (
        bad_finding({"ci95": [0.9, 0.6]}),
        "estimates[0]: sensor.blur_px is 0.7, outside its interval 0.9 to 0.6. Calibrate again.",
    ),
    (
        bad_finding({"ci95": [0.8, 0.9]}),
        "estimates[0]: sensor.blur_px is 0.7, outside its interval 0.8 to 0.9. Calibrate again.",
    ),
    (
        bad_finding({"value": None, "ci95": [0.8, 0.9]}),
        "estimates[0]: sensor.blur_px is None, outside its interval 0.8 to 0.9. Calibrate again.",
    ),
    (
        bad_finding({"photo_std": -1}),
        "estimates[0]: photo_std of sensor.blur_px must be 0 or more, not -1.0. Calibrate again.",
    ),
    (
        bad_finding({"value": 51}),
        "estimates: sensor.blur_px must be from 0 to 50, not 51.0. Calibrate again.",
    ),
    (
        bad_finding({"value": "wide"}),
        "estimates: sensor.blur_px must be from 0 to 50, not wide. Calibrate again.",
    ),
    (
        bad_finding({"value": float("nan")}),
        "estimates[0].value.float: Input should be a finite number (found NaN). Calibrate again.",
    ),
    (
        bad_finding({"name": "sensor.processing.jpeg_subsampling", "value": "411"}),
        "estimates: sensor.processing.jpeg_subsampling must be one of 444, 422, 420, not 411. Calibrate again.",
    ),
    (
        bad_finding({"name": "sensor.file_format", "value": "gif"}),
        "estimates: sensor.file_format must be one of jpeg, png, not gif. Calibrate again.",
    ),
    (bad_lens(parameter_names=[*NAMES, "k7"]), LENS_NAMES),
    (bad_lens(parameter_names=[*NAMES, "k1"]), LENS_NAMES),
    (bad_lens(parameter_names=[*NAMES[1:], "k2", "k3"]), LENS_NAMES),
    (
        bad_lens(parameter_values=[float("nan")] * 6),
        "lens.parameter_values[0]: Input should be a finite number (found NaN)",
    ),
    (
        bad_lens(covariance=[[float("nan")] * 6] * 6),
        "lens.covariance[0][0]: Input should be a finite number (found NaN). Calibrate again.",
    ),
    (
        bad_lens(covariance=(-np.eye(6)).tolist()),
        "lens: lens covariance must be symmetric and positive semidefinite.",
    ),
    (
        bad_lens(covariance=np.triu(np.ones((6, 6))).tolist()),
        "lens: lens covariance must be symmetric and positive semidefinite. Calibrate again.",
    ),
    (
        {"sensor_samples": {"sensor.vignetting": [0.1]}},
        "sensor_samples: unknown parameter 'sensor.vignetting'. Did you mean ",
    ),
    (
        {"sensor_samples": {"sensor.denoise": [0.1, 1.2]}},
        "sensor_samples: sensor.denoise needs one or more values from 0 to 1. Calibrate again.",
    ),
    (
        {"sensor_samples": {"sensor.denoise": []}},
        "sensor_samples: sensor.denoise needs one or more values from 0 to 1. Calibrate again.",
    ),
    (
        {"sensor_samples": {"sensor.denoise": [0.1], "sensor.blur_px": [0.1, 0.2]}},
        "sensor_samples: all parameters must have equally many values. Calibrate again.",
    ),
    ({"width": "wide"}, "width: Input should be a valid integer"),
    ({"estimates": 5}, "estimates: "),
    (
        {"statistics": {"sensor.blur_px": [[1.0], [None]]}},
        "statistics: sensor.blur_px must have one row",
    ),
    ({"statistics": {"sensor.blur_px": [["wide"]] * 12}}, "Input should be a valid number"),
    (bad_lens(kind="pinhole"), "lens kind must be one of brown_conrady, rational"),
    (bad_lens(covariance=[[1.0]]), "6 lens parameters need 6 values"),
    (bad_lens(parameter_names=["fx_px"]), "1 lens parameters need 1 values"),
]


@pytest.mark.parametrize(("change", "problem"), BAD, ids=[problem[:60] for _, problem in BAD])
def test_a_broken_file_is_refused_by_name(tmp_path, change, problem):
    path = tmp_path / "camera.json"
    path.write_text(change if isinstance(change, str) else json.dumps(fit().to_json() | change))
    with pytest.raises(InputError) as error:
        read_camera(path)
    assert str(error.value).startswith(f"{path}: ")
    assert problem in str(error.value)


def recipe(tmp_path, of, extra=""):
    write_camera(tmp_path / "camera.json", of)
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "dice"\nname = "mine"\ncamera = "camera.json"\n{extra}')
    return load_recipe(str(path))


def draw_cameras(found, count, views=4, size=(640, 480)):
    return [
        camera
        for i in range(count)
        for camera in build_scene(
            sample_factors(found.domain, 0, i, views=views), found.domain, *size
        ).cameras
    ]


def test_a_recipe_draws_cameras_around_it(tmp_path):
    found = recipe(tmp_path, fit())
    assert (found.render.width, found.render.height) == (640, 480)
    every = draw_cameras(found, 25)
    lenses = [camera.lens for camera in every]
    assert all(isinstance(one, BrownConrady) for one in lenses)
    across, down = np.array([(one.fx_px, one.fy_px) for one in lenses]).T
    assert across.mean() == pytest.approx(500, abs=1)
    assert across.std() == pytest.approx(2, rel=0.35)
    assert np.corrcoef(across, down)[0, 1] > 0.9  # numbers of a lens are drawn together
    assert np.mean([one.cx_px for one in lenses]) == pytest.approx(322, abs=0.5)
    assert np.mean([one.k1 for one in lenses]) == pytest.approx(-0.1, abs=1e-3)
    sensors = [camera.sensor for camera in every]
    assert {sensor.processing.jpeg_subsampling for sensor in sensors} == {"422"}
    assert min(sensor.vignetting for sensor in sensors) >= 0
    assert np.std([sensor.jpeg_quality for sensor in sensors]) == pytest.approx(2, rel=0.4)
    assert {camera.glass.lateral_color.red for camera in every} == {0.001}
    denoise = [sensor.denoise for sensor in sensors]
    assert np.ptp(denoise) > 0.5  # what is not known stays as wide as it was


def test_sensors_are_drawn_whole(tmp_path):
    """Drawn one by one, their numbers make sharper and blurrier pictures than any sensor that fits."""
    drawn = [camera.sensor for camera in draw_cameras(recipe(tmp_path, fit()), 25)]
    rows = {
        (s.full_well_e, s.blur_px, s.sharpening, s.processing.chroma_blur_px, s.read_noise_e)
        for s in drawn
    }
    names = ("full_well_e", "blur_px", "sharpening", "processing.chroma_blur_px", "read_noise_e")
    assert rows <= set(zip(*(sensors()[f"sensor.{name}"] for name in names), strict=True))
    assert len(rows) > 30
    tie = np.corrcoef([s.blur_px for s in drawn], [s.sharpening for s in drawn])[0, 1]
    assert tie > 0.95
    assert {s.exposure_ev + s.blur_px for s in drawn} == {0.0}
    varied = (*fit().estimates, ParameterEstimate("sensor.exposure_ev", -0.9, (-1.3, -0.5), 0.2))
    found = recipe(tmp_path, dataclasses.replace(fit(), estimates=varied))
    drawn = [camera.sensor for camera in draw_cameras(found, 25)]
    assert np.std([s.exposure_ev + s.blur_px for s in drawn]) == pytest.approx(0.2, rel=0.25)


def test_the_last_camera_counts_whole(tmp_path):
    """Of an earlier one neither bends nor sensors nor columns of another length are left."""
    first = dataclasses.replace(
        fit(lens("rational", k1=-0.1, k4=0.05)),
        sensor_samples={"sensor.denoise": (0.9, 0.95), "sensor.blur_px": (2.0, 2.1)},
    )
    write_camera(tmp_path / "first.json", first)
    (tmp_path / "under.toml").write_text('base = "dice"\nname = "under"\ncamera = "first.json"\n')
    write_camera(tmp_path / "camera.json", fit())
    for base in ('"under.toml"', '["dice-fisheye", "under.toml"]'):
        (tmp_path / "over.toml").write_text(
            f'base = {base}\nname = "over"\ncamera = "camera.json"\n'
        )
        over = load_recipe(str(tmp_path / "over.toml")).domain
        plain = recipe(tmp_path, fit()).domain
        for group in ("lens", "fisheye", "view", "sensor", "processing"):
            assert over.groups.get(group) == plain.groups.get(group)


def test_what_a_camera_measured_is_not_done_twice(tmp_path):
    told = (*fit().estimates, ParameterEstimate("sensor.exposure_ev", 0.1, (0.0, 0.2), 0.3))
    write_camera(tmp_path / "camera.json", dataclasses.replace(fit(), estimates=told))
    path = tmp_path / "mine.toml"
    path.write_text('base = "dice-camera"\nname = "mine"\ncamera = "camera.json"\n')
    mine, under = load_recipe(str(path)), load_recipe("dice-camera")
    for group in ("mosaic", "automatics", "field_blur", "defocus"):
        assert group not in mine.domain
        assert group in under.domain
    for group in ("glare", "dirt", "droplets"):
        assert mine.domain.groups[group] == under.domain.groups[group]
    assert "processing/local_tone" not in mine.domain
    assert "processing/shading_correction" not in mine.domain
    assert "raw" not in mine.render.channels
    path.write_text(path.read_text() + '[domain.mosaic]\npattern = "RGGB"\n')  # has the last word
    assert load_recipe(str(path)).domain.get_factor("mosaic/pattern").value == "RGGB"
    write_camera(
        tmp_path / "camera.json", dataclasses.replace(fit(), estimates=(), sensor_samples={})
    )
    path.write_text('base = "dice-camera"\nname = "mine"\ncamera = "camera.json"\n')
    assert load_recipe(str(path)).domain.groups["mosaic"] == under.domain.groups["mosaic"]


def test_smaller_pictures_have_pixels_of_several_of_the_camera(tmp_path):
    half = recipe(tmp_path, fit(), "[render]\nwidth = 320\n")
    assert (half.render.width, half.render.height) == (320, 240)
    whole = recipe(tmp_path, fit())
    times = {"blur_px": 0.5, "full_well_e": 4.0, "read_noise_e": 2.0, "sharpening": 1.0}
    for name, factor in times.items():
        values, of = (one.domain.get_factor(f"sensor/{name}").values for one in (half, whole))
        assert np.allclose(values, np.array(of) * factor)
    assert half.domain.groups["view"] == whole.domain.groups["view"]


REFUSED = [
    ("camera = 3", "'camera' must be the path of one camera.json, in quotes (found 3)."),
    (
        'camera = ["a"]',
        """'camera' must be the path of one camera.json, in quotes (found ["a"]).""",
    ),
    (
        'camera = "camera.json"\n[render]\nwidth = 512\nheight = 512',
        "'render': 512x512 has another aspect ratio than the camera, 640x480. Set 512x384, or remove width and "
        "height.",
    ),
    (
        'camera = "large.json"',
        "'camera': images of 6000x4000 pixels exceed the limit of 4096 pixels per side. Set width = 4096 and "
        "height = 2731 in [render].",
    ),
]


@pytest.mark.parametrize(
    ("lines", "problem"), REFUSED, ids=[problem[:40] for _, problem in REFUSED]
)
def test_a_recipe_says_what_is_wrong_with_its_camera(tmp_path, lines, problem):
    write_camera(tmp_path / "camera.json", fit())
    large = dataclasses.replace(fit(), width=6000, height=4000, lens=None)
    write_camera(tmp_path / "large.json", large)
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "dice"\nname = "mine"\n{lines}\n')
    with pytest.raises(RecipeError) as error:
        load_recipe(str(path))
    assert str(error.value) == f"{path}: {problem}"


def test_large_cameras_are_drawn_smaller(tmp_path):
    large = dataclasses.replace(fit(), width=6000, height=4000, lens=None)
    found = recipe(tmp_path, large, "[render]\nwidth = 4096\nheight = 2731\n")
    assert found.domain.get_factor("sensor/blur_px").values[0] < sensors()["sensor.blur_px"][0]


def test_fisheyes_take_the_place_of_other_lenses_and_the_other_way_round(tmp_path):
    found = recipe(tmp_path, fit(lens("kannala_brandt", k1=0.02)))
    (camera,) = draw_cameras(found, 1, views=1)
    assert isinstance(camera.lens, KannalaBrandt)
    assert camera.lens.fx_px == pytest.approx(500, abs=10)
    path = tmp_path / "mine.toml"
    write_camera(tmp_path / "camera.json", fit())
    path.write_text('base = "dice-fisheye"\ncamera = "camera.json"\n')
    (camera,) = draw_cameras(load_recipe(str(path)), 1, views=1)
    assert isinstance(camera.lens, BrownConrady)


@pytest.mark.parametrize("kind", ["rational", "thin_prism"])
def test_richer_lenses_reach_the_scene_whole(tmp_path, kind):
    bends = {"k1": -0.1, "k4": 0.01} | ({"s1": 0.002} if kind == "thin_prism" else {})
    found = recipe(tmp_path, fit(lens(kind, **bends)))
    (camera,) = draw_cameras(found, 1, views=1)
    assert camera.lens.kind == kind
    assert camera.lens.k4 == pytest.approx(0.01, abs=0.005)


def test_the_recipe_itself_has_the_last_word_and_the_file_decides_the_digest(tmp_path):
    found = recipe(
        tmp_path, fit(), "[render]\nwidth = 320\nheight = 240\n[domain.sensor]\nvignetting = 0.3\n"
    )
    assert found.render.width == 320
    assert found.domain.get_factor("sensor/vignetting").value == 0.3
    other = dataclasses.replace(fit(), estimates=fit().estimates[:1])
    assert recipe(tmp_path, fit()).digest() != recipe(tmp_path, other).digest()
    (tmp_path / "camera.json").unlink()
    with pytest.raises(InputError, match=r"camera\.json: cannot be read"):
        load_recipe(str(tmp_path / "mine.toml"))


def field_at(path):
    """Returns the type of a camera's field by its dotted path."""
    kind = Camera
    for name in path.split("."):
        kind = typing.get_type_hints(kind)[name]
        kind = next((k for k in typing.get_args(kind) if dataclasses.is_dataclass(k)), kind)
        if name == "lens":
            return BrownConrady
    return kind


def test_every_number_is_a_field_of_the_camera_and_none_is_left_out(tmp_path):
    for number in range(4):
        data = images.encode_jpeg(np.zeros((80, 96, 3), np.uint8), 90)
        (tmp_path / f"{number}.jpg").write_bytes(data)
    found = calibrate(tmp_path, None, np.random.default_rng(0))
    names = {finding.name for finding in found.estimates}
    for name in names:
        assert field_at(name) is not None
    sensor = {f"sensor.{f.name}" for f in dataclasses.fields(Sensor)} - {
        "sensor.noise_seed", "sensor.mosaic", "sensor.processing", "sensor.automatics",
    }  # fmt: skip
    color = {f"glass.lateral_color.{f.name}" for f in dataclasses.fields(LateralColor)}
    shutter = {f"shutter.{f.name}" for f in dataclasses.fields(Shutter)}
    processing = {f"sensor.processing.{n}" for n in ("jpeg_subsampling", "chroma_blur_px")}
    hands = {"twist.spin_rad_s"}
    assert names == {"lens.fx_px"} | processing | sensor | color | shutter | hands
    assert {"jpeg_subsampling", "chroma_blur_px", "lateral_color"} <= {
        f.name for c in (Processing, LensEffects) for f in dataclasses.fields(c)
    }
    silent = [f for f in found.estimates if f.value is None]
    assert all(f.note for f in silent)  # what is not told says why
    assert found.get_estimate("sensor.jpeg_quality").value == 90


def test_the_exposure_stands_in_the_files_as_far_as_they_can_be_believed(tmp_path):
    for number, seconds in enumerate((0.01, 0.02, 0.02, 0.04, 0.0, 1e9)):
        exif = Image.Exif()
        exif.get_ifd(0x8769)[33434] = seconds
        Image.new("RGB", (80, 64)).save(tmp_path / f"{number}.jpg", exif=exif)
    found = calibrate(tmp_path, None, np.random.default_rng(0)).get_estimate("shutter.exposure_s")
    assert found.value == pytest.approx(0.02)
    assert found.ci95 == pytest.approx((0.0025, 0.0425), abs=0.0005)  # 0.0225 -+ 3.182 * 0.0063
    assert found.photo_std == pytest.approx(np.std([0.01, 0.02, 0.02, 0.04], ddof=1))


@pytest.mark.parametrize(("quality", "least"), [(95, 0.008), (60, 0.02)])
def test_white_is_no_surer_than_levels_and_steps_of_colour(tmp_path, quality, least):
    """All photos show one white, so that nothing else makes its interval wide."""
    rgb = np.full((80, 96, 3), (170, 160, 150), np.uint8)
    for number in range(6):
        write_bytes(tmp_path / f"{number}.jpg", images.encode_jpeg(rgb, quality))
    photos, _ = measure_photos(list_photo_files(tmp_path)[0], None, lambda *_: None)
    red, blue = _estimate_white_balance(photos, np.random.default_rng(0))
    for gain in (red, blue):
        low, high = gain.ci95
        assert np.log(high / gain.value) > least
        assert np.log(gain.value / low) > least


def test_responses_are_those_of_white_as_the_camera_has_it(tmp_path, monkeypatch):
    """What is told of them, and the sensors that recipes draw, of other numbers of draws."""
    from sim2cam.adapt.calibration import camera_calibration as module

    told = {"red_response": np.full(90, 0.5), "blue_response": np.full(90, 0.5)}
    together = {name: values[:30] for name, values in told.items()} | {
        "tone_contrast": np.ones(30), "full_well_e": np.full(30, 900.0),
    }  # fmt: skip
    monkeypatch.setattr(
        module, "fit_sensor", lambda *_: SensorFit(dict(told), joint_samples=together)
    )
    rgb = np.full((80, 96, 3), (188, 160, 130), np.uint8)
    for number in range(6):
        write_bytes(tmp_path / f"{number}.jpg", images.encode_jpeg(rgb, 95))
    found = calibrate(tmp_path, None, np.random.default_rng(0))
    for color in ("red", "blue"):
        expected = 0.5 * found.get_estimate(f"sensor.{color}_gain").value
        assert found.get_estimate(f"sensor.{color}_response").value == pytest.approx(
            expected, rel=0.05
        )
        rows = found.sensor_samples[f"sensor.{color}_response"]
        assert len(rows) == 30
        assert np.median(rows) == pytest.approx(expected, rel=0.1)
    assert len(found.sensor_samples["sensor.exposure_ev"]) == 30
    write_camera(tmp_path / "camera.json", found)
    assert read_camera(tmp_path / "camera.json") == found


def seen(**parts):
    """A photo of which nothing else is seen."""
    return SimpleNamespace(
        sensor_features=SimpleNamespace(blur_anisotropy=parts.get("anisotropy", (np.nan, np.nan))),
        row_profile=parts.get("row_profile", np.zeros(240)),
    )


def test_no_exposure_is_shorter_than_none():
    """Few and unlike ones leave an interval as wide as that."""
    own = [
        SimpleNamespace(header=SimpleNamespace(exif={"ExposureTime": t})) for t in (1e-3, 1e-2, 0.1)
    ]
    told, *_ = estimate_shutter([seen()] * 3, own, None, np.random.default_rng(0))
    assert (told.value, told.ci95[0]) == (0.01, 0.0)
    assert told.ci95[1] > 0.1


def test_hands_turn_the_camera_as_fast_as_they_move_the_picture():
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 3.0, (2, 200))  # pixels
    photos = [seen(anisotropy=(s, 1e-4)) for s in (x**2 - y**2) / 24]
    exposure = ParameterEstimate("shutter.exposure_s", 0.02, (0.02, 0.02))
    told = estimate_spin(photos, exposure, lens(), rng)
    assert told.ci95[0] < 3.0 / (500 * 0.02) < told.ci95[1]
    assert told.value == pytest.approx(0.3, rel=0.2)
    missing = {
        "the lens is unknown": (photos, exposure, None),
        "the exposure time is unknown": (photos, ParameterEstimate("x", None), lens()),
        "too few photos have clear edges in both directions": (photos[:2], exposure, lens()),
    }
    for words, parts in missing.items():
        untold = estimate_spin(*parts, rng)
        assert untold.value is None
        assert words in untold.note


def test_bands_tell_how_long_rows_take_to_read_as_far_as_mains_are_known():
    rng = np.random.default_rng(0)
    place = (np.arange(240) + 0.5) / 240
    photos = [
        seen(
            row_profile=0.1 * np.cos(2 * np.pi * (3.0 * place + rng.uniform()))
            + rng.normal(0, 0.01, 240)
        )
        for _ in range(6)
    ]
    told = estimate_readout(photos, rng)
    assert told.ci95 == pytest.approx((3.0 / 120, 3.0 / 100), rel=0.05)
    assert told.note.startswith("3.0 bands per image")
    for few in (photos[:2], [seen()] * 6):
        untold = estimate_readout(few, rng)
        assert (untold.value, untold.ci95) == (None, None)
        assert "Film a lamp that flickers" in untold.note


def test_recipes_move_the_camera_as_hands_do(tmp_path):
    told = (
        ParameterEstimate("shutter.exposure_s", 0.02, (0.02, 0.02), 0.005),
        ParameterEstimate("shutter.readout_s", 0.03, (0.025, 0.03)),
        ParameterEstimate("twist.spin_rad_s", 0.3, (0.2, 0.4)),
    )
    found = recipe(tmp_path, dataclasses.replace(fit(), estimates=told))
    every = draw_cameras(found, 40)
    spins = [camera.twist.express_in(camera.pose).spin_rad_s for camera in every]
    assert np.std(spins, axis=0) == pytest.approx([0.3, 0.3, 0.0], rel=0.2)
    assert {camera.twist.velocity_m_s for camera in every} == {(0.0, 0.0, 0.0)}
    assert np.std([camera.shutter.exposure_s for camera in every]) == pytest.approx(0.005, rel=0.25)
    assert np.mean([camera.shutter.readout_s for camera in every]) == pytest.approx(0.03, rel=0.05)
    for less in (told[:2], (*told[:2], dataclasses.replace(told[2], ci95=(0.0, 0.4)))):
        still = recipe(tmp_path, dataclasses.replace(fit(), estimates=less))
        assert still.domain.groups.keys().isdisjoint({"motion", "shutter"})


@pytest.fixture
def no_sensor_is_tried(monkeypatch):
    """Trying sensors takes longest, and says nothing of lenses, files and colours."""
    from sim2cam.adapt.calibration import camera_calibration as module

    monkeypatch.setattr(module, "fit_sensor", lambda *_: SensorFit({}, is_consistent=(True, False)))


def board_photos(folder, orientations):
    """Writes photos of boards through an off-centre camera, held so; 3 is upside down."""
    rng = np.random.default_rng(0)
    matrix = np.array([[420.0, 0, 230.0], [0, 420.0, 130.0], [0, 0, 1.0]])
    board = np.pad(np.kron(np.indices((6, 8)).sum(axis=0) % 2, np.ones((40, 40))), 20)
    flat = np.where(np.pad(np.ones((240, 320)), 20) > 0, 40 + 170 * board, 210).astype(np.uint8)
    for number, orientation in enumerate(orientations):
        turn = cv2.Rodrigues(rng.uniform(-0.35, 0.35, 3))[0]
        place = np.array([rng.uniform(-30, 30), rng.uniform(-20, 20), rng.uniform(560, 700)])
        on_board = np.array([[1, 0, -180.0], [0, 1, -140.0], [0, 0, 1]])
        warp = matrix @ np.column_stack([turn[:, :2], place]) @ on_board
        picture = cv2.warpPerspective(flat, warp, (400, 300), flags=cv2.INTER_AREA, borderValue=210)
        rgb = np.repeat(cv2.GaussianBlur(picture, (0, 0), 0.7)[..., None], 3, axis=2)
        exif = Image.Exif()
        exif[0x0112] = orientation  # the pixels are stored as the sensor reads them
        Image.fromarray(rgb).save(folder / f"{number:02d}.jpg", exif=exif, quality=95)


@pytest.mark.usefixtures("no_sensor_is_tried")
def test_the_lens_is_that_of_photos_in_which_the_camera_was_held_one_way(tmp_path):
    board_photos(tmp_path, [1, 3, 1, 1, 3, 1, 1, 1, 3, 1, 1])
    found = calibrate(tmp_path, None, np.random.default_rng(0))
    assert (found.boards, found.orientation) == (11, 1)
    assert found.rotated_boards == {"01.jpg": 3, "04.jpg": 3, "08.jpg": 3}
    assert found.get_estimate("lens.cx_px").value == pytest.approx(230, abs=6)
    assert found.get_estimate("lens.cy_px").value == pytest.approx(130, abs=6)
    assert (
        "excluded from the lens fit: 3 board photos with another EXIF orientation: "
        "01.jpg (3), 04.jpg (3), 08.jpg (3)"
    ) in _describe_fit(found)
    write_camera(tmp_path / "camera.json", found)
    assert read_camera(tmp_path / "camera.json") == found


def test_models_that_do_not_see_the_whole_picture_are_named():
    blind = dataclasses.replace(lens(k1=-0.1), partial_view_models=("rational",))
    (line,) = (line for line in _describe_fit(fit(blind)) if line.startswith("lens: "))
    assert line == (
        "lens: brown_conrady, 0.200 px; on held-out photos: brown_conrady 0.300, rational does not cover the "
        "whole image"
    )


def test_too_few_boards_of_a_camera_held_one_way_say_so(tmp_path):
    board_photos(tmp_path, [1, 3, 1, 3])
    captures, _ = list_photo_files(tmp_path)
    photos, _ = measure_photos(captures, None, lambda *_: None)
    boards, turned = split_by_orientation(photos, select_common_orientation(photos))
    assert (len(boards), len(turned)) == (2, 2)
    lens, (found,) = _estimate_lens(
        photos, boards, (400, 300), np.random.default_rng(0), captures, None
    )
    assert lens is None
    assert found.note.startswith(
        "of 4 photos of a board at most 2 have the same EXIF orientation, and 4 are required."
    )


def test_files_of_another_writing_are_left_out_by_name(tmp_path):
    rgb = np.zeros((80, 96, 3), np.uint8)
    for number in range(4):
        write_bytes(tmp_path / f"{number}.jpg", images.encode_jpeg(rgb, 90))
    write_bytes(tmp_path / "4.jpg", images.encode_jpeg(rgb, 90, "444"))
    files = sorted(tmp_path.iterdir())
    found = calibrate_files(files, tmp_path, np.random.default_rng(0))
    assert found.photos == 4
    assert found.other_cameras == {"96x80, JPEG 4:4:4": 1}
    assert found == calibrate(tmp_path, None, np.random.default_rng(0))


def test_a_number_at_the_end_of_what_is_tried_has_no_interval_and_recipes_draw_what_was_tried(
    tmp_path,
):
    places = np.full((40, len(PRIOR_RANGES)), 0.5) + np.linspace(-0.01, 0.01, 40)[:, None]
    names = list(PRIOR_RANGES)
    for name, place in {
        "read_noise_e": 0.48, "sharpening": -0.48, "denoise": 0.48, "full_well_e": -0.48,
    }.items():  # fmt: skip
        places[:, names.index(name)] += place
    ends = _find_at_bounds(places, PRIOR_RANGES)
    assert ends == {"read_noise_e", "full_well_e"}  # nothing has less than no sharpening
    colors = np.array([0.02, 0.5, 0.98, 0.5]) + np.linspace(-0.05, 0.05, 40)[:, None]
    assert _find_at_bounds(colors.clip(0, 1), COLOR_PRIOR_RANGES) == {
        "red_response",
        "chroma_blur_px",
    }
    wide = np.full((41, len(PRIOR_RANGES)), 0.7) + np.linspace(-0.29, 0.29, 41)[:, None]
    reached = {
        "full_well_e",
        "read_noise_e",
        "sharpening",
        "blur_px",
        "tone_contrast",
        "saturation",
    }
    assert (
        _find_at_bounds(wide, PRIOR_RANGES) == reached
    )  # electrons of which no noise is left may be any number
    assert _find_at_bounds(wide * 0.9, PRIOR_RANGES) == set()
    told = (
        ParameterEstimate("sensor.full_well_e", 201.0),
        ParameterEstimate("sensor.read_noise_e", 14.9),
    )
    tried = {"sensor.full_well_e": (200.5, 201.0, 204.0), "sensor.read_noise_e": (14.4, 14.9, 15.0)}
    found = recipe(tmp_path, dataclasses.replace(fit(), estimates=told, sensor_samples=tried))
    assert found.domain.get_factor("sensor/full_well_e").values == tried["sensor.full_well_e"]
    assert found.domain.get_factor("sensor/read_noise_e").values == tried["sensor.read_noise_e"]
    alone = recipe(tmp_path, dataclasses.replace(fit(), estimates=told, sensor_samples={}))
    assert alone.domain.groups["sensor"] == load_recipe("dice").domain.groups["sensor"]


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (
            0.01,
            0.5,
            {"sharpening": (0, 1.0), "full_well_e": (211.7, 3464)},
        ),  # electrons are never none
        (0.2, 0.5, {"sharpening": (0.4, 1.0), "full_well_e": (626, 3464)}),
        (0.01, 0.04, {"sharpening": (0.02, 0.08), "full_well_e": (211.7, 251.2)}),
        (0.1, 0.9, {}),
    ],
)
def test_draws_near_none_of_a_thing_mean_none(low, high, ends):
    places = np.repeat(np.linspace(low, high, 401)[:, None], len(PRIOR_RANGES), axis=1)
    found = _select_determined(places, PRIOR_RANGES, ("sharpening", "full_well_e"))
    assert {name: (values.min(), values.max()) for name, values in found.items()} == {
        name: pytest.approx(both, rel=0.01) for name, both in ends.items()
    }


@pytest.mark.parametrize(("photos", "words"), [(1, "1 usable photo"), (2, "2 usable photos")])
def test_fewer_photos_than_tell_a_camera_say_so_of_every_number(tmp_path, photos, words):
    light = np.random.default_rng(0).integers(40, 200, (80, 96, 3)).astype(np.uint8)
    for number in range(photos):
        write_bytes(tmp_path / f"{number}.jpg", images.encode_jpeg(light, 90))
    found = calibrate(tmp_path, None, np.random.default_rng(0))
    few = f"{words}, 3 are required. Take 10 photos or more."
    for name in ("exposure_ev", "red_gain", "full_well_e", "blur_px", "processing.chroma_blur_px"):
        assert (
            found.get_estimate(f"sensor.{name}").value,
            found.get_estimate(f"sensor.{name}").note,
        ) == (None, few)
    assert found.get_estimate("sensor.jpeg_quality").value == 90


@pytest.mark.usefixtures("no_sensor_is_tried")
def test_grey_photos_say_that_they_have_no_colour(tmp_path):
    light = np.random.default_rng(0).integers(40, 200, (80, 96)).astype(np.uint8)
    for number in range(4):
        Image.fromarray(light).save(tmp_path / f"{number}.jpg", quality=90)
    found = calibrate(tmp_path, None, np.random.default_rng(0))
    names = (
        "sensor.processing.jpeg_subsampling", "sensor.processing.chroma_blur_px", "sensor.red_gain",
        "sensor.red_response", "sensor.blue_response", "glass.lateral_color.red",
    )  # fmt: skip
    for name in names:
        assert found.get_estimate(name).value is None
        assert found.get_estimate(name).note == "the photos have no colour. Take colour photos."
    assert found.get_estimate("sensor.jpeg_quality").value == 90


@pytest.mark.usefixtures("no_sensor_is_tried")
@pytest.mark.parametrize("written", ["jpeg", "png", "png of a jpeg"])
def test_recipes_draw_files_as_the_camera_writes_them(tmp_path, written):
    rng = np.random.default_rng(0)
    for number in range(3):
        light = cv2.resize(rng.integers(40, 200, (20, 24, 3)).astype(np.uint8), (192, 160))
        data = images.encode_jpeg(light, 60)
        if written == "png of a jpeg":
            light = images.decode_image(data)
        suffix = "jpg" if written == "jpeg" else "png"
        write_bytes(
            tmp_path / f"{number}.{suffix}", data if suffix == "jpg" else images.encode_png(light)
        )
    found = calibrate(tmp_path, None, np.random.default_rng(0))
    told = found.get_estimate("sensor.file_format")
    assert told.value == ("png" if written == "png" else "jpeg")
    assert ("pixels" in told.note) == (written == "png of a jpeg")
    assert (found.get_estimate("sensor.jpeg_quality").value is None) == (written == "png")
    (camera,) = draw_cameras(recipe(tmp_path, found), 1, views=1, size=(192, 160))
    assert camera.sensor.file_format == told.value


@pytest.mark.usefixtures("no_sensor_is_tried")
def test_jpegs_of_another_kind_are_no_files_that_are_no_jpegs(tmp_path):
    for number in range(3):
        rgb = np.full((80, 96, 3), number, np.uint8)
        how = (cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440)
        _, data = cv2.imencode(".jpg", rgb, (*how, cv2.IMWRITE_JPEG_QUALITY, 90))
        (tmp_path / f"{number}.jpg").write_bytes(data.tobytes())
    found = calibrate(tmp_path, None, np.random.default_rng(0))
    note = found.get_estimate("sensor.processing.jpeg_subsampling").note
    assert note.startswith("chroma subsampling is not 4:4:4, 4:2:2 or 4:2:0.")
    assert found.get_estimate("sensor.jpeg_quality").value == 90


@pytest.mark.parametrize(("off", "is_alike"), [(0.5, True), (4.0, False)])
def test_from_afar_no_regression_leads_to_a_sensor(off, is_alike):
    rng = np.random.default_rng(0)
    asked = []
    tried = _run_abc(lambda shares: asked.append(shares) or off + shares, 2, np.ones(2), rng)
    assert tried.is_consistent == is_alike
    assert tried.adjusted.shape[1] == 2
    every = np.concatenate(asked)
    assert np.array_equal(tried.nearest, every[tried.nearest_indices])
    assert np.linalg.norm(tried.nearest + off, axis=1).max() <= np.median(
        np.linalg.norm(every + off, axis=1)
    )


@pytest.mark.usefixtures("no_sensor_is_tried")
def test_photos_that_no_sensor_is_like_say_so(tmp_path):
    for number in range(3):
        data = images.encode_jpeg(np.full((80, 96, 3), number, np.uint8), 90)
        write_bytes(tmp_path / f"{number}.jpg", data)
    found = calibrate(tmp_path, None, np.random.default_rng(0))
    notes = {f.name.rsplit(".")[-1]: f.note for f in found.estimates}
    unlike = "no simulated sensor reproduces the noise and edges of these photos."
    assert notes["red_response"].startswith(unlike)
    assert notes["chroma_blur_px"].startswith(unlike)
    assert notes["full_well_e"].startswith("the remaining noise fits many sensors.")


def test_every_finding_that_recipes_take_is_a_factor():
    groups = Domain({}).parameters
    together = {
        name: name.split(".")[-2:] for name in JOINT_PARAMETERS if name not in _FACTOR_OF_PARAMETER
    }
    for name, (group, factor) in (_FACTOR_OF_PARAMETER | together).items():
        assert field_at(name) is not None
        assert factor in groups[group]
    tables = make_recipe_tables(fit(), 640)
    assert {len(d["values"]) for d in tables["domain"]["lens"].values()} == {LENS_SAMPLES}
