"""Fault tolerance of dataset generation, and the cost of it.

    python benchmarks/faults.py [--kills N] [--doubles N] [--work DIR]

Runs are killed, started twice, lose workers, or find damaged files. Every experiment ends with ``--resume``
and compares all bytes with an undisturbed run. Writes ``faults.json`` to ``benchmarks/results``. Fails if
any dataset differs.
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
from result_files import RESULTS, write_results

from sim2cam import files
from sim2cam.data.environment import collect_environment
from sim2cam.data.shards import read_shard_content, remove_damaged

RECIPE = 'base = "dice"\n[render]\nwidth = 96\nheight = 80\nviews = 2\n'
COUNT = 64  # 4 shards
STALL_S = 30
SCRIPT = """
import sim2cam.pipeline.generation as generate
from sim2cam.cli import main
generate.STALL_S = {stall_s}
if __name__ == "__main__":
    raise SystemExit(main())
"""
"""Script of the command with a shorter timeout for workers without progress."""
REPEATS = 5


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    kills: int = 12
    """Number of killed runs."""
    doubles: int = 6
    """Number of pairs of runs on one folder."""
    work: Path = Path("runs/faults")
    """Folder of the datasets."""


@dataclass(frozen=True)
class Bench:
    """Inputs of the experiments.

    Attributes:
        work: working folder, with the recipe.
        whole: file hashes of the undisturbed run.
    """

    work: Path
    whole: dict[str, str]

    def root(self, name: str) -> Path:
        """Return the path of a new folder."""
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def is_whole(self, root: Path) -> bool:
        """Resume a dataset and return whether all its bytes match the undisturbed run."""
        return start_run(self.work, root).wait() == 0 and hash_files(root) == self.whole


def main(arguments: Arguments) -> None:
    """Run all experiments and write the results."""
    arguments.work.mkdir(parents=True, exist_ok=True)
    (arguments.work / "small.toml").write_text(RECIPE)
    (arguments.work / "patient.py").write_text(SCRIPT.format(stall_s=STALL_S))
    reference = arguments.work / "whole"
    shutil.rmtree(reference, ignore_errors=True)
    start_s = time.monotonic()
    if start_run(arguments.work, reference).wait() != 0:
        raise SystemExit("The undisturbed run failed.")
    seconds = time.monotonic() - start_s
    bench = Bench(arguments.work, hash_files(reference))
    experiments = [
        kill_runs(bench, arguments.kills, seconds, whole_group=True),
        kill_runs(bench, arguments.kills // 2, seconds, whole_group=False),
        run_twice(bench, arguments.doubles),
        damage_shards(bench, reference),
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
    write_results(RESULTS / "faults.json", facts)
    for row in experiments:
        print(f"{row['name']}: {row['whole']} of {row['tries']} datasets complete")
    if any(row["whole"] < row["tries"] for row in experiments):
        raise SystemExit("At least one dataset differs from the undisturbed run.")


def start_run(work: Path, root: Path, **options: Any) -> subprocess.Popen[str]:
    """Start the command that generates or resumes a dataset."""
    command = [sys.executable, work / "patient.py", "render", work / "small.toml", "--out", root]
    command += ["--count", str(COUNT), "--workers", "2", "--resume", "--quiet"]
    return subprocess.Popen(
        list(map(str, command)),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def hash_files(root: Path) -> dict[str, str]:
    """Return the hash of every file except ``environment.json``, by relative path."""
    paths = [p for p in root.rglob("*") if p.is_file() and p.name != "environment.json"]
    return {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(paths)
    }


def kill_runs(bench: Bench, count: int, seconds: float, *, whole_group: bool) -> dict[str, Any]:
    """Kill runs at random times, with or without their workers, and resume them."""
    rng, whole, before = np.random.default_rng(0), 0, list_semaphores()
    for number in range(count):
        root = bench.root(f"killed-{number}")
        child = start_run(bench.work, root)
        time.sleep(rng.uniform(0.2, 1.0) * seconds)
        with_workers = os.killpg if whole_group else os.kill
        if child.poll() is None:
            with_workers(child.pid, signal.SIGKILL)
        child.wait()
        whole += bench.is_whole(root)
        print(f"killed {number + 1} of {count}: {whole} whole", flush=True)
    name = "the run and its workers are killed" if whole_group else "the run is killed"
    left = len(list_semaphores() - before)
    return {"name": name, "tries": count, "whole": whole, "semaphores_left": left}


def list_semaphores() -> set[Path]:
    """Return the POSIX semaphores of this machine."""
    return set(Path("/dev/shm").glob("sem.*"))  # noqa: S108 - folder of semaphores on Linux


def run_twice(bench: Bench, count: int) -> dict[str, Any]:
    """Start two runs on one folder at once; one must be refused."""
    whole = refused = 0
    for number in range(count):
        root = bench.root(f"double-{number}")
        pair = [start_run(bench.work, root) for _ in range(2)]
        messages = [child.communicate()[1] for child in pair]
        refused += sum(f"{root}: is in use: process" in text for text in messages)
        codes = sorted(child.returncode for child in pair)
        whole += codes == [0, 1] and hash_files(root) == bench.whole
    return {"name": "two runs share a folder", "tries": count, "whole": whole, "refused": refused}


def damage_shards(bench: Bench, reference: Path) -> dict[str, Any]:
    """Damage files of finished shards, as a power loss does, and resume."""

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-9])

    def zero(path: Path) -> None:
        path.write_bytes(bytes(path.stat().st_size))

    kinds: list[tuple[str, Callable[[Path], None]]] = [
        (place, damage)
        for place in ("rgb/000003.jpg", "samples.jsonl", "scenes.jsonl")
        for damage in (cut, zero, Path.unlink)
    ]
    whole = 0
    for number, (place, damage) in enumerate(kinds):
        root = bench.root(f"torn-{number}")
        shutil.copytree(reference, root)
        damage(root / "shards/000000" / place)
        whole += bench.is_whole(root)
    return {"name": "files of a finished shard are torn", "tries": len(kinds), "whole": whole}


def lose_worker(bench: Bench, how: signal.Signals, name: str) -> dict[str, Any]:
    """Stop or kill one busy worker; the run must recover."""
    root = bench.root(f"worker-{how.name}")
    start_s = time.monotonic()
    child = start_run(bench.work, root)
    os.kill(find_busy_worker(child, root), how)
    code = child.wait()
    seconds = time.monotonic() - start_s
    whole = code == 0 and hash_files(root) == bench.whole
    return {"name": name, "tries": 1, "whole": int(whole), "seconds": seconds}


def end_with_stopped_worker(bench: Bench) -> dict[str, Any]:
    """Terminate a run with a stopped worker, and resume it."""
    root = bench.root("ended")
    child = start_run(bench.work, root)
    worker = find_busy_worker(child, root)
    os.kill(worker, signal.SIGSTOP)
    start_s = time.monotonic()
    child.send_signal(signal.SIGTERM)
    code = child.wait()
    seconds = time.monotonic() - start_s
    whole = code == 130 and not psutil.pid_exists(worker) and bench.is_whole(root)
    return {
        "name": "a run with a stopped worker is asked to end",
        "tries": 1,
        "whole": int(whole),
        "seconds": seconds,
    }


def find_busy_worker(child: subprocess.Popen[str], root: Path) -> int:
    """Return the process id of a worker that writes a shard."""
    while not list(root.glob("shards/*.part/rgb/*")) and child.poll() is None:
        time.sleep(0.01)
    workers: list[int] = [
        process.pid
        for process in psutil.Process(child.pid).children(recursive=True)
        if "spawn_main" in " ".join(process.cmdline())
    ]
    return workers[0]


def measure_costs(bench: Bench, reference: Path) -> dict[str, Any]:
    """Return the time of flushing a shard and of checking finished shards, in ms."""
    shard = reference / "shards/000000"
    flushed, copied = [], []
    for number in range(REPEATS):
        start_s = time.perf_counter()
        copy = bench.root(f"copy-{number}")
        shutil.copytree(shard, copy)
        copied.append(time.perf_counter() - start_s)
        start_s = time.perf_counter()
        files.sync_tree(copy)
        flushed.append(time.perf_counter() - start_s)
        shutil.rmtree(copy)
    shards = len(list((reference / "shards").iterdir()))
    checks: dict[str, Callable[[Path], object]] = {
        "check_sample_ms": lambda root: [read_shard_content(root, n) for n in range(shards)],
        "hash_sample_ms": remove_damaged,
    }
    costs = {"copy_shard_ms": compute_spread(copied), "flush_shard_ms": compute_spread(flushed)}
    for name, check in checks.items():
        times = []
        for _ in range(REPEATS):
            start_s = time.perf_counter()
            check(reference)
            times.append((time.perf_counter() - start_s) / COUNT)
        costs[name] = compute_spread(times)
    return costs


def compute_spread(seconds: list[float]) -> dict[str, float]:
    """Return median, minimum and maximum in milliseconds."""
    return {
        "median": 1e3 * statistics.median(seconds),
        "min": 1e3 * min(seconds),
        "max": 1e3 * max(seconds),
    }


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
