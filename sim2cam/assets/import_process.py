"""Child process that reads and measures user files within time and memory limits."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO

import numpy as np
from pydantic import TypeAdapter, ValidationError

from sim2cam.assets import user_cache
from sim2cam.assets.convex_hull import compute_hull, compute_inertia, decompose_content
from sim2cam.assets.decomposition import get_decomposer
from sim2cam.assets.mesh import parse_file
from sim2cam.assets.mesh_cache import pack
from sim2cam.assets.mesh_files.reader import SourceFiles
from sim2cam.errors import InputError, RepairWarning, Sim2CamError
from sim2cam.geometry.inertia import compute_center_of_mass
from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.scene.articulation import Articulation
from sim2cam.scene.shape import MeshFile

MAX_SECONDS = 15.0
"""CPU time limit for reading one file; the first file of a child process gets more."""
MAX_MEMORY_BYTES = 4 * 2**30
"""Memory limit of the child process."""

_START_SECONDS = 20.0
_DECOMPOSITION_SECONDS = {"vhacd": 20.0, "coacd": 120.0}  # for concave meshes, after reading
_WALL_TIME_FACTOR = 4  # wall time over CPU time, for a busy machine or a slow disk
_POLL_SECONDS = 0.1
_READ = b"read"
_CPU_LIMIT_FACTOR = 1.5  # the kernel's CPU limit over the parent's; applies if the parent is gone
_PR_SET_PDEATHSIG = 1
_UNEXPECTED = "cannot be measured. Repair the mesh or export it again."


@dataclass(frozen=True)
class MeshMeasurements:
    """Measurements of a file; lengths in the file's unit.

    Attributes:
        sources: Files that were read.
        low, high: Opposite corners of the bounding box.
        center: Centre of mass.
        radius: Distance from the centre of mass to the farthest vertex.
        volume: Volume; half the hull's volume for an open mesh.
        faces: Number of triangles.
        is_closed: Whether the mesh is watertight.
        parts: Number of convex collision parts.
        repairs: Messages about repairs.
        mass_kg: 0 if the file gives no mass.
        articulation: Links and joints, always in metres; None for a mesh.
    """

    sources: SourceFiles
    low: Vec3
    high: Vec3
    center: Vec3
    radius: float
    volume: float
    faces: int
    is_closed: bool
    parts: int
    repairs: tuple[str, ...]
    mass_kg: float
    articulation: Articulation | None


@dataclass(frozen=True)
class ImportResponse:
    """Response of the child process: measurements of a file, or an error."""

    measures: MeshMeasurements | None = None
    error: str | None = None


MEASURES: TypeAdapter[MeshMeasurements] = TypeAdapter(MeshMeasurements)
_RESPONSE: TypeAdapter[ImportResponse] = TypeAdapter(ImportResponse)


class ImportWorker:
    """Child process that measures files in turn; restarted after a crash or timeout."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes]
        self._buffer = b""

    def measure(self, path: Path, folder: Path) -> ImportResponse:
        """Return the measurements of a file, or the error."""
        process, startup_s = self._process, 0.0
        if process is None:
            process, startup_s = self._start(), _START_SECONDS
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # handled below: the process ended without a response
            arguments = (os.fsencode(p).hex().encode() for p in (path, folder))
            process.stdin.write(b" ".join(arguments) + b"\n")
            process.stdin.flush()
        try:
            limit_s, step = MAX_SECONDS, "reading"
            line = self._read_line(limit_s + startup_s)
            if line == _READ:
                limit_s, step = _DECOMPOSITION_SECONDS[get_decomposer()], "convex decomposition"
                line = self._read_line(limit_s)
        except TimeoutError:
            self.close()
            return ImportResponse(
                error=f"{path}: {step} takes more than {limit_s:g} s. Simplify the mesh."
            )
        if line is None:
            code = process.wait()
            reason = _read_last_line(self._stderr) or f"exit code {code}"
            self.close()
            return ImportResponse(error=f"{path}: cannot be read; the process ended ({reason}).")
        try:
            return _RESPONSE.validate_json(line)
        except ValidationError:
            return ImportResponse(error=f"{path}: {_UNEXPECTED}")

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._stderr.close()
        self._process, self._buffer = None, b""

    def _start(self) -> subprocess.Popen[bytes]:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
            process_group=0,  # Ctrl-C reaches the parent only, which ends the child
        )
        return self._process

    def _read_line(self, seconds: float) -> bytes | None:
        """Return the next line; None if the process ended without one.

        Raises:
            TimeoutError: No line after the given CPU time, or a multiple of it in wall time.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        pipe, pid = self._process.stdout.fileno(), self._process.pid
        start_cpu_s = _measure_cpu_seconds(pid)
        deadline = time.monotonic() + _WALL_TIME_FACTOR * seconds
        while b"\n" not in self._buffer:
            if not select.select([pipe], [], [], _POLL_SECONDS)[0]:
                if _measure_cpu_seconds(pid) - start_cpu_s > seconds or time.monotonic() > deadline:
                    raise TimeoutError
                continue
            chunk = os.read(pipe, 65536)
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line


def _measure_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process in seconds; wall time if /proc is missing."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system time


def _read_last_line(stream: IO[bytes]) -> str:
    stream.seek(0)
    lines = stream.read()[-2000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _serve() -> None:
    """Answer each input line (path and folder); other output goes to stderr."""
    import resource

    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def write_line(line: bytes) -> None:
        output.write(line + b"\n")
        output.flush()

    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_queue_lines, args=(lines,), daemon=True).start()
    while True:
        arguments = lines.get().split()
        path, folder = (
            Path(os.fsdecode(bytes.fromhex(argument.decode()))) for argument in arguments
        )
        _set_limits()
        write_line(_RESPONSE.dump_json(_respond(path, folder, lambda: write_line(_READ))))


def _queue_lines(lines: SimpleQueue[bytes]) -> None:
    """Queue the lines from the parent; end the process at the end of input."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def _die_with_parent() -> None:
    """Let the kernel end this process with its parent, even inside a library call."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    with suppress(OSError, AttributeError):  # not Linux: the end of stdin ends the process
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _set_limits() -> None:
    """Set a CPU limit, in case the parent cannot enforce its own."""
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    budget_s = MAX_SECONDS + _START_SECONDS + _DECOMPOSITION_SECONDS[get_decomposer()]
    limit_s = int(usage.ru_utime + usage.ru_stime + _CPU_LIMIT_FACTOR * budget_s) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = limit_s if hard == resource.RLIM_INFINITY else min(limit_s, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _respond(path: Path, folder: Path, on_read: Callable[[], None]) -> ImportResponse:
    try:
        return ImportResponse(_measure_file(path, folder, on_read))
    except Sim2CamError as error:
        return ImportResponse(error=str(error))
    except MemoryError:
        return ImportResponse(
            error=f"{path}: needs more memory than {MAX_MEMORY_BYTES >> 30} GiB. Simplify the mesh."
        )
    except Exception:  # noqa: BLE001 - a bad file must not stop the import
        return ImportResponse(error=f"{path}: {_UNEXPECTED}")


def _measure_file(path: Path, folder: Path, on_read: Callable[[], None]) -> MeshMeasurements:
    """Return the measurements of a file, and cache its repaired mesh."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        parsed = parse_file(path, MeshFile.max_faces, folder)
        on_read()
        content, sources = decompose_content(parsed.content), parsed.sources
    states = content.articulation.get_rest_states() if content.articulation else ()
    vertices = content.pose(states).mesh.vertices_m
    hull = compute_hull(vertices)
    if not content.parts and hull.volume == 0:
        raise InputError(path, "is flat. Make it a solid, 0.5 mm thick or more.")
    user_cache.write_entry(f"{sources.compute_digest()}.npz", pack(content))
    center = compute_center_of_mass(compute_inertia(content, states))
    return MeshMeasurements(
        sources,
        vec3(vertices.min(axis=0)),
        vec3(vertices.max(axis=0)),
        vec3(center),
        float(np.linalg.norm(vertices - center, axis=1).max()),
        content.compute_volume() if content.is_closed else hull.volume / 2,
        len(content.mesh.faces),
        content.is_closed,
        max(1, len(content.parts)),
        tuple(
            str(warning.message).removeprefix(f"{path}: ").removeprefix(f"{path.parent}{os.sep}")
            for warning in caught
            if issubclass(warning.category, RepairWarning)
        ),
        parsed.mass_kg,
        content.articulation,
    )


if __name__ == "__main__":
    _serve()
