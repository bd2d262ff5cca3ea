"""Tables of rendering, training and prediction costs, and of the distance to path tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from result_tables.cells import Results, format_spread, format_table

RENDERERS = ("sim2cam", "pyrender", "pybullet TinyRenderer", "MuJoCo", "Blender Cycles, 16 samples")
COMPARED = {
    "RGB, depth": "RGB, depth",
    "RGB, depth, ids": "RGB, depth, ids",
    "all channels": "all channels",
    "all channels, 4 samples": "all channels, 4 samples per pixel",
    "all channels, one hard light": "all channels, hard shadows",
    "all channels, 4 samples, one hard light": "all channels, 4 samples per pixel, hard shadows",
}
"""Compared sets of channels, with the name that tables print."""
STAGES = {
    "chance": "sampling of the scene",
    "lens: maps": "lens: distortion maps",
    "lens: colour": "lens: colour",
}
"""Names of stages that tables print in place of those of the results."""
LIMITS = {
    "sim2cam": "no indirect light; area lights are several point lights",
    "pyrender": "ambient light without shadows; ids do not match colour at silhouettes; no normals, parts, object coordinates or amodal masks",
    "pybullet TinyRenderer": "no anti-aliasing, texture filtering, linear light or highlights; one shadow; no normals, parts, object coordinates or amodal masks",
    "MuJoCo": "no environment light, linear light or soft shadows; no normals, parts, object coordinates or amodal masks",
    "Blender Cycles, 16 samples": "noise at 16 samples; no parts, object coordinates or amodal masks in these passes",
}  # fmt: skip
"""What each renderer lacks in comparison with the others."""


def tabulate_renderers(results: Results) -> str:
    """Return the costs of each renderer and set of channels."""
    tabletops = results["tabletops"] if results else []
    headers = [f"{t['objects']} objects, {t['triangles']:,} triangles" for t in tabletops]
    headers = headers or ["10 objects", "50 objects"]
    rows: list[Sequence[str]] = []
    for name in RENDERERS:
        runs = [_find_by_name(t["renderers"], name) for t in tabletops]
        rows += _format_renderer(name, runs) if runs else [(name, "not run")]
    costs = (f"CPU-ms: {head}" for head in headers)
    return format_table(
        ("renderer, 512x512", *costs, "ms, 50 objects", "memory, MB", "equal ids"), rows
    )


def tabulate_render_targets(results: Results) -> str:
    """Return the targets of the renderer and the measured values."""
    return format_table(
        ("target", "", "measured"),
        (
            (row["what"], row["aim"], row["measured"])
            for row in (results["aims"] if results else [])
        ),
    )


def tabulate_renderer_limits(results: Results) -> str:
    """Return the limits of each renderer that was run."""
    runs = results["tabletops"][0]["renderers"] if results else []
    return format_table(
        ("renderer", "limits"),
        ((run["name"], LIMITS[run["name"]]) for run in runs if run["state"] == "ran"),
    )


def tabulate_render_stages(results: Results) -> str:
    """Return the cost of each stage of the detection dataset, and the throughput."""
    if not results:
        return format_table(("stage",), [])
    stages = results["steps"]["steps"]
    rows = [
        (
            STAGES.get(stage["step"], stage["step"]),
            f"{stage['cpu_ms']['mean']:.1f}",
            format_spread(stage["cpu_ms"]),
        )
        for stage in stages
    ]
    rows.append(("all stages", f"{sum(stage['cpu_ms']['mean'] for stage in stages):.1f}", ""))
    return format_table(
        ("stage, per image of 640x480", "CPU-ms, mean", "median (10th–90th percentile)"), rows
    )


def tabulate_render_throughput(results: Results) -> str:
    """Return the images per second and the memory of ``sim2cam render``."""
    if not results:
        return format_table(("command",), [])
    end_to_end = results["end_to_end"]
    runs = {
        "detection channels, 1 worker": end_to_end["workers"]["1"],
        "detection channels, 2 workers": end_to_end["workers"]["2"],
        "all channels, 2 workers": end_to_end["full"],
    }
    return format_table(
        ("`sim2cam render`", "images per second", "CPU-ms per image", "MB per process"),
        (
            (
                name,
                f"{run['images_per_s']['value']:.2f}",
                format_spread(run["cpu_ms"]),
                f"{run['peak_mb']:.0f}",
            )
            for name, run in runs.items()
        ),
    )


def tabulate_channels(results: Results) -> str:
    """Return the time that each channel adds to an image with all channels."""
    tabletops = results["tabletops"] if results else []
    return format_table(
        ("channel, CPU-ms added", *(f"{t['objects']} objects" for t in tabletops)),
        (
            (channel, *(format_spread(t["channels_cpu_ms"][channel]) for t in tabletops))
            for channel in (tabletops[0]["channels_cpu_ms"] if tabletops else ())
        ),
    )


def tabulate_memory(results: Results) -> str:
    """Return the memory of a process that renders ever new scenes."""
    rows: list[Sequence[str]] = []
    if results:
        curve = dict(results["memory_mb"])
        rows = [
            (f"{frames:,}", f"{curve[frames]:,.0f}")
            for frames in (min(curve), 5_000, 10_000, 15_000, max(curve))
        ]
    return format_table(("rendered images", "memory, MB"), rows)


def tabulate_reference(results: Results) -> str:
    """Return the deviation of rasterized from path-traced radiance."""
    cases = {
        "direct light, black table": "straight",
        "direct and indirect light": "all_bounces",
    }
    return format_table(
        ("path-traced light", "mean, rasterized over traced (range of scenes)",
         "relative error: median", "90 %", "99 %", "noise of the path tracer: median"),
        (
            (
                text,
                f"{mean['median']:.3f} ({mean['least']:.3f}–{mean['most']:.3f})",
                *(f"{entry['relative_error'][key]:.3f}" for key in ("p50", "p90", "p99")),
                f"{entry['noise']['p50']:.3f}",
            )
            for text, key in cases.items()
            for entry in ([results[key]] if results else [])
            for mean in [entry["mean_over_traced"]]
        ),
    )  # fmt: skip


def tabulate_training(results: Results) -> str:
    """Return the costs of training steps by detector size."""
    rows = []
    for case in (results or {}).get("cases", []):
        cores = "1 core" if case["cores"] == 1 else f"{case['cores']} cores"
        rows.append(
            (
                f"`{case['size']}`",
                cores if case["device"] == "cpu" else f"GPU, {cores}",
                format_spread(case["step_ms"]),
                f"{case['crops_per_s']:.1f}",
                f"{case['cores_busy']:.2f}",
                f"{100 * case['waiting_share']:.2f} %",
                format_spread(case["making_cpu_ms"]),
            )
        )
    return format_table(
        (
            "detector", "device", "ms per step", "crops per second", "busy cores", "waiting for data",
            "CPU-ms to make a batch",
        ),
        rows,
    )  # fmt: skip


def tabulate_prediction(results: Results) -> str:
    """Return prediction times."""
    headers = (
        "detector", "parameters", "CPU-ms, 1 core", "ms, 1 core", "CPU-ms, 2 cores", "ms, 2 cores", "ms, GPU",
    )  # fmt: skip
    if not results:
        return format_table(headers, [])
    cases = {(case["name"], case["device"], case["cores"]): case for case in results["cases"]}
    parameters = {case["name"]: case["weights"] for case in results["cases"]}
    columns = (
        ("cpu", 1, "cpu_ms"), ("cpu", 1, "wall_ms"), ("cpu", 2, "cpu_ms"), ("cpu", 2, "wall_ms"),
        ("cuda", 1, "wall_ms"),
    )  # fmt: skip
    rows: list[Sequence[object]] = []
    for name, number in parameters.items():
        timings = [(cases.get((name, device, cores)), key) for device, cores, key in columns]
        cells = (format_spread(case[key]) if case else "not run" for case, key in timings)
        rows.append((_name_detector(name), f"{number / 1e6:.1f} M", *cells))
    rows += [(entry["name"], f"not run: {entry['reason']}") for entry in results["not_run"]]
    return format_table(headers, rows)


def _name_detector(name: str) -> str:
    return (
        "`dice`, an image of 384x384 of the stand-in camera" if name.startswith("`dice`") else name
    )


def _format_renderer(name: str, runs: list[dict[str, Any]]) -> list[Sequence[str]]:
    """Return the rows of one renderer from its results on each tabletop."""
    for run in runs:
        if run["state"] != "ran":
            cure = f": `{run['cure']}`" if "cure" in run else ""
            return [(name, run["state"] + cure)]
    rows: list[Sequence[str]] = []
    for number, timing in enumerate(runs[-1]["timings"]):
        if timing["what"] not in COMPARED:
            continue
        times = [run["timings"][number] for run in runs]
        cells = [format_spread(time["cpu_ms"]) for time in times]
        cells += [format_spread(timing["wall_ms"]), f"{runs[-1]['memory_mb']['peak']:.0f}"]
        agrees = runs[-1].get("agrees")
        cells.append(f"{100 * agrees['ids']:.2f} %" if agrees else "—")
        rows.append((f"{name}: {COMPARED[timing['what']]}", *cells))
    return rows


def _find_by_name(results: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(result for result in results if result["name"] == name)
