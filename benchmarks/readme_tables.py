"""Tables of README.md and docs/results.md from benchmarks/results.

    python benchmarks/readme_tables.py [--check]

``--check`` only reports whether the tables are out of date. A table stands between
``<!-- NAME-results:begin -->`` and ``<!-- NAME-results:end -->``.

Format of ``results/dice.json``::

    {"protocol": {...},
     "variants": [{"name": "randomized",
               "seeds": [{"seed": 0, "ap": 0.41, "ap50": 0.79, "agnostic_ap50": 0.96}, ...],
               "ap": {"value": 0.41, "ci95": [0.38, 0.44]}, "ap50": {...}, "agnostic_ap50": {...}},
              ...]}
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, get_args

from sim2cam.adapt.reference.config import ReferenceMethod

ROOT = Path(__file__).parents[1]

DICE_VARIANTS = (
    "sim without randomization",
    "randomized",
    "randomized + camera fit",
    "randomized + camera fit, translated",
    "+ transfer",
    "+ self-labelled photos",
    "+ translated",
    "+ translated, next seed",
    "+ CycleGAN in the time of ours, under-trained",
    "+ CycleGAN, 5,000 steps",
    "real only (5 labelled photos)",
    "real only (10 labelled photos)",
    "real only (25 labelled photos)",
    "real only (50 labelled photos)",
    "real only (100 labelled photos)",
    "real only (200 labelled photos)",
)
UNGATED = get_args(ReferenceMethod)
"""Translators that train on all images, without certification (docs/decisions/0075-published-means-published.md)."""
RENDERERS = ("sim2cam", "pyrender", "pybullet TinyRenderer", "MuJoCo", "Blender Cycles, 16 samples")
COMPARED = (
    "RGB, depth", "RGB, depth, ids", "all channels", "all channels, 4 samples",
    "all channels, one hard light", "all channels, 4 samples, one hard light",
)  # fmt: skip
GAPS = {"sliced_wasserstein": "distance", "detail": "of detail"}
ISP_FEATURES = ("lens", "exposure", "tone", "sharpness", "noise", "jpeg")
UNCHANGED = (
    ("rendered", "same", "hidden cameras, 20 images then, 8 now"),
    ("dice", "same", "photos of dice at random, 60 then, 20 now"),
    ("gopro", "same", "lens by itself, random halves of 35 photos of a chessboard"),
    ("dice", "halves of a day", "photos of dice, first and second half of a day"),
    ("dice", "other day", "photos of dice, one day and the other"),
)
PUBLISHED = (
    ("Mask R-CNN of CosyPose, 2020", "mean over BOP's seven core sets", "AP, box: 0.603"),
    ("GDRNPP, 2022", "mean over BOP's seven core sets", "AP, box: 0.773"),
    ("DOPER-t, keypoint network", "LM-O, boxes given", "ADD-AUC: 0.966"),
)
"""Published results on or near LM-O: method, test set, score."""
POSES = {"ar_mssd": "AR of MSSD", "ar_mspd": "AR of MSPD", "add_or_s": "ADD(-S), 10 %"}
SCORES = {"ap": "AP", "ap50": "AP50", "agnostic_ap50": "AP50, class-agnostic"}
BASELINE_COLUMNS = (
    "trained on",
    "AP50",
    "difference to randomized",
    "AP",
    "difference to randomized",
)
"""Column headers of tables that compare variants with the baseline; p-values are Holm-adjusted."""


def dice_table(results: dict[str, Any] | None) -> str:
    """Return the main ablation study as a Markdown table; variants without results are marked."""
    results = results or {}
    variants = {variant["name"]: variant for variant in results.get("variants", [])}
    names = [*DICE_VARIANTS, *(name for name in variants if name not in DICE_VARIANTS)]
    equivalents = results.get("equivalents", {}).get("variants", [])
    equivalent_photos = {row["variant"]: row["summary"] for row in equivalents}
    return _format_table(
        ("trained on", *SCORES.values(), "as good as labelled photos", "seeds"),
        (
            _format_variant(name, variants.get(name), equivalent_photos.get(name, "—"))
            for name in names
        ),
    )


def shipped_table(results: dict[str, Any] | None) -> str:
    """Return the scores of the shipped weights as a Markdown table."""
    rows = []
    for split, name in (("dev", "dice, development"), ("test", "dice, test")):
        result = (results or {}).get(split)
        cells = [_format_score(result[key]) if result else "not run" for key in SCORES]
        rows.append((name, *cells, result["images"] if result else 0))
    return _format_table(("scored on", *SCORES.values(), "photos"), rows)


def elsewhere_table(results: dict[str, Any] | None) -> str:
    """Return the scores of the dice weights on other test sets as a Markdown table."""
    rows = [
        (
            entry["name"], entry["images"], f"{entry['objects']:,}",
            *(_format_score(entry[key]) for key in (*SCORES, "ood_rate")),
        )
        for entry in (results or {}).get("places", [])
    ]  # fmt: skip
    return _format_table(("pictures", "how many", "dice", *SCORES.values(), "OOD"), rows)


def translations_table(results: dict[str, Any] | None) -> str:
    """Return certificates and domain gaps of transfers as a Markdown table."""
    rows = []
    for entry in (results or {}).get("transfers", []):
        recalls, gaps = (
            entry.get("detection_recall", {}),
            entry["from"] or {},
        )  # null if too few images passed
        shares = (entry.get("rejection_rate"), recalls.get("task"), recalls.get("verifier"))
        rows.append(
            (
                entry["name"],
                entry.get("decision", "—"),
                *(_format_score(result) if result else "—" for result in shares),
                *(
                    _format_score(gaps[name]["sliced_wasserstein"]) if name in gaps else "—"
                    for name in ("style", "dev")
                ),
            )
        )
    return _format_table(
        (
            "pictures", "verdict", "rejected", "kept, task", "kept, judge", "from style photos",
            "from development photos",
        ),
        rows,
    )  # fmt: skip


def novelty_table(results: dict[str, Any] | None) -> str:
    """Return OOD rates and AUCs of image sets as a Markdown table."""
    rows = [
        (
            entry["name"], entry["images"], _format_score(entry["ood_rate"]),
            f"{auc['distance']:.2f}", f"{auc['uncertainty']:.2f}",
        )
        for entry in (results or {}).get("sets", [])
        for auc in [entry["auc"]]
    ]  # fmt: skip
    return _format_table(
        ("pictures", "how many", "OOD", "AUC of the distance", "AUC of the doubt"), rows
    )


def lmo_means_table(results: dict[str, Any] | None) -> str:
    """Return the mean scores on LM-O as a Markdown table."""
    rows = []
    if results:
        scores = results["scores"]
        means = {"as found": scores["poses"]["mean"], "outlines fitted": results["refined"]["mean"]}
        boxes = [_format_score(scores[key]) for key in ("ap", "ap50")]
        rows = [
            (n, *boxes, *(_format_score(result[m]) for m in POSES)) for n, result in means.items()
        ]
    return _format_table(("poses", "AP, box", "AP50, box", *POSES.values()), rows)


def lmo_table(results: dict[str, Any] | None) -> str:
    """Return mean and per-object scores on LM-O as Markdown."""
    refinements = (f"refined: {head}" for head in POSES.values())
    headers = ("", "instances", "AP50, box", *POSES.values(), *refinements)
    if not results:
        return _format_table(headers, [])
    scores = results["scores"]
    poses, refined = scores["poses"], results["refined"]
    rows = {
        "all": (sum(poses["instances"].values()), scores["ap50"], poses["mean"], refined["mean"])
    }
    for name, result in poses["objects"].items():
        boxes = scores["category_ap50"][name]
        rows[name] = (poses["instances"][name], boxes, result, refined["objects"][name])
    objects = _format_table(
        headers,
        (
            (
                name,
                f"{number:,}",
                _format_score(boxes),
                *(_format_score(entry[m]) for entry in result for m in POSES),
            )
            for name, (number, boxes, *result) in rows.items()
        ),
    )
    gains = [
        f"{title} {_format_score(gain)}, p = {gain['p_holm']:.3f}"
        for metric, title in POSES.items()
        for gain in [results["difference"][metric]["difference"]]
    ]
    refining = f"What refining adds, over all instances alike: {'; '.join(gains)} (Holm)."
    facts = (
        f"Boxes of all: AP {_format_score(scores['ap'])}, AP75 {_format_score(scores['ap75'])}. "
        f"Trained {', then '.join(map(_format_training, results['trainings']))}: weights of "
        f"{results['weights_bytes'] / 1e6:.1f} MB."
    )
    ours = ("ours", "LM-O, box found by itself", f"AP, box: {scores['ap']['value']:.3f}")
    published = _format_table(("beside it", "measured on", "figure"), (ours, *PUBLISHED))
    return "\n\n".join([objects, refining, facts, published])


def _format_training(learned: dict[str, Any]) -> str:
    config = learned["config"]
    return (
        f"on {learned['images']:,} renders, {learned['background_images']:,} others behind their objects, for "
        f"{config['steps']:,} steps of `{config['architecture']}`"
    )


def lmo_truth_table(results: dict[str, Any] | None) -> str:
    """Return the pose errors of LM-O photos and of renders as a Markdown table."""
    headers = ("objects", "side, px", "times as large", "right, px", "down, px", "within 10 %")
    both = ("", *headers, *(f"renders: {head}" for head in headers))
    if not results:
        return _format_table(both, [])
    photos, renders = results["photos"], results["renders"]
    return _format_table(
        both,
        (
            (
                name,
                *(
                    cell
                    for entry in (photos[name], renders[name])
                    for cell in _format_pose_errors(entry)
                ),
            )
            for name in photos
        ),
    )


def _format_pose_errors(entry: dict[str, Any]) -> tuple[str, ...]:
    moved = (
        f"{value:.1f} ({low:.1f} to {high:.1f})"
        for way in ("right_px", "down_px")
        for value, (low, high) in [(entry[way]["value"], entry[way]["ci95"])]
    )
    size = f"{entry['size_px']['value']:.0f}"
    return (
        f"{entry['objects']:,}",
        size,
        _format_score(entry["scale"]),
        *moved,
        _format_score(entry["add_or_s"]),
    )


def render_table(results: dict[str, Any] | None) -> str:
    """Return rendering costs and aims as Markdown."""
    return "\n\n".join([_tabulate_renderers(results), _tabulate_aims(results)])


def render_steps_table(results: dict[str, Any] | None) -> str:
    """Return the cost of each rendering stage and the limits of each renderer as Markdown."""
    if not results:
        return "not run"
    tables = [
        _tabulate_steps(results),
        _tabulate_floor(results),
        _tabulate_channels(results),
        _list_limits(results),
    ]
    return "\n\n".join(tables)


def adapt_table(results: dict[str, Any] | None) -> str:
    """Return the costs of learned translators as Markdown."""
    cases = (results or {}).get("cases", [])
    sides = list(cases[0]["translate_cpu_s"]) if cases else ["256", "512"]
    headers = (
        "translator", "patch, px", "batch", "CPU-s a step", "times as fast as published",
        "images a CPU-s", *(f"CPU-s to translate {side}x{side}" for side in sides), "peak MB",
    )  # fmt: skip
    return "\n".join(
        [_format_table(headers, map(_format_translator, cases)), *_list_gpu_lines(cases)]
    )


def predict_table(results: dict[str, Any] | None) -> str:
    """Return prediction times as a Markdown table."""
    headers = (
        "detector", "weights", "CPU-ms, 1 core", "ms, 1 core", "CPU-ms, 2 cores", "ms, 2 cores", "ms, GPU",
    )  # fmt: skip
    if not results:
        return _format_table(headers, [])
    cases = {(case["name"], case["device"], case["cores"]): case for case in results["cases"]}
    weights = {case["name"]: case["weights"] for case in results["cases"]}
    columns = (
        ("cpu", 1, "cpu_ms"), ("cpu", 1, "wall_ms"), ("cpu", 2, "cpu_ms"), ("cpu", 2, "wall_ms"),
        ("cuda", 1, "wall_ms"),
    )  # fmt: skip
    rows: list[Sequence[object]] = []
    for name, number in weights.items():
        result = [(cases.get((name, device, cores)), what) for device, cores, what in columns]
        cells = (_format_spread(case[what]) if case else "not run" for case, what in result)
        rows.append((name, f"{number / 1e6:.1f} M", *cells))
    rows += [(entry["name"], f"not run: {entry['reason']}") for entry in results["not_run"]]
    table = _format_table(headers, rows)
    nano = cases.get(("sim2cam, `nano`", "cpu", 1))
    if not nano:
        return table
    return (
        f"{table}\n\nAim: `nano` in at most {results['aim_cpu_ms']:.0f} CPU-ms on one core; "
        f"measured: {nano['cpu_ms']['value']:.0f}."
    )


def train_table(results: dict[str, Any] | None) -> str:
    """Return the costs of training steps by detector size as a Markdown table."""
    rows = []
    for case in (results or {}).get("cases", []):
        cores = "1 core" if case["cores"] == 1 else f"{case['cores']} cores"
        rows.append(
            (
                f"`{case['size']}`",
                cores if case["device"] == "cpu" else f"GPU, {cores}",
                _format_spread(case["step_ms"]),
                f"{case['crops_per_s']:.1f}",
                f"{case['cores_busy']:.2f}",
                f"{100 * case['waiting_share']:.2f} %",
                _format_spread(case["making_cpu_ms"]),
            )
        )
    return _format_table(
        (
            "detector", "on", "ms a step", "crops a second", "cores busy", "waiting for data",
            "CPU-ms to make a batch",
        ),
        rows,
    )  # fmt: skip


def worlds_table(results: dict[str, Any] | None) -> str:
    """Return the checks of the shipped recipes as a Markdown table."""
    return _format_table(
        (
            "recipe", "samples", "objects", "problems found by `check`", "drafts thrown away",
            "mostly because", "bins of factors without a draw", "bent most",
        ),
        map(_format_recipe, (results or {}).get("recipes", [])),
    )  # fmt: skip


def rest_table(results: dict[str, Any] | None) -> str:
    """Return the stability of settled scenes as a Markdown table."""
    headers = (
        "let go again in MuJoCo for 1 s", "scenes", "bodies", "floating", "moved over 2 mm",
        "moved, mm: median", "99 %", "most", "overlapping over 1 mm",
    )  # fmt: skip
    if not results:
        return _format_table(headers, [])
    result = results["recipes"]
    counts = {
        name: sum(entry[name] for entry in result.values())
        for name in ("scenes", "bodies", "floating", "moved_over_2_mm", "overlap_over_1_mm")
    }
    totals = counts | {
        "moved_mm": {"max": max(entry["moved_mm"]["max"] for entry in result.values())}
    }
    return _format_table(
        headers,
        (_format_stability(name, entry) for name, entry in (result | {"all": totals}).items()),
    )


def certificate_table(results: dict[str, Any] | None) -> str:
    """Return rejection rates of harmful and harmless changes as a Markdown table."""
    result = (*results["saboteurs"], *results["benign"]) if results else ()
    return _format_table(
        ("change of an image", "rejected, without verifiers", "with two", "of sets", "mostly by"),
        map(_format_certificate, result),
    )


def gap_table(results: dict[str, Any] | None) -> str:
    """Return the stage-wise domain gap as a Markdown table."""
    cameras = (results or {}).get("cameras", [])
    headers = [f"{GAPS[key]}, camera {entry['name']}" for entry in cameras for key in GAPS]
    rows = []
    for steps in zip(*(entry["stages"] for entry in cameras), strict=True):
        gaps = [{**step, "detail": step["aspects"]["detail"]} for step in steps]
        rows.append((steps[0]["stage"], *(_format_score(gap[key]) for gap in gaps for key in GAPS)))
    return _format_table(("the camera's steps up to", *(headers or GAPS.values())), rows)


def imprint_table(results: dict[str, Any] | None) -> str:
    """Return the ISP-feature gaps of each stage as a Markdown table."""
    cameras = (results or {}).get("cameras", [])
    rows = (
        (step["stage"], entry["name"], *_format_isp_gaps(step["isp_gaps"]))
        for steps in zip(*(entry["stages"] for entry in cameras), strict=True)
        for entry, step in zip(cameras, steps, strict=True)
        if "isp_gaps" in step
    )
    return _format_table(
        ("the camera's steps up to", "camera", *(f"by {step}" for step in ISP_FEATURES)), rows
    )


def hidden_table(results: dict[str, Any] | None) -> str:
    """Return the benefit of camera fits and translation on hidden cameras as Markdown."""
    cameras = (results or {}).get("cameras", [])
    scores = _format_table(
        ("hidden camera", *BASELINE_COLUMNS),
        ((entry["camera"], *row) for entry in cameras for row in _compare_with_baseline(entry)),
    )
    gaps = _format_table(
        ("AUC of renders", *(f"by {step}" for step in ISP_FEATURES)),
        (
            (f"camera {entry['camera']}, {name}", *_format_isp_gaps(isp_gaps))
            for entry in cameras
            for name, isp_gaps in entry["isp_gaps"].items()
        ),
    )
    return f"{scores}\n\n{gaps}"


def days_table(results: dict[str, Any] | None) -> str:
    """Return the benefit of camera fits and translation on photos of another day as a Markdown table."""
    return _format_table(BASELINE_COLUMNS, _compare_with_baseline(results) if results else ())


def _compare_with_baseline(scores: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each variant, as in ``BASELINE_COLUMNS``."""
    result = {(entry["first"], entry["metric"]): entry for entry in scores["comparisons"]}
    for variant in scores["variants"]:
        cells = (
            (
                _format_score(variant[metric]),
                _format_difference(result.get((variant["name"], metric))),
            )
            for metric in ("ap50", "ap")
        )
        yield variant["name"], *itertools.chain.from_iterable(cells)


def _format_difference(result: dict[str, Any] | None) -> str:
    return f"{_format_score(result)}, p = {result['p_holm']:.3f}" if result else "—"


def _format_isp_gaps(isp_gaps: dict[str, Any]) -> list[str]:
    return [
        _format_score(isp_gaps[step]) if step in isp_gaps else "not measured"
        for step in ISP_FEATURES
    ]


def drift_table(results: dict[str, Any] | None) -> str:
    """Return false alarms and detections of drift as Markdown."""
    result = (results or {}).get("summary", {})
    false_alarms: list[Sequence[object]] = []
    for source, name, words in UNCHANGED:
        part = result.get(source, {}).get(name)
        named = ", ".join(part.get("named", ())) or "—" if part else ""
        false_alarms.append(
            (words, part["trials"], part["alarms"], named) if part else (words, "not run")
        )
    detections = [result.get(source, {}).get("planted", {}) for source in ("rendered", "dice")]
    rows = (
        (name, *(cell for part in detections for cell in _format_detections(part.get(name))))
        for name in dict.fromkeys(name for part in detections for name in part)
    )
    others = "others named too, mean"
    tables = (
        _format_table(
            ("nothing was changed", "comparisons", "anything said to have moved", "what"),
            false_alarms,
        ),
        _format_table(
            ("changed", "named, hidden cameras", others, "named, photos of dice", others), rows
        ),
    )
    return "\n\n".join(tables)


def calibrate_table(results: dict[str, Any] | None) -> str:
    """Return the accuracy of ``calibrate`` by parameter as a Markdown table."""
    result = (results or {}).get("summary", {})
    count = len((results or {}).get("cameras", {}))
    return _format_table(
        (
            "number of a camera", "told", "error, median", "interval's width, median",
            "truth in the 95 % interval",
        ),
        (
            (
                name,
                f"{row['told']} of {count}",
                _format_number(row["median_error"]),
                _format_number(row["median_width"]),
                _format_score(row["covered"]),
            )
            for name, row in result.items()
        ),
    )  # fmt: skip


def _format_number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3g}"


def faults_table(results: dict[str, Any] | None) -> str:
    """Return the results of the fault experiments as Markdown."""
    headers = ("fault, then `--resume`", "tries", "same bytes", "seconds")
    if not results:
        return _format_table(headers, [])
    rows = [
        (
            entry["name"],
            entry["tries"],
            entry["whole"],
            f"{entry['seconds']:.0f}" if "seconds" in entry else "",
        )
        for entry in results["experiments"]
    ]
    costs = results["costs"]
    words = (
        f"Flushing a shard of 16 samples takes {costs['flush_shard_ms']['median']:.0f} ms "
        f"(median of {results['repeats']}), looking at a finished sample {costs['check_sample_ms']['median']:.2f} ms, "
        f"comparing its hashes {costs['hash_sample_ms']['median']:.2f} ms. An undisturbed run of "
        f"{results['samples']} samples took {results['undisturbed_s']:.0f} s; a worker without progress counted as "
        f"hung after {results['stall_s']} s here, and does after 600 s otherwise."
    )
    return f"{_format_table(headers, rows)}\n\n{words}"


def _format_detections(counts: dict[str, Any] | None) -> tuple[str, str]:
    if counts is None:
        return "—", "—"
    return f"{counts['found']} of {counts['trials']}", f"{counts['others']:.1f}"


def update_tables(text: str, document: str, results: Path) -> str:
    """Return a text with every table replaced from the files in a folder.

    Args:
        document: key of ``TABLES``, which lists the tables of the document.

    Raises:
        ValueError: a marker is missing.
    """
    for name, (file, table) in TABLES[document].items():
        path = results / file
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        text = _replace_table(text, document, name, table(content))
    return text


def main(arguments: list[str]) -> int:
    """Update the documents and return the exit code: 1 if ``--check`` is given and tables are out of date."""
    outdated = []
    for document in TABLES:
        path = ROOT / document
        old = path.read_text(encoding="utf-8")
        new = update_tables(old, document, ROOT / "benchmarks" / "results")
        if new != old:
            outdated.append(document)
        if "--check" not in arguments:
            path.write_text(new, encoding="utf-8")
    if "--check" not in arguments or not outdated:
        return 0
    print(
        f"{' and '.join(outdated)} out of date. Run: python benchmarks/readme_tables.py",
        file=sys.stderr,
    )
    return 1


def _format_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; missing rows are marked, missing cells stay empty."""
    lines = [list(map(str, row)) for row in rows] or [["not run"]]
    filled = [line + [""] * (len(headers) - len(line)) for line in lines]
    texts = [
        "".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in (headers, *filled)
    ]
    return "\n".join([texts[0], f"|{'---|' * len(headers)}", *texts[1:]])


def _format_variant(
    name: str, variant: dict[str, Any] | None, equivalent: str
) -> tuple[object, ...]:
    if variant is None:
        return (name, *["not run"] * len(SCORES), equivalent, 0)
    rejected = variant.get("rejected", {}).items()
    rejections = "".join(
        f", {n:,} rejected{' but learned' if dataset.partition('-')[0] in UNGATED else ''}"
        for dataset, n in rejected
    )
    photos = equivalent.removeprefix("worth ").replace(" real photos", "")
    return (
        name + rejections,
        *(_format_score(variant[key]) for key in SCORES),
        photos,
        len(variant["seeds"]),
    )


def _format_score(score: dict[str, Any]) -> str:
    low, high = score["ci95"]
    between = " to " if low < 0 else "–"
    return f"{score['value']:.3f} ({low:.3f}{between}{high:.3f})"


def _format_certificate(result: dict[str, Any]) -> tuple[str, ...]:
    most = sorted(result["by"], key=result["by"].get, reverse=True)
    return (
        result["name"], _format_share(result["failed_without_verifiers"]), _format_share(result["failed"]),
        f"{result['sets_failed']} of {result['sets']}", ", ".join(most[:2]) or "—",
    )  # fmt: skip


def _format_share(result: dict[str, Any]) -> str:
    low, high = (f"{100 * end:.1f}" for end in result["ci95"])
    return f"{100 * result['value']:.1f} % ({low}–{high})"


def _list_gpu_lines(cases: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the GPU throughput of each measured case, one line each."""
    timed = [case for case in cases if "gpu" in case]
    devices = {
        entry["device"] for case in timed for entry in case["gpu"].values() if "device" in entry
    }
    for number, case in enumerate(timed):
        speeds = ", ".join(
            f"{way} {_format_gpu_speed(entry)}" for way, entry in case["gpu"].items()
        )
        start = f"\nImages a second on {', '.join(devices)}:\n\n" if number == 0 else ""
        yield f"{start}- {case['name']}, {case['patch_px']} px: {speeds}"


def _format_gpu_speed(result: dict[str, Any]) -> str:
    return "failed" if "failed" in result else f"{result['images_per_s']:.1f}"


def _format_translator(case: dict[str, Any]) -> tuple[object, ...]:
    if "failed" in case:
        return case["name"], case["patch_px"], case["batch"], "failed"
    speedup = f"{case['times_faster']:.2f}" if "times_faster" in case else "—"
    return (
        case["name"], case["patch_px"], case["batch"], _format_range(case["step_cpu_s"]), speedup,
        f"{case['images_per_cpu_s']:.2f}", *map(_format_range, case["translate_cpu_s"].values()),
        f"{case['peak_mb']:,.0f}",
    )  # fmt: skip


def _format_range(seconds: dict[str, float]) -> str:
    return f"{seconds['median']:.2f} ({seconds['least']:.2f}–{seconds['most']:.2f})"


def _format_recipe(recipe: dict[str, Any]) -> tuple[object, ...]:
    covered, reasons = recipe["coverage"], recipe["rejections"]
    bent = covered["bent"]
    reason = shorten(max(reasons, key=reasons.get), 60, placeholder=" …") if reasons else "—"
    return (
        recipe["name"], f"{recipe['samples']:,}", f"{recipe['objects']:,}", len(recipe["problems"]),
        f"{100 * recipe['rejected_share']:.1f} %", reason,
        f"{covered['empty']} of {covered['bins']}",
        f"{bent['factor']} by {100 * bent['total_variation']:.0f} %",
    )  # fmt: skip


def _format_stability(name: str, result: dict[str, Any]) -> tuple[object, ...]:
    moved = result["moved_mm"]
    middle, high = (f"{moved[at]:.3f}" if at in moved else "" for at in ("median", "p99"))
    return (
        name, f"{result['scenes']:,}", f"{result['bodies']:,}", result["floating"],
        result["moved_over_2_mm"], middle, high, f"{moved['max']:.1f}", result["overlap_over_1_mm"],
    )  # fmt: skip


def _tabulate_renderers(results: dict[str, Any] | None) -> str:
    """Return the costs of each renderer and set of channels."""
    tabletops = results["tabletops"] if results else []
    headers = [f"{t['objects']} objects, {t['triangles']:,} triangles" for t in tabletops]
    headers = headers or ["10 objects", "50 objects"]
    rows: list[Sequence[str]] = []
    for name in RENDERERS:
        runs = [_find_by_name(t["renderers"], name) for t in tabletops]
        rows += _format_renderer(name, runs) if runs else [(name, "not run")]
    costs = (f"CPU-ms: {head}" for head in headers)
    return _format_table(("renderer, 512x512", *costs, "wall-ms", "memory, MB", "same ids"), rows)


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
        cells = [_format_spread(time["cpu_ms"]) for time in times]
        cells += [_format_spread(timing["wall_ms"]), f"{runs[-1]['memory_mb']['peak']:.0f}"]
        agrees = runs[-1].get("agrees")
        cells.append(f"{100 * agrees['ids']:.2f} %" if agrees else "—")
        rows.append((f"{name}: {timing['what']}", *cells))
    return rows


def _tabulate_aims(results: dict[str, Any] | None) -> str:
    rows = results["aims"] if results else []
    return _format_table(
        ("aim", "", "measured"), ((row["what"], row["aim"], row["measured"]) for row in rows)
    )


def _tabulate_steps(results: dict[str, Any]) -> str:
    """Return the cost of each stage of the detection set, and the sum."""
    steps = results["steps"]["steps"]
    rows = [
        (step["step"], f"{step['cpu_ms']['mean']:.1f}", _format_spread(step["cpu_ms"]))
        for step in steps
    ]
    total = sum(step["cpu_ms"]["mean"] for step in steps)
    rows.append(("all", f"{total:.1f}", ""))
    end_to_end = results["end_to_end"]
    runs = {
        "the command, 1 worker": end_to_end["workers"]["1"],
        "the command, 2 workers": end_to_end["workers"]["2"],
        "all channels, 2 workers": end_to_end["full"],
    }
    for what, facts in runs.items():
        name = (
            f"{what}, {facts['images_per_s']['value']:.2f} images/s, at most "
            f"{facts['peak_mb']:.0f} MB a process"
        )
        rows.append((name, "", _format_spread(facts["cpu_ms"])))
    return _format_table(
        ("detection set, 640x480, an image", "CPU-ms, mean", "median of scenes"), rows
    )


def _tabulate_floor(results: dict[str, Any]) -> str:
    """Return the lower bound of the time per image, and its ratio to the measured time."""
    rows = [(part["step"], f"{part['cpu_ms']['mean']:.1f}") for part in results["floor"]]
    least = sum(part["cpu_ms"]["mean"] for part in results["floor"])
    taken = sum(step["cpu_ms"]["mean"] for step in results["steps"]["steps"])
    rows.append((f"all; the steps above take {taken / least:.1f} times that", f"{least:.1f}"))
    return _format_table(("what no software renderer can leave out", "CPU-ms, mean"), rows)


def _tabulate_channels(results: dict[str, Any]) -> str:
    """Return the time that each channel adds to a frame with all channels."""
    tabletops = results["tabletops"]
    return _format_table(
        ("sim2cam, CPU-ms added by", *(f"{t['objects']} objects" for t in tabletops)),
        (
            (channel, *(_format_spread(t["channels_cpu_ms"][channel]) for t in tabletops))
            for channel in tabletops[0]["channels_cpu_ms"]
        ),
    )


def _list_limits(results: dict[str, Any]) -> str:
    """Return the contact sheet and a line on the limits of each renderer."""
    runs = results["tabletops"][0]["renderers"]
    lines = [f"- {run['name']} lacks {run['lacks']}." for run in runs if run["state"] == "ran"]
    return "![The same frame by every renderer](../benchmarks/results/render/renderers.jpg)\n\n" + (
        "\n".join(lines)
    )


def _find_by_name(results: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(result for result in results if result["name"] == name)


def _format_spread(spread: dict[str, Any]) -> str:
    digits = 1 if spread["value"] < 10 else 0
    low, high = (f"{spread[key]:,.{digits}f}" for key in ("p10", "p90"))
    return f"{spread['value']:,.{digits}f} ({low}–{high})"


def _replace_table(text: str, document: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}-results:begin -->", f"<!-- {name}-results:end -->"
    between = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not between.search(text):
        raise ValueError(
            f"{document} lacks {begin} and {end}. Add both lines where the table belongs."
        )
    return between.sub(lambda _: f"{begin}\n{table}\n{end}", text)


Table = Callable[[dict[str, Any] | None], str]

TABLES: dict[str, dict[str, tuple[str, Table]]] = {
    "README.md": {
        "dice": ("dice.json", dice_table),
        "shipped": ("shipped.json", shipped_table),
        "lmo-means": ("lmo.json", lmo_means_table),
        "render": ("render.json", render_table),
    },
    "docs/results.md": {
        "adapt": ("adapt.json", adapt_table),
        "certificate": ("certificate.json", certificate_table),
        "gap": ("gap.json", gap_table),
        "imprint": ("gap.json", imprint_table),
        "hidden": ("hidden.json", hidden_table),
        "days": ("days.json", days_table),
        "lmo": ("lmo.json", lmo_table),
        "lmo_truth": ("lmo_truth.json", lmo_truth_table),
        "novelty": ("novelty.json", novelty_table),
        "elsewhere": ("elsewhere.json", elsewhere_table),
        "translations": ("translations.json", translations_table),
        "predict": ("predict.json", predict_table),
        "train": ("train.json", train_table),
        "worlds": ("worlds.json", worlds_table),
        "rest": ("rest.json", rest_table),
        "faults": ("faults.json", faults_table),
        "calibrate": ("calibrate.json", calibrate_table),
        "drift": ("drift.json", drift_table),
        "render-steps": ("render.json", render_steps_table),
    },
}
"""Tables of each document by name, with their file in ``benchmarks/results``."""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
