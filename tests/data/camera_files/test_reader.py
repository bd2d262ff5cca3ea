"""Files of any kind are told apart, and what is no calibration is refused."""

import cv2
import pytest

from sim2cam.data.camera_files.colmap import write_colmap
from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.kalibr import write_kalibr
from sim2cam.data.camera_files.opencv import write_opencv
from sim2cam.data.camera_files.reader import is_opencv_calibration, read_cameras
from sim2cam.data.camera_files.ros import write_ros
from sim2cam.errors import InputError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt

LENSES = [
    BrownConrady(500.0, 501.0, 320.0, 240.25, 0.1, -0.2, 0.001, -0.002),
    KannalaBrandt(300.0, 301.0, 320.0, 240.25, 0.01, -0.02, 0.003, -0.004),
]
WRITERS = {
    "cameras.txt": lambda path, camera: write_colmap(path, [camera]),
    "chain.yaml": lambda path, camera: write_kalibr(path, [camera]),
    "ros.yaml": write_ros,
    "opencv.yml": write_opencv,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("lens", LENSES, ids=lambda lens: lens.kind)
def test_every_kind_of_file_is_told_by_what_it_holds(tmp_path, name, lens):
    path = tmp_path / name
    WRITERS[name](path, Intrinsics("left", 640, 480, lens))
    (camera,) = read_cameras(path)
    assert (camera.width, camera.height, camera.lens) == (640, 480, lens)


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
    with pytest.raises(InputError) as caught:
        read_cameras(path)
    assert str(caught.value) == f"{path}: {problem}"


def test_a_deep_nest_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="not YAML"):
        read_cameras(path)


def test_json_of_opencv_is_told_from_that_of_calibrate(tmp_path):
    path = tmp_path / "camera.json"
    file = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE | cv2.FILE_STORAGE_FORMAT_JSON)
    file.write("image_width", 640)
    file.write("image_height", 480)
    file.write("camera_matrix", LENSES[0].matrix())
    file.write("distortion_coefficients", LENSES[0].coefficients()[None])
    file.release()
    (camera,) = read_cameras(path)
    assert (camera.width, camera.height, camera.lens) == (640, 480, LENSES[0])
    assert is_opencv_calibration(path)
    path.write_text('{"version": 3}')
    assert not is_opencv_calibration(path)
