"""Tables of translators: certificates, distances to photos, costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from result_tables.cells import (
    Results,
    format_range,
    format_score,
    format_share,
    format_table,
)

METHODS = {
    "development photos": "development photos (reference)",
    "renders": "renders, untranslated",
    "fourier": "Fourier domain adaptation",
    "histogram": "histogram matching",
    "mkl": "linear optimal transport",
    "reinhard": "Reinhard colour transfer",
    "sliced": "sliced optimal transport",
    "style": "style randomization",
    "translated": "residual translator (default)",
    "translated-1": "residual translator, second seed",
}
"""Compared image sets, in order, with the name that tables print."""


def tabulate_translations(results: Results) -> str:
    """Return certificates of translations and their distances to photos."""
    entries = {entry["name"]: entry for entry in (results or {}).get("transfers", [])}
    return format_table(
        (
            "images", "decision", "rejected", "recall of the task detector",
            "recall of the verifier", "distance to style photos", "distance to development photos",
        ),
        (_format_translation(label, entries[name]) for name, label in METHODS.items() if name in entries),
    )  # fmt: skip


def tabulate_certificate(results: Results) -> str:
    """Return the rejection rates of harmful and harmless changes."""
    rows = [
        (kind, *_format_change(entry))
        for kind, key in (("harmful", "saboteurs"), ("harmless", "benign"))
        for entry in (results or {}).get(key, [])
    ]
    return format_table(
        ("kind", "change of the image", "rejected without verifiers", "rejected with two",
         "datasets rejected", "most frequent measures"),
        rows,
    )  # fmt: skip


def tabulate_translator_costs(results: Results) -> str:
    """Return the costs of learned translators."""
    cases = (results or {}).get("cases", [])
    sides = list(cases[0]["translate_cpu_s"]) if cases else ["256", "512"]
    headers = (
        "translator", "patch, px", "batch", "CPU-s per step", "speedup over published code",
        "images per CPU-s", *(f"CPU-s to translate {side}x{side}" for side in sides), "peak MB",
    )  # fmt: skip
    return "\n".join(
        [format_table(headers, map(_format_translator, cases)), *_list_gpu_throughput(cases)]
    )


def _format_translation(label: str, entry: dict[str, Any]) -> tuple[str, ...]:
    recalls = entry.get("detection_recall", {})
    gaps = entry["from"] or {}  # null if too few images passed
    shares = (entry.get("rejection_rate"), recalls.get("task"), recalls.get("verifier"))
    return (
        label,
        entry.get("decision", "—"),
        *(format_score(share) if share else "—" for share in shares),
        *(
            format_score(gaps[name]["sliced_wasserstein"]) if name in gaps else "—"
            for name in ("style", "dev")
        ),
    )


def _format_change(result: dict[str, Any]) -> tuple[str, ...]:
    measures = sorted(result["by"], key=result["by"].get, reverse=True)
    return (
        result["name"],
        format_share(result["failed_without_verifiers"]),
        format_share(result["failed"]),
        f"{result['sets_failed']} of {result['sets']}",
        ", ".join(f"`{measure}`" for measure in measures[:2]) or "—",
    )


def _format_translator(case: dict[str, Any]) -> tuple[object, ...]:
    if "failed" in case:
        return case["name"], case["patch_px"], case["batch"], "failed"
    speedup = f"{case['times_faster']:.2f}" if "times_faster" in case else "—"
    return (
        case["name"], case["patch_px"], case["batch"], format_range(case["step_cpu_s"]), speedup,
        f"{case['images_per_cpu_s']:.2f}", *map(format_range, case["translate_cpu_s"].values()),
        f"{case['peak_mb']:,.0f}",
    )  # fmt: skip


def _list_gpu_throughput(cases: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the GPU throughput of each measured case, one line each."""
    timed = [case for case in cases if "gpu" in case]
    devices = {
        entry["device"] for case in timed for entry in case["gpu"].values() if "device" in entry
    }
    for number, case in enumerate(timed):
        speeds = ", ".join(
            f"{mode} {_format_gpu_throughput(entry)}" for mode, entry in case["gpu"].items()
        )
        start = f"\nImages per second on {', '.join(devices)}:\n\n" if number == 0 else ""
        yield f"{start}- {case['name']}, {case['patch_px']} px: {speeds}"


def _format_gpu_throughput(result: dict[str, Any]) -> str:
    return "failed" if "failed" in result else f"{result['images_per_s']:.1f}"
