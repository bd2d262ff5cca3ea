"""Shared code of the renderers: reading the tabletop, timing frames, reporting.

Renderers run in separate processes from the folder ``benchmarks``, with interpreters that need not have
sim2cam::

    PYTHON -m peers.NAME FOLDER OUT --frames N --warm N

``FOLDER`` is a tabletop exported by sim2cam (``tabletop.json``, ``tabletop.npz``, textures). Writes
``report.json`` and ``image.npz`` to ``OUT``. This module only needs numpy.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NOT_INSTALLED = 3
"""Exit code if the package of a renderer is missing; standard error has the pip command."""

OPENGL_FROM_OPENCV = np.diag([1.0, -1.0, -1.0, 1.0])
"""Transform between OpenGL's camera frame (y up, looking along -z) and OpenCV's."""


@dataclass(frozen=True)
class Body:
    """An object of the tabletop.

    Attributes:
        vertices_m, normals: (n, 3), in the object frame.
        uvs: (n, 2), not negative; the texture repeats beyond 1.
        faces: (m, 3) indices.
        texture: sRGB texture as PNG file; its top row is at v = 1.
        pixels: pixels of the texture (h, w, 3), uint8.
        roughness, specular: parameters of the dielectric material.
    """

    vertices_m: Floats
    normals: Floats
    uvs: Floats
    faces: NDArray[np.int64]
    texture: Path
    pixels: NDArray[np.uint8]
    roughness: float
    specular: float


@dataclass(frozen=True)
class Tabletop:
    """Scene that is the same for every renderer.

    Attributes:
        bodies: the first is the table.
        poses: (frames, bodies, 4, 4) to the world, z up.
        camera: (4, 4) from OpenCV camera (x right, y down, z forward) to the world.
        width, height, focal_px: of a pinhole with a centred principal point.
        to_light: (3,) unit vector towards the light.
        irradiance: (3,) linear RGB on a surface that faces the light.
        light_radius_rad: angular radius of the light.
        sky: (3,) linear RGB radiance of the upper hemisphere.
    """

    bodies: tuple[Body, ...]
    poses: Floats
    camera: Floats
    width: int
    height: int
    focal_px: float
    to_light: Floats
    irradiance: Floats
    light_radius_rad: float
    sky: Floats

    def pose(self, frame: int, body: int) -> Floats:
        """Return the pose (4, 4) of a body in a frame; frames repeat after the last one."""
        return np.asarray(self.poses[frame % len(self.poses), body])


@dataclass(frozen=True)
class Arguments:
    """Command-line arguments of a renderer.

    Attributes:
        out: folder of report and image.
    """

    folder: Path
    out: Path
    frames: int
    warm: int


@dataclass(frozen=True)
class RenderedImage:
    """Rendered frame 0.

    Attributes:
        rgb: (h, w, 3) uint8, for display.
        depth_m: (h, w) along the optical axis; None if not rendered.
        bodies: (h, w) number of the body from 1, table first; None if not rendered.
    """

    rgb: NDArray[np.uint8]
    depth_m: NDArray[np.float32] | None = None
    bodies: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Timing:
    """Times of frames, in milliseconds.

    Attributes:
        cpu_ms: CPU time of all threads of the process.
    """

    what: str
    cpu_ms: list[float]
    wall_ms: list[float]


def parse_arguments() -> Arguments:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--frames", type=int, require_module=True)
    parser.add_argument("--warm", type=int, require_module=True)
    return Arguments(**vars(parser.parse_args()))


def require_module(module: str, cure: str) -> Any:
    """Import a module; exit with the pip command if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f"{cure}\n{error}", file=sys.stderr)
        raise SystemExit(NOT_INSTALLED) from error


def get_version(*distributions: str) -> str:
    """Return name and version of the first installed distribution."""
    for name in distributions:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{distributions[0]} (version unknown)"


def read_tabletop(folder: Path) -> Tabletop:
    """Return the tabletop of a folder."""
    facts = json.loads((folder / "tabletop.json").read_text(encoding="utf-8"))
    with np.load(folder / "tabletop.npz") as arrays:
        bodies = tuple(
            Body(
                arrays[f"{i}/vertices_m"], arrays[f"{i}/normals"], arrays[f"{i}/uvs"],
                arrays[f"{i}/faces"], folder / body["picture"], arrays[f"{i}/pixels"],
                body["roughness"], body["specular"],
            )
            for i, body in enumerate(facts["bodies"])
        )  # fmt: skip
        return Tabletop(
            bodies, arrays["poses"], arrays["camera"], facts["width"], facts["height"],
            facts["focal_px"], np.array(facts["to_light"]), np.array(facts["irradiance"]),
            facts["light_radius_rad"], np.array(facts["sky"]),
        )  # fmt: skip


def time_call(draw: Callable[[], Any]) -> tuple[float, float]:
    """Return CPU and wall milliseconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    draw()
    return 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - wall)


def time_frames(what: str, draw: Callable[[int], Any], arguments: Arguments) -> Timing:
    """Return the times of frames after the warm-up frames."""
    times = [time_call(partial(draw, frame)) for frame in range(arguments.warm + arguments.frames)]
    cpu_ms, wall_ms = zip(*times[arguments.warm :], strict=True)
    return Timing(what, list(cpu_ms), list(wall_ms))


def resident_mb(*, at_most: bool = False) -> float:
    """Return the resident memory of this process, or its peak; 0 without ``/proc``."""
    # The maximum of getrusage includes the parent process.
    name = "VmHWM:" if at_most else "VmRSS:"
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name))


def report(
    arguments: Arguments,
    version: str,
    timings: list[Timing],
    image: RenderedImage,
    before_mb: float,
) -> None:
    """Write the results.

    Args:
        timings: the first one is compared.
        before_mb: memory after the first frame.
    """
    memory = {"first_frame": before_mb, "end": resident_mb(), "peak": resident_mb(at_most=True)}
    facts = {
        "version": version,
        "numpy": np.__version__,
        "timings": [vars(timing) for timing in timings],
        "memory_mb": memory,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "report.json").write_text(json.dumps(facts), encoding="utf-8")
    planes = {name: plane for name, plane in vars(image).items() if plane is not None}
    np.savez(arguments.out / "image.npz", **planes)


def write_obj(path: Path, body: Body) -> None:
    """Write a mesh as a Wavefront file; every corner has its own normal and uv coordinates."""
    lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in body.vertices_m]
    lines += [f"vt {u:.9g} {v:.9g}" for u, v in body.uvs]
    lines += [f"vn {x:.9g} {y:.9g} {z:.9g}" for x, y, z in body.normals]
    lines += ["f " + " ".join(f"{i}/{i}/{i}" for i in face) for face in body.faces + 1]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
