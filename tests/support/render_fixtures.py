"""Small scenes with known answers, and the rasterizers that can run here."""

from types import SimpleNamespace

import numpy as np
import pytest

from sim2cam.errors import BackendError
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.objects.die import Die, Pips
from sim2cam.objects.primitives import Cuboid, Ground, Sphere
from sim2cam.render.backends.mitsuba import PathTracedRasterizer
from sim2cam.render.backends.opengl.rasterizer import OpenGLRasterizer
from sim2cam.render.backends.tiny_renderer import TinyRasterizer
from sim2cam.render.depth.infrared import (
    DepthCameraInput,
    compute_incidence_cosines,
    compute_ray_lengths,
)
from sim2cam.render.gbuffer import LABEL_CHANNELS, PinholeView, convert_to_instance_ids
from sim2cam.render.optics.warp import warp_labels
from sim2cam.render.renderer import get_renderer
from sim2cam.scene.camera import Camera
from sim2cam.scene.light import Environment, Lamp
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.sensor import Sensor

WHITE, GREY, BLACK = (0.8, 0.8, 0.8), (0.3, 0.3, 0.3), (0.01, 0.01, 0.01)
RED = (0.7, 0.02, 0.02)
SKY = Environment((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), (Lamp((0.0, 0.6, 0.8), 0.2, (1.0, 1.0, 1.0)),))
NEUTRAL = Sensor(
    exposure_ev=0.0, red_gain=1.0, blue_gain=1.0, vignetting=0.0, blur_px=0.0, full_well_e=1e6,
    read_noise_e=0.0, denoise=0.0, tone_contrast=1.0, saturation=1.0, sharpening=0.0,
    jpeg_quality=95, noise_seed=0,
)  # fmt: skip


def plain(color, roughness=0.9):
    return Material(Texture("plain", color, color, 0.01, 0.0, 0.0, 0), roughness, 0.02)


def die(edge_m=0.016, *, mirrored=False, color=BLACK, shape="round"):
    return Die(edge_m, 0.1, 0.3, Pips(shape, 0.09, 0.25, 0.02, color), mirrored)


def body(name, asset, position, color=RED, *, rotation=(1.0, 0.0, 0.0, 0.0), **options):
    defaults = {"is_target": True, "mass_kg": 0.005}
    return Body(name, asset, plain(color), Pose(rotation, position), **(defaults | options))


def ground(color=GREY, side_m=6.0):
    return body("table", Ground(side_m), (0.0, 0.0, 0.0), color, is_target=False, is_fixed=True)


def camera(eye=(0.05, -0.25, 0.45), target=(0.0, 0.0, 0.0), *, width=320, height=240, **lens):
    focal = lens.pop("focal_px", 400.0)
    middle = {"cx_px": lens.pop("cx_px", (width - 1) / 2), "cy_px": lens.pop("cy_px", 119.5)}
    pose = Pose.look_at(eye, target, 0.0)
    return Camera(pose, width, height, BrownConrady(focal, focal, **middle, **lens), NEUTRAL)


def view(of):
    lens = of.lens
    return PinholeView(of.pose, of.width, of.height, lens.fx_px, lens.cx_px, lens.cy_px)


def rays(view):
    """Directions (h, w, 3) in the world whose depth is 1, and the camera's place."""
    x, y = np.meshgrid(np.arange(view.width), np.arange(view.height))
    x, y = (x - view.cx_px) / view.focal_px, (y - view.cy_px) / view.focal_px
    rays = np.stack([x, y, np.ones_like(x)], axis=-1)
    turned = view.pose.rotation().apply(rays.reshape(-1, 3)).reshape(rays.shape)
    return turned, np.array(view.pose.position_m)


def scene(*bodies, cameras=(), environment=SKY):
    return Scene((ground(), *bodies), environment, tuple(cameras))


def thrown(count=5, seed=0):
    """A scene of dice in the air, apart from one another."""
    rng = np.random.default_rng(seed)
    dice = []
    for i in range(count):
        w, x, y, z = rng.normal(size=4)
        n = float(np.sqrt(w * w + x * x + y * y + z * z))
        rotation = (float(w) / n, float(x) / n, float(y) / n, float(z) / n)
        spot = (float(rng.uniform(-0.04, 0.04)), float(rng.uniform(-0.04, 0.04)), 0.03 * (i + 1))
        dice.append(
            body(f"die/{i}", die(mirrored=bool(i % 2)), spot, rotation=rotation,
                 velocity_m_s=(0.2, 0.0, 0.0), spin_rad_s=(0.0, 8.0, 0.0))
        )  # fmt: skip
    return scene(*dice, cameras=[camera()])


def labels(stage, of):
    """What a stage draws of a view, with ids, by attribute."""
    return _with_ids(stage, stage.render(of, LABEL_CHANNELS))


def labels_under(stage, optics):
    """The same, through a lens."""
    return _with_ids(stage, warp_labels(optics, lambda view: stage.render(view, LABEL_CHANNELS)))


def radiance(stage):
    """A function that draws the radiance of a view."""
    return lambda of: stage.render(of, ("radiance",))["radiance"]


def _with_ids(stage, drawn):
    return SimpleNamespace(ids=convert_to_instance_ids(stage.scene, drawn["bodies"]), **drawn)


def compute_lambertian_return(view, depth_m, reflectance, normals=None):
    """The light that matt surfaces return to a lamp at the lens, by Lambert's and the inverse-square law."""
    inputs = DepthCameraInput(depth_m, reflectance, normals)
    distance = np.where(depth_m > 0, depth_m * compute_ray_lengths(view), np.inf)
    cosines = compute_incidence_cosines(view, inputs)
    return np.asarray(reflectance * cosines / distance**2, dtype=np.float32)


class Caster:
    """A stage by arithmetic: a sphere before an endless wall, with a pattern on both.

    Args:
        sphere: centre (3,) and radius in the world, metres; it is body 1.
        wall: a point (3,) of it and its normal (3,) in the world, metres.
    """

    def __init__(self, sphere, wall):
        self.sphere, self.wall = sphere, wall
        self.drawn = []
        self.scene = scene(body("ball", Sphere(sphere[1]), sphere[0]))

    def render(self, view, _channels):
        self.drawn.append(view)
        rays = self._rays(view)
        distance, ids = self.hits(np.array(view.pose.position_m), rays.reshape(-1, 3))
        depth = distance.reshape(view.height, view.width)  # the rays reach the plane z = 1
        ids = ids.reshape(depth.shape)
        return {
            "depth_m": np.where(ids < 0, 0, depth).astype(np.float32),
            "bodies": (ids + 1).astype(np.uint32),
            "cover": np.maximum(ids, 0).astype(np.uint32)[..., None],
        }

    def hits(self, eye, rays):
        """Returns how many rays (n, 3) long the way is to what they meet, and its id; -1 nothing."""
        away = np.full(len(rays), np.inf)
        ids = np.full(len(rays), -1)
        point, normal = map(np.array, self.wall)
        with np.errstate(divide="ignore"):
            meets = (point - eye) @ normal / (rays @ normal)
        ids[meets > 0], away[meets > 0] = 0, meets[meets > 0]
        centre, radius = self.sphere
        to_centre = np.array(centre) - eye
        square, along = (rays * rays).sum(axis=1), rays @ to_centre
        inside = along**2 - square * (to_centre @ to_centre - radius**2)
        meets = (along - np.sqrt(np.maximum(inside, 0))) / square
        nearer = (inside > 0) & (meets > 0) & (meets < away)
        ids[nearer], away[nearer] = 1, meets[nearer]
        return away, ids

    def _rays(self, view):
        x, y = np.meshgrid(np.arange(view.width), np.arange(view.height))
        x, y = (x - view.cx_px) / view.focal_px, (y - view.cy_px) / view.focal_px
        return np.stack([x, y, np.ones_like(x)], axis=-1) @ view.pose.matrix()[:3, :3].T


@pytest.fixture(scope="session")
def make():
    """The builders above, as one namespace."""

    class Builders:
        RED, WHITE, GREY, BLACK = RED, WHITE, GREY, BLACK
        neutral, sky = NEUTRAL, SKY
        plain, die, body, ground = map(staticmethod, (plain, die, body, ground))
        camera, view, scene, thrown = map(staticmethod, (camera, view, scene, thrown))
        rays = staticmethod(rays)
        labels, labels_under, radiance = map(staticmethod, (labels, labels_under, radiance))
        box, sphere = Cuboid, Sphere
        caster = Caster

    return Builders


@pytest.fixture(scope="session")
def tiny():
    return TinyRasterizer()


@pytest.fixture(scope="session")
def egl():
    """This process's OpenGL context: a second one would disturb it."""
    found = get_renderer().rasterizer
    if isinstance(found, OpenGLRasterizer):
        return found
    try:
        return OpenGLRasterizer("egl")
    except BackendError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def pathtraced(tiny):
    """The path tracer with few paths, labelled by what runs everywhere."""
    pytest.importorskip("mitsuba", reason="the extra 'reference' is not installed")
    return PathTracedRasterizer(tiny, samples_per_pixel=16)


@pytest.fixture(params=["egl", "tiny"])
def drawing(request):
    """Each rasterizer that runs here."""
    return request.getfixturevalue(request.param)
