import cv2
import pytest

from sim2cam.data.camera_files.reader import is_opencv_calibration, read_cameras
from sim2cam.errors import InputError
from sim2cam.geometry.lens import BrownConrady
from tests.support.errors import error_text

LENS = BrownConrady(500.0, 501.0, 320.0, 240.25, 0.1, -0.2, 0.001, -0.002)
FILES = {
    "cameras.txt": "1 OPENCV 640 480 500 501 320.5 240.75 0.1 -0.2 0.001 -0.002\n",
    "chain.yaml": (
        "cam0: {camera_model: pinhole, intrinsics: [500, 501, 320, 240.25], distortion_model: radtan, "
        "distortion_coeffs: [0.1, -0.2, 0.001, -0.002], resolution: [640, 480]}\n"
    ),
    "ros.yaml": (
        "{image_width: 640, image_height: 480, distortion_model: plumb_bob, "
        "camera_matrix: {data: [500, 0, 320, 0, 501, 240.25, 0, 0, 1]}, "
        "distortion_coefficients: {data: [0.1, -0.2, 0.001, -0.002]}}\n"
    ),
    "opencv.yml": (
        "%YAML:1.0\n---\n{image_width: 640, image_height: 480, "
        "camera_matrix: !!opencv-matrix {data: [500, 0, 320, 0, 501, 240.25, 0, 0, 1]}, "
        "distortion_coefficients: !!opencv-matrix {data: [0.1, -0.2, 0.001, -0.002]}}\n"
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_formats_are_detected_by_content(tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name])
    (camera,) = read_cameras(path)
    assert (camera.width, camera.height, camera.lens) == (640, 480, LENS)


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        (
            "a.yaml", b"focal: 3\n",
            "unknown camera format. Allowed: COLMAP's cameras.txt, and YAML of Kalibr (cam0), ROS (camera_matrix, distortion_model) or OpenCV (camera_matrix).",
        ),
        ("a.yaml", b"\xff\xfe\x00", "not a text in UTF-8. Check the path."),
        ("a.txt", b"\xff\xfe\x00", "not a text in UTF-8. Check the path."),
        ("a.yaml", b" " * 4_000_001, "more than 4000000 bytes. No calibration is that long."),
        ("a.yaml", None, "cannot be read (No such file or directory). Check the path."),
    ],
)  # fmt: skip
def test_what_is_no_calibration_is_refused(tmp_path, name, data, problem):
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    assert error_text(read_cameras, path) == f"{path}: {problem}"


def test_a_deep_nest_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("[" * 20_000)
    with pytest.raises(InputError, match="not YAML"):
        read_cameras(path)


def test_json_of_opencv_is_told_from_that_of_calibrate(tmp_path):
    path = tmp_path / "camera.json"
    file = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE | cv2.FILE_STORAGE_FORMAT_JSON)
    file.write("image_width", 640)
    file.write("image_height", 480)
    file.write("camera_matrix", LENS.matrix())
    file.write("distortion_coefficients", LENS.coefficients()[None])
    file.release()
    (camera,) = read_cameras(path)
    assert (camera.width, camera.height, camera.lens) == (640, 480, LENS)
    assert is_opencv_calibration(path)
    path.write_text('{"version": 3}')
    assert not is_opencv_calibration(path)
