import numpy as np
import pytest

from sim2cam.geometry.poses import Pose
from sim2cam.objects.primitives import Cuboid, Sphere
from sim2cam.render.backends.silhouette import rasterize_silhouette
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.meshes.mesh import build_mesh

VIEW = PinholeView(Pose(), 320, 240, 400.0, 159.5, 119.5)


def whole(asset, position, view=VIEW):
    """The silhouette in the full picture."""
    picture = np.zeros((view.height, view.width), bool)
    window, mask = rasterize_silhouette(build_mesh(asset), Pose(position_m=position), view)
    picture[window] = mask
    return picture


def test_a_square_covers_the_pixels_whose_centres_lie_in_it():
    # Its front is 1 m away and 20.5 x 10.2 pixels large around pixel (159.5, 119.5).
    box = Cuboid((20.5 / 400, 10.2 / 400, 0.2))
    rows, columns = np.nonzero(whole(box, (0.0, 0.0, 1.1)))
    assert (columns.min(), columns.max()) == (150, 169)
    assert (rows.min(), rows.max()) == (115, 124)
    assert len(rows) == 200


@pytest.mark.parametrize("radius_px", [5.05, 30.0, 90.0])
def test_a_ball_covers_its_disc(radius_px):
    y, x = np.mgrid[:240, :320]
    found = whole(Sphere(radius_px / 400), (0.02, -0.01, 1.0))
    # Seen from d, the rim of a ball of radius r appears at r / sqrt(d^2 - r^2), off axis a little more.
    reach = radius_px / np.sqrt(1 - (radius_px / 400) ** 2)
    disc = np.hypot(x - 167.5, y - 115.5) < reach
    assert abs(found.sum() / disc.sum() - 1) < 0.03
    assert (found & disc).sum() / (found | disc).sum() > 0.94


def test_a_larger_image_does_not_need_more_memory_than_it_has():
    close = PinholeView(Pose(), 3000, 3000, 3000.0, 1499.5, 1499.5)
    found = whole(Cuboid((0.8, 0.8, 0.2)), (0.0, 0.0, 1.1), close)
    assert found.sum() == pytest.approx(2400**2, rel=1e-3)


@pytest.mark.parametrize("position", [(5.0, 0.0, 1.0), (0.0, 0.0, -1.0), (0.0, 0.0, 0.0)])
def test_what_lies_beside_or_behind_covers_nothing(position):
    assert not whole(Sphere(0.01), position).any()


def test_the_image_s_edge_cuts_it():
    found = whole(Cuboid((0.2, 0.2, 0.2)), (159.5 / 400, 0.0, 1.1))
    assert found[:, -1].sum() == pytest.approx(80, abs=1)
    assert np.flatnonzero(found.any(axis=0)).min() == pytest.approx(260, abs=1)  # of its far side
