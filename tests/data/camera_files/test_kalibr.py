import pytest

from sim2cam.data.camera_files.kalibr import read_kalibr
from sim2cam.errors import InputError
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt
from tests.support.errors import error_text

KNOWN = """cam0:
  camera_model: pinhole
  intrinsics: [461.629, 460.152, 362.680, 246.049]
  distortion_model: radtan
  distortion_coeffs: [-0.27695497, 0.06712482, 0.00087538, 11.556e-5]
  T_cam_imu:
  - [0.01779318, 0.99967549,-0.01822936, 0.07008565]
  - [-0.9998017, 0.01795239, 0.00860714,-0.01771023]
  - [0.00893160, 0.01807260, 0.99979678, 0.00399246]
  - [0.0, 0.0, 0.0, 1.0]
  timeshift_cam_imu: -8.121e-05
  rostopic: /cam0/image_raw
  resolution: [752, 480]
cam10:
  camera_model: pinhole
  intrinsics: [461, 460, 362, 246]
  distortion_model: none
  distortion_coeffs: []
  resolution: [752, 480]
cam2:
  camera_model: pinhole
  cam_overlaps: [0]
  intrinsics: [190.97847715128717, 190.9733070521226, 254.93170605935475, 256.8974428996504]
  distortion_model: equi
  distortion_coeffs: [0.0034823894022493434, 7e-4, -0.0020532361418706202, 0.00020293673591811182]
  resolution: [512, 512]
"""
LENSES = [
    BrownConrady(461.629, 460.152, 362.680, 246.049, -0.27695497, 0.06712482, 0.00087538, 0.00011556),
    KannalaBrandt(
        190.97847715128717, 190.9733070521226, 254.93170605935475, 256.8974428996504,
        0.0034823894022493434, 7e-4, -0.0020532361418706202, 0.00020293673591811182,
    ),
    BrownConrady(461.0, 460.0, 362.0, 246.0),
]  # fmt: skip
ONE = """cam0:
  camera_model: pinhole
  intrinsics: [461, 460, 362, 246]
  distortion_model: radtan
  distortion_coeffs: [0.1, 0, 0, 0]
  resolution: [752, 480]
"""
CURE = "Correct the file or calibrate again."


def written(tmp_path, text):
    path = tmp_path / "camchain.yaml"
    path.write_text(text)
    return path


def test_a_chain_is_read_in_its_order(tmp_path):
    cameras = read_kalibr(written(tmp_path, KNOWN))
    assert [camera.name for camera in cameras] == ["cam0", "cam2", "cam10"]
    assert [camera.lens for camera in cameras] == LENSES
    assert [(c.width, c.height) for c in cameras] == [(752, 480), (512, 512), (752, 480)]


BAD = [
    (ONE, "cam9: {}\n", "cam9.camera_model is missing. " + CURE),
    ("camera_model: pinhole", "camera_model: omni",
     f"cam0.camera_model is 'omni'. Allowed: pinhole. {CURE}"),
    ("distortion_model: radtan", "distortion_model: fov",
     f"cam0.distortion_model is 'fov'. Allowed: none, radtan, equi, equidistant. {CURE}"),
    ("  distortion_model: radtan\n", "", f"cam0.distortion_model is missing. {CURE}"),
    ("[0.1, 0, 0, 0]", "[0.1, 0]",
     f"cam0.distortion_coeffs is [0.1, 0]. It must be a list of 4 finite numbers. {CURE}"),
    ("[461, 460, 362, 246]", "[461, wide, 362, 246]",
     f"cam0.intrinsics is [461, 'wide', 362, 246]. It must be a list of 4 finite numbers. {CURE}"),
    ("[461, 460, 362, 246]", "[461, true, 362, .inf]",
     f"cam0.intrinsics is [461, True, 362, inf]. It must be a list of 4 finite numbers. {CURE}"),
    ("[461, 460, 362, 246]", "[-461, 460, 362, 246]",
     "cam0: fx_px of a lens is -461.0. It must be above 0."),
    ("[752, 480]", "[752, 0.5]",
     f"cam0.resolution is [752, 0.5]. It must be width and height in pixels. {CURE}"),
    ("[752, 480]", "752",
     f"cam0.resolution is 752. It must be a list of 2 finite numbers. {CURE}"),
    (ONE, "cam0: pinhole\n", f"cam0 is 'pinhole'. It must be a table. {CURE}"),
    ("cam0", "camera", "has no camera cam0. Check the path."),
    (ONE, "- 1\n- 2\n", "has no table of keys and values. Check the path."),
    (ONE, "", "has no table of keys and values. Check the path."),
    ("intrinsics: [", "intrinsics: [[", f"not YAML in line 4. {CURE}"),
    (ONE, "a: !!python/object/apply:os.getcwd []\n", f"not YAML in line 1. {CURE}"),
    ("[752, 480]", "2024-99-99", f"not YAML (month must be in 1..12). {CURE}"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "problem"), BAD)
def test_a_bad_file_is_refused_with_key_and_value(tmp_path, old, new, problem):
    assert old in ONE
    path = written(tmp_path, ONE.replace(old, new))
    assert error_text(read_kalibr, path) == f"{path}: {problem}"


def test_a_value_that_repeats_itself_endlessly_is_shown_in_short(tmp_path):
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    path = written(tmp_path, "\n".join(rows) + "\n" + ONE.replace("[752, 480]", "*a29"))
    with pytest.raises(InputError, match=r"cam0\.resolution is \[\[\[") as caught:
        read_kalibr(path)
    assert len(str(caught.value)) < 300 + len(str(path))
