"""What is drawn against rays cast by arithmetic: at a plane, a cuboid, a ball and any mesh."""

import cv2
import numpy as np
import pytest

from sim2cam.objects import primitives
from sim2cam.objects.primitives import Cylinder
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.renderer import Stage

CHANNELS = ("depth_m", "bodies", "normals")
TURNED = (0.8, 0.2, -0.4, 0.4)


@pytest.fixture(scope="module")
def view(make):
    """Near, from aside, with the principal point off the middle."""
    eye = (0.06, -0.16, 0.14)
    lens = {"focal_px": 260.0, "cx_px": 70.3, "cy_px": 60.8}
    return make.view(make.camera(eye, (0.0, 0.0, 0.02), width=160, height=120, **lens))


def local_rays(make, view, pose):
    """Rays (n, 3) of all pixels, 1 deep, and the eye (3,), in a body's frame."""
    rays, eye = make.rays(view)
    turn = pose.inverse().rotation()
    return turn.apply(rays.reshape(-1, 3)), pose.inverse().apply(eye[None])[0]


def at_plane(rays, eye):
    """Depths (n,) and normals (n, 3) of the plane z = 0; infinite where it is not met."""
    with np.errstate(divide="ignore"):
        depth = -eye[2] / rays[:, 2]
    return np.where(depth > 0, depth, np.inf), np.tile([0.0, 0.0, 1.0], (len(rays), 1))


def at_ball(rays, eye, radius):
    square, along = (rays**2).sum(axis=1), rays @ eye
    left = along**2 - square * (eye @ eye - radius**2)
    depth = np.where(left > 0, (-along - np.sqrt(left.clip(0))) / square, np.inf)
    met = np.where(np.isfinite(depth), depth, 0)[:, None] * rays + eye
    return depth, met / radius


def at_box(rays, eye, size):
    """The slabs of Kay and Kajiya 1986."""
    with np.errstate(divide="ignore"):
        ends = np.sort((np.array([[-0.5], [0.5]]) * size - eye)[:, None] / rays, axis=0)
    enters, leaves = ends[0].max(axis=1), ends[1].min(axis=1)
    axis = ends[0].argmax(axis=1)
    normals = -np.sign(rays) * np.eye(3)[axis]
    return np.where(enters < leaves, enters, np.inf), normals


def at_mesh(rays, eye, mesh):
    """The nearest triangle (Moller and Trumbore 1997), its normals mixed over it."""
    depth, normals = np.full(len(rays), np.inf), np.zeros((len(rays), 3))
    for corners in mesh.faces:
        a, b, c = mesh.vertices_m[corners]
        side = np.cross(rays, c - a)
        area = side @ (b - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            v = side @ (eye - a) / area
            across = np.cross(eye - a, b - a)
            w = rays @ across / area
            away = (c - a) @ across / area
        met = (area > 0) & (v >= 0) & (w >= 0) & (v + w <= 1) & (away < depth)
        depth[met] = away[met]
        shares = np.stack([1 - v - w, v, w], axis=1)[met]
        normals[met] = shares @ mesh.normals[corners]
    return depth, normals


def assert_drawn_as_cast(drawing, make, view, body, cast):
    """Compares one body over the table with rays cast at it in its own frame."""
    scene = make.scene(body)
    stage = Stage(scene, drawing)
    channels = [name for name in CHANNELS if name in drawing.channels]
    drawn = stage.render(view, channels)
    depth, normals = cast(*local_rays(make, view, body.pose))
    table, _ = at_plane(*local_rays(make, view, scene.bodies[0].pose))
    shape = drawn["bodies"].shape
    mask, seen = (depth < table).reshape(shape), drawn["bodies"] == 2
    assert mask.sum() > 2000
    assert (mask & seen).sum() / (mask | seen).sum() > 0.999
    both = mask & seen
    ground = ~mask & ~seen
    assert np.abs(drawn["depth_m"][both] / depth.reshape(shape)[both] - 1).max() < 1e-4
    assert np.abs(drawn["depth_m"][ground] / table.reshape(shape)[ground] - 1).max() < 1e-4
    if "normals" in drawn:
        assert_normals(drawn["normals"], normals.reshape(*shape, 3), both, body.pose, view)
        up = np.broadcast_to([0.0, 0.0, 1.0], (*shape, 3))
        assert_normals(drawn["normals"], up, ground, scene.bodies[0].pose, view)


def assert_normals(drawn, cast, where, pose, view):
    """Compares unit normals, those cast being in a body's frame.

    Not at silhouettes, where a ball's bend away fast from those of its faces; and a pixel on the
    very edge of a cuboid may see either side.
    """
    inner = cv2.erode(where.astype(np.uint8), np.ones((3, 3))) > 0
    found = cast[inner] / np.linalg.norm(cast[inner], axis=1, keepdims=True)
    expected = (view.pose.inverse() @ pose).rotation().apply(found)
    assert np.quantile(np.abs(drawn[inner] - expected).max(axis=1), 0.999) < 1e-4


@pytest.mark.parametrize("rotation", [(1.0, 0.0, 0.0, 0.0), TURNED])
def test_a_cuboid_is_rendered_as_rays_meet_it(drawing, make, view, rotation):
    size = (0.05, 0.04, 0.03)
    body = make.body("box", make.box(size), (0.0, 0.0, 0.04), rotation=rotation)
    cast = lambda rays, eye: at_box(rays, eye, np.array(size))  # noqa: E731
    assert_drawn_as_cast(drawing, make, view, body, cast)


def test_a_ball_of_many_faces_is_rendered_as_rays_meet_a_ball(egl, make, view, monkeypatch):
    monkeypatch.setattr(primitives, "SEGMENTS", 800)
    monkeypatch.setattr(primitives, "_SPHERE_RINGS", 400)
    radius = 0.0301
    body = make.body("ball", make.sphere(radius), (0.0, 0.0, 0.03))
    assert_drawn_as_cast(egl, make, view, body, lambda rays, eye: at_ball(rays, eye, radius))


def test_nothing_has_no_normal(egl, make):
    stage = Stage(make.scene(), egl)
    drawn = stage.render(make.view(make.camera((0.0, 0.0, 0.2), (0.0, 1.0, 0.3))), CHANNELS)
    nothing = drawn["bodies"] == 0
    assert nothing.sum() > 1000
    assert not drawn["normals"][nothing].any()


SHAPES = ("die", "sphere", "cylinder")


@pytest.mark.parametrize("name", SHAPES)
def test_a_mesh_is_rendered_as_rays_meet_its_triangles(drawing, make, view, name):
    shape = {
        "die": make.die(0.05),
        "sphere": make.sphere(0.03),
        "cylinder": Cylinder(0.025, 0.04),
    }[name]
    body = make.body(name, shape, (0.0, 0.0, 0.04), rotation=TURNED)
    mesh = build_mesh(shape)
    assert_drawn_as_cast(drawing, make, view, body, lambda rays, eye: at_mesh(rays, eye, mesh))
