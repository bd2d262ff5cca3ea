"""Concave solids as a few convex ones, which is what physics can collide.

CoACD (Wei et al. 2022, "Approximate convex decomposition for 3D meshes with collision-aware concavity
and tree search") where it is installed, V-HACD as Bullet has it otherwise.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.engines.silence import silent_output

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Decomposer = Literal["coacd", "vhacd"]

MAX_PARTS = 32

_COACD_THRESHOLD = 0.05
_VHACD_VOXELS = 100_000
_VHACD_CONCAVITY = 0.001
_PART_VERTICES = 32


def get_decomposer() -> Decomposer:
    """Return which library is at hand."""
    return "coacd" if importlib.util.find_spec("coacd") else "vhacd"


def decompose(vertices: Floats, faces: Indices, hull_points: Floats) -> tuple[Floats, ...]:
    """Return the corners (n, 3) of each of a few convex solids that together fill a mesh.

    Around all of them is the same hull as around the mesh, so that they lie on a plane as it does.

    Args:
        vertices: (n, 3), one at each place.
        faces: (m, 3) indices.
        hull_points: (k, 3) corners of the mesh's hull.
    """
    from scipy.spatial import ConvexHull

    size = float(np.ptp(vertices, axis=0).max())
    cut = _run_coacd if get_decomposer() == "coacd" else _run_vhacd
    parts = [part * size for part in cut(vertices / size, faces)]
    if not 1 < len(parts) <= MAX_PARTS:
        return ()
    planes = ConvexHull(hull_points).equations
    away = [((hull_points[:, None] - part) ** 2).sum(axis=2).min(axis=1) for part in parts]
    nearest = np.argmin(away, axis=0)
    whole = [np.vstack([part, hull_points[nearest == i]]) for i, part in enumerate(parts)]
    return tuple(_shrink_inside(part, planes) for part in whole)


def format_parts_obj(parts: Sequence[Floats]) -> str:
    """Return convex solids, by their corners (n, 3), as an OBJ with one object each."""
    from scipy.spatial import ConvexHull

    lines, first = [], 0
    for number, part in enumerate(parts):
        faces = ConvexHull(part).simplices
        lines += [f"o {number}\n", _format_obj(part, faces + first)]
        first += len(part)
    return "".join(lines)


def _shrink_inside(points: Floats, planes: Floats) -> Floats:
    """Return points, those beyond any of planes (k, 4) drawn back towards their middle."""
    middle = points.mean(axis=0)
    inner = planes[:, :3] @ middle + planes[:, 3]  # below 0: within
    beyond = points @ planes[:, :3].T + planes[:, 3]
    share = np.where(beyond > 0, inner / np.where(beyond > 0, inner - beyond, 1), 1.0).min(axis=1)
    return np.asarray(middle + (points - middle) * share.clip(0, 1)[:, None])


def _run_coacd(vertices: Floats, faces: Indices) -> list[Floats]:
    import coacd

    coacd.set_log_level("error")
    mesh = coacd.Mesh(vertices, faces)
    found = coacd.run_coacd(
        mesh, threshold=_COACD_THRESHOLD, max_convex_hull=MAX_PARTS, max_ch_vertex=_PART_VERTICES,
        mcts_iterations=60, mcts_max_depth=2, seed=0,
    )  # fmt: skip
    return [np.asarray(points, np.float64) for points, _ in found]


def _run_vhacd(vertices: Floats, faces: Indices) -> list[Floats]:
    with silent_output():
        import pybullet

    with tempfile.TemporaryDirectory() as folder:
        whole, parts = Path(folder, "whole.obj"), Path(folder, "parts.obj")
        whole.write_text(_format_obj(vertices, faces))
        with silent_output():
            pybullet.vhacd(
                str(whole), str(parts), str(Path(folder, "log")), resolution=_VHACD_VOXELS,
                concavity=_VHACD_CONCAVITY, maxNumVerticesPerCH=_PART_VERTICES,
            )  # fmt: skip
        return _parse_vertices(parts.read_text()) if parts.is_file() else []


def _format_obj(vertices: Floats, faces: Indices) -> str:
    corners = "".join(f"v {x:.9g} {y:.9g} {z:.9g}\n" for x, y, z in vertices)
    return corners + "".join(f"f {a} {b} {c}\n" for a, b, c in faces + 1)


def _parse_vertices(text: str) -> list[Floats]:
    """Return the corners of each object of an OBJ that V-HACD wrote."""
    found: list[list[list[float]]] = []
    for line in text.splitlines():
        if line.startswith("o "):
            found.append([])
        elif line.startswith("v "):
            found[-1].append([float(word) for word in line.split()[1:4]])
    return [np.array(corners) for corners in found if len(corners) > 3]
