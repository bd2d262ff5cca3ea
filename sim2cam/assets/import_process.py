"""The process that reads and measures files of users, one after another, within limits."""

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
"""Time of a core that reading one file is given; the first one of a child more."""
MAX_MEMORY_BYTES = 4 * 2**30
"""Memory that a child is given."""

_START_SECONDS = 20.0
_DECOMPOSITION_SECONDS = {"vhacd": 20.0, "coacd": 120.0}  # for concave meshes, after reading
_RETRY_DELAYS = 4  # by the clock, for a process that is given half a core, or waits for a disk
_POLL_SECONDS = 0.1
_READ = b"read"
_RESERVE_BYTES = (
    1.5  # times the work that the parent allows: where it is gone, the system ends a child
)
_PR_SET_PDEATHSIG = 1
_UNEXPECTED = (
    "cannot be used: its shape is none that can be measured. Repair it, or export it again."
)


@dataclass(frozen=True)
class MeshMeasurements:
    """What a child found in a file; lengths in the file's unit.

    Attributes:
        sources: the files that were read.
        low_m, high: opposite corners of its box.
        center: of its mass.
        radius: from there to the farthest point.
        volume: of a solid; of an open mesh half that of its hull.
        faces: triangles.
        is_closed: whether it is the skin of a solid.
        parts: convex solids as which it collides.
        repairs: what was repaired.
        mass_kg: 0 when the file does not say.
        articulation: links and joints, always in metres; None of a mesh.
    """

    sources: SourceFiles
    low_m: Vec3
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
    """Answer of the measuring process: measures of a file, or its problem."""

    measures: MeshMeasurements | None = None
    error: str | None = None


MEASURES: TypeAdapter[MeshMeasurements] = TypeAdapter(MeshMeasurements)
_ANSWER: TypeAdapter[ImportResponse] = TypeAdapter(ImportResponse)


class ImportWorker:
    """A process that measures files, one after another; another one after each that it ends with."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes]
        self._buffer = b""

    def measure(self, path: Path, folder: Path) -> ImportResponse:
        """Return what a process found in a file.

        Args:
            path: of the file.
            folder: that holds all that the file may name.
        """
        process, grace = self._process, 0.0
        if process is None:
            process, grace = self._start(), _START_SECONDS
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # then it gives no answer either
            words = (os.fsencode(one).hex().encode() for one in (path, folder))
            process.stdin.write(b" ".join(words) + b"\n")
            process.stdin.flush()
        try:
            most, step = MAX_SECONDS, "reading it"
            line = self._read_line(most + grace)
            if line == _READ:
                most, step = (
                    _DECOMPOSITION_SECONDS[get_decomposer()],
                    "taking it apart into convex parts",
                )
                line = self._read_line(most)
        except TimeoutError:
            self.close()
            return ImportResponse(error=f"{path}: {step} takes more than {most:g} s. Simplify it.")
        if line is None:
            code = process.wait()
            reason = _last_line(self._stderr) or f"exit code {code}"
            self.close()
            return ImportResponse(error=f"{path}: cannot be read; it ended the process ({reason}).")
        try:
            return _ANSWER.validate_json(line)
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
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed at its end
        self._process = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
            process_group=0,  # so that Ctrl-C reaches the parent alone, which ends it
        )
        return self._process

    def _read_line(self, seconds: float) -> bytes | None:
        """Return the next line; None when the process ended without one.

        Raises:
            TimeoutError: there is none after so many seconds of work, or a few times as many by the
                clock, which run on while other processes are at work.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        pipe, pid = self._process.stdout.fileno(), self._process.pid
        worked, deadline = _cpu_seconds(pid), time.monotonic() + _RETRY_DELAYS * seconds
        while b"\n" not in self._buffer:
            if not select.select([pipe], [], [], _POLL_SECONDS)[0]:
                if _cpu_seconds(pid) - worked > seconds or time.monotonic() > deadline:
                    raise TimeoutError
                continue
            more = os.read(pipe, 65536)
            if not more:
                return None
            self._buffer += more
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process in seconds; wall time where the system has no such figure."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # as user, and as system


def _last_line(words: IO[bytes]) -> str:
    words.seek(0)
    lines = words.read()[-2000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _serve() -> None:
    """Answer one line for each line with a path and a folder; libraries may print what they like."""
    import resource

    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def say(line: bytes) -> None:
        answers.write(line + b"\n")
        answers.flush()

    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_split_lines, args=(lines,), daemon=True).start()
    while True:
        words = lines.get().split()
        path, folder = (Path(os.fsdecode(bytes.fromhex(word.decode()))) for word in words)
        _set_limits()
        say(_ANSWER.dump_json(_respond(path, folder, lambda: say(_READ))))


def _split_lines(lines: SimpleQueue[bytes]) -> None:
    """Pass on the lines of the parent; end the process when there are no more."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def _die_with_parent() -> None:
    """Have the system end this process when its parent ends, also while a library is at work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    with suppress(OSError, AttributeError):  # where the system is not Linux, the end of stdin does
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _set_limits() -> None:
    """Let the system end this process when one file takes much more work than it is given."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    more = MAX_SECONDS + _START_SECONDS + _DECOMPOSITION_SECONDS[get_decomposer()]
    most = int(used.ru_utime + used.ru_stime + _RESERVE_BYTES * more) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _respond(path: Path, folder: Path, on_read: Callable[[], None]) -> ImportResponse:
    try:
        return ImportResponse(_measure_file(path, folder, on_read))
    except Sim2CamError as error:
        return ImportResponse(error=str(error))
    except MemoryError:
        return ImportResponse(
            error=f"{path}: needs more memory than {MAX_MEMORY_BYTES >> 30} GiB. Simplify it."
        )
    except Exception:  # noqa: BLE001 - one file never stops the others
        return ImportResponse(error=f"{path}: {_UNEXPECTED}")


def _measure_file(path: Path, folder: Path, on_read: Callable[[], None]) -> MeshMeasurements:
    """Return the measures of a file, and puts its cleaned mesh into the cache."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        parsed = parse_file(path, MeshFile.max_faces, folder)
        on_read()
        content, sources = decompose_content(parsed.content), parsed.sources
    states = content.articulation.get_rest_states() if content.articulation else ()
    vertices = content.pose(states).mesh.vertices_m
    hull = compute_hull(vertices)
    if not content.parts and hull.volume == 0:
        problem = "is flat, and nothing without a thickness can lie on a table."
        raise InputError(path, f"{problem} Make it a solid, 0.5 mm thick or more.")
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
            str(one.message).removeprefix(f"{path}: ").removeprefix(f"{path.parent}{os.sep}")
            for one in caught
            if issubclass(one.category, RepairWarning)
        ),
        parsed.mass_kg,
        content.articulation,
    )


if __name__ == "__main__":
    _serve()
