"""One solid of each kind and shape, and measures of meshes."""

import math

import numpy as np

from sim2cam.objects.ball import Ball
from sim2cam.objects.block import Block
from sim2cam.objects.board import Board
from sim2cam.objects.bolt import Bolt
from sim2cam.objects.card import Card
from sim2cam.objects.carton import Carton
from sim2cam.objects.die import Die, Pips
from sim2cam.objects.nut import Nut
from sim2cam.objects.primitives import Cuboid, Cylinder, Sphere
from sim2cam.objects.robot import Robot
from sim2cam.objects.sheet import Sheet
from sim2cam.objects.tin import Tin
from sim2cam.objects.tubes import Strand, Tubes
from sim2cam.objects.twisty import TwistyCube, make_scramble
from sim2cam.scene.package_label import PackageLabel

WHITE, RED, BLUE = (0.9, 0.9, 0.9), (0.6, 0.02, 0.02), (0.02, 0.05, 0.5)
LABEL = PackageLabel("beans", 3, WHITE, RED, BLUE)
PIPS = Pips("round", 0.09, 0.25, 0.03, (0.01, 0.01, 0.01))
COLORS = tuple((red, 0.3, 0.6) for red in (0.9, 0.1, 0.2, 0.7, 0.4, 0.05))
_ANGLES = np.linspace(0, 1.5 * math.pi, 40)
_ARC = 0.05 * np.stack([np.cos(_ANGLES), np.sin(_ANGLES), 0 * _ANGLES], axis=1)


def twisty(layers=3, turned="F", turned_rad=0.0, sticker=0.9):
    moves = make_scramble(31415926535897932)
    return TwistyCube(0.057, layers, moves, turned, turned_rad, 0.1, sticker, 0.3, COLORS)


def robot(form, sides=6, extras=8):
    return Robot(form, (0.5, 0.5, 0.8), sides, 0.3, 0.4, 0.9, 0.3, 7, extras, 3, (0.6, 0.1, 0.3))


EXAMPLES = {
    "die": Die(0.016, 0.12, 0.4, PIPS, mirrored=False),
    "mirrored die": Die(0.016, 0.12, 0.4, PIPS, mirrored=True),
    "sharp die": Die(0.016, 0.03, 0.0, PIPS, mirrored=False),
    "round die": Die(0.025, 0.2, 0.9, PIPS, mirrored=False),
    "block": Block((0.02, 0.03, 0.05), 0.1, "red"),
    "sharp block": Block((0.02, 0.02, 0.02), 0.0, "red"),
    "board": Board("chessboard", 5, 4, 0.02, 0.7, "4x4_50", 0, 0.01, 0.004, (0.02, 0.02, 0.02)),
    "card": Card("10H", (0.063, 0.088, 0.001), 0.003, (0.1, 0.1, 0.5)),
    "sheet": Sheet((0.21, 0.297, 0.0005), LABEL),
    "carton": Carton((0.16, 0.06, 0.24), LABEL, "beans"),
    "tin": Tin(0.037, 0.11, LABEL, "beans"),
    "flat tin": Tin(0.05, 0.03, LABEL, "tuna"),
    "bolt": Bolt(0.006, 0.03, 0.001, 0.7, 0.01, 0.004, "bolt M6"),
    "threaded bolt": Bolt(0.006, 0.03, 0.001, 1.0, 0.01, 0.004, "bolt M6"),
    "nut": Nut(0.006, 0.001, 0.01, 0.005, "nut M6"),
    "twisty": twisty(),
    "small twisty": twisty(2),
    "turned twisty": twisty(turned="L", turned_rad=0.5),
    "turned small twisty": twisty(2, "U", -math.pi / 4),
    "ball": Ball(0.11),
    "cone robot": robot("cone"),
    "round robot": robot("cone", sides=24, extras=0),
    "tower robot": robot("tower", sides=3),
    "mast robot": robot("mast", sides=8),
    "box robot": robot("box", sides=4, extras=0),
    "box": Cuboid((0.03, 0.02, 0.01)),
    "cylinder": Cylinder(0.02, 0.015),
    "sphere": Sphere(0.02),
    "bar": Tubes((Strand(((0.0, 0.0, -0.05), (0.0, 0.0, 0.05)), (0.01, 0.01)),)),
    "cable": Tubes((Strand(tuple(map(tuple, (_ARC - _ARC.mean(axis=0)).tolist())), (0.002,) * 40),)),
}  # fmt: skip


def compute_volume(mesh, faces=None):
    """Signed volume of a closed mesh."""
    return np.linalg.det(mesh.vertices_m[mesh.faces if faces is None else faces]).sum() / 6


def list_edges(mesh):
    """Directed edges (n, 2) of triangles with an area; vertices at the same point are one."""
    _, index = np.unique(np.round(mesh.vertices_m, 8) + 0.0, axis=0, return_inverse=True)
    faces = index.ravel()[mesh.faces]
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)]
    return np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])


def is_inside_collider(points, solid):
    """Whether points (n, 3) are within the parts that a solid collides as."""
    found = np.zeros(len(points), bool)
    for part in solid.build_collider():
        local = np.abs(part.pose.inverse().apply(points))
        half = np.array(part.size_m) / 2 + 1e-9
        radius = np.hypot(local[:, 0], local[:, 1])
        match part.geometry:
            case "box":
                found |= (local <= half).all(axis=1)
            case "cylinder":
                found |= (radius <= half[0]) & (local[:, 2] <= half[2])
            case _:
                height = half[2] if part.geometry == "capsule" else 0.0
                found |= np.hypot(radius, np.maximum(local[:, 2] - height, 0)) <= half[0]
    return found
