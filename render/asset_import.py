"""Bringing in assets: each file is read and measured in a child process with limits.

Files of users are damaged, huge or malicious. What breaks here breaks a child, never the parent.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np
from pydantic import TypeAdapter

from sim2cam.errors import InputError, RepairWarning, Sim2CamError
from sim2cam.geometry.poses import vec3
from sim2cam.render.asset_files import category_of, read_card
from sim2cam.render.mesh_file import collider_of, read_mesh_file
from sim2cam.scene.asset import METRES, LengthUnit, MeshFile
from sim2cam.scene.asset_facts import ASSUMED, AssetCard, AssetFacts, Interval

MOST_SECONDS = 20.0
"""Time that one file is given; the first one of a child a little more."""
MOST_BYTES = 4 * 2**30
"""Memory that a child is given."""

SIZES_M = (0.001, 3.0)
"""Between which the longest side of an object has to be."""

_START_SECONDS = 20.0
_LARGEST_IN_METRES = 3.0  # numbers beyond are millimetres, as scans and CAD have them
_DENSITIES_KG_M3 = (300.0, 1500.0)  # hollow plastic to filled
_FRICTION = Interval(0.3, 0.8, ASSUMED)
_RESTITUTION = Interval(0.1, 0.5, ASSUMED)
_LEAST_MASS_KG = 1e-4
_THIN_M = 5e-4


@dataclass(frozen=True)
class Imported:
    """What became of a file.

    Attributes:
        name: within its folder.
        facts: None when it cannot be used.
        problem: why not; None when it can.
        repairs: what was repaired, and what is doubtful.
        guessed_unit: of its numbers, when nobody said.
    """

    name: str
    facts: AssetFacts | None = None
    problem: str | None = None
    repairs: tuple[str, ...] = ()
    guessed_unit: LengthUnit | None = None


_ADAPTER: TypeAdapter[Imported] = TypeAdapter(Imported)


def import_assets(
    folder: Path, names: Sequence[str], unit: LengthUnit | None = None
) -> Iterator[Imported]:
    """Yields what became of each file, in order; none of them can harm this process.

    Args:
        folder: of assets.
        names: of files in it.
        unit: of the numbers of files that do not say themselves; None to guess.
    """
    child = None
    try:
        for name in names:
            if child is None:
                child = _Child(folder, unit)
            answer = child.ask(name)
            if answer is None:
                reason = child.end()
                child = None
                answer = Imported(name, problem=f"{folder / name}: {reason}")
            yield answer
    finally:
        if child is not None:
            child.end()


def measure(
    folder: Path, name: str, unit: LengthUnit | None = None
) -> tuple[AssetFacts, LengthUnit | None]:
    """Returns the facts of an asset, and its unit if that had to be guessed.

    Raises:
        InputError: it cannot be used.
    """
    path = folder / name
    card = read_card(path)
    plain = MeshFile(str(path), category_of(name, card))
    content = read_mesh_file(plain)
    vertices = content.mesh.vertices_m
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    told = card.unit or unit
    known = told or _guessed_unit(path, float((high - low).max()))
    metres = METRES[known]
    _check_size(path, float((high - low).max()) * metres, known)
    points, center = collider_of(plain)
    facts = AssetFacts(
        name=name,
        mesh=_with_keypoints(replace(plain, unit_m=metres), card),
        digest=content.digest,
        low_m=vec3(low * metres),
        high_m=vec3(high * metres),
        center_m=vec3(center * metres),
        radius_m=float(np.linalg.norm(vertices - center, axis=1).max() * metres),
        faces=len(content.mesh.faces),
        is_closed=content.is_closed,
        mass_kg=card.mass_kg or _assumed_mass(_volume(plain, points) * metres**3),
        friction=card.friction or _FRICTION,
        restitution=card.restitution or _RESTITUTION,
        symmetries=card.symmetries,
        licence=card.licence,
    )
    if min(facts.size_m) < _THIN_M:
        warnings.warn(
            f"{path}: only {min(facts.size_m) * 1e3:.2g} mm thick. It may sink into the table.",
            RepairWarning,
            stacklevel=1,
        )
    return facts, None if told else known


def _guessed_unit(path: Path, longest: float) -> LengthUnit:
    """Returns the unit of a file whose longest side is so many of it; glTF is always in metres."""
    is_gltf = path.suffix.lower() in (".glb", ".gltf")
    return "m" if is_gltf or longest <= _LARGEST_IN_METRES else "mm"


def _check_size(path: Path, longest_m: float, unit: LengthUnit) -> None:
    low, high = SIZES_M
    if not low <= longest_m <= high:
        raise InputError(
            path,
            f"its longest side is {longest_m:.3g} m when its numbers are in {unit}; objects of "
            f'{low:g} to {high:g} m can be thrown. Say unit = "mm", or another, in '
            f"{path.with_suffix('.toml').name}.",
        )


def _with_keypoints(mesh: MeshFile, card: AssetCard) -> MeshFile:
    points = ((name, np.multiply(point, mesh.unit_m)) for name, point in card.keypoints.items())
    return replace(mesh, keypoints=tuple((name, vec3(point)) for name, point in points))


def _volume(plain: MeshFile, points: np.ndarray) -> float:
    """Returns the volume of a solid, in its file's unit cubed; of an open mesh half that of its hull."""
    from scipy.spatial import ConvexHull, QhullError

    content = read_mesh_file(plain)
    if content.is_closed:
        a, b, c = content.mesh.vertices_m[content.mesh.faces].swapaxes(0, 1)
        return float((a * np.cross(b, c)).sum() / 6)
    try:
        return float(ConvexHull(points).volume) / 2
    except QhullError:  # flat
        return 0.0


def _assumed_mass(volume_m3: float) -> Interval:
    low, high = (max(_LEAST_MASS_KG, volume_m3 * density) for density in _DENSITIES_KG_M3)
    return Interval(low, high, f"{ASSUMED}: {_DENSITIES_KG_M3[0]:g} to {_DENSITIES_KG_M3[1]:g} kg/m3")


class _Child:
    """A process that measures files of one folder, one after another."""

    def __init__(self, folder: Path, unit: LengthUnit | None) -> None:
        self._words = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder), unit or ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        )
        self._rest = b""
        self._is_late = False
        self._grace = _START_SECONDS

    def ask(self, name: str) -> Imported | None:
        """Returns what became of a file; None when that ended the process, or takes too long."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(name.encode("utf-8", "surrogateescape").hex().encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._line(MOST_SECONDS + self._grace)
        self._grace = 0.0
        return None if line is None else _ADAPTER.validate_json(line)

    def end(self) -> str:
        """Ends the process; returns why it gave no answer."""
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        words = _last_line(self._words)
        self._words.close()
        if self._is_late:
            return f"reading it takes more than {MOST_SECONDS:g} s. Simplify it."
        return f"it ended the process that read it ({words or f'exit code {code}'})."

    def _line(self, seconds: float) -> bytes | None:
        assert self._process.stdout is not None
        pipe, deadline = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                self._is_late = True
                return None
            more = os.read(pipe, 65536)
            if not more:
                self._process.wait()
                return None
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return line


def _last_line(words: IO[bytes]) -> str:
    words.seek(0)
    lines = words.read()[-2000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _answer(folder: Path, name: str, unit: LengthUnit | None) -> Imported:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        try:
            facts, guessed = measure(folder, name, unit)
        except Sim2CamError as error:
            return Imported(name, problem=str(error))
        except MemoryError:
            limit = f"{MOST_BYTES >> 30} GiB"
            return Imported(name, problem=f"{folder / name}: needs more memory than {limit}.")
    repairs = [str(one.message) for one in caught if issubclass(one.category, RepairWarning)]
    return Imported(name, facts, None, tuple(repairs), guessed)


def _serve(folder: Path, unit: LengthUnit | None) -> None:
    """Answers one line for each line with a name; libraries may print what they like."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        name = bytes.fromhex(line.decode()).decode("utf-8", "surrogateescape")
        answers.write(_ADAPTER.dump_json(_answer(folder, name, unit)) + b"\n")
        answers.flush()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2] or None)  # type: ignore[arg-type]
