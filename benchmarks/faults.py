"""Faults: data sets that are killed, made twice at once, torn, or whose workers stop, and what it costs to be safe.

    python benchmarks/faults.py [--kills N] [--doubles N] [--work DIR]

Every experiment ends with ``--resume`` and compares all bytes with those of a run that nothing disturbed.
Writes ``faults.json`` to ``benchmarks/results``; fails if a single data set differs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tyro

from sim2cam import files
from sim2cam.data.environment import collect_environment
from sim2cam.data.shards import read_shard_content, remove_damaged
from sim2cam.data.writer import write_json

RESULTS = Path(__file__).parent / "results"
RECIPE = 'base = "dice"\n[render]\nwidth = 96\nheight = 80\nviews = 2\n'
COUNT = 64  # four shards
STALL_S = 30
STARTED = """
import sim2cam.pipeline.generation as generate
from sim2cam.cli import main
generate.STALL_S = {stall_s}
if __name__ == "__main__":
    raise SystemExit(main())
"""
"""The command, with less patience for workers without progress."""
REPEATS = 5


@dataclass(frozen=True)
class Arguments:
    """How much is tried."""

    kills: int = 12
    """Runs that are killed."""
    doubles: int = 6
    """Pairs of runs on one folder."""
    work: Path = Path("runs/faults")
    """Folder of the data sets."""


@dataclass(frozen=True)
class Bench:
    """A folder to work in, the recipe, and the bytes of a run that nothing disturbed."""

    work: Path
    whole: dict[str, str]

    def root(self, name: str) -> Path:
        """Return a new folder."""
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def is_whole(self, root: Path) -> bool:
        """Resume a data set and return whether all its bytes are right then."""
        return start(self.work, root).wait() == 0 and bytes_of(root) == self.whole


def main(arguments: Arguments) -> None:
    """Run all experiments and write the results."""
    arguments.work.mkdir(parents=True, exist_ok=True)
    (arguments.work / "small.toml").write_text(RECIPE)
    (arguments.work / "patient.py").write_text(STARTED.format(stall_s=STALL_S))
    reference = arguments.work / "whole"
    shutil.rmtree(reference, ignore_errors=True)
    began = time.monotonic()
    if start(arguments.work, reference).wait() != 0:
        raise SystemExit("the undisturbed run failed")
    seconds = time.monotonic() - began
    bench = Bench(arguments.work, bytes_of(reference))
    experiments = [
        kill_runs(bench, arguments.kills, seconds, whole_group=True),
        kill_runs(bench, arguments.kills // 2, seconds, whole_group=False),
        run_twice(bench, arguments.doubles),
        tear_shards(bench, reference),
        lose_worker(bench, signal.SIGSTOP, "a worker is stopped"),
        lose_worker(bench, signal.SIGKILL, "a worker is killed"),
        end_with_stopped_worker(bench),
    ]
    facts = {
        "environment": collect_environment(None, 2),
        "samples": COUNT,
        "stall_s": STALL_S,
        "repeats": REPEATS,
        "undisturbed_s": seconds,
        "experiments": experiments,
        "costs": measure_costs(bench, reference),
    }
    write_json(RESULTS / "faults.json", facts)
    for one in experiments:
        print(f"{one['name']}: {one['whole']} of {one['tries']} data sets whole")
    if any(one["whole"] < one["tries"] for one in experiments):
        raise SystemExit("a data set is not what it has to be")


def start(work: Path, root: Path, **options: Any) -> subprocess.Popen[str]:
    """Start the command that makes or resumes a data set."""
    command = [sys.executable, work / "patient.py", "render", work / "small.toml", "--out", root]
    command += ["--count", str(COUNT), "--workers", "2", "--resume", "--quiet"]
    return subprocess.Popen(
        list(map(str, command)),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def bytes_of(root: Path) -> dict[str, str]:
    """Return the hash of every file but the facts of the run."""
    paths = [p for p in root.rglob("*") if p.is_file() and p.name != "environment.json"]
    return {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(paths)
    }


def kill_runs(bench: Bench, count: int, seconds: float, *, whole_group: bool) -> dict[str, Any]:
    """Kill runs at random moments, with their workers or without, and resume them."""
    chance, whole, before = np.random.default_rng(0), 0, semaphores()
    for number in range(count):
        root = bench.root(f"killed-{number}")
        child = start(bench.work, root)
        time.sleep(chance.uniform(0.2, 1.0) * seconds)
        with_workers = os.killpg if whole_group else os.kill
        if child.poll() is None:
            with_workers(child.pid, signal.SIGKILL)
        child.wait()
        whole += bench.is_whole(root)
        print(f"killed {number + 1} of {count}: {whole} whole", flush=True)
    name = "the run and its workers are killed" if whole_group else "the run is killed"
    left = len(semaphores() - before)
    return {"name": name, "tries": count, "whole": whole, "semaphores_left": left}


def semaphores() -> set[Path]:
    """Return the POSIX semaphores of this machine."""
    return set(Path("/dev/shm").glob("sem.*"))  # noqa: S108 - where Linux has them


def run_twice(bench: Bench, count: int) -> dict[str, Any]:
    """Start two runs on one folder at once; one is refused."""
    whole = refused = 0
    for number in range(count):
        root = bench.root(f"double-{number}")
        pair = [start(bench.work, root) for _ in range(2)]
        words = [child.communicate()[1] for child in pair]
        refused += sum(f"{root}: is in use: process" in text for text in words)
        codes = sorted(child.returncode for child in pair)
        whole += codes == [0, 1] and bytes_of(root) == bench.whole
    return {"name": "two runs share a folder", "tries": count, "whole": whole, "refused": refused}


def tear_shards(bench: Bench, reference: Path) -> dict[str, Any]:
    """Damage files of finished shards, as a machine that loses power does, and resume."""

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-9])

    def zero(path: Path) -> None:
        path.write_bytes(bytes(path.stat().st_size))

    kinds: list[tuple[str, Callable[[Path], None]]] = [
        (place, tear)
        for place in ("rgb/000003.jpg", "samples.jsonl", "scenes.jsonl")
        for tear in (cut, zero, Path.unlink)
    ]
    whole = 0
    for number, (place, tear) in enumerate(kinds):
        root = bench.root(f"torn-{number}")
        shutil.copytree(reference, root)
        tear(root / "shards/000000" / place)
        whole += bench.is_whole(root)
    return {"name": "files of a finished shard are torn", "tries": len(kinds), "whole": whole}


def lose_worker(bench: Bench, how: signal.Signals, name: str) -> dict[str, Any]:
    """Stop or kill one worker amid its work; the run goes on by itself."""
    root = bench.root(f"worker-{how.name}")
    began = time.monotonic()
    child = start(bench.work, root)
    os.kill(worker_of(child, root), how)
    code = child.wait()
    seconds = time.monotonic() - began
    whole = code == 0 and bytes_of(root) == bench.whole
    return {"name": name, "tries": 1, "whole": int(whole), "seconds": seconds}


def end_with_stopped_worker(bench: Bench) -> dict[str, Any]:
    """Ask a run with a stopped worker to end; it does, and can be resumed."""
    root = bench.root("ended")
    child = start(bench.work, root)
    worker = worker_of(child, root)
    os.kill(worker, signal.SIGSTOP)
    began = time.monotonic()
    child.send_signal(signal.SIGTERM)
    code = child.wait()
    seconds = time.monotonic() - began
    whole = code == 130 and not psutil.pid_exists(worker) and bench.is_whole(root)
    return {
        "name": "a run with a stopped worker is asked to end",
        "tries": 1,
        "whole": int(whole),
        "seconds": seconds,
    }


def worker_of(child: subprocess.Popen[str], root: Path) -> int:
    """Return the process of a worker that is writing a shard."""
    while not list(root.glob("shards/*.part/rgb/*")) and child.poll() is None:
        time.sleep(0.01)
    workers: list[int] = [
        one.pid
        for one in psutil.Process(child.pid).children(recursive=True)
        if "spawn_main" in " ".join(one.cmdline())
    ]
    return workers[0]


def measure_costs(bench: Bench, reference: Path) -> dict[str, Any]:
    """Return what flushing a shard and looking at finished shards takes; medians and extremes in ms."""
    shard = reference / "shards/000000"
    flushed, copied = [], []
    for number in range(REPEATS):
        began = time.perf_counter()
        copy = bench.root(f"copy-{number}")
        shutil.copytree(shard, copy)
        copied.append(time.perf_counter() - began)
        began = time.perf_counter()
        files.sync_tree(copy)
        flushed.append(time.perf_counter() - began)
        shutil.rmtree(copy)
    shards = len(list((reference / "shards").iterdir()))
    checks: dict[str, Callable[[Path], object]] = {
        "check_sample_ms": lambda root: [read_shard_content(root, n) for n in range(shards)],
        "hash_sample_ms": remove_damaged,
    }
    costs = {"copy_shard_ms": spread(copied), "flush_shard_ms": spread(flushed)}
    for name, check in checks.items():
        times = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            check(reference)
            times.append((time.perf_counter() - began) / COUNT)
        costs[name] = spread(times)
    return costs


def spread(seconds: list[float]) -> dict[str, float]:
    """Return median, least and greatest in milliseconds."""
    return {
        "median": 1e3 * statistics.median(seconds),
        "min": 1e3 * min(seconds),
        "max": 1e3 * max(seconds),
    }


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
