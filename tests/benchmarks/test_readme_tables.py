"""The README shows the committed results, and says "not run" where there are none."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("readme_tables", ROOT / "benchmarks/readme_tables.py")
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)

SCORE = {"value": 0.5, "ci95": [0.45, 0.551]}
BETTER = {"value": 0.6, "ci95": [0.55, 0.651]}
ARM = {"seeds": [{}, {}, {}], "ap": SCORE, "ap50": SCORE, "agnostic_ap50": SCORE}
CELL, BETTER_CELL = "0.500 (0.450–0.551)", "0.600 (0.550–0.651)"


def empty(document):
    """A document that is nothing but the places of its tables."""
    names = tables.TABLES[document]
    return "".join(f"<!-- {n}-results:begin -->\n<!-- {n}-results:end -->\n" for n in names)


def made(document, results):
    return tables.update_tables(empty(document), document, results)


def test_the_readme_shows_the_committed_results():
    assert tables.main(["--check"]) == 0, "run: python benchmarks/readme_tables.py"


def test_arms_stand_in_order_and_missing_ones_say_so(tmp_path):
    refused = {"rejected": {"reinhard": 1234, "cyclegan-5000": 56}}
    arms = [{"name": "another", **ARM, **refused}, {"name": "randomized", **ARM}]
    equivalents = {
        "variants": [{"variant": "randomized", "summary": "worth 40 [< 25, 60] real photos"}]
    }
    (tmp_path / "dice.json").write_text(json.dumps({"variants": arms, "equivalents": equivalents}))
    text = tables.update_tables(f"before\n{empty('README.md')}", "README.md", tmp_path)
    cell = CELL
    assert text[: text.index("<!-- shipped")].splitlines() == [
        "before",
        "<!-- dice-results:begin -->",
        "| trained on | AP | AP50 | AP50, class-agnostic | as good as labelled photos | seeds |",
        "|---|---|---|---|---|---|",
        "| sim without randomization | not run | not run | not run | — | 0 |",
        f"| randomized | {cell} | {cell} | {cell} | 40 [< 25, 60] | 3 |",
        "| randomized + camera fit | not run | not run | not run | — | 0 |",
        "| randomized + camera fit, translated | not run | not run | not run | — | 0 |",
        "| + transfer | not run | not run | not run | — | 0 |",
        "| + self-labelled photos | not run | not run | not run | — | 0 |",
        "| + translated | not run | not run | not run | — | 0 |",
        "| + translated, next seed | not run | not run | not run | — | 0 |",
        "| + CycleGAN in the time of ours, under-trained | not run | not run | not run | — | 0 |",
        "| + CycleGAN, 5,000 steps | not run | not run | not run | — | 0 |",
        "| real only (5 labelled photos) | not run | not run | not run | — | 0 |",
        "| real only (10 labelled photos) | not run | not run | not run | — | 0 |",
        "| real only (25 labelled photos) | not run | not run | not run | — | 0 |",
        "| real only (50 labelled photos) | not run | not run | not run | — | 0 |",
        "| real only (100 labelled photos) | not run | not run | not run | — | 0 |",
        "| real only (200 labelled photos) | not run | not run | not run | — | 0 |",
        f"| another, 1,234 rejected, 56 rejected but learned | {cell} | {cell} | {cell} | — | 3 |",
        "<!-- dice-results:end -->",
    ]
    assert tables.update_tables(text, "README.md", tmp_path) == text


def test_without_results_nothing_was_run(tmp_path):
    assert made("README.md", tmp_path).count("not run") == 48 + 6 + 6 + 1
    assert made("docs/results.md", tmp_path).count("not run") == (
        len(tables.TABLES["docs/results.md"]) + 1 + 5  # hidden cameras have two tables, drift rows
    )


def test_the_weights_that_ship_have_a_row_for_each_split(tmp_path):
    scores = {"ap": SCORE, "ap50": SCORE, "agnostic_ap50": SCORE, "images": 40}
    (tmp_path / "shipped.json").write_text(json.dumps({"dev": scores}))
    lines = made("README.md", tmp_path).splitlines()
    assert f"| dice, development | {CELL} | {CELL} | {CELL} | 40 |" in lines
    assert "| dice, test | not run | not run | not run | 0 |" in lines


def test_each_object_of_lmo_has_a_row(tmp_path):
    poses = dict.fromkeys(("ar_mssd", "ar_mspd", "add_or_s"), SCORE)
    scores = {
        "ap": SCORE, "ap50": SCORE, "ap75": SCORE, "category_ap50": {"ape": SCORE, "cat": SCORE},
        "poses": {"mean": poses, "objects": {"ape": poses, "cat": poses},
                  "instances": {"ape": 1187, "cat": 3}},
    }  # fmt: skip
    better = dict.fromkeys(poses, BETTER)
    refined = {"mean": better, "objects": {"ape": better, "cat": better}}
    gain = {"difference": {"value": 0.06, "ci95": [-0.01, 0.1251], "p_holm": 0.25}}
    config = {"steps": 5000, "architecture": "small"}
    facts = {"trainings": [{"images": 2000, "background_images": 80, "config": config},
                           {"images": 9, "background_images": 8, "config": config | {"steps": 7}}],
             "weights_bytes": 1.26e6, "scores": scores, "refined": refined,
             "difference": dict.fromkeys(poses, gain)}  # fmt: skip
    (tmp_path / "lmo.json").write_text(json.dumps(facts))
    text = made("docs/results.md", tmp_path)
    cell, after = CELL, BETTER_CELL
    cells = " | ".join([cell] * 4 + [after] * 3)
    for row in (
        f"| all | 1,190 | {cells} |",
        f"| ape | 1,187 | {cells} |",
        f"| cat | 3 | {cells} |",
    ):
        assert row in text
    assert (
        "Trained on 2,000 renders, 80 others behind their objects, for 5,000 steps of `small`, then on 9 renders, "
        "8 others behind their objects, for 7 steps of `small`: weights of 1.3 MB." in text
    )
    assert "alike: AR of MSSD 0.060 (-0.010 to 0.125), p = 0.250; AR of MSPD 0.060" in text
    assert "| ours | LM-O, box found by itself | AP, box: 0.500 |" in text
    readme = made("README.md", tmp_path)
    assert f"| as found | {' | '.join([cell] * 5)} |" in readme
    assert f"| outlines fitted | {' | '.join([cell] * 2 + [after] * 3)} |" in readme


def test_a_readme_without_markers_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"README\.md lacks <!-- dice-results:begin"):
        tables.update_tables("no table here", "README.md", tmp_path)


def test_drift_has_a_row_for_each_quiet_comparison_and_each_change(tmp_path):
    lines = made("docs/results.md", tmp_path).splitlines()
    assert "| lens by itself, random halves of 35 photos of a chessboard | not run | | |" in lines
    same = {"trials": 40, "alarms": 2, "named": ["sensor.blur_px"]}
    blurred = {"blur +0.4 px": {"trials": 4, "found": 3, "others": 1.25}}
    gopro = {"same": {"trials": 8, "alarms": 0}}
    found = {"rendered": {"same": same, "planted": blurred}, "gopro": gopro}
    (tmp_path / "drift.json").write_text(json.dumps({"summary": found}))
    lines = made("docs/results.md", tmp_path).splitlines()
    assert "| hidden cameras, 20 images then, 8 now | 40 | 2 | sensor.blur_px |" in lines
    assert "| lens by itself, random halves of 35 photos of a chessboard | 8 | 0 | — |" in lines
    assert "| blur +0.4 px | 3 of 4 | 1.2 | — | — |" in lines


def test_detectors_have_their_costs_where_they_were_run(tmp_path):
    ms = {"value": 98.6, "p10": 90.0, "p90": 120.2, "mean": 99.0, "n": 20}
    case = {"name": "sim2cam, `nano`", "weights": 1_440_000, "cpu_ms": ms, "wall_ms": ms}
    cases = [{**case, "device": "cpu", "cores": n} for n in (1, 2)]
    peer = {"name": "SSDlite", "reason": "no operators"}
    facts = {"aim_cpu_ms": 150.0, "cases": cases, "not_run": [peer]}
    (tmp_path / "predict.json").write_text(json.dumps(facts))
    lines = made("docs/results.md", tmp_path).splitlines()
    cost = "99 (90–120)"
    row = f"| sim2cam, `nano` | 1.4 M | {cost} | {cost} | {cost} | {cost} | not run |"
    first = lines.index(row)
    assert lines[first + 1] == "| SSDlite | not run: no operators | | | | | |"
    assert lines[first + 3] == "Aim: `nano` in at most 150 CPU-ms on one core; measured: 99."


FITTED = ("randomized", "randomized + camera fit")
VARIANTS = [{"name": name, "ap50": SCORE, "ap": SCORE} for name in FITTED]
WORSE = {"value": 0.01, "ci95": [-0.02, 0.04], "p_holm": 0.25, "first": FITTED[1], "metric": "ap"}
BOTH = {
    "camera": 0, "variants": VARIANTS, "isp_gaps": {FITTED[0]: {"jpeg": SCORE}},
    "comparisons": [SCORE | {"first": FITTED[1], "metric": "ap50", "p_holm": 0.04}],
}  # fmt: skip
ALONE = {"camera": 1, "variants": VARIANTS[:1], "comparisons": [], "isp_gaps": {}}
RECIPE = {
    "name": "dice", "samples": 1000, "objects": 12_000, "problems": [], "rejected_share": 0.125,
    "rejections": {"a die leans by N degrees": 9, "still moving": 2},
    "coverage": {
        "bins": 900, "empty": 1, "bent": {"factor": "die/edge_m", "total_variation": 0.031},
    },
}  # fmt: skip
REST = {
    "scenes": 2000, "bodies": 30_000, "floating": 0, "moved_over_2_mm": 3, "overlap_over_1_mm": 0,
    "moved_mm": {"median": 0.0123, "p99": 0.2, "max": 4.5},
}  # fmt: skip
NOISE = {
    "stage": "noise", "sliced_wasserstein": SCORE, "aspects": {"detail": SCORE},
    "isp_gaps": {"noise": SCORE},
}  # fmt: skip
PLACE = {"name": "heaps", "images": 60, "objects": 1234, **ARM, "ap50": BETTER, "ood_rate": SCORE}
COVERED = {"told": 2, "median_error": 0.01234, "median_width": 0.1, "covered": SCORE}
SPREAD, SPREAD_CELL = {"median": 1.234, "least": 1.0, "most": 2.0}, "1.23 (1.00–2.00)"
CUT = {
    "name": "CUT, 6 blocks", "patch_px": 128, "batch": 1, "step_cpu_s": SPREAD,
    "images_per_cpu_s": 0.81, "translate_cpu_s": {"256": SPREAD, "512": SPREAD}, "peak_mb": 1234.5,
}  # fmt: skip
SPEEDS = {"fp32, eager": 12.34, "bf16, compiled": 45.67}
GPU = {way: {"device": "a GPU", "images_per_s": n} for way, n in SPEEDS.items()}
FAILED = {
    "name": "default", "patch_px": 128, "batch": 4, "failed": "out of luck",
    "gpu": {"bf16, compiled": {"failed": "InductorError: no"}},
}  # fmt: skip
MS = {"value": 1731.2, "p10": 1342.4, "p90": 1859.1, "mean": 1643.2, "n": 8}
MS_CELL = "1,731 (1,342–1,859)"
NANO = {
    "size": "nano", "device": "cpu", "cores": 1, "step_ms": MS, "crops_per_s": 9.74,
    "cores_busy": 1.098, "waiting_share": 0.00012, "making_cpu_ms": MS,
}  # fmt: skip
ROWS = {
    "days": (
        {"variants": VARIANTS, "comparisons": [WORSE]},
        f"| randomized | {CELL} | — | {CELL} | — |",
        f"| {FITTED[1]} | {CELL} | — | {CELL} | 0.010 (-0.020 to 0.040), p = 0.250 |",
    ),
    "elsewhere": (
        {"places": [PLACE]}, f"| heaps | 60 | 1,234 | {CELL} | {BETTER_CELL} | {CELL} | {CELL} |",
    ),
    "worlds": (
        {"recipes": [RECIPE]},
        "| dice | 1,000 | 12,000 | 0 | 12.5 % | a die leans by N degrees | 1 of 900 | die/edge_m by 3 % |",
    ),
    "rest": (
        {"recipes": {"dice": REST, "bin": REST}},
        "| dice | 2,000 | 30,000 | 0 | 3 | 0.012 | 0.200 | 4.5 | 0 |",
        "| all | 4,000 | 60,000 | 0 | 6 | | | 4.5 | 0 |",
    ),
    "calibrate": (
        {"summary": {"sensor.vignetting": COVERED}, "cameras": {"0": {}, "1": {}, "2": {}}},
        f"| sensor.vignetting | 2 of 3 | 0.0123 | 0.1 | {CELL} |",
    ),
    "gap": (
        {"cameras": [{"name": "fitted", "stages": [NOISE]}]},
        f"| noise | fitted |{' not measured |' * 4} {CELL} | not measured |",
    ),
    "hidden": (
        {"cameras": [BOTH, ALONE]},
        f"| 0 | randomized | {CELL} | — | {CELL} | — |",
        f"| 0 | randomized + camera fit | {CELL} | {CELL}, p = 0.040 | {CELL} | — |",
        f"| 1 | randomized | {CELL} | — | {CELL} | — |",
        f"| camera 0, randomized |{' not measured |' * 5} {CELL} |",
    ),
    "adapt": (
        {"cases": [CUT, CUT | {"times_faster": 1.418, "gpu": GPU}, FAILED]},
        *(
            f"| CUT, 6 blocks | 128 | 1 | {SPREAD_CELL} | {n} | 0.81 | {SPREAD_CELL} | {SPREAD_CELL} | 1,234 |"
            for n in ("—", "1.42")
        ),
        "Images a second on a GPU:",
        "- CUT, 6 blocks, 128 px: fp32, eager 12.3, bf16, compiled 45.7",
        "| default | 128 | 4 | failed | | | | | |",
        "- default, 128 px: bf16, compiled failed",
    ),
    "train": (
        {"cases": [NANO, NANO | {"device": "cuda", "cores": 16}]},
        *(
            f"| `nano` | {place} | {MS_CELL} | 9.7 | 1.10 | 0.01 % | {MS_CELL} |"
            for place in ("1 core", "GPU, 16 cores")
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_results_have_their_rows(tmp_path, name):
    content, *rows = ROWS[name]
    (tmp_path / f"{name}.json").write_text(json.dumps(content))
    lines = made("docs/results.md", tmp_path).splitlines()
    assert [row for row in rows if row not in lines] == []
