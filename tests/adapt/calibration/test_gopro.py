"""Real photos of a chessboard through a wide lens, against OpenCV's calibration of the same photos."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.adapt.calibration.board_corners import (
    detect_board,
    detect_full_chessboard,
    select_common_shape,
)
from sim2cam.adapt.calibration.lens import fit_lens
from sim2cam.geometry.lens import BrownConrady

PHOTOS = Path(os.environ.get("SIM2CAM_REAL", ""), "gopro_chessboard")
SIZE = (1280, 960)


def by_opencv(sightings):
    """Returns OpenCV's error, camera matrix and distortion."""
    points = [s.points_m.astype(np.float32) for s in sightings]
    pixels = [s.corners_px.astype(np.float32) for s in sightings]
    return cv2.calibrateCamera(points, pixels, SIZE, None, None)[:3]


def off_px(sighting, matrix, bends):
    """Returns the mean squared error of a photo under OpenCV's camera, its board at its best."""
    known = sighting.points_m, sighting.corners_px, matrix, bends
    _, turn, place = cv2.solvePnP(*known)
    turn, place = cv2.solvePnPRefineLM(*known, turn, place)
    expected, _ = cv2.projectPoints(sighting.points_m, turn, place, matrix, bends)
    return float(((expected.reshape(-1, 2) - sighting.corners_px) ** 2).sum(axis=-1).mean())


@pytest.mark.real
@pytest.mark.slow
def test_it_beats_opencv_on_the_photos_and_on_those_left_out():
    if not PHOTOS.is_dir():
        pytest.skip("needs gopro_chessboard: set SIM2CAM_REAL to its folder")
    grey = {p.name: images.read_rgb(p)[..., 1].copy() for p in sorted(PHOTOS.glob("GOPR*.jpg"))}
    found = {name: detect_board(name, one, None) for name, one in grey.items()}
    shape = select_common_shape([s for s in found.values() if s])
    assert shape == (8, 6)
    whole = [
        one
        for name, s in found.items()
        if (
            one := s
            if s and s.pattern_shape == shape
            else detect_full_chessboard(name, grey[name], shape) or s
        )
    ]
    fit = fit_lens(whole, SIZE, np.random.default_rng(0))
    used = [s for s in whole if s.photo not in fit.outliers]
    assert len(used) >= 34
    rms, _, _ = by_opencv(used)
    assert fit.rms_px < min(rms, 0.523)
    errors = []
    for fold in np.array_split(np.random.default_rng(0).permutation(len(used)), 5):
        _, matrix, bends = by_opencv([used[i] for i in range(len(used)) if i not in fold])
        errors += [off_px(used[i], matrix, bends) for i in fold]
    assert fit.held_out_rms_px[fit.kind] < 0.95 * np.sqrt(np.mean(errors))
    middle = np.array([[0.0, 0.0, 1.0], [0.3, 0.2, 1.0]])
    known = BrownConrady(560.2, 561.3, 651.2, 499.0, -0.2328, 0.0616, 0.0, 0.0001, -0.0075)
    assert fit.to_lens().project(middle) == pytest.approx(known.project(middle), abs=2.5)
