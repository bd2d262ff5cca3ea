"""Real photos of a chessboard through a wide lens, against OpenCV's calibration of the same photos."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.adapt.calibrate.boards import find_board, find_whole, usual_shape
from sim2cam.adapt.calibrate.bundle import place_board
from sim2cam.adapt.calibrate.lens import fit_lens
from sim2cam.geometry.lens import BrownConrady

PHOTOS = Path(os.environ.get("SIM2CAM_REAL", ""), "gopro_chessboard")
SIZE = (1280, 960)


def opencv_lens(sightings):
    points = [s.points_m.astype(np.float32) for s in sightings]
    pixels = [s.pixels.astype(np.float32) for s in sightings]
    rms, matrix, bends, *_ = cv2.calibrateCamera(points, pixels, SIZE, None, None)
    middle = (float(matrix[at]) for at in ((0, 0), (1, 1), (0, 2), (1, 2)))
    return rms, BrownConrady(*middle, *bends.ravel().tolist())


@pytest.mark.real
@pytest.mark.slow
def test_it_beats_opencv_on_the_photos_and_on_those_left_out():
    if not PHOTOS.is_dir():
        pytest.skip("needs gopro_chessboard: set SIM2CAM_REAL to its folder")
    grey = {p.name: images.read_rgb(p)[..., 1].copy() for p in sorted(PHOTOS.glob("GOPR*.jpg"))}
    found = [s for name, one in grey.items() if (s := find_board(name, one, None))]
    shape = usual_shape(found)
    assert shape == (8, 6)
    whole = [
        s if s.shape == shape else find_whole(s.photo, grey[s.photo], shape) or s for s in found
    ]
    fit = fit_lens(whole, SIZE, np.random.default_rng(0))
    used = [s for s in whole if s.photo not in fit.outliers]
    assert len(used) >= 34
    rms, _ = opencv_lens(used)
    assert fit.rms_px < min(rms, 0.523)
    errors = []
    for fold in np.array_split(np.random.default_rng(0).permutation(len(used)), 5):
        _, lens = opencv_lens([used[i] for i in range(len(used)) if i not in fold])
        errors += [float((place_board(used[i], lens) ** 2).sum(axis=-1).mean()) for i in fold]
    assert fit.left_out_px[fit.kind] < 0.95 * np.sqrt(np.mean(errors))
    middle = np.array([[0.0, 0.0, 1.0], [0.3, 0.2, 1.0]])
    known = BrownConrady(560.2, 561.3, 651.2, 499.0, -0.2328, 0.0616, 0.0, 0.0001, -0.0075)
    assert fit.best().project(middle) == pytest.approx(known.project(middle), abs=2.5)
