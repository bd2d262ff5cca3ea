import cv2
import numpy as np
import pytest

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.opencv import read_opencv
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational, ThinPrism
from tests.support.errors import error_text

KNOWN = """%YAML:1.0
---
calibration_time: "Tue 01 Jan 2019 10:00:00 AM CET"
nframes: 13
image_width: 640
image_height: 480
board_width: 9
flags: 0
camera_matrix: !!opencv-matrix
   rows: 3
   cols: 3
   dt: d
   data: [ 5.3591573396163199e+02, 0., 3.4228315473308373e+02, 0.,
       5.3591573396163199e+02, 2.3557082909788173e+02, 0., 0., 1. ]
distortion_coefficients: !!opencv-matrix
   rows: 5
   cols: 1
   dt: d
   data: [ -2.6637260909660682e-01, -3.8588898922304653e-02,
       1.7831947042852964e-03, -2.8122100441115472e-04,
       2.3839153080878486e-01 ]
avg_reprojection_error: 3.9259109564815858e-01
"""
LENS = BrownConrady(
    535.91573396163199, 535.91573396163199, 342.28315473308373, 235.57082909788173,
    -0.26637260909660682, -0.038588898922304653, 0.0017831947042852964, -0.00028122100441115472,
    0.23839153080878486,
)  # fmt: skip
MATRIX = (500.0, 501.0, 320.0, 1 / 3)
CURE = "Correct the file or calibrate again."


def test_a_known_file_is_read(tmp_path):
    path = tmp_path / "out_camera_data.yml"
    path.write_text(KNOWN)
    assert read_opencv(path) == Intrinsics("", 640, 480, LENS)


def by_opencv(path, coefficients, *, fisheye=False, skew=0.0):
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    storage.write("image_width", 640)
    storage.write("image_height", 480)
    if fisheye:
        storage.write("fisheye_model", 1)
    matrix = np.array([[500.0, skew, 320.0], [0, 501.0, 1 / 3], [0, 0, 1]])
    storage.write("camera_matrix", matrix)
    storage.write("distortion_coefficients", np.array(coefficients, float)[:, None])
    storage.release()
    return path


@pytest.mark.parametrize(
    ("count", "kind"),
    [(4, BrownConrady), (5, BrownConrady), (8, Rational), (12, ThinPrism), (14, ThinPrism)],
)
def test_what_opencv_writes_is_read(tmp_path, count, kind):
    values = [*np.linspace(-0.3, 0.4, min(count, 12)), *[0.0] * (count - 12)]
    camera = read_opencv(by_opencv(tmp_path / "a.yml", values))
    assert type(camera.lens) is kind
    found = camera.lens.coefficients()
    assert found[: len(values)] == pytest.approx(values[: len(found)], abs=0)
    assert camera.lens.cy_px == 1 / 3


def test_a_fisheye_says_so(tmp_path):
    camera = read_opencv(by_opencv(tmp_path / "a.yml", [0.1, 0.2, 0.3, 0.4], fisheye=True))
    assert camera.lens == KannalaBrandt(*MATRIX, 0.1, 0.2, 0.3, 0.4)


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ({"coefficients": [0.1] * 14},
         "distortion_coefficients.data is [0.1, 0.1]. Tilted sensors (the last two coefficients) are not supported. "),
        ({"coefficients": [0.1] * 3},
         "distortion_coefficients.data is [0.1, 0.1, 0.1]. It must be a list of 4 or 5 or 8 or 12 or "
         "14 finite numbers. "),
        ({"coefficients": [0.1] * 5, "fisheye": True},
         "distortion_coefficients.data is [0.1, 0.1, 0.1, 0.1, 0.1]. It must be a list of 4 finite "
         "numbers. "),
        ({"coefficients": [0.1] * 5, "skew": 2.0},
         "camera_matrix.data is [500.0, 2.0, 320.0, 0.0, 501.0, 0.3333333333333333, ...]. A camera matrix is fx 0 cx, 0 fy cy, 0 0 1, without skew. "),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_key_and_value(tmp_path, choice, problem):
    path = by_opencv(tmp_path / "a.yml", **choice)
    assert error_text(read_opencv, path) == f"{path}: {problem}{CURE}"


@pytest.mark.parametrize("key", ["image_height", "camera_matrix", "distortion_coefficients"])
def test_a_missing_key_is_named(tmp_path, key):
    path = tmp_path / "a.yml"
    path.write_text(KNOWN.replace(f"{key}:", "other:"))
    assert error_text(read_opencv, path) == f"{path}: {key} is missing. {CURE}"
