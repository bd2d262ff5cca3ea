"""Residuals of board corners in a camera file."""

import base64

import numpy as np
import pytest

from sim2cam.adapt.calibration.corner_residuals import (
    MAX_CORNERS,
    pack_residuals,
    unpack_residuals,
)


def test_residuals_survive_packing_up_to_rounding():
    corners = np.array([[0.4, 3999.0], [12.0, 7.6]])
    residuals = np.array([[0.126, -0.304], [-5.0, 0.0]])
    rows = unpack_residuals(
        pack_residuals([corners[:1], corners[1:]], [residuals[:1], residuals[1:]])
    )
    assert rows.tolist() == [[0, 3999, pytest.approx(0.13), pytest.approx(-0.3)], [12, 8, -5, 0]]


def test_many_corners_are_thinned_evenly():
    corners = np.stack([np.arange(3 * MAX_CORNERS), np.zeros(3 * MAX_CORNERS)], axis=1)
    rows = unpack_residuals(pack_residuals([corners], [np.zeros_like(corners)]))
    assert len(rows) == MAX_CORNERS
    assert (rows[0, 0], rows[-1, 0]) == (0, 3 * MAX_CORNERS - 1)
    assert len(unpack_residuals("")) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [("?", "not base64"), (base64.b64encode(b"abc").decode(), "rows of 8 bytes")],
)
def test_damaged_texts_are_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        unpack_residuals(text)
