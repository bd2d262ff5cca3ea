from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam.data.formats.undistortion import Undistorter
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational
from tests.support.errors import error_text

BENT = [
    BrownConrady(40.0, 42.0, 23.0, 15.0, k1=-0.2, k2=0.03, p1=0.002, p2=-0.001),
    Rational(40.0, 42.0, 23.0, 15.0, k1=0.1, k4=0.2),
]


def of_lens(dataset, lens):
    return Undistorter.from_sample(replace(dataset.samples[0], lens=lens))


@pytest.mark.parametrize("lens", BENT)
def test_the_map_is_that_of_opencv(dataset, lens):
    straightener = of_lens(dataset, lens)
    x, y = cv2.initUndistortRectifyMap(
        lens.matrix(), lens.coefficients(), None, lens.matrix(), (48, 32), cv2.CV_32FC1
    )
    np.testing.assert_allclose(straightener.source_xy, np.stack([x, y], axis=-1), atol=1e-3)


@pytest.mark.parametrize("lens", BENT)
def test_points_land_where_the_pinhole_sees_them(dataset, lens):
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(-0.3, 0.3, (20, 2)), np.ones(20)])
    straight = points @ lens.matrix().T
    columns, rows = np.round(straight[:, :2]).astype(int).T
    bent = lens.project(points)
    ramp = np.stack(np.meshgrid(np.arange(48.0), np.arange(32.0)), axis=-1).astype(np.float32)
    found = of_lens(dataset, lens).undistort_image(ramp)[rows, columns]
    assert np.abs(found - bent).max() < 1  # half a pixel of rounding


def test_a_pinhole_changes_nothing(dataset):
    straightener = of_lens(dataset, BrownConrady(40.0, 40.0, 24.0, 16.0))
    pixels = np.random.default_rng(0).integers(0, 255, (32, 48, 3), np.uint8)
    assert straightener.undistort_image(pixels) is pixels


def test_labels_are_not_mixed_and_end_in_nothing(dataset):
    ids = np.full((32, 48), 700, np.uint16)
    ids[10:20, 10:30] = 9
    lens = BrownConrady(40.0, 40.0, 24.0, 16.0, k1=0.4)  # sees less than the pinhole
    found = of_lens(dataset, lens).undistort_labels(ids)
    assert set(np.unique(found)) == {0, 9, 700}
    assert found[0, 0] == 0


@pytest.mark.parametrize(
    ("lens", "kind"),
    [
        (KannalaBrandt(20.0, 20.0, 24.0, 16.0), "lens of kind 'kannala_brandt'"),
        (None, "unknown lens"),
    ],
)
def test_what_no_pinhole_sees_is_refused(dataset, lens, kind):
    message = error_text(of_lens, dataset, lens)
    assert message == (
        f"{dataset.samples[0].rgb}: {kind}. Only images of perspective lenses can be undistorted. Export as coco, which "
        "supports all lenses."
    )
