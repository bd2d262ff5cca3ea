import pytest
import yaml

from sim2cam.data.camera_files.intrinsics import Intrinsics
from sim2cam.data.camera_files.ros import read_ros
from sim2cam.errors import InputError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational
from tests.support.errors import error_text

KNOWN = """image_width: 640
image_height: 480
camera_name: rgb_camera
camera_matrix:
  rows: 3
  cols: 3
  data: [526.6908296825479, 0, 312.3333507245396, 0, 525.7542623070541, 246.2279496394374, 0, 0, 1]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [0.01864117263397289, -0.0807953154457166, 0.0006701578887838996, -1.8e-3, 0]
rectification_matrix:
  rows: 3
  cols: 3
  data: [1, 0, 0, 0, 1, 0, 0, 0, 1]
projection_matrix:
  rows: 3
  cols: 4
  data: [516.2, 0, 310.3, 0, 0, 514.0, 246.8, 0, 0, 0, 1, 0]
"""
LENS = BrownConrady(
    526.6908296825479, 525.7542623070541, 312.3333507245396, 246.2279496394374,
    0.01864117263397289, -0.0807953154457166, 0.0006701578887838996, -1.8e-3, 0.0,
)  # fmt: skip
COEFFICIENTS = "[0.01864117263397289, -0.0807953154457166, 0.0006701578887838996, -1.8e-3, 0]"
MATRIX = (
    "[526.6908296825479, 0, 312.3333507245396, 0, 525.7542623070541, 246.2279496394374, 0, 0, 1]"
)
CURE = "Correct the file or calibrate again."


def written(tmp_path, text):
    path = tmp_path / "camera.yaml"
    path.write_text(text)
    return path


def changed(*changes):
    text = KNOWN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_camera_is_read(tmp_path):
    assert read_ros(written(tmp_path, KNOWN)) == Intrinsics("rgb_camera", 640, 480, LENS)


@pytest.mark.parametrize(
    ("model", "coefficients", "kind"),
    [
        ("plumb_bob", "[1e-1, -0.2, 0.001, 0.002]", BrownConrady),
        ("rational_polynomial", "[0.1, -0.2, 0.001, 0.002, 0.3, 0.4, 0.5, 0.6]", Rational),
        ("equidistant", "[0.1, -0.2, 0.001, 0.002]", KannalaBrandt),
    ],
)
def test_every_model_is_read(tmp_path, model, coefficients, kind):
    text = changed(
        ("plumb_bob", model), (COEFFICIENTS, coefficients), ("camera_name: rgb_camera\n", "")
    )
    camera = read_ros(written(tmp_path, text))
    assert isinstance(camera.lens, kind)
    assert camera.lens.coefficients()[:4] == pytest.approx([0.1, -0.2, 0.001, 0.002])
    assert camera.name == ""


BAD = [
    ("plumb_bob", "fov",
     "distortion_model is 'fov'. Allowed: plumb_bob, rational_polynomial, equidistant. "),
    ("image_width: 640\n", "", "image_width is missing. "),
    ("image_width: 640", "image_width: wide",
     "image_width is 'wide'. It must be a positive integer of pixels. "),
    ("image_height: 480", "image_height: 0",
     "image_height is 0. It must be a positive integer of pixels. "),
    ("image_height: 480", "image_height: true",
     "image_height is True. It must be a positive integer of pixels. "),
    (MATRIX, "[1, 2, 3]", "camera_matrix.data is [1, 2, 3]. It must be a list of 9 finite numbers. "),
    (MATRIX, "[500, 0.2, 320, 0, 500, 240, 0, 0, 1]",
     "camera_matrix.data is [500, 0.2, 320, 0, 500, 240, ...]. A camera matrix is fx 0 cx, 0 fy cy, 0 0 1, without skew. "),
    (COEFFICIENTS, "[0.1]",
     "distortion_coefficients.data is [0.1]. It must be a list of 5 or 4 finite numbers. "),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "problem"), BAD)
def test_a_bad_file_is_refused_with_key_and_value(tmp_path, old, new, problem):
    path = written(tmp_path, changed((old, new)))
    assert error_text(read_ros, path) == f"{path}: {problem}{CURE}"


def test_numbers_that_no_lens_has_name_the_file(tmp_path):
    path = written(tmp_path, changed((MATRIX, "[0, 0, 320, 0, 500, 240, 0, 0, 1]")))
    assert error_text(read_ros, path) == f"{path}: fx_px of a lens is 0.0. It must be above 0."


def message(**values):
    """A message CameraInfo as ``ros2 topic echo`` prints it, twice."""
    table = {
        "header": {"stamp": {"sec": 1, "nanosec": 2}, "frame_id": "cam"},
        "height": 480,
        "width": 640,
        "distortion_model": "plumb_bob",
        "d": [0.1, -0.2, 0.001, -0.002, 0.0],
        "k": [500.0, 0.0, 320.0, 0.0, 501.0, 240.0, 0.0, 0.0, 1.0],
        **values,
    }
    return 2 * (yaml.safe_dump(table, sort_keys=False) + "---\n")


@pytest.mark.parametrize("upper", [False, True], ids=["ROS 2", "ROS 1"])
def test_a_message_that_was_printed_is_read(tmp_path, upper):
    text = message().replace("\nd:", "\nD:").replace("\nk:", "\nK:") if upper else message()
    path = tmp_path / "echo.yaml"
    path.write_text(text)
    lens = BrownConrady(500.0, 501.0, 320.0, 240.0, 0.1, -0.2, 0.001, -0.002, 0.0)
    assert read_ros(path) == Intrinsics("", 640, 480, lens)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"k": [500.0, 2.0, 320.0, 0.0, 501.0, 240.0, 0.0, 0.0, 1.0]}, "k is .* without skew"),
        ({"d": [0.1]}, "d is .* 5 or 4 finite numbers"),
        ({"width": 0}, "width is 0"),
    ],
)
def test_a_message_that_is_wrong_is_refused(tmp_path, values, problem):
    path = tmp_path / "echo.yaml"
    path.write_text(message(**values))
    with pytest.raises(InputError, match=problem):
        read_ros(path)
