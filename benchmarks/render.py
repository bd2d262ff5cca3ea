"""What rendering costs: each step of a picture, pictures a second, and other renderers beside ours.

    python benchmarks/render.py [--peers PYTHON] [--frames N] [--traced N] [--pictures N]

Every renderer draws the same two tabletops at 512x512, same meshes, pictures, camera and light, in a
process of its own; peers run with the interpreter ``--peers``, whose packages are no dependencies
of sim2cam; one that is not installed is reported so, with its pip line. All of them at once::

    pip install "numpy<2" pyrender==0.1.45 pybullet mujoco "bpy==4.5.*"
    pip install --no-deps PyOpenGL==3.1.10    # pyrender pins 3.1.0, which MuJoCo cannot use

Writes ``render.json`` and ``render/renderers.jpg`` to ``benchmarks/results``. CPU time is that of all
threads of a process; Mesa, OpenCV and OpenMP are given one. Wants a machine that does nothing else.
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
from readme_tables import render_table
from rendering.contenders import CONTENDERS, SIM2CAM, agreement, channel_costs, contest, picture
from rendering.end_to_end import measure_end_to_end
from rendering.floor import measure_floor
from rendering.sheet import write_contact_sheet
from rendering.steps import measure_steps
from rendering.tabletop import SIDE_PX, Tabletop, export, make_tabletop

from sim2cam.data.environment import collect_environment
from sim2cam.data.writer import write_json
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.render.rasterizer import get_rasterizer

RESULTS = Path(__file__).parent / "results"
RECIPE, FULL = (Path(__file__).with_name(f"{name}.toml") for name in ("render", "render-full"))
TABLETOPS = {"ten": 10, "fifty": 50}
POSES = 8
"""Different frames of a tabletop; then they begin again."""


@dataclass(frozen=True)
class Arguments:
    """How much is measured."""

    peers: Path = Path(sys.executable)
    """Interpreter of the peers."""
    frames: int = 16
    """Frames of each fast renderer and set of channels."""
    warm: int = 3
    """Frames before these, which are not counted."""
    traced: int = 3
    """Frames of Cycles, after one that is not counted."""
    scenes: int = 10
    """Scenes whose steps are measured."""
    pictures: int = 128
    """Pictures of each end-to-end run."""
    repeats: int = 3
    """End-to-end runs with each number of workers."""
    out: Path = RESULTS
    """Folder of the results."""


def main(arguments: Arguments) -> None:
    """Measure, writes and prints."""
    load = [os.getloadavg()[0]]
    tabletops = compare(arguments)
    tell("steps of the detection set")
    recipe = load_recipe(str(RECIPE))
    steps = measure_steps(recipe, arguments.scenes)
    floor = measure_floor(recipe, steps["steps"])
    tell("end to end")
    end_to_end = measure_end_to_end(RECIPE, FULL, arguments.pictures, arguments.repeats)
    results = {
        "environment": machine_facts(arguments),
        "load": [*load, os.getloadavg()[0]],
        "tabletops": tabletops,
        "steps": steps,
        "floor": floor,
        "end_to_end": end_to_end,
    }
    results["aims"] = aims(results)
    write_json(arguments.out / "render.json", results)
    print(render_table(results))


def compare(arguments: Arguments) -> list[dict[str, Any]]:
    """Return what every renderer did on every tabletop, and writes the contact sheet."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, objects in TABLETOPS.items():
            tabletop = make_tabletop(name, objects, POSES)
            place = Path(folder) / name
            export(tabletop, place)
            found.append(_compare(arguments, tabletop, place))
            if len(found) == 1:
                write_sheet(place, found[0]["renderers"], arguments.out / "render")
    return found


def _compare(arguments: Arguments, tabletop: Tabletop, folder: Path) -> dict[str, Any]:
    results = []
    for contender in CONTENDERS:
        tell(f"{tabletop.name}: {contender.name}")
        python = sys.executable if contender is SIM2CAM else str(arguments.peers)
        out = folder / contender.program
        frames, warm = arguments.frames, arguments.warm
        if contender.is_slow:
            frames, warm = arguments.traced, 0  # the one that makes the picture warms up
        result = contest(contender, python, folder, out, frames=frames, warm=warm)
        if result["state"] == "ran" and contender is not SIM2CAM:
            result["agrees"] = agreement(folder / SIM2CAM.program, out)
        tell(f"    {result['state']} {result.get('cure') or result.get('error') or ''}")
        results.append(result)
    return {
        "name": tabletop.name,
        "objects": tabletop.objects(),
        "triangles": tabletop.triangles(),
        "side_px": SIDE_PX,
        "renderers": results,
        "channels_cpu_ms": channel_costs(results[0]),
    }


def write_sheet(folder: Path, renderers: list[dict[str, Any]], out: Path) -> None:
    """Write the pictures of all renderers that ran as one."""
    programs = {contender.name: contender.program for contender in CONTENDERS}
    ran = [result["name"] for result in renderers if result["state"] == "ran"]
    drawn = [(name, picture(folder / programs[name])) for name in ran]
    write_contact_sheet(out / "renderers.jpg", drawn)


def machine_facts(arguments: Arguments) -> dict[str, Any]:
    """Return what this ran on, and how much of it."""
    counts = {key: value for key, value in asdict(arguments).items() if isinstance(value, int)}
    facts = collect_environment(get_rasterizer().name, 1) | {"counts": counts}
    del facts["command"]  # names where the peers lie
    return facts


def aims(results: dict[str, Any]) -> list[dict[str, str]]:
    """Return what was aimed at beside what was measured; on the tabletop with most triangles.

    Where the aim is one light with shadows, as peers have, that is what ours is measured in, too.
    """
    tabletop = results["tabletops"][-1]
    cpu = {result["name"]: _cpu_ms(result) for result in tabletop["renderers"]}
    ours = cpu[SIM2CAM.name]
    objects = f"{tabletop['objects']} objects"
    plain = ours["all channels, one hard light"]
    smooth = ours["all channels, 4 samples, one hard light"]
    pyrender = cpu["pyrender"].get("RGB, depth")
    cycles = cpu["Blender Cycles, 16 samples"].get("RGB, depth, ids")
    end_to_end = results["end_to_end"]
    two = end_to_end["workers"]["2"]["pictures_per_s"]["value"]
    full = end_to_end["full"]["pictures_per_s"]["value"]
    rows = [
        (f"all channels, one hard light, {objects}, CPU-ms", "at most 90", f"{plain:.0f}"),
        (
            f"all channels, one hard light, 4 samples, {objects}, CPU-ms",
            "at most 180",
            f"{smooth:.0f}",
        ),
        (
            "pyrender's RGB and depth over all our channels",
            "at least 4",
            _ratio(pyrender, plain),
        ),
        (
            "Cycles over all our channels; with 4 samples",
            "at least 100",
            f"{_ratio(cycles, plain)}; {_ratio(cycles, smooth)}",
        ),
        ("detection set, pictures a second, 2 workers", "at least 8", f"{two:.1f}"),
        ("all channels, pictures a second, 2 workers", "at least 2.5", f"{full:.1f}"),
        ("2 workers over 1", "at least 1.9", f"{end_to_end['scaling']:.2f}"),
    ]
    return [dict(zip(("what", "aim", "measured"), row, strict=True)) for row in rows]


def _cpu_ms(result: dict[str, Any]) -> dict[str, float]:
    return {timing["what"]: timing["cpu_ms"]["value"] for timing in result.get("timings", [])}


def _ratio(theirs: float | None, ours: float) -> str:
    return "not run" if theirs is None else f"{theirs / ours:.1f}"


def tell(line: str) -> None:
    """Say what is going on."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
