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
    cell = "0.500 (0.450–0.551)"
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
    cell = "0.500 (0.450–0.551)"
    assert f"| dice, development | {cell} | {cell} | {cell} | 40 |" in lines
    assert "| dice, test | not run | not run | not run | 0 |" in lines


def test_photos_of_another_day_are_held_against_the_baseline(tmp_path):
    arms = [{"name": name, "ap50": SCORE, "ap": SCORE} for name in ("randomized", "fitted")]
    better = {
        "first": "fitted", "metric": "ap", "value": 0.01, "ci95": [-0.02, 0.04], "p_holm": 0.25,
    }  # fmt: skip
    (tmp_path / "days.json").write_text(json.dumps({"variants": arms, "comparisons": [better]}))
    lines = made("docs/results.md", tmp_path).splitlines()
    cell = "0.500 (0.450–0.551)"
    assert f"| randomized | {cell} | — | {cell} | — |" in lines
    assert f"| fitted | {cell} | — | {cell} | 0.010 (-0.020 to 0.040), p = 0.250 |" in lines


def test_where_else_dice_are_found_has_a_row(tmp_path):
    place = {"name": "heaps", "images": 60, "objects": 1234, "ap": SCORE, "ap50": BETTER,
             "agnostic_ap50": SCORE, "ood_rate": SCORE}  # fmt: skip
    (tmp_path / "elsewhere.json").write_text(json.dumps({"places": [place]}))
    cell, better = "0.500 (0.450–0.551)", "0.600 (0.550–0.651)"
    row = f"| heaps | 60 | 1,234 | {cell} | {better} | {cell} | {cell} |"
    assert row in made("docs/results.md", tmp_path)


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
    cell, after = "0.500 (0.450–0.551)", "0.600 (0.550–0.651)"
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


def test_recipes_and_scenes_at_rest_have_rows(tmp_path):
    bent = {"factor": "die/edge_m", "total_variation": 0.031}
    recipe = {
        "name": "dice",
        "samples": 1000,
        "objects": 12_000,
        "problems": [],
        "rejected_share": 0.125,
        "rejections": {"a die leans by N degrees": 9, "still moving": 2},
        "coverage": {"bins": 900, "empty": 1, "bent": bent},
    }
    rest = {
        "scenes": 2000,
        "bodies": 30_000,
        "floating": 0,
        "moved_over_2_mm": 3,
        "moved_mm": {"median": 0.0123, "p99": 0.2, "max": 4.5},
        "overlap_over_1_mm": 0,
    }
    (tmp_path / "worlds.json").write_text(json.dumps({"recipes": [recipe]}))
    (tmp_path / "rest.json").write_text(json.dumps({"recipes": {"dice": rest, "bin": rest}}))
    lines = made("docs/results.md", tmp_path).splitlines()
    reason = "a die leans by N degrees"
    assert (
        f"| dice | 1,000 | 12,000 | 0 | 12.5 % | {reason} | 1 of 900 | die/edge_m by 3 % |" in lines
    )
    assert "| dice | 2,000 | 30,000 | 0 | 3 | 0.012 | 0.200 | 4.5 | 0 |" in lines
    assert "| all | 4,000 | 60,000 | 0 | 6 | | | 4.5 | 0 |" in lines


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


def test_numbers_of_hidden_cameras_have_their_errors_and_coverage(tmp_path):
    told = {"told": 2, "median_error": 0.01234, "median_width": 0.1, "covered": SCORE}
    found = {"summary": {"sensor.vignetting": told}, "cameras": {"0": {}, "1": {}, "2": {}}}
    (tmp_path / "calibrate.json").write_text(json.dumps(found))
    row = "| sensor.vignetting | 2 of 3 | 0.0123 | 0.1 | 0.500 (0.450–0.551) |"
    assert row in made("docs/results.md", tmp_path).splitlines()


def test_steps_of_the_camera_have_their_imprints_where_they_were_measured(tmp_path):
    stage = {"stage": "noise", "sliced_wasserstein": SCORE, "aspects": {"detail": SCORE}}
    told = {"name": "fitted", "stages": [stage | {"isp_gaps": {"noise": SCORE}}]}
    (tmp_path / "gap.json").write_text(json.dumps({"cameras": [told]}))
    score, blank = "0.500 (0.450–0.551)", "not measured"
    row = ["noise", "fitted", *[blank] * 4, score, blank]
    assert f"| {' | '.join(row)} |" in made("docs/results.md", tmp_path).splitlines()


def test_hidden_cameras_have_their_scores_and_what_tells_them(tmp_path):
    names = ("randomized", "randomized + camera fit")
    both = {
        "camera": 0,
        "variants": [{"name": name, "ap50": SCORE, "ap": SCORE} for name in names],
        "comparisons": [SCORE | {"first": names[1], "metric": "ap50", "p_holm": 0.04}],
        "isp_gaps": {names[0]: {"jpeg": SCORE}},
    }
    alone = both | {
        "camera": 1,
        "variants": both["variants"][:1],
        "comparisons": [],
        "isp_gaps": {},
    }
    (tmp_path / "hidden.json").write_text(json.dumps({"cameras": [both, alone]}))
    lines = made("docs/results.md", tmp_path).splitlines()
    score = "0.500 (0.450–0.551)"
    assert f"| 0 | randomized | {score} | — | {score} | — |" in lines
    assert f"| 0 | randomized + camera fit | {score} | {score}, p = 0.040 | {score} | — |" in lines
    assert f"| 1 | randomized | {score} | — | {score} | — |" in lines
    assert f"| camera 0, randomized |{' not measured |' * 5} {score} |" in lines


def test_translators_have_their_costs(tmp_path):
    spread = {"median": 1.234, "least": 1.0, "most": 2.0}
    case = {
        "name": "CUT, 6 blocks",
        "patch_px": 128,
        "batch": 1,
        "step_cpu_s": spread,
        "images_per_cpu_s": 0.81,
        "translate_cpu_s": {"256": spread, "512": spread},
        "peak_mb": 1234.5,
    }
    on_gpu = {"fp32, eager": 12.34, "bf16, compiled": 45.67}
    gpu = {way: {"device": "a GPU", "images_per_s": n} for way, n in on_gpu.items()}
    broken = {"bf16, compiled": {"failed": "InductorError: no"}}
    cases = [
        case,
        case | {"times_faster": 1.418, "gpu": gpu},
        {"name": "default", "patch_px": 128, "batch": 4, "failed": "out of luck", "gpu": broken},
    ]
    (tmp_path / "adapt.json").write_text(json.dumps({"cases": cases}))
    cell = "1.23 (1.00–2.00)"
    lines = made("docs/results.md", tmp_path).splitlines()
    for faster in ("—", "1.42"):
        row = f"| CUT, 6 blocks | 128 | 1 | {cell} | {faster} | 0.81 | {cell} | {cell} | 1,234 |"
        assert row in lines
    assert "Images a second on a GPU:" in lines
    assert "- CUT, 6 blocks, 128 px: fp32, eager 12.3, bf16, compiled 45.7" in lines
    assert "| default | 128 | 4 | failed | | | | | |" in lines
    assert "- default, 128 px: bf16, compiled failed" in lines


def test_trainings_say_how_busy_they_keep_the_cores(tmp_path):
    ms = {"value": 1731.2, "p10": 1342.4, "p90": 1859.1, "mean": 1643.2, "n": 8}
    case = {
        "size": "nano", "device": "cpu", "cores": 1, "step_ms": ms, "crops_per_s": 9.74,
        "cores_busy": 1.098, "waiting_share": 0.00012, "making_cpu_ms": ms,
    }  # fmt: skip
    cases = [case, case | {"device": "cuda", "cores": 16}]
    (tmp_path / "train.json").write_text(json.dumps({"cases": cases}))
    lines = made("docs/results.md", tmp_path).splitlines()
    cost = "1,731 (1,342–1,859)"
    for place in ("1 core", "GPU, 16 cores"):
        assert f"| `nano` | {place} | {cost} | 9.7 | 1.10 | 0.01 % | {cost} |" in lines


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
