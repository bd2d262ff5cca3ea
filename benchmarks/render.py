"""Rendering speed: image-formation stages, images per second, and comparison with other renderers.

    python benchmarks/render.py [--peers PYTHON] [--frames N] [--traced N] [--pictures N]

Every renderer renders the same two tabletops at 512x512, with equal meshes, textures, camera and light, in
a separate process. Other renderers run with the interpreter ``--peers``; their packages are no
dependencies of sim2cam. A missing one is reported with its pip command. To install all of them::

    pip install "numpy<2" pyrender==0.1.45 pybullet mujoco "bpy==4.5.*"
    pip install --no-deps PyOpenGL==3.1.10    # pyrender pins 3.1.0, which MuJoCo cannot use

Writes ``render.json`` to ``benchmarks/results``, and ``renderers.jpg`` to the documentation. CPU time is that of all
threads of a process; Mesa, OpenCV and OpenMP get one thread. Needs an otherwise idle machine.
"""

from __future__ import annotations

import os

from rendering.commands import ONE_THREAD

if __name__ == "__main__":
    os.environ.update(ONE_THREAD)  # before any library counts cores

import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from rendering.candidates import (
    RENDERERS,
    SIM2CAM,
    benchmark_renderer,
    compute_agreement,
    get_channel_costs,
    read_image,
)
from rendering.end_to_end import measure_end_to_end
from rendering.floor import measure_floor
from rendering.sheet import write_contact_sheet
from rendering.steps import measure_steps
from rendering.tabletop import SIDE_PX, Tabletop, export_tabletop, make_tabletop
from result_files import FIGURES, RESULTS, write_results
from result_tables.speed import tabulate_renderers

from sim2cam.data.environment import collect_environment
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.render.renderer import get_renderer

RECIPE, FULL = (Path(__file__).with_name(f"{name}.toml") for name in ("render", "render-full"))
TABLETOPS = {"ten": 10, "fifty": 50}
POSES = 8
"""Distinct frames of a tabletop, repeated in turn."""


@dataclass(frozen=True)
class Arguments:
    """Options of the benchmark."""

    peers: Path = Path(sys.executable)
    """Python interpreter of the other renderers."""
    frames: int = 16
    """Frames per fast renderer and set of channels."""
    warm: int = 3
    """Warm-up frames."""
    traced: int = 3
    """Frames of Cycles, after one warm-up frame."""
    scenes: int = 10
    """Scenes for the cost of the stages."""
    pictures: int = 128
    """Images of each end-to-end run."""
    repeats: int = 3
    """End-to-end runs per number of workers."""
    out: Path = RESULTS
    """Folder of the results."""
    figures: Path = FIGURES
    """Folder of the contact sheet."""


def main(arguments: Arguments) -> None:
    """Run all measurements; write and print the results."""
    load = [os.getloadavg()[0]]
    tabletops = compare(arguments)
    print_progress("steps of the detection set")
    recipe = load_recipe(str(RECIPE))
    steps = measure_steps(recipe, arguments.scenes)
    floor = measure_floor(recipe, steps["steps"])
    print_progress("end to end")
    end_to_end = measure_end_to_end(RECIPE, FULL, arguments.pictures, arguments.repeats)
    results = {
        "environment": describe_machine(arguments),
        "load": [*load, os.getloadavg()[0]],
        "tabletops": tabletops,
        "steps": steps,
        "floor": floor,
        "end_to_end": end_to_end,
    }
    results["aims"] = list_aims(results)
    write_results(arguments.out / "render.json", results)
    print(tabulate_renderers(results))


def compare(arguments: Arguments) -> list[dict[str, Any]]:
    """Return the results of every renderer on every tabletop, and write the contact sheet."""
    comparisons = []
    with tempfile.TemporaryDirectory() as folder:
        for name, objects in TABLETOPS.items():
            tabletop = make_tabletop(name, objects, POSES)
            tabletop_folder = Path(folder) / name
            export_tabletop(tabletop, tabletop_folder)
            comparisons.append(_compare_renderers(arguments, tabletop, tabletop_folder))
            if len(comparisons) == 1:
                write_sheet(tabletop_folder, comparisons[0]["renderers"], arguments.figures)
    return comparisons


def _compare_renderers(arguments: Arguments, tabletop: Tabletop, folder: Path) -> dict[str, Any]:
    results = []
    for renderer in RENDERERS:
        print_progress(f"{tabletop.name}: {renderer.name}")
        python = sys.executable if renderer is SIM2CAM else str(arguments.peers)
        out = folder / renderer.program
        frames, warm = arguments.frames, arguments.warm
        if renderer.is_slow:
            frames, warm = arguments.traced, 0  # the frame of the image is the warm-up
        result = benchmark_renderer(renderer, python, folder, out, frames=frames, warm=warm)
        if result["state"] == "ran" and renderer is not SIM2CAM:
            result["agrees"] = compute_agreement(folder / SIM2CAM.program, out)
        print_progress(f"    {result['state']} {result.get('cure') or result.get('error') or ''}")
        results.append(result)
    return {
        "name": tabletop.name,
        "objects": tabletop.objects(),
        "triangles": tabletop.triangles(),
        "side_px": SIDE_PX,
        "renderers": results,
        "channels_cpu_ms": get_channel_costs(results[0]),
    }


def write_sheet(folder: Path, renderers: list[dict[str, Any]], out: Path) -> None:
    """Write a contact sheet of the images of all renderers that ran."""
    programs = {renderer.name: renderer.program for renderer in RENDERERS}
    ran = [result["name"] for result in renderers if result["state"] == "ran"]
    images = [(name, read_image(folder / programs[name])) for name in ran]
    write_contact_sheet(out / "renderers.jpg", images)


def describe_machine(arguments: Arguments) -> dict[str, Any]:
    """Return the environment and the numbers of repetitions."""
    counts = {key: value for key, value in asdict(arguments).items() if isinstance(value, int)}
    facts = collect_environment(get_renderer().name, 1) | {"counts": counts}
    del facts["command"]  # contains local paths
    return facts


def list_aims(results: dict[str, Any]) -> list[dict[str, str]]:
    """Return aims and measurements on the tabletop with the most triangles.

    Aims with one hard light, which other renderers have, are measured with one hard light.
    """
    tabletop = results["tabletops"][-1]
    cpu = {result["name"]: _get_cpu_ms(result) for result in tabletop["renderers"]}
    ours = cpu[SIM2CAM.name]
    objects = f"{tabletop['objects']} objects"
    plain = ours["all channels, one hard light"]
    smooth = ours["all channels, 4 samples, one hard light"]
    pyrender = cpu["pyrender"].get("RGB, depth")
    cycles = cpu["Blender Cycles, 16 samples"].get("RGB, depth, ids")
    end_to_end = results["end_to_end"]
    one, two = (end_to_end["workers"][n]["images_per_s"]["value"] for n in ("1", "2"))
    full = end_to_end["full"]["images_per_s"]["value"]
    rows = [
        (f"all channels, hard shadows, {objects}, CPU-ms", "at most 90", f"{plain:.0f}"),
        (
            f"all channels, hard shadows, 4 samples per pixel, {objects}, CPU-ms",
            "at most 180",
            f"{smooth:.0f}",
        ),
        (
            "time of pyrender for RGB and depth / of sim2cam for all channels, hard shadows",
            "at least 4",
            _format_ratio(pyrender, plain),
        ),
        (
            "time of Cycles / of sim2cam, hard shadows; with 4 samples per pixel",
            "at least 100",
            f"{_format_ratio(cycles, plain)}; {_format_ratio(cycles, smooth)}",
        ),
        ("detection channels, images per second, 2 workers", "at least 8", f"{two:.1f}"),
        ("all channels, images per second, 2 workers", "at least 2.5", f"{full:.1f}"),
        ("speedup with 2 workers", "at least 1.9", f"{two / one:.2f}"),
    ]
    return [dict(zip(("what", "aim", "measured"), row, strict=True)) for row in rows]


def _get_cpu_ms(result: dict[str, Any]) -> dict[str, float]:
    return {timing["what"]: timing["cpu_ms"]["value"] for timing in result.get("timings", [])}


def _format_ratio(theirs: float | None, ours: float) -> str:
    return "not run" if theirs is None else f"{theirs / ours:.1f}"


def print_progress(line: str) -> None:
    """Print progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
