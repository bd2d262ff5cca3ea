"""Test scene of all renderers: dice and balls on a table, settled by physics."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam import images
from sim2cam.files import write_bytes
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.objects.die import Die, Pips
from sim2cam.objects.primitives import Ground, Sphere
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.texture_set import build_texture_set
from sim2cam.render.physics.simulation import simulate
from sim2cam.scene.camera import Camera
from sim2cam.scene.light import Environment, Lamp
from sim2cam.scene.material import Color, Material, Texture, TextureFamily
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.sensor import Sensor
from sim2cam.scene.shape import Shape

SIDE_PX = 512
EXPOSURE = 1.0
"""Factor of linear light in displayed images."""

_DIE_M, _BALL_M = 0.04, 0.022
_SPACING_M = 0.075
_FOCAL_PX = 760.0
_DIE_TEXTURES: tuple[TextureFamily, ...] = ("marble", "fbm", "wood", "stains", "plain")
_BALL_TEXTURES: tuple[TextureFamily, ...] = ("worley", "checker", "wood", "speckle", "perlin")
_NEUTRAL = Sensor(
    exposure_ev=0.0, red_gain=1.0, blue_gain=1.0, vignetting=0.0, blur_px=0.0, full_well_e=1e6,
    read_noise_e=0.0, denoise=0.0, tone_contrast=1.0, saturation=1.0, sharpening=0.0,
    jpeg_quality=92, noise_seed=0,
)  # fmt: skip


@dataclass(frozen=True)
class Tabletop:
    """Settled scenes that differ only in the poses of their bodies.

    Attributes:
        name: name of the tabletop.
        frames: scenes.
    """

    name: str
    frames: tuple[Scene, ...]

    def objects(self) -> int:
        """Return the number of bodies on the table."""
        return len(self.frames[0].bodies) - 1

    def triangles(self) -> int:
        """Return the number of triangles, including the table."""
        return sum(len(build_mesh(body.asset).faces) for body in self.frames[0].bodies)


def make_tabletop(name: str, objects: int, frames: int) -> Tabletop:
    """Return a tabletop of alternating dice and balls, thrown for each frame.

    Args:
        name: name of the tabletop.
        objects: number of objects, each with its own colours.
        frames: number of throws.
    """
    rng = np.random.default_rng(0)
    columns = math.ceil(math.sqrt(objects))
    table = Body("table", Ground(4.0), _make_table_material(), Pose(), is_fixed=True)
    bodies = [_make_object(i, rng) for i in range(objects)]
    scene = Scene((table, *bodies), _make_light(), (_make_camera(columns * _SPACING_M),))
    return Tabletop(name, tuple(simulate(_throw(scene, columns, rng))[0] for _ in range(frames)))


def export_tabletop(tabletop: Tabletop, folder: Path) -> None:
    """Write a tabletop for ``peers/measure.py`` and sim2cam."""
    folder.mkdir(parents=True, exist_ok=True)
    scene = tabletop.frames[0]
    camera, lamp = scene.cameras[0], scene.environment.lamps[0]
    arrays: dict[str, NDArray[Any]] = {
        "poses": np.array([[b.pose.matrix() for b in frame.bodies] for frame in tabletop.frames]),
        "camera": camera.pose.matrix(),
    }
    bodies = [_export_body(body, i, folder, arrays) for i, body in enumerate(scene.bodies)]
    facts = {
        "bodies": bodies,
        "width": camera.width,
        "height": camera.height,
        "focal_px": _FOCAL_PX,
        "to_light": lamp.direction,
        "irradiance": lamp.irradiance,
        "light_radius_rad": lamp.radius_rad,
        "sky": scene.environment.zenith,
    }
    np.savez(folder / "tabletop.npz", **arrays)  # type: ignore[arg-type]
    (folder / "tabletop.json").write_text(json.dumps(facts), encoding="utf-8")
    scenes = "".join(f"{frame.to_json()}\n" for frame in tabletop.frames)
    (folder / "scenes.jsonl").write_text(scenes, encoding="utf-8")


def _export_body(
    body: Body, index: int, folder: Path, arrays: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    """Add the arrays of a body, write its texture and return its other attributes."""
    mesh, skin = build_mesh(body.asset), build_texture_set(body)
    colors, uvs = unmirror_texture(skin.colors, mesh.uvs * skin.uv_scale)
    upright = np.ascontiguousarray(colors[::-1])
    texture_name = f"{index}.png"
    write_bytes(folder / texture_name, images.encode_png(upright))
    arrays |= {
        f"{index}/vertices_m": mesh.vertices_m,
        f"{index}/normals": mesh.normals,
        f"{index}/uvs": uvs,
        f"{index}/faces": mesh.faces,
        f"{index}/pixels": upright,
    }
    material = body.material
    return {
        "picture": texture_name,
        "roughness": material.roughness,
        "specular": material.specular,
    }


def unmirror_texture(
    colors: NDArray[np.uint8], uvs: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return a texture for plain repetition and its uv coordinates, which are not negative.

    sim2cam's textures repeat mirrored, which few renderers support. The returned texture contains all four
    mirrored copies.

    Args:
        colors: (h, w, 3), row 0 at v = 0.
        uvs: (n, 2) on it.
    """
    if uvs.min() >= 0 and uvs.max() <= 1:
        return colors, uvs
    wide = np.concatenate([colors, colors[:, ::-1]], axis=1)
    uvs = uvs / 2
    return np.concatenate([wide, wide[::-1]], axis=0), uvs - np.floor(uvs.min(axis=0))


def _make_object(index: int, rng: np.random.Generator) -> Body:
    is_die = index % 2 == 0
    families = _DIE_TEXTURES if is_die else _BALL_TEXTURES
    family = families[index // 2 % len(families)]
    scale_m = 0.012 if is_die else 0.015
    texture = Texture(family, _sample_color(rng), _sample_color(rng), scale_m, 0.8, 0.5, index)
    pips = Pips("round", 0.09, 0.25, 0.0, (0.02, 0.02, 0.02))
    asset: Shape = Die(_DIE_M, 0.12, 0.4, pips, False) if is_die else Sphere(_BALL_M)
    material = Material(texture, 0.4, 0.04)
    return Body(f"object/{index}", asset, material, Pose(), mass_kg=0.03, is_target=True)


def _sample_color(rng: np.random.Generator) -> Color:
    """Return a random saturated colour that is not too dark."""
    return vec3(0.08 + 0.8 * rng.dirichlet((0.7, 0.7, 0.7)))


def _make_table_material() -> Material:
    texture = Texture("wood", (0.42, 0.27, 0.15), (0.24, 0.13, 0.06), 0.08, 0.7, 0.3, 3)
    return Material(texture, 0.7, 0.03)


def _make_light() -> Environment:
    sky = (0.25, 0.25, 0.25)
    direction = np.array([-0.6, 0.45, 0.75])
    lamp = Lamp(vec3(direction / np.linalg.norm(direction)), 0.05, (2.6, 2.5, 2.3))
    return Environment(sky, sky, (lamp,))


def _make_camera(region_m: float) -> Camera:
    """Return a camera that covers a square region of the table."""
    eye = np.array([0.1, -0.75, 0.85]) * 1.55 * region_m
    middle = (SIDE_PX - 1) / 2
    lens = BrownConrady(_FOCAL_PX, _FOCAL_PX, middle, middle)
    return Camera(Pose.look_at(vec3(eye), (0, 0, 0), 0.0), SIDE_PX, SIDE_PX, lens, _NEUTRAL)


def _throw(scene: Scene, columns: int, rng: np.random.Generator) -> Scene:
    """Return the scene with its bodies in the air, above random cells of a grid."""
    table, *objects = scene.bodies
    places = rng.permutation(columns * columns)[: len(objects)]
    turns = Rotation.random(len(objects), rng=rng).as_quat()
    thrown = []
    for body, place, (x, y, z, w) in zip(objects, places, turns, strict=True):
        row, column = divmod(int(place), columns)
        spot = (np.array([column, row]) - (columns - 1) / 2) * _SPACING_M
        pose = Pose((float(w), float(x), float(y), float(z)), vec3(np.array([*spot, 0.05])))
        thrown.append(replace(body, pose=pose))
    return replace(scene, bodies=(table, *thrown))
