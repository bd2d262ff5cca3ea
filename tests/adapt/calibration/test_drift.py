"""Drift: quiet when nothing moved, and what moved is named."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.stats import mannwhitneyu

from sim2cam import images
from sim2cam.adapt.calibration import camera_calibration
from sim2cam.adapt.calibration.bundle_adjustment import LENS_MODELS, fit_bundle
from sim2cam.adapt.calibration.camera_features import CAMERA_STATISTICS, tabulate_statistics
from sim2cam.adapt.calibration.camera_fit import CameraFit
from sim2cam.adapt.calibration.detector_drift import DetectorMonitor, DetectorResponse
from sim2cam.adapt.calibration.drift import compare_lens, compare_photos, detect_drift
from sim2cam.adapt.calibration.lens import FittedLens
from sim2cam.adapt.calibration.parameter_changes import (
    ALPHA,
    ParameterShift,
    _compute_p_value,
    classify_shifts,
    compare_statistics,
)
from sim2cam.adapt.calibration.photo_measurements import (
    list_photo_files,
    measure_photo,
    measure_photos,
    subsample_evenly,
)
from sim2cam.errors import LensError, UsageError
from sim2cam.files import write_bytes
from sim2cam.geometry.lens import BrownConrady
from sim2cam.images import ImageHeader
from sim2cam.render.sensor.sensor import capture_image
from sim2cam.scene.sensor import Processing, Sensor
from tests.adapt.calibration.conftest import SIZE, see_boards
from tests.adapt.calibration.test_camera_fit import field_at

SENSOR = Sensor(
    0.0, 1.05, 0.9, 0.1, 0.6, 3000.0, 4.0, 0.2, 1.1, 1.0, 0.1, 92, 0, processing=Processing()
)


def scene(rng):
    """Returns the light of checks beside plain parts (192, 256, 3), other each time."""
    y, x = np.mgrid[:192, :256]
    turn, side = rng.uniform(0.1, 1.4), rng.uniform(28, 36)
    u, v = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    check = (np.floor(u / side) + np.floor(v / side)) % 2
    part = np.where(x < 112, 0.06 + 0.3 * check, np.where(y < 96, 0.15, 0.3))
    slope = 1 + rng.uniform(-0.2, 0.2) * x / 256 + rng.uniform(-0.2, 0.2) * y / 192
    return ((part * slope)[..., None] * rng.uniform(0.97, 1.03, 3)).astype(np.float32)


def take_photos(folder, sensor, seed, count=10):
    rng = np.random.default_rng(seed)
    for number in range(count):
        shot = replace(sensor, noise_seed=int(rng.integers(1 << 30)))
        write_bytes(folder / f"{number:02d}.jpg", capture_image(scene(rng), shot).encoded)
    return folder


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    folder = take_photos(tmp_path_factory.mktemp("then"), SENSOR, seed=0, count=16)
    captures, _ = list_photo_files(folder)
    photos, _ = measure_photos(subsample_evenly(captures), None, lambda done, total: None)
    return CameraFit(
        "256x192", 256, 192, len(photos), 0, (), statistics=tabulate_statistics(photos)
    )


def drifted(fit, folder, sensor=SENSOR, count=10):
    return detect_drift(
        fit, take_photos(folder, sensor, seed=1, count=count), None, np.random.default_rng(0)
    )


def test_a_camera_that_is_still_the_same_has_not_moved(fit, tmp_path):
    found = drifted(fit, tmp_path)
    assert found.drifted == ()
    assert (found.camera, found.photos) == ("256x192", 10)
    still = {change.name for change in found.shifts if change.status == "stable"}
    assert {"sensor.red_gain", "sensor.full_well_e", "sensor.jpeg_quality"} <= still
    assert all(c.ci95[0] <= c.shift <= c.ci95[1] for c in found.shifts if c.status == "stable")
    assert all(c.note for c in found.shifts if c.status == "undetermined")


MOVES = [
    ({"red_gain": 1.26}, "sensor.red_gain", 20, 4),
    ({"exposure_ev": -0.7}, "sensor.exposure_ev", -0.7, 0.15),
    ({"full_well_e": 750.0, "read_noise_e": 2.0}, "sensor.full_well_e", 160, 20),
    ({"blur_px": 1.3}, "sensor.blur_px", 0.7, 0.25),
    ({"vignetting": 0.5}, "sensor.vignetting", 0.4, 0.15),
    ({"jpeg_quality": 60}, "sensor.jpeg_quality", -32, 0.5),
    (
        {"processing": Processing(jpeg_subsampling="444")},
        "sensor.processing.jpeg_subsampling", 0.75, 1e-9,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "name", "shift", "near"), MOVES, ids=[m[1] for m in MOVES])
def test_what_moved_is_named_with_its_size(fit, tmp_path, change, name, shift, near):
    found = drifted(fit, tmp_path, replace(SENSOR, **change))
    moved = {c.name: c for c in found.shifts if c.status == "drifted"}
    assert name in moved
    assert moved[name].shift == pytest.approx(shift, abs=near)
    assert moved[name].p_value <= ALPHA
    assert found.to_json()["drifted"] == list(moved)


def brightness(rgb):
    """Says what a detector might: less familiar and less sure the darker a photo is."""
    level = float(rgb.mean()) / 255
    return DetectorResponse(2 - level, None if level < 0.02 else level)


@pytest.fixture(scope="module")
def witnessed(tmp_path_factory):
    folder = take_photos(tmp_path_factory.mktemp("then"), SENSOR, seed=0, count=12)
    with pytest.MonkeyPatch.context() as monkeypatch:  # slow, and not compared
        monkeypatch.setattr(
            camera_calibration, "_estimate_noise_and_sharpness", lambda *_: ([], {})
        )
        return camera_calibration.calibrate(
            folder, None, np.random.default_rng(0), monitor=DetectorMonitor("a", brightness)
        )


@pytest.mark.parametrize(("exposure_ev", "moved"), [(0.0, set()), (-0.8, {"detector.ood_score", "detector.confidence"})])  # fmt: skip
def test_a_detector_that_answers_otherwise_is_told(witnessed, tmp_path, exposure_ev, moved):
    take_photos(tmp_path, replace(SENSOR, exposure_ev=exposure_ev), seed=1)
    witness = DetectorMonitor("a", brightness)
    found = detect_drift(witnessed, tmp_path, None, np.random.default_rng(0), monitor=witness)
    assert {name for name in found.drifted if name.startswith("detector.")} == moved
    answers = {c.name: c for c in found.shifts if c.name.startswith("detector.")}
    assert set(answers) == {"detector.ood_score", "detector.confidence"}
    shift = answers["detector.ood_score"].shift
    assert shift == pytest.approx(-answers["detector.confidence"].shift)
    assert not moved or 0.05 < shift < 0.3


def test_without_a_detector_none_is_compared(witnessed, tmp_path):
    found = drifted(witnessed, tmp_path, count=4)
    assert not any(change.name.startswith("detector.") for change in found.shifts)


@pytest.mark.parametrize(("then", "which"), [("", "no detector"), ("b", "other weights")])
def test_a_detector_that_was_not_asked_then_is_refused(fit, tmp_path, then, which):
    with pytest.raises(UsageError, match=f"--monitor: the calibration used {which}"):
        detect_drift(
            replace(fit, monitor_digest=then), tmp_path, None, np.random.default_rng(0),
            monitor=DetectorMonitor("a", brightness),
        )  # fmt: skip


def test_one_photo_tells_nothing_and_says_how_many_would(fit, tmp_path):
    found = drifted(fit, tmp_path, replace(SENSOR, red_gain=2.0), count=1)
    assert found.drifted == ()
    red = next(c for c in found.shifts if c.name == "sensor.red_gain")
    assert (red.status, red.shift, red.p_value) == ("undetermined", None, None)
    assert red.note == (
        "16 usable photos before, 1 now; 3 are required. Take photos of the same scenes as before."
    )


def test_photos_of_another_size_are_not_compared_pixel_by_pixel(fit, tmp_path):
    take_photos(tmp_path, SENSOR, seed=1, count=6)
    for path in tmp_path.iterdir():
        Image.open(path).resize((128, 96)).save(path, quality=92)
    found = detect_drift(fit, tmp_path, None, np.random.default_rng(0))
    by_name = {change.name: change for change in found.shifts}
    assert by_name["camera"].status == "drifted"
    assert by_name["camera"].note == "256x192 before, 128x96 now"
    assert by_name["sensor.blur_px"].status == by_name["lens"].status == "undetermined"
    assert by_name["sensor.blur_px"].note.startswith("the photos have another size.")
    assert by_name["sensor.jpeg_quality"].status == "stable"


def test_new_software_is_told_from_the_files_and_other_cameras_are_left_out(fit, tmp_path):
    take_photos(tmp_path, SENSOR, seed=1, count=4)
    exif = Image.Exif()
    exif[305] = "2.1"
    for path in tmp_path.iterdir():
        Image.open(path).save(path, exif=exif, quality=92)
    for number in range(5):
        Image.new("RGB", (100, 100)).save(tmp_path / f"other{number}.jpg")
    older = replace(fit, software="2.0")
    found = detect_drift(older, tmp_path, None, np.random.default_rng(0))
    assert found.other_cameras == {"100x100": 5}
    assert found.drifted[0] == "software"
    assert found.shifts[0].note == "2.0 before, 2.1 now"
    unknown = detect_drift(fit, tmp_path, None, np.random.default_rng(0))
    assert "software" not in unknown.drifted


def test_a_camera_without_traits_says_so(tmp_path):
    bare = CameraFit("256x192", 256, 192, 3, 0, ())
    odd = replace(bare, statistics={"sensor.blur_px": ((1.0, 2.0),) * 3})
    for camera in (bare, odd):
        found = drifted(camera, tmp_path, count=1)
        assert {change.status for change in found.shifts} == {"undetermined"}
        assert all("Calibrate again" in change.note for change in found.shifts)
    with pytest.raises(ValueError, match="blur_px must have one row per photo, all of one length"):
        replace(bare, statistics={"sensor.blur_px": ((1.0,),)})


def test_p_values_are_those_of_the_rank_sum():
    rng = np.random.default_rng(0)
    for first, second in ((5, 4), (9, 3)):
        a, b = rng.normal(0, 1, first), rng.normal(0.8, 1, second)
        exact = mannwhitneyu(a, b, method="exact").pvalue
        assert _compute_p_value(a, b, rng) == pytest.approx(exact, abs=1e-12)
    assert _compute_p_value(np.ones(4), np.ones(4), rng) == 1.0


def test_false_alarms_are_as_rare_as_they_are_said_to_be():
    """Each comparison alone, with the least shift that counts taken away."""
    rng = np.random.default_rng(0)
    p_values = [_compute_p_value(rng.normal(0, 1, 5), rng.normal(0, 1, 5), rng) for _ in range(400)]
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(p_values) <= level) <= level + 3 * np.sqrt(level / 400)
    assert np.mean(np.array(p_values) <= 0.2) > 0.1


def test_columns_are_compared_with_their_like():
    """Photos of now are of other levels, at which there is more noise: that is no move."""
    rng = np.random.default_rng(0)
    usual = np.linspace(0.0, 3.0, 8)

    def noise(columns):
        rows = usual + rng.normal(0, 0.05, (20, 8))
        hidden = [[None if j not in columns else rows[i, j] for j in range(8)] for i in range(20)]
        return {"sensor.full_well_e": tuple(map(tuple, hidden))}

    before, now = noise(range(6)), noise(range(2, 8))
    change = next(c for c in compare_statistics(before, now, rng) if c.name == "sensor.full_well_e")
    assert abs(change.shift) < 6
    assert change.p_value == 1.0


def test_holm_holds_all_comparisons_together():
    sure = [
        ParameterShift(str(i), "", "undetermined", 1.0, (0, 2), p_value=0.02, photo_counts=(20, 20))
        for i in (1, 2)
    ]
    few = ParameterShift(
        "few", "", "undetermined", 1.0, (0, 2), p_value=0.01, photo_counts=(3, 1), note="take more"
    )
    assert {c.status for c in classify_shifts(sure)} == {"drifted"}
    by_name = {c.name: c for c in classify_shifts([*sure, few])}
    assert by_name["few"].status == "undetermined"
    assert by_name["few"].note == "take more"
    assert by_name["1"].p_value == pytest.approx(0.04)
    more = [dataclasses.replace(sure[0], name=str(i)) for i in range(3)]
    assert {c.status for c in classify_shifts(more)} == {"stable"}


def seen_boards(boards, orientations):
    """Returns photos of nothing but these boards, as the camera was held in each."""
    header = ImageHeader(*SIZE, "RGB", {})
    blank = measure_photo(np.full((96, 128, 3), 120, np.uint8), header)
    photos = []
    for board, orientation in zip(boards, orientations, strict=True):
        pixels = board.corners_px if orientation == 1 else np.array(SIZE) - 1 - board.corners_px
        held = replace(header, orientation=orientation)
        sighting = replace(board, corners_px=pixels)
        photos.append(replace(blank, header=held, name=board.photo, board_detection=sighting))
    return photos


def test_lenses_are_compared_in_photos_that_were_held_alike():
    """The middle of a lens lies on the other side of the picture of a camera held upside down."""
    rng = np.random.default_rng(0)
    boards = boards_fit(rng)
    fit = replace(boards, orientation=1, rotated_boards={"x.jpg": 3}, boards=15)
    photos = seen_boards(see_boards(LENS, 14, rng), [1, 3] * 7)
    (lens,) = (c for c in compare_photos(fit, photos, SIZE, rng) if c.name == "lens")
    assert (lens.status, lens.photo_counts) == ("stable", (14, 7))
    assert lens.note.startswith("Excluded: 7 photos of a board with another EXIF orientation")
    few = compare_photos(fit, photos[1::2], SIZE, rng)
    (lens,) = (c for c in few if c.name == "lens")
    assert (lens.status, lens.photo_counts) == ("undetermined", (14, 0))
    assert "too few boards in the new photos" in lens.note
    older = compare_photos(replace(fit, orientation=None), photos[::2], SIZE, rng)
    assert next(c for c in older if c.name == "lens").photo_counts == (14, 7)


@pytest.mark.parametrize("boards", [4, 5, 12])
def test_a_lens_that_moved_is_told_by_as_few_boards_as_it_is_fitted_to(boards):
    """Hotelling's p-value has no least one, as that of exchanges has."""
    still = [
        ParameterShift(
            t.name,
            t.description,
            "undetermined",
            0.0,
            (-1.0, 1.0),
            p_value=1.0,
            photo_counts=(20, 20),
        )
        for t in CAMERA_STATISTICS
    ]
    lens = ParameterShift(
        "lens", "lens", "undetermined", 12.3, (11, 13), p_value=1e-12, photo_counts=(boards, boards)
    )
    by_name = {c.name: c for c in classify_shifts([*still, lens])}
    assert by_name["lens"].status == "drifted"
    assert by_name["lens"].p_value == pytest.approx(1e-12 * (len(CAMERA_STATISTICS) + 1))
    assert {c.status for c in by_name.values()} == {"drifted", "stable"}


@pytest.mark.parametrize("photos", [(60, 1), (1, 40), (0, 9), (9, 0)])
def test_every_trait_that_is_not_told_says_why(photos):
    (only,) = classify_shifts(
        [ParameterShift(CAMERA_STATISTICS[0].name, "", "undetermined", photo_counts=photos)]
    )
    assert only.note.startswith(f"{photos[0]} usable photos before, {photos[1]} now")
    assert f"{photos[1]} are required" not in only.note
    assert "Calibrate again" in only.note or "are required. Take" in only.note


def test_traits_are_fields_of_the_camera_and_of_what_is_calibrated():
    for trait in CAMERA_STATISTICS:
        assert field_at(trait.name) is not None
    names = {trait.name for trait in CAMERA_STATISTICS}
    told = {f"sensor.{f.name}" for f in dataclasses.fields(Sensor)} - {
        "sensor.noise_seed", "sensor.mosaic", "sensor.processing", "sensor.automatics",
        "sensor.read_noise_e", "sensor.red_response", "sensor.blue_response",  # of noise, with full_well_e
        "sensor.tone_shoulder",  # of tones, with tone_contrast
        "sensor.file_format",  # of JPEGs, with jpeg_quality
    }  # fmt: skip
    assert told <= names
    assert {"glass.lateral_color.red", "sensor.processing.jpeg_subsampling"} <= names


LENS = BrownConrady(500.0, 502.0, 322.0, 236.0, -0.2, 0.06)


def boards_fit(rng):
    boards = see_boards(LENS, 14, rng)
    pinhole, brown, *_ = LENS_MODELS
    found = fit_bundle(boards, SIZE, brown, fit_bundle(boards, SIZE, pinhole))
    numbers = tuple(float(getattr(found.lens, name)) for name in brown.free_parameters)
    rows = tuple(map(tuple, found.covariance.tolist()))
    lens = FittedLens(
        "brown_conrady", brown.free_parameters, numbers, rows, found.rms_px, {}, {}, 0.9
    )
    return CameraFit("640x480", *SIZE, 14, 14, (), lens=lens)


def test_a_lens_that_was_knocked_is_told_from_one_that_was_not():
    rng = np.random.default_rng(0)
    fit = boards_fit(rng)
    same = compare_lens(fit, see_boards(LENS, 12, rng), SIZE, rng)
    assert same.p_value > ALPHA
    assert same.shift < 1
    assert same.ci95[0] == 0 < same.shift < same.ci95[1]  # it may well be where it was
    knocked = replace(LENS, fx_px=505.0, fy_px=507.0)
    moved = compare_lens(fit, see_boards(knocked, 12, rng), SIZE, rng)
    assert moved.p_value < 1e-3
    assert moved.shift == pytest.approx(2.2, abs=1.0)
    assert 0 < moved.ci95[0] < moved.shift < moved.ci95[1]
    few = compare_lens(fit, see_boards(LENS, 3, rng), SIZE, rng)
    assert few.status == "undetermined"
    assert few.note.startswith("too few boards in the new photos. Take 15 photos")


def test_a_lens_that_fits_nothing_now_says_so_in_words(monkeypatch):
    rng = np.random.default_rng(0)
    fit = boards_fit(rng)

    def fails(*_):
        raise LensError("point (3.5, -2.2, 1.2) is 73.3 degrees off the axis of BrownConrady(...)")

    monkeypatch.setattr("sim2cam.adapt.calibration.drift.refit_lens", fails)
    change = compare_lens(fit, see_boards(LENS, 12, rng), SIZE, rng)
    assert (change.status, change.shift, change.p_value) == ("undetermined", None, None)
    assert change.note.startswith("no brown_conrady lens fits the corners of the boards.")


def test_a_lens_that_does_not_see_the_whole_picture_has_moved_by_no_number(monkeypatch):
    rng = np.random.default_rng(0)
    fit = boards_fit(rng)
    pinhole, brown, *_ = LENS_MODELS
    now = fit_bundle(boards := see_boards(LENS, 12, rng), SIZE, pinhole)
    folded = replace(fit_bundle(boards, SIZE, brown, now), lens=replace(LENS, k1=-0.9))
    monkeypatch.setattr("sim2cam.adapt.calibration.drift.refit_lens", lambda *_: folded)
    change = compare_lens(fit, boards, SIZE, rng)
    assert (change.shift, change.ci95) == (None, None)
    assert change.p_value < ALPHA
    assert change.note.startswith("the new lens does not cover the whole image.")


def test_photos_of_another_camera_without_a_name_are_left_out(fit, tmp_path):
    """They are told apart by how they are written, as those that a camera is told from."""
    take_photos(tmp_path, SENSOR, seed=1, count=6)
    for number in range(2):
        rgb = images.read_rgb(tmp_path / f"{number:02d}.jpg")
        write_bytes(tmp_path / f"z{number}.jpg", images.encode_jpeg(rgb, 60))
    found = detect_drift(fit, tmp_path, None, np.random.default_rng(0))
    assert (found.photos, found.other_cameras) == (6, {"256x192, JPEG 4:2:0 of quality 60": 2})
    assert found.drifted == ()
