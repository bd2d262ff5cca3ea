"""What every renderer of the benchmark shares: reading the tabletop, timing frames, reporting.

Renderers run in processes of their own, with interpreters that need not have sim2cam, from the
folder ``benchmarks``::

    PYTHON -m peers.NAME FOLDER OUT --frames N --warm N

``FOLDER`` holds the tabletop as ``sim2cam`` wrote it (``tabletop.json``, ``tabletop.npz``, pictures);
``OUT`` gets ``report.json`` and ``picture.npz``. Only numpy is needed here.
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
"""Exit code of a renderer whose package is missing; the cure stands in the report."""

OPENGL_FROM_OPENCV = np.diag([1.0, -1.0, -1.0, 1.0])
"""From OpenGL's camera frame (y up, looking along -z) to OpenCV's."""


@dataclass(frozen=True)
class Body:
    """One object of the tabletop.

    Attributes:
        vertices_m, normals: (n, 3), in the object's frame.
        uvs: (n, 2), not negative; the picture repeats beyond 1.
        faces: (m, 3) indices.
        picture: colours as a PNG file, sRGB; its top row is at v = 1.
        pixels: the same (h, w, 3), uint8.
        roughness, specular: of a dielectric.
    """

    vertices_m: Floats
    normals: Floats
    uvs: Floats
    faces: NDArray[np.int64]
    picture: Path
    pixels: NDArray[np.uint8]
    roughness: float
    specular: float


@dataclass(frozen=True)
class Tabletop:
    """The same for every renderer.

    Attributes:
        bodies: the first is the table.
        poses: (frames, bodies, 4, 4) to the world, z up.
        camera: (4, 4) OpenCV camera (x right, y down, z forward) to the world.
        width, height, focal_px: of a pinhole whose principal point is the middle.
        to_light: (3,) unit vector towards the light.
        irradiance: (3,) linear RGB that it sheds on what faces it.
        light_radius_rad: angular radius of the light.
        sky: (3,) linear RGB radiance from everywhere above.
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
        """Return the pose (4, 4) of a body in a frame; after the last one they begin again."""
        return np.asarray(self.poses[frame % len(self.poses), body])


@dataclass(frozen=True)
class Arguments:
    """What a renderer is asked for.

    Attributes:
        folder: of the tabletop.
        out: of report and picture.
        frames: that are timed.
        warm: that are drawn before.
    """

    folder: Path
    out: Path
    frames: int
    warm: int


@dataclass(frozen=True)
class Picture:
    """What a renderer sees in frame 0.

    Attributes:
        rgb: (h, w, 3) uint8, for the eye.
        depth_m: (h, w) along the optical axis; None when not drawn.
        bodies: (h, w) number of the body from 1, the table first; None when not drawn.
    """

    rgb: NDArray[np.uint8]
    depth_m: NDArray[np.float32] | None = None
    bodies: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Timing:
    """Times of frames, in milliseconds.

    Attributes:
        what: was made.
        cpu_ms: of all threads of the process.
        wall_ms: on the clock.
    """

    what: str
    cpu_ms: list[float]
    wall_ms: list[float]


def arguments() -> Arguments:
    """Return what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--frames", type=int, required=True)
    parser.add_argument("--warm", type=int, required=True)
    return Arguments(**vars(parser.parse_args()))


def required(module: str, cure: str) -> Any:
    """Return a module, or ends the process with the cure when it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f"{cure}\n{error}", file=sys.stderr)
        raise SystemExit(NOT_INSTALLED) from error


def version_of(*distributions: str) -> str:
    """Return name and version of the first distribution that is installed."""
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


def once(draw: Callable[[], Any]) -> tuple[float, float]:
    """Return how long something takes: CPU- and wall milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    draw()
    return 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - wall)


def timed(what: str, draw: Callable[[int], Any], asked: Arguments) -> Timing:
    """Return how long frames take, after some that warm up."""
    times = [once(partial(draw, frame)) for frame in range(asked.warm + asked.frames)]
    cpu_ms, wall_ms = zip(*times[asked.warm :], strict=True)
    return Timing(what, list(cpu_ms), list(wall_ms))


def resident_mb(*, at_most: bool = False) -> float:
    """Return the memory that this process holds now or, at most, has held; 0 where Linux is not."""
    # What getrusage calls the most counts the process from which this one was started.
    name = "VmHWM:" if at_most else "VmRSS:"
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name))


def report(
    asked: Arguments, version: str, timings: list[Timing], picture: Picture, before_mb: float
) -> None:
    """Write what was measured.

    Args:
        asked: where it goes.
        version: of the renderer.
        timings: the first is the one that is compared.
        picture: of frame 0.
        before_mb: memory when the first frame was drawn.
    """
    memory = {"first_frame": before_mb, "end": resident_mb(), "peak": resident_mb(at_most=True)}
    facts = {
        "version": version,
        "numpy": np.__version__,
        "timings": [vars(timing) for timing in timings],
        "memory_mb": memory,
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "report.json").write_text(json.dumps(facts), encoding="utf-8")
    planes = {name: plane for name, plane in vars(picture).items() if plane is not None}
    np.savez(asked.out / "picture.npz", **planes)


def write_obj(path: Path, body: Body) -> None:
    """Write a mesh as a Wavefront file, every corner with its own normal and place on the picture."""
    lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in body.vertices_m]
    lines += [f"vt {u:.9g} {v:.9g}" for u, v in body.uvs]
    lines += [f"vn {x:.9g} {y:.9g} {z:.9g}" for x, y, z in body.normals]
    lines += ["f " + " ".join(f"{i}/{i}/{i}" for i in face) for face in body.faces + 1]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
