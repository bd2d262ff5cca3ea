"""Bringing in assets: each file is read and measured in a child process with limits.

Files of users are damaged, huge or malicious. What breaks here breaks a child, never the parent.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sim2cam.errors import InputError, RepairWarning, Sim2CamError
from sim2cam.geometry.masses import center_of
from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.render.assets import cache
from sim2cam.render.assets.companions import MAX_BYTES, Place
from sim2cam.render.assets.content import packed
from sim2cam.render.assets.decomposition import decomposer
from sim2cam.render.assets.files import category_of, read_card
from sim2cam.render.assets.hull import hull_of, spread_of, taken_apart
from sim2cam.render.assets.mesh_file import parse_file
from sim2cam.render.assets.reader import MODEL_SUFFIXES, Sources
from sim2cam.scene.articulation import Articulation
from sim2cam.scene.asset import METRES, LengthUnit, MeshFile
from sim2cam.scene.asset_facts import ASSUMED, AssetCard, AssetFacts, Interval

Floats = NDArray[np.float64]

MOST_SECONDS = 15.0
"""Time of a core that reading one file is given; the first one of a child more."""
MOST_BYTES = 4 * 2**30
"""Memory that a child is given."""

SIZES_M = (0.001, 3.0)
"""Between which the longest side of an object has to be."""

_START_SECONDS = 20.0
_APART_SECONDS = {"vhacd": 20.0, "coacd": 120.0}  # for what is read well, and concave
_WAITS = 4  # by the clock, for a process that is given half a core, or waits for a disk
_LOOK_SECONDS = 0.1
_READ = b"read"
_SPARE = 1.5  # times the work that the parent allows: where it is gone, the system ends a child
_PR_SET_PDEATHSIG = 1
_UNFORESEEN = (
    "cannot be used: its shape is none that can be measured. Repair it, or export it again."
)
_METRIC: LengthUnit = "m"
_METRIC_SUFFIXES = (".glb", ".gltf", ".dae", *MODEL_SUFFIXES)  # by their specifications
_LARGEST_IN_METRES = 3.0  # numbers beyond are millimetres, as scans and CAD have them
_DENSITIES_KG_M3 = (300.0, 1500.0)  # hollow plastic to filled
_FRICTION = Interval(0.3, 0.8, ASSUMED)
_RESTITUTION = Interval(0.1, 0.5, ASSUMED)
_LEAST_MASS_KG = 1e-4
_THIN_M = 5e-4
_MOST_BESIDE = 0.5  # of an object's longest side, by which a keypoint may lie outside of its box


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


@dataclass(frozen=True)
class _Measures:
    """What a child found in a file; lengths in the file's unit.

    Attributes:
        sources: the files that were read.
        low, high: opposite corners of its box.
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

    sources: Sources
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
class _Answer:
    """Of a child: measures, or why there are none."""

    measures: _Measures | None = None
    problem: str | None = None


_MEASURES: TypeAdapter[_Measures] = TypeAdapter(_Measures)
_ANSWER: TypeAdapter[_Answer] = TypeAdapter(_Answer)


def import_assets(
    folder: Path, names: Sequence[str], unit: LengthUnit | None = None
) -> Iterator[Imported]:
    """Yields what became of each file, in order; none of them can harm this process.

    What is there is remembered in the cache, with the cleaned mesh, for as long as the file and all
    that it names stay as they are.

    Args:
        folder: of assets.
        names: of files in it.
        unit: of the numbers of files that do not say themselves, as cards and glTF do; None to
            guess.
    """
    child = _Children()
    try:
        for name in names:
            path = folder / name
            if not _is_text(name):
                shown = os.fsencode(name).decode("utf-8", "replace")
                yield Imported(shown, problem=f"{folder}/{shown}: its name is no UTF-8. Rename it.")
                continue
            try:
                card = read_card(path)
                known = _remembered(path, folder)
                answer = _Answer(known) if known else child.ask(path, folder)
                if answer.measures is None:
                    yield Imported(name, problem=answer.problem)
                    continue
                if known is None:
                    _remember(path, folder, answer.measures)
                yield _imported(path, name, card, answer.measures, unit)
            except InputError as error:
                yield Imported(name, problem=str(error))
    finally:
        child.end()


def _is_text(name: str) -> bool:
    """Returns whether the name of a file can be written down."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _imported(
    path: Path, name: str, card: AssetCard, found: _Measures, unit: LengthUnit | None
) -> Imported:
    """Returns an asset of these measures.

    Raises:
        InputError: it is too small or too large, or its card is about something else.
    """
    longest = max(high - low for low, high in zip(found.low, found.high, strict=True))
    suffix = path.suffix.lower()
    told = card.unit or (_METRIC if suffix in _METRIC_SUFFIXES else unit)
    if found.articulation and told != _METRIC:
        raise InputError(path.with_suffix(".toml"), f"unit: a {suffix[1:].upper()} is in metres.")
    if found.articulation and card.center_of_mass:
        problem = f"center_of_mass: a {suffix[1:].upper()} says itself where its links have theirs."
        raise InputError(path.with_suffix(".toml"), problem)
    known = told or _guessed_unit(longest)
    metres = METRES[known]
    _check_size(path, longest * metres, known)
    joints = found.articulation.rest() if found.articulation else ()
    _check_keypoints(path, card, found)
    points = {key: _times(metres, point) for key, point in card.keypoints.items()}
    if found.articulation:
        points |= found.articulation.origins(joints)
    facts = AssetFacts(
        name=name,
        mesh=MeshFile(
            str(path),
            category_of(name, card),
            metres,
            keypoints=tuple(points.items()),
            digest=found.sources.digest(),
            joints=joints,
        ),
        low_m=_times(metres, found.low),
        high_m=_times(metres, found.high),
        center_m=_times(metres, found.center),
        radius_m=found.radius * metres,
        faces=found.faces,
        is_closed=found.is_closed,
        parts=found.parts,
        mass_kg=card.mass_kg or _mass(path, found, metres),
        friction=card.friction or _FRICTION,
        restitution=card.restitution or _RESTITUTION,
        symmetries=card.symmetries,
        licence=card.licence,
        articulation=found.articulation,
        mass_offset_m=_mass_offset(path, card, found, metres),
    )
    doubts = list(found.repairs)
    if min(facts.size_m) < _THIN_M:
        thin = min(facts.size_m) * 1e3
        doubts.append(f"only {thin:.2g} mm thick. It may sink into what it lies on.")
    return Imported(name, facts, None, tuple(doubts), None if told else known)


def _times(length: float, vector: Vec3) -> Vec3:
    return vec3(np.multiply(vector, length))


def _guessed_unit(longest: float) -> LengthUnit:
    """Returns the unit of a file whose longest side is so many of it."""
    return "m" if longest <= _LARGEST_IN_METRES else "mm"


def _check_size(path: Path, longest_m: float, unit: LengthUnit) -> None:
    low, high = SIZES_M
    if not low <= longest_m <= high:
        kind, card = path.suffix[1:].upper(), path.with_suffix(".toml").name
        is_model = path.suffix.lower() in MODEL_SUFFIXES
        hint = (
            f"A {kind} is in metres: scale what it holds."
            if is_model
            else f'Say unit = "mm", or another, in {card}.'
        )
        raise InputError(
            path,
            f"its longest side is {longest_m:.3g} m when its numbers are in {unit}; objects of "
            f"{low:g} to {high:g} m can be thrown. {hint}",
        )


def _check_keypoints(path: Path, card: AssetCard, found: _Measures) -> None:
    """Refuses keypoints far from the object, whose numbers are in another unit or frame."""
    low, high = np.array(found.low), np.array(found.high)
    most = _MOST_BESIDE * (high - low).max()
    for name, point in card.keypoints.items():
        if (np.subtract(point, high) > most).any() or (np.subtract(low, point) > most).any():
            raise InputError(
                path.with_suffix(".toml"),
                f"keypoint {name} lies at {point}, farther than half the object's longest side from it; "
                f"it reaches from {_shown(low)} to {_shown(high)}. Give it in the frame and unit of "
                f"{path.name}.",
            )


def _shown(point: Floats) -> str:
    return f"({', '.join(f'{one:g}' for one in point)})"


def _mass_offset(path: Path, card: AssetCard, found: _Measures, metres: float) -> Vec3 | None:
    """Returns how far from the centre of its shape an object balances; None when nobody said.

    Raises:
        InputError: that is outside of the object.
    """
    if card.center_of_mass is None:
        return None
    for axis, low, at, high in zip("xyz", found.low, card.center_of_mass, found.high, strict=True):
        if not low <= at <= high:
            raise InputError(
                path.with_suffix(".toml"),
                f"center_of_mass: {axis} is {at:g}, outside of the object, which reaches from {low:g} "
                f"to {high:g}. Give it in the frame and unit of {path.name}.",
            )
    return _times(metres, vec3(np.subtract(card.center_of_mass, found.center)))


def _mass(path: Path, found: _Measures, metres: float) -> Interval:
    if found.mass_kg > 0:
        return Interval(found.mass_kg, found.mass_kg, path.name)
    volume_m3 = found.volume * metres**3
    low, high = (max(_LEAST_MASS_KG, volume_m3 * density) for density in _DENSITIES_KG_M3)
    return Interval(
        low, high, f"{ASSUMED}: {_DENSITIES_KG_M3[0]:g} to {_DENSITIES_KG_M3[1]:g} kg/m3"
    )


def _remembered(path: Path, folder: Path) -> _Measures | None:
    """Return the measures of a file in the cache, if all that it was read from is as it was, and
    nothing is there that was missing.
    """
    data = cache.read(_entry(path, folder))
    if data is None:
        return None
    try:
        found = _MEASURES.validate_json(data)
    except ValidationError:
        return None
    place = Place(path, folder)
    same = all(_hash(path.parent / name) == sha for name, sha in found.sources.hashes.items())
    came = any(place.find(name) for name in found.sources.missing)
    return found if same and not came else None


def _remember(path: Path, folder: Path, measures: _Measures) -> None:
    cache.write(_entry(path, folder), _MEASURES.dump_json(measures))


def _entry(path: Path, folder: Path) -> str:
    """Return the name of a file's measures in the cache."""
    facts = (os.path.relpath(path, folder), _hash(path), decomposer())
    return f"{hashlib.sha256(repr(facts).encode()).hexdigest()}.json"


def _hash(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:  # the child that reads it says why
        return None


class _Children:
    """A process that measures files, one after another; another one after each that it ends with."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes]
        self._rest = b""

    def ask(self, path: Path, folder: Path) -> _Answer:
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
            most, step = MOST_SECONDS, "reading it"
            line = self._line(most + grace)
            if line == _READ:
                most, step = _APART_SECONDS[decomposer()], "taking it apart into convex parts"
                line = self._line(most)
        except TimeoutError:
            self.end()
            return _Answer(problem=f"{path}: {step} takes more than {most:g} s. Simplify it.")
        if line is None:
            code = process.wait()
            reason = _last_line(self._words) or f"exit code {code}"
            self.end()
            return _Answer(problem=f"{path}: cannot be read; it ended the process ({reason}).")
        try:
            return _ANSWER.validate_json(line)
        except ValidationError:
            return _Answer(problem=f"{path}: {_UNFORESEEN}")

    def end(self) -> None:
        """Ends the process, if there is one."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._words.close()
        self._process, self._rest = None, b""

    def _start(self) -> subprocess.Popen[bytes]:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed at its end
        self._process = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
            process_group=0,  # so that Ctrl-C reaches the parent alone, which ends it
        )
        return self._process

    def _line(self, seconds: float) -> bytes | None:
        """Returns the next line; None when the process ended without one.

        Raises:
            TimeoutError: there is none after so many seconds of work, or a few times as many by the
                clock, which run on while other processes are at work.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        pipe, pid = self._process.stdout.fileno(), self._process.pid
        worked, deadline = _worked_s(pid), time.monotonic() + _WAITS * seconds
        while b"\n" not in self._rest:
            if not select.select([pipe], [], [], _LOOK_SECONDS)[0]:
                if _worked_s(pid) - worked > seconds or time.monotonic() > deadline:
                    raise TimeoutError
                continue
            more = os.read(pipe, 65536)
            if not more:
                return None
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return line


def _worked_s(pid: int) -> float:
    """Returns how long a process has been at work; by the clock where the system does not tell."""
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

    _end_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def say(line: bytes) -> None:
        answers.write(line + b"\n")
        answers.flush()

    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_take_lines, args=(lines,), daemon=True).start()
    while True:
        words = lines.get().split()
        path, folder = (Path(os.fsdecode(bytes.fromhex(word.decode()))) for word in words)
        _limit_work()
        say(_ANSWER.dump_json(_answer(path, folder, lambda: say(_READ))))


def _take_lines(lines: SimpleQueue[bytes]) -> None:
    """Pass on the lines of the parent; end the process when there are no more."""
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


def _end_with_parent() -> None:
    """Have the system end this process when its parent ends, also while a library is at work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    with suppress(OSError, AttributeError):  # where the system is not Linux, the end of stdin does
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit_work() -> None:
    """Let the system end this process when one file takes much more work than it is given."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    more = MOST_SECONDS + _START_SECONDS + _APART_SECONDS[decomposer()]
    most = int(used.ru_utime + used.ru_stime + _SPARE * more) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _answer(path: Path, folder: Path, when_read: Callable[[], None]) -> _Answer:
    try:
        return _Answer(_measure(path, folder, when_read))
    except Sim2CamError as error:
        return _Answer(problem=str(error))
    except MemoryError:
        return _Answer(
            problem=f"{path}: needs more memory than {MOST_BYTES >> 30} GiB. Simplify it."
        )
    except Exception:  # noqa: BLE001 - one file never stops the others
        return _Answer(problem=f"{path}: {_UNFORESEEN}")


def _measure(path: Path, folder: Path, when_read: Callable[[], None]) -> _Measures:
    """Returns the measures of a file, and puts its cleaned mesh into the cache."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepairWarning)
        parsed = parse_file(path, MeshFile.max_faces, folder)
        when_read()
        content, sources = taken_apart(parsed.content), parsed.sources
    states = content.articulation.rest() if content.articulation else ()
    vertices = content.posed(states).mesh.vertices_m
    hull = hull_of(vertices)
    if not content.parts and hull.volume == 0:
        problem = "is flat, and nothing without a thickness can lie on a table."
        raise InputError(path, f"{problem} Make it a solid, 0.5 mm thick or more.")
    cache.write(f"{sources.digest()}.npz", packed(content))
    center = center_of(spread_of(content, states))
    return _Measures(
        sources,
        vec3(vertices.min(axis=0)),
        vec3(vertices.max(axis=0)),
        vec3(center),
        float(np.linalg.norm(vertices - center, axis=1).max()),
        content.volume() if content.is_closed else hull.volume / 2,
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
