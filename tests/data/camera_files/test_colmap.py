import pytest

from sim2cam.data.camera_files.colmap import read_colmap
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational
from tests.support.errors import error_text

KNOWN = """# Camera list with one line of data per camera:
#   CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]
# Number of cameras: 9
1 SIMPLE_PINHOLE 3072 2304 2559.81 1536 1152
2 PINHOLE 3072 2304 2560.56 2560.5 1536 1152
3 SIMPLE_RADIAL 3072 2304 2559.69 1536 1152 -0.0218531

4 RADIAL 3072 2304 2559 1536.5 1152 -0.02 1e-3
5 OPENCV 640 480 500 501 320.5 240.5 0.1 -0.2 0.001 -0.002
6 FULL_OPENCV 640 480 500 501 320.5 240.5 0.1 -0.2 0.001 -0.002 0.3 0.4 -0.5 0.6
7 OPENCV_FISHEYE 640 480 300 301 320.5 240.5 0.01 -0.02 0.003 -0.004
8 SIMPLE_RADIAL_FISHEYE 640 480 300 320.5 240.5 0.01
9 RADIAL_FISHEYE 640 480 300 320.5 240.5 0.01 -0.02
"""
LENSES = [
    BrownConrady(2559.81, 2559.81, 1535.5, 1151.5),
    BrownConrady(2560.56, 2560.5, 1535.5, 1151.5),
    BrownConrady(2559.69, 2559.69, 1535.5, 1151.5, -0.0218531),
    BrownConrady(2559.0, 2559.0, 1536.0, 1151.5, -0.02, 0.001),
    BrownConrady(500.0, 501.0, 320.0, 240.0, 0.1, -0.2, 0.001, -0.002),
    Rational(500.0, 501.0, 320.0, 240.0, 0.1, -0.2, 0.001, -0.002, 0.3, 0.4, -0.5, 0.6),
    KannalaBrandt(300.0, 301.0, 320.0, 240.0, 0.01, -0.02, 0.003, -0.004),
    KannalaBrandt(300.0, 300.0, 320.0, 240.0, 0.01),
    KannalaBrandt(300.0, 300.0, 320.0, 240.0, 0.01, -0.02),
]


def written(tmp_path, text):
    path = tmp_path / "cameras.txt"
    path.write_text(text)
    return path


def test_every_model_is_read(tmp_path):
    cameras = read_colmap(written(tmp_path, KNOWN))
    assert [camera.lens for camera in cameras] == LENSES
    assert [camera.name for camera in cameras] == list("123456789")
    assert [(camera.width, camera.height) for camera in cameras[3:5]] == [(3072, 2304), (640, 480)]


MODELS = (
    "SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL, RADIAL, OPENCV, FULL_OPENCV, SIMPLE_RADIAL_FISHEYE, "
    "RADIAL_FISHEYE, OPENCV_FISHEYE"
)
BAD = [
    ("# nothing\n", "lists no camera. Check the path."),
    ("\n7 THIN_PRISM_FISHEYE 640 480 1 2 3 4 5 6 7 8 9 10 11 12",
     f"line 2: model 'THIN_PRISM_FISHEYE' is not supported. Allowed: {MODELS}."),
    ("1 FOV 640 480 500 500 320 240 0.9",
     f"line 1: model 'FOV' is not supported. Allowed: {MODELS}."),
    ("1", f"line 1: model '' is not supported. Allowed: {MODELS}."),
    ("1 PINHOLE 640 480 500 320 240",
     "line 1: PINHOLE takes WIDTH HEIGHT fx fy cx cy, found: 1 PINHOLE 640 480 500 320 240"),
    ("1 PINHOLE 640 480 500 500 much 240",
     "line 1: PINHOLE takes WIDTH HEIGHT fx fy cx cy, found: 1 PINHOLE 640 480 500 500 much 240"),
    ("1 PINHOLE 640 480 500 500 nan 240",
     "line 1: PINHOLE takes WIDTH HEIGHT fx fy cx cy, found: 1 PINHOLE 640 480 500 500 nan 240"),
    ("1 PINHOLE 640.5 480 500 500 3 2", "line 1: 640.5 x 480 is not an image size."),
    ("1 PINHOLE 640 -480 500 500 3 2", "line 1: 640 x -480 is not an image size."),
    ("1 PINHOLE 640 480 -500 500 3 2", "line 1: fx_px of a lens is -500.0. It must be above 0."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_a_bad_file_is_refused_with_its_line(tmp_path, text, problem):
    path = written(tmp_path, text)
    assert error_text(read_colmap, path) == f"{path}: {problem}"
