"""Writes the tables of README.md and docs/results.md from benchmarks/results.

``--check`` only says if they differ.

A table stands between ``<!-- NAME-results:begin -->`` and ``<!-- NAME-results:end -->``.

``results/dice.json``::

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

DICE_ARMS = (
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
"""Translators of which ladders learn all pictures (docs/decisions/0075-published-means-published.md)."""
RENDERERS = (
    "sim2cam",
    "pyrender",
    "pybullet TinyRenderer",
    "MuJoCo",
    "Blender Cycles, 16 samples",
)
COMPARED = (
    "RGB, depth", "RGB, depth, ids", "all channels", "all channels, 4 samples",
    "all channels, one hard light", "all channels, 4 samples, one hard light",
)  # fmt: skip
GAPS = {"sliced_wasserstein": "distance", "detail": "of detail"}
IMPRINTS = ("lens", "exposure", "tone", "sharpness", "noise", "jpeg")
UNCHANGED = (
    ("rendered", "same", "hidden cameras, 20 pictures then, 8 now"),
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
"""On or around LM-O by others: what, of what, and how good."""
POSES = {"ar_mssd": "AR of MSSD", "ar_mspd": "AR of MSPD", "add_or_s": "ADD(-S), 10 %"}
SCORES = {"ap": "AP", "ap50": "AP50", "agnostic_ap50": "AP50, any face"}
AGAINST = ("trained on", "AP50", "difference to randomized", "AP", "difference to randomized")
"""Heads of tables that hold arms against the baseline; p is Holm's."""


def dice_table(results: dict[str, Any] | None) -> str:
    """Return the core ladder as a Markdown table; arms without results say so.

    Args:
        results: the content of ``dice.json``, None when it is not there.
    """
    results = results or {}
    found = {arm["name"]: arm for arm in results.get("variants", [])}
    names = [*DICE_ARMS, *(name for name in found if name not in DICE_ARMS)]
    equivalents = results.get("equivalents", {}).get("variants", [])
    worth = {one["variant"]: one["summary"] for one in equivalents}
    return _table(
        ("trained on", *SCORES.values(), "as good as labelled photos", "seeds"),
        (_arm_row(name, found.get(name), worth.get(name, "—")) for name in names),
    )


def shipped_table(results: dict[str, Any] | None) -> str:
    """Return the scores of the weights that ship as a Markdown table.

    Args:
        results: the content of ``shipped.json``, None when it is not there.
    """
    rows = []
    for split, name in (("dev", "dice, development"), ("test", "dice, test")):
        found = (results or {}).get(split)
        cells = [_score(found[key]) if found else "not run" for key in SCORES]
        rows.append((name, *cells, found["images"] if found else 0))
    return _table(("scored on", *SCORES.values(), "photos"), rows)


def elsewhere_table(results: dict[str, Any] | None) -> str:
    """Return the scores of the weights for dice where they were not trained, as a Markdown table.

    Args:
        results: the content of ``elsewhere.json``, None when it is not there.
    """
    rows = [
        (one["name"], one["images"], f"{one['objects']:,}", *(_score(one[key]) for key in SCORES), _score(one["ood_rate"]))
        for one in (results or {}).get("places", [])
    ]  # fmt: skip
    return _table(("pictures", "how many", "dice", *SCORES.values(), "unlike"), rows)


def translations_table(results: dict[str, Any] | None) -> str:
    """Return what transfers make of renders of dice as a Markdown table.

    Args:
        results: the content of ``translations.json``, None when it is not there.
    """
    rows = []
    for one in (results or {}).get("transfers", []):
        kept, far = one.get("detection_recall", {}), one["from"] or {}  # none of too few
        shares = (one.get("rejection_rate"), kept.get("task"), kept.get("verifier"))
        rows.append(
            (
                one["name"],
                one.get("decision", "—"),
                *(_score(found) if found else "—" for found in shares),
                *(
                    _score(far[name]["sliced_wasserstein"]) if name in far else "—"
                    for name in ("style", "dev")
                ),
            )
        )
    return _table(
        (
            "pictures", "verdict", "rejected", "kept, task", "kept, judge", "from style photos",
            "from development photos",
        ),
        rows,
    )  # fmt: skip


def novelty_table(results: dict[str, Any] | None) -> str:
    """Return which pictures count as unlike those trained on as a Markdown table.

    Args:
        results: the content of ``novelty.json``, None when it is not there.
    """
    rows = [
        (one["name"], one["images"], _score(one["ood_rate"]), f"{auc['distance']:.2f}", f"{auc['uncertainty']:.2f}")
        for one in (results or {}).get("sets", [])
        for auc in [one["auc"]]
    ]  # fmt: skip
    return _table(
        ("pictures", "how many", "unlike", "AUC of the distance", "AUC of the doubt"), rows
    )


def lmo_means_table(results: dict[str, Any] | None) -> str:
    """Return how well LM-O is read, over all objects, as a Markdown table.

    Args:
        results: the content of ``lmo.json``, None when it is not there.
    """
    rows = []
    if results:
        scores = results["scores"]
        means = {"as found": scores["poses"]["mean"], "outlines fitted": results["refined"]["mean"]}
        boxes = [_score(scores[key]) for key in ("ap", "ap50")]
        rows = [(n, *boxes, *(_score(found[m]) for m in POSES)) for n, found in means.items()]
    return _table(("poses", "AP, box", "AP50, box", *POSES.values()), rows)


def lmo_table(results: dict[str, Any] | None) -> str:
    """Return how well LM-O is read, over all and by object, as a Markdown table.

    Args:
        results: the content of ``lmo.json``, None when it is not there.
    """
    refinements = (f"refined: {head}" for head in POSES.values())
    heads = ("", "instances", "AP50, box", *POSES.values(), *refinements)
    if not results:
        return _table(heads, [])
    scores = results["scores"]
    poses, refined = scores["poses"], results["refined"]
    rows = {
        "all": (sum(poses["instances"].values()), scores["ap50"], poses["mean"], refined["mean"])
    }
    for name, found in poses["objects"].items():
        boxes = scores["category_ap50"][name]
        rows[name] = (poses["instances"][name], boxes, found, refined["objects"][name])
    objects = _table(
        heads,
        (
            (name, f"{number:,}", _score(boxes), *(_score(one[m]) for one in found for m in POSES))
            for name, (number, boxes, *found) in rows.items()
        ),
    )
    gains = [
        f"{title} {_score(gain)}, p = {gain['p_holm']:.3f}"
        for metric, title in POSES.items()
        for gain in [results["difference"][metric]["difference"]]
    ]
    refining = f"What refining adds, over all instances alike: {'; '.join(gains)} (Holm)."
    facts = (
        f"Boxes of all: AP {_score(scores['ap'])}, AP75 {_score(scores['ap75'])}. "
        f"Trained {', then '.join(map(_training, results['trainings']))}: weights of "
        f"{results['weights_bytes'] / 1e6:.1f} MB."
    )
    ours = ("ours", "LM-O, box found by itself", f"AP, box: {scores['ap']['value']:.3f}")
    published = _table(("beside it", "measured on", "figure"), (ours, *PUBLISHED))
    return "\n\n".join([objects, refining, facts, published])


def _training(learned: dict[str, Any]) -> str:
    config = learned["config"]
    return (
        f"on {learned['images']:,} renders, {learned['background_images']:,} others behind their objects, for "
        f"{config['steps']:,} steps of `{config['architecture']}`"
    )


def lmo_truth_table(results: dict[str, Any] | None) -> str:
    """Return how well true poses of LM-O fit photos, and those of renders renders, as a Markdown table.

    Args:
        results: the content of ``lmo_truth.json``, None when it is not there.
    """
    heads = ("objects", "side, px", "times as large", "right, px", "down, px", "within 10 %")
    both = ("", *heads, *(f"renders: {head}" for head in heads))
    if not results:
        return _table(both, [])
    photos, renders = results["photos"], results["renders"]
    return _table(
        both,
        (
            (name, *(cell for one in (photos[name], renders[name]) for cell in _truth_cells(one)))
            for name in photos
        ),
    )


def _truth_cells(one: dict[str, Any]) -> tuple[str, ...]:
    moved = (
        f"{value:.1f} ({low:.1f} to {high:.1f})"
        for way in ("right_px", "down_px")
        for value, (low, high) in [(one[way]["value"], one[way]["ci95"])]
    )
    size = f"{one['size_px']['value']:.0f}"
    return (f"{one['objects']:,}", size, _score(one["scale"]), *moved, _score(one["add_or_s"]))


def render_table(results: dict[str, Any] | None) -> str:
    """Return what rendering costs as Markdown: renderers and aims.

    Args:
        results: the content of ``render.json``, None when it is not there.
    """
    return "\n\n".join([_renderers(results), _aims(results)])


def render_steps_table(results: dict[str, Any] | None) -> str:
    """Return where the time of a picture goes, and what each renderer lacks, as Markdown.

    Args:
        results: the content of ``render.json``, None when it is not there.
    """
    if not results:
        return "not run"
    tables = [_steps(results), _floor(results), _channels(results), _lacks(results)]
    return "\n\n".join(tables)


def adapt_table(results: dict[str, Any] | None) -> str:
    """Return what learned translators cost as a Markdown table.

    Args:
        results: the content of ``adapt.json``, None when it is not there.
    """
    cases = (results or {}).get("cases", [])
    sides = list(cases[0]["translate_cpu_s"]) if cases else ["256", "512"]
    heads = (
        "translator", "patch, px", "batch", "CPU-s a step", "times as fast as published",
        "pictures a CPU-s", *(f"CPU-s to translate {side}x{side}" for side in sides), "peak MB",
    )  # fmt: skip
    return "\n".join([_table(heads, map(_adapt_row, cases)), *_gpu_lines(cases)])


def predict_table(results: dict[str, Any] | None) -> str:
    """Return what a prediction costs as a Markdown table.

    Args:
        results: the content of ``predict.json``, None when it is not there.
    """
    heads = (
        "detector", "weights", "CPU-ms, 1 core", "ms, 1 core", "CPU-ms, 2 cores", "ms, 2 cores", "ms, GPU",
    )  # fmt: skip
    if not results:
        return _table(heads, [])
    cases = {(case["name"], case["device"], case["cores"]): case for case in results["cases"]}
    weights = {case["name"]: case["weights"] for case in results["cases"]}
    columns = (
        ("cpu", 1, "cpu_ms"), ("cpu", 1, "wall_ms"), ("cpu", 2, "cpu_ms"), ("cpu", 2, "wall_ms"),
        ("cuda", 1, "wall_ms"),
    )  # fmt: skip
    rows: list[Sequence[object]] = []
    for name, number in weights.items():
        found = [(cases.get((name, device, cores)), what) for device, cores, what in columns]
        cells = (_spread(case[what]) if case else "not run" for case, what in found)
        rows.append((name, f"{number / 1e6:.1f} M", *cells))
    rows += [(one["name"], f"not run: {one['reason']}") for one in results["not_run"]]
    table = _table(heads, rows)
    nano = cases.get(("sim2cam, `nano`", "cpu", 1))
    if not nano:
        return table
    return (
        f"{table}\n\nAim: `nano` in at most {results['aim_cpu_ms']:.0f} CPU-ms on one core; "
        f"measured: {nano['cpu_ms']['value']:.0f}."
    )


def train_table(results: dict[str, Any] | None) -> str:
    """Return what a training step of each size of detector costs as a Markdown table.

    Args:
        results: the content of ``train.json``, None when it is not there.
    """
    rows = []
    for case in (results or {}).get("cases", []):
        cores = "1 core" if case["cores"] == 1 else f"{case['cores']} cores"
        rows.append(
            (
                f"`{case['size']}`",
                cores if case["device"] == "cpu" else f"GPU, {cores}",
                _spread(case["step_ms"]),
                f"{case['crops_per_s']:.1f}",
                f"{case['cores_busy']:.2f}",
                f"{100 * case['waiting_share']:.2f} %",
                _spread(case["making_cpu_ms"]),
            )
        )
    return _table(
        (
            "detector", "on", "ms a step", "crops a second", "cores busy", "waiting for data",
            "CPU-ms to make a batch",
        ),
        rows,
    )  # fmt: skip


def worlds_table(results: dict[str, Any] | None) -> str:
    """Return what the shipped recipes make as a Markdown table.

    Args:
        results: the content of ``worlds.json``, None when it is not there.
    """
    return _table(
        (
            "recipe", "samples", "objects", "problems found by `check`", "drafts thrown away",
            "mostly because", "bins of factors without a draw", "bent most",
        ),
        map(_recipe_row, (results or {}).get("recipes", [])),
    )  # fmt: skip


def rest_table(results: dict[str, Any] | None) -> str:
    """Return how still settled scenes lie as a Markdown table.

    Args:
        results: the content of ``rest.json``, None when it is not there.
    """
    heads = (
        "let go again in MuJoCo for 1 s", "scenes", "bodies", "floating", "moved over 2 mm",
        "moved, mm: median", "99 %", "most", "overlapping over 1 mm",
    )  # fmt: skip
    if not results:
        return _table(heads, [])
    found = results["recipes"]
    counts = {
        name: sum(one[name] for one in found.values())
        for name in ("scenes", "bodies", "floating", "moved_over_2_mm", "overlap_over_1_mm")
    }
    every = counts | {"moved_mm": {"max": max(one["moved_mm"]["max"] for one in found.values())}}
    return _table(heads, (_rest_row(name, one) for name, one in (found | {"all": every}).items()))


def certificate_table(results: dict[str, Any] | None) -> str:
    """Return what certificates catch and what they pass as a Markdown table.

    Args:
        results: the content of ``certificate.json``, None when it is not there.
    """
    found = (*results["saboteurs"], *results["benign"]) if results else ()
    return _table(
        ("change of a picture", "rejected, without judges", "with two", "of sets", "mostly by"),
        map(_certificate_row, found),
    )


def gap_table(results: dict[str, Any] | None) -> str:
    """Return how far renders look from photos, step by step of the camera, as Markdown.

    Args:
        results: the content of ``gap.json``, None when it is not there.
    """
    cameras = (results or {}).get("cameras", [])
    heads = [f"{GAPS[key]}, camera {one['name']}" for one in cameras for key in GAPS]
    rows = []
    for steps in zip(*(one["stages"] for one in cameras), strict=True):
        gaps = [{**step, "detail": step["aspects"]["detail"]} for step in steps]
        rows.append((steps[0]["stage"], *(_score(gap[key]) for gap in gaps for key in GAPS)))
    return _table(("the camera's steps up to", *(heads or GAPS.values())), rows)


def imprint_table(results: dict[str, Any] | None) -> str:
    """Return how well renders are told from photos by what each step leaves in them, as Markdown.

    Args:
        results: the content of ``gap.json``, None when it is not there.
    """
    cameras = (results or {}).get("cameras", [])
    rows = (
        (step["stage"], one["name"], *_imprints(step["isp_gaps"]))
        for steps in zip(*(one["stages"] for one in cameras), strict=True)
        for one, step in zip(cameras, steps, strict=True)
        if "isp_gaps" in step
    )
    return _table(
        ("the camera's steps up to", "camera", *(f"by {step}" for step in IMPRINTS)), rows
    )


def hidden_table(results: dict[str, Any] | None) -> str:
    """Return what fitting and translating are worth on hidden cameras as Markdown.

    Args:
        results: the content of ``hidden.json``, None when it is not there.
    """
    cameras = (results or {}).get("cameras", [])
    scores = _table(
        ("hidden camera", *AGAINST),
        ((one["camera"], *row) for one in cameras for row in _against_baseline(one)),
    )
    gaps = _table(
        ("AUC of renders", *(f"by {step}" for step in IMPRINTS)),
        (
            (f"camera {one['camera']}, {name}", *_imprints(told))
            for one in cameras
            for name, told in one["isp_gaps"].items()
        ),
    )
    return f"{scores}\n\n{gaps}"


def days_table(results: dict[str, Any] | None) -> str:
    """Return what fitting and translating are worth on photos of another day as Markdown.

    Args:
        results: the content of ``days.json``, None when it is not there.
    """
    return _table(AGAINST, _against_baseline(results) if results else ())


def _against_baseline(scores: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each arm, beside the baseline; see ``AGAINST``."""
    found = {(one["first"], one["metric"]): one for one in scores["comparisons"]}
    for arm in scores["variants"]:
        cells = (
            (_score(arm[metric]), _difference(found.get((arm["name"], metric))))
            for metric in ("ap50", "ap")
        )
        yield arm["name"], *itertools.chain.from_iterable(cells)


def _difference(found: dict[str, Any] | None) -> str:
    return f"{_score(found)}, p = {found['p_holm']:.3f}" if found else "—"


def _imprints(told: dict[str, Any]) -> list[str]:
    return [_score(told[step]) if step in told else "not told" for step in IMPRINTS]


def drift_table(results: dict[str, Any] | None) -> str:
    """Return how quiet drift is, and what it finds, as Markdown.

    Args:
        results: the content of ``drift.json``, None when it is not there.
    """
    found = (results or {}).get("summary", {})
    quiet: list[Sequence[object]] = []
    for source, name, words in UNCHANGED:
        part = found.get(source, {}).get(name)
        named = ", ".join(part.get("named", ())) or "—" if part else ""
        quiet.append((words, part["trials"], part["alarms"], named) if part else (words, "not run"))
    planted = [found.get(source, {}).get("planted", {}) for source in ("rendered", "dice")]
    seen = (
        (name, *(cell for part in planted for cell in _named(part.get(name))))
        for name in dict.fromkeys(name for part in planted for name in part)
    )
    others = "others named too, mean"
    tables = (
        _table(
            ("nothing was changed", "comparisons", "anything said to have moved", "what"), quiet
        ),
        _table(("changed", "named, hidden cameras", others, "named, photos of dice", others), seen),
    )
    return "\n\n".join(tables)


def calibrate_table(results: dict[str, Any] | None) -> str:
    """Return how well calibrate tells hidden cameras, number by number, as Markdown.

    Args:
        results: the content of ``calibrate.json``, None when it is not there.
    """
    found = (results or {}).get("summary", {})
    count = len((results or {}).get("cameras", {}))
    return _table(
        (
            "number of a camera", "told", "error, median", "interval's width, median",
            "truth in the 95 % interval",
        ),
        (
            (
                name,
                f"{told['told']} of {count}",
                _number(told["median_error"]),
                _number(told["median_width"]),
                _score(told["covered"]),
            )
            for name, told in found.items()
        ),
    )  # fmt: skip


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3g}"


def faults_table(results: dict[str, Any] | None) -> str:
    """Return how data sets stood faults as a Markdown table.

    Args:
        results: the content of ``faults.json``, None when it is not there.
    """
    heads = ("fault, then `--resume`", "tries", "same bytes", "seconds")
    if not results:
        return _table(heads, [])
    rows = [
        (
            one["name"],
            one["tries"],
            one["whole"],
            f"{one['seconds']:.0f}" if "seconds" in one else "",
        )
        for one in results["experiments"]
    ]
    costs = results["costs"]
    words = (
        f"Flushing a shard of 16 samples takes {costs['flush_shard_ms']['median']:.0f} ms "
        f"(median of {results['repeats']}), looking at a finished sample {costs['check_sample_ms']['median']:.2f} ms, "
        f"comparing its hashes {costs['hash_sample_ms']['median']:.2f} ms. An undisturbed run of "
        f"{results['samples']} samples took {results['undisturbed_s']:.0f} s; a worker without progress counted as "
        f"hung after {results['stall_s']} s here, and does after 600 s otherwise."
    )
    return f"{_table(heads, rows)}\n\n{words}"


def _named(counts: dict[str, Any] | None) -> tuple[str, str]:
    if counts is None:
        return "—", "—"
    return f"{counts['found']} of {counts['trials']}", f"{counts['others']:.1f}"


def with_tables(text: str, document: str, results: Path) -> str:
    """Return a text with every table renewed from the files in a folder.

    Args:
        text: as it is.
        document: a key of ``TABLES``, which says what tables it has.
        results: where the files lie.

    Raises:
        ValueError: a marker is missing.
    """
    for name, (file, table) in TABLES[document].items():
        path = results / file
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        text = _replaced(text, document, name, table(content))
    return text


def main(arguments: list[str]) -> int:
    """Return the exit code: 1 if ``--check`` was given and the tables are out of date."""
    outdated = []
    for document in TABLES:
        path = ROOT / document
        old = path.read_text(encoding="utf-8")
        new = with_tables(old, document, ROOT / "benchmarks" / "results")
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


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; without any row it says so, and what a row lacks stays empty."""
    lines = [list(map(str, row)) for row in rows] or [["not run"]]
    filled = [line + [""] * (len(heads) - len(line)) for line in lines]
    texts = [
        "".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in (heads, *filled)
    ]
    return "\n".join([texts[0], f"|{'---|' * len(heads)}", *texts[1:]])


def _arm_row(name: str, arm: dict[str, Any] | None, worth: str) -> tuple[object, ...]:
    if arm is None:
        return (name, *["not run"] * len(SCORES), worth, 0)
    rejected = arm.get("rejected", {}).items()
    kept_out = "".join(
        f", {n:,} rejected{' but learned' if made.partition('-')[0] in UNGATED else ''}"
        for made, n in rejected
    )
    photos = worth.removeprefix("worth ").replace(" real photos", "")
    return (name + kept_out, *(_score(arm[key]) for key in SCORES), photos, len(arm["seeds"]))


def _score(score: dict[str, Any]) -> str:
    low, high = score["ci95"]
    between = " to " if low < 0 else "–"
    return f"{score['value']:.3f} ({low:.3f}{between}{high:.3f})"


def _certificate_row(found: dict[str, Any]) -> tuple[str, ...]:
    most = sorted(found["by"], key=found["by"].get, reverse=True)
    return (
        found["name"], _share(found["failed_without_verifiers"]), _share(found["failed"]),
        f"{found['sets_failed']} of {found['sets']}", ", ".join(most[:2]) or "—",
    )  # fmt: skip


def _share(found: dict[str, Any]) -> str:
    low, high = (f"{100 * end:.1f}" for end in found["ci95"])
    return f"{100 * found['value']:.1f} % ({low}–{high})"


def _gpu_lines(cases: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what was measured on a GPU, one line for each case; none without one."""
    timed = [case for case in cases if "gpu" in case]
    devices = {one["device"] for case in timed for one in case["gpu"].values() if "device" in one}
    for number, case in enumerate(timed):
        told = ", ".join(f"{way} {_gpu_speed(one)}" for way, one in case["gpu"].items())
        start = f"\nPictures a second on {', '.join(devices)}:\n\n" if number == 0 else ""
        yield f"{start}- {case['name']}, {case['patch_px']} px: {told}"


def _gpu_speed(found: dict[str, Any]) -> str:
    return "failed" if "failed" in found else f"{found['pictures_per_s']:.1f}"


def _adapt_row(case: dict[str, Any]) -> tuple[object, ...]:
    if "failed" in case:
        return case["name"], case["patch_px"], case["batch"], "failed"
    faster = f"{case['times_faster']:.2f}" if "times_faster" in case else "—"
    return (
        case["name"], case["patch_px"], case["batch"], _range(case["step_cpu_s"]), faster,
        f"{case['pictures_per_cpu_s']:.2f}", *map(_range, case["translate_cpu_s"].values()),
        f"{case['peak_mb']:,.0f}",
    )  # fmt: skip


def _range(seconds: dict[str, float]) -> str:
    return f"{seconds['median']:.2f} ({seconds['least']:.2f}–{seconds['most']:.2f})"


def _recipe_row(recipe: dict[str, Any]) -> tuple[object, ...]:
    covered, reasons = recipe["coverage"], recipe["rejections"]
    bent = covered["bent"]
    reason = shorten(max(reasons, key=reasons.get), 60, placeholder=" …") if reasons else "—"
    return (
        recipe["name"], f"{recipe['samples']:,}", f"{recipe['objects']:,}", len(recipe["problems"]),
        f"{100 * recipe['rejected_share']:.1f} %", reason,
        f"{covered['empty']} of {covered['bins']}",
        f"{bent['factor']} by {100 * bent['total_variation']:.0f} %",
    )  # fmt: skip


def _rest_row(name: str, found: dict[str, Any]) -> tuple[object, ...]:
    moved = found["moved_mm"]
    middle, high = (f"{moved[at]:.3f}" if at in moved else "" for at in ("median", "p99"))
    return (
        name, f"{found['scenes']:,}", f"{found['bodies']:,}", found["floating"],
        found["moved_over_2_mm"], middle, high, f"{moved['max']:.1f}", found["overlap_over_1_mm"],
    )  # fmt: skip


def _renderers(results: dict[str, Any] | None) -> str:
    """Return a row for each set of channels of each renderer."""
    tabletops = results["tabletops"] if results else []
    heads = [f"{t['objects']} objects, {t['triangles']:,} triangles" for t in tabletops]
    heads = heads or ["10 objects", "50 objects"]
    rows: list[Sequence[str]] = []
    for name in RENDERERS:
        runs = [_by_name(t["renderers"], name) for t in tabletops]
        rows += _renderer_rows(name, runs) if runs else [(name, "not run")]
    costs = (f"CPU-ms: {head}" for head in heads)
    return _table(("renderer, 512x512", *costs, "wall-ms", "memory, MB", "same ids"), rows)


def _renderer_rows(name: str, runs: list[dict[str, Any]]) -> list[Sequence[str]]:
    """Return the rows of one renderer, from its results on each tabletop."""
    for run in runs:
        if run["state"] != "ran":
            cure = f": `{run['cure']}`" if "cure" in run else ""
            return [(name, run["state"] + cure)]
    rows: list[Sequence[str]] = []
    for number, timing in enumerate(runs[-1]["timings"]):
        if timing["what"] not in COMPARED:
            continue
        times = [run["timings"][number] for run in runs]
        cells = [_spread(time["cpu_ms"]) for time in times]
        cells += [_spread(timing["wall_ms"]), f"{runs[-1]['memory_mb']['peak']:.0f}"]
        agrees = runs[-1].get("agrees")
        cells.append(f"{100 * agrees['ids']:.2f} %" if agrees else "—")
        rows.append((f"{name}: {timing['what']}", *cells))
    return rows


def _aims(results: dict[str, Any] | None) -> str:
    rows = results["aims"] if results else []
    return _table(
        ("aim", "", "measured"), ((row["what"], row["aim"], row["measured"]) for row in rows)
    )


def _steps(results: dict[str, Any]) -> str:
    """Return the steps of the detection set, and their sum."""
    steps = results["steps"]["steps"]
    rows = [
        (step["step"], f"{step['cpu_ms']['mean']:.1f}", _spread(step["cpu_ms"])) for step in steps
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
            f"{what}, {facts['pictures_per_s']['value']:.2f} pictures/s, at most "
            f"{facts['peak_mb']:.0f} MB a process"
        )
        rows.append((name, "", _spread(facts["cpu_ms"])))
    return _table(("detection set, 640x480, a picture", "CPU-ms, mean", "median of scenes"), rows)


def _floor(results: dict[str, Any]) -> str:
    """Return what a picture takes at least, whatever it shows, and how far from it all steps are."""
    rows = [(part["step"], f"{part['cpu_ms']['mean']:.1f}") for part in results["floor"]]
    least = sum(part["cpu_ms"]["mean"] for part in results["floor"])
    taken = sum(step["cpu_ms"]["mean"] for step in results["steps"]["steps"])
    rows.append((f"all; the steps above take {taken / least:.1f} times that", f"{least:.1f}"))
    return _table(("what no software renderer can leave out", "CPU-ms, mean"), rows)


def _channels(results: dict[str, Any]) -> str:
    """Return what each channel adds to a frame with all channels."""
    tabletops = results["tabletops"]
    return _table(
        ("sim2cam, CPU-ms added by", *(f"{t['objects']} objects" for t in tabletops)),
        (
            (channel, *(_spread(t["channels_cpu_ms"][channel]) for t in tabletops))
            for channel in tabletops[0]["channels_cpu_ms"]
        ),
    )


def _lacks(results: dict[str, Any]) -> str:
    """Return the contact sheet and a line on what each picture lacks."""
    runs = results["tabletops"][0]["renderers"]
    lines = [f"- {run['name']} lacks {run['lacks']}." for run in runs if run["state"] == "ran"]
    return "![The same frame by every renderer](../benchmarks/results/render/renderers.jpg)\n\n" + (
        "\n".join(lines)
    )


def _by_name(results: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(result for result in results if result["name"] == name)


def _spread(spread: dict[str, Any]) -> str:
    digits = 1 if spread["value"] < 10 else 0
    low, high = (f"{spread[key]:,.{digits}f}" for key in ("p10", "p90"))
    return f"{spread['value']:,.{digits}f} ({low}–{high})"


def _replaced(text: str, document: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}-results:begin -->", f"<!-- {name}-results:end -->"
    between = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not between.search(text):
        raise ValueError(f"{document} lacks {begin} and {end}, between which the table goes")
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
"""Of each document, the tables with their file in ``benchmarks/results``."""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
