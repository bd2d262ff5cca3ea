from pathlib import Path

import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.adapt.calibration.photo_measurements import list_photo_files
from sim2cam.data.formats import video
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import InputError


@pytest.fixture
def film(tmp_path):
    """A video of ten frames, each brighter than the one before."""
    path = tmp_path / "film.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (96, 64))
    for number in range(10):
        writer.write(np.full((64, 96, 3), 20 * number + 20, np.uint8))
    writer.release()
    return path


@pytest.mark.parametrize(
    ("most", "numbers"), [(300, range(10)), (10, range(10)), (4, [0, 3, 6, 9]), (1, [0])]
)
def test_frames_from_the_first_to_the_last_are_captures(film, monkeypatch, tmp_path, most, numbers):
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(video, "MAX_FRAMES", most)
    captures = read_real_images(film)
    assert [s.name for s in captures.samples] == [f"film/{n:06d}" for n in numbers]
    assert [s.frame_info.frame_index for s in captures.samples] == list(numbers)
    assert [s.frame_info.first_row_s for s in captures.samples] == pytest.approx(
        np.multiply(numbers, 0.1)
    )
    assert {(s.frame_info.row_s, s.frame_info.exposure_s, s.frame_info.camera_pose) for s in captures.samples} == {(None,) * 3}  # fmt: skip
    assert len({s.scene_index for s in captures.samples}) == 1
    assert {(s.width, s.height, s.objects, s.origin) for s in captures.samples} == {(96, 64, None, "real")}  # fmt: skip
    levels = [images.read_rgb(s.rgb).mean() for s in captures.samples]
    assert levels == pytest.approx([20 * n + 20 for n in numbers], abs=3)
    assert read_real_images(film) == captures  # from the cache


def test_it_is_told_how_many_frames_are_taken(film, monkeypatch, tmp_path):
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(video, "MAX_FRAMES", 4)
    for _ in ("from the film", "from the cache"):
        assert video.describe_frame_selection(read_real_images(film)) == (
            f"{film}: 4 of 10 frames are used, evenly spaced. To use all frames, extract them to a folder."
        )
    folder = read_real_images(film).samples[0].rgb.parent
    assert video.describe_frame_selection(read_real_images(folder)) is None
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(video, "MAX_FRAMES", 10)
    assert video.describe_frame_selection(read_real_images(film)) is None


def test_a_camera_is_told_from_a_video_too(film):
    captures, refused = list_photo_files(film)
    assert (len(captures), refused) == (10, {})


def test_what_is_no_video_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "film.mp4").write_bytes(b"no video" * 100)
    with pytest.raises(InputError, match="not a video that OpenCV can read"):
        read_real_images(tmp_path / "film.mp4")
    assert not any((tmp_path / "cache").rglob("*.png"))


def test_a_name_that_looks_like_an_address_is_a_file(film, monkeypatch):
    monkeypatch.chdir(film.parent)
    path = film.rename("12:30.avi")
    assert len(list(images.read_video(Path(path)))) == 10
    assert images.read_frame_rate_hz(Path("12:30.avi")) == pytest.approx(10)
