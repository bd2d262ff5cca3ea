"""Concave objects collide as they look."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh

from sim2cam.assets import decomposition
from sim2cam.assets.convex_hull import (
    compute_hull,
    compute_inertia,
    decompose_content,
    uniform_inertia,
)
from sim2cam.assets.decomposition import decompose
from sim2cam.assets.folder import list_assets
from sim2cam.assets.importer import import_assets
from sim2cam.assets.mesh import build_collider, parse_file, read_mesh_file
from sim2cam.assets.mesh_cache import MeshContent
from sim2cam.geometry.inertia import compute_center_of_mass, compute_principal_axes
from sim2cam.geometry.poses import Pose
from sim2cam.objects.primitives import Cuboid, Ground
from sim2cam.render.physics.simulation import simulate
from sim2cam.scene.light import Environment
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body, Scene
from sim2cam.surfaces.mesh import Mesh

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*has no normals")

GREY = Material(Texture("plain", (0.5,) * 3, (0.5,) * 3, 0.1, 0.0, 0.0, 0), 0.5)
DARK = Environment((0.0,) * 3, (0.0,) * 3, ())
RADIUS, WALL, HEIGHT = 0.03, 0.005, 0.08


def cup():
    """A cup with a floor, standing on z = 0."""
    outline = [
        (0, 0), (RADIUS + WALL, 0), (RADIUS + WALL, HEIGHT), (RADIUS, HEIGHT), (RADIUS, WALL),
        (0, WALL),
    ]  # fmt: skip
    return trimesh.creation.revolve(outline, sections=48)


@pytest.fixture(scope="module")
def brought_in(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cups")
    cup().export(folder / "cup.ply")
    (found,) = import_assets(folder, list_assets(folder))
    assert found.error is None
    return found.info


@pytest.fixture(params=["vhacd", "coacd"])
def cut(request, monkeypatch):
    """Each of the two libraries, where it is there."""
    if request.param == "coacd":
        pytest.importorskip("coacd")
    monkeypatch.setattr(decomposition, "get_decomposer", lambda: request.param)
    return request.param


@pytest.mark.usefixtures("cut")
def test_parts_fill_the_solid_and_leave_its_hollow():
    solid = cup()
    hull = compute_hull(solid.vertices)
    parts = decompose(np.array(solid.vertices), np.array(solid.faces), hull.points)
    assert 2 < len(parts) <= decomposition.MAX_PARTS
    whole = [trimesh.convex.convex_hull(part) for part in parts]
    assert sum(part.volume for part in whole) == pytest.approx(solid.volume, rel=0.35)
    center = compute_center_of_mass(uniform_inertia(parts))
    assert np.abs(center[:2]).max() < 2e-3
    assert center[2] == pytest.approx(solid.center_mass[2], abs=6e-3)
    inside = [[0, 0, 0.03], [0.01, 0, 0.07], [0, -0.015, 0.05]]
    for part in whole:
        planes = np.column_stack(
            [part.face_normals, -(part.face_normals * part.triangles[:, 0]).sum(1)]
        )
        away = np.array(inside) @ planes[:, :3].T + planes[:, 3]
        assert (away.max(axis=1) > 0).all()


@pytest.mark.usefixtures("cut")
def test_parts_lie_on_a_plane_as_their_solid_does():
    solid = cup()
    hull = compute_hull(solid.vertices)
    points = np.vstack(decompose(np.array(solid.vertices), np.array(solid.faces), hull.points))
    directions = np.random.default_rng(0).normal(size=(50, 3))
    for direction in directions / np.linalg.norm(directions, axis=1, keepdims=True):
        assert (points @ direction).max() == pytest.approx(
            (hull.points @ direction).max(), abs=1e-7
        )


def test_object_dropped_into_cup_stays_inside(brought_in):
    cube = Cuboid((0.012,) * 3)
    bodies = (
        Body("table", Ground(2.0), GREY, Pose(), is_fixed=True),
        Body("cup", brought_in.mesh, GREY, _upright(brought_in), mass_kg=0.1),
        Body(
            "cube",
            cube,
            GREY,
            Pose((1.0, 0, 0, 0), (0.004, 0, 0.12)),
            mass_kg=0.003,
            restitution=0.0,
        ),
    )
    assert brought_in.n_convex_parts > 2
    settled, certificate = simulate(Scene(bodies, DARK, ()))
    assert certificate.rejection is None
    x, y, z = settled.bodies[2].pose.position_m
    assert np.hypot(x, y) < RADIUS
    assert z == pytest.approx(WALL + 0.006, abs=3e-3)
    as_hull = replace(bodies[1], asset=replace(brought_in.mesh, digest=""))
    kept_out, _ = simulate(Scene((bodies[0], as_hull, bodies[2]), DARK, ()))
    x, y, z = kept_out.bodies[2].pose.position_m
    assert np.hypot(x, y) > RADIUS or z > HEIGHT


def test_cup_has_mass_in_walls_only(brought_in):
    solid = cup()
    frame, moments = compute_principal_axes(build_collider(brought_in.mesh).inertia)
    assert frame.position_m == pytest.approx(solid.center_mass, abs=1e-6)
    expected = np.diag(solid.moment_inertia) / solid.volume
    assert moments == pytest.approx(expected, rel=1e-4)
    assert brought_in.center_m == pytest.approx(solid.center_mass, abs=1e-6)


def test_inconsistent_winding_uses_hull_inertia():
    """Two balls beside each other, of which the surface of one looks inwards."""
    balls = [trimesh.creation.icosphere(2, radius) for radius in (0.03, 0.02)]
    balls[1].apply_translation((0.1, 0.0, 0.0))
    balls[1].invert()
    both = trimesh.util.concatenate(balls)
    places, ones = np.array(both.vertices), np.ones(len(both.vertices), np.uint32)
    mesh = Mesh(places, places, places, places[:, :2], np.array(both.faces), ones)
    found = compute_inertia(MeshContent(mesh, None, is_closed=True), ())
    assert np.array_equal(found, uniform_inertia([compute_hull(places).points]))


def test_a_cup_stands_on_the_table(brought_in):
    table = Body("table", Ground(2.0), GREY, Pose(), is_fixed=True)
    body = Body("cup", brought_in.mesh, GREY, _upright(brought_in), mass_kg=0.1)
    settled, _ = simulate(Scene((table, body), DARK, ()))
    low, high = brought_in.low_m, brought_in.high_m
    assert (high[2] - low[2], low[2]) == pytest.approx((HEIGHT, 0.0), abs=1e-6)
    foot = settled.bodies[1].pose.apply(np.array([[0.0, 0.0, low[2]]]))[0]
    assert foot == pytest.approx((0, 0, 0), abs=1e-3)


def _upright(facts):
    return Pose((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.001 - facts.low_m[2]))


def test_decomposition_is_equal_in_another_process(brought_in):
    here = decompose_content(parse_file(Path(brought_in.mesh.path), 1000).content)
    there = read_mesh_file(brought_in.mesh)  # as a child left it in the cache
    assert len(here.parts) == brought_in.n_convex_parts > 2
    for one, other in zip(here.parts, there.parts, strict=True):
        assert np.array_equal(one, other)
