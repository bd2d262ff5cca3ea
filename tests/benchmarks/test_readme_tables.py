"""README.md and the documentation show the committed results, and "not run" where there are none."""

from __future__ import annotations

import json

import pytest
import readme_tables
from readme_tables import RESULTS, TABLES, find_value, update_document
from result_tables import model_cards

SCORE = {"value": 0.5, "ci95": [0.45, 0.551]}
BETTER = {"value": 0.6, "ci95": [0.55, 0.651]}
SCORES = {"ap": SCORE, "ap50": SCORE, "agnostic_ap50": SCORE}
CELL, BETTER_CELL = "0.500 (0.450–0.551)", "0.600 (0.550–0.651)"
SIZES = {"value": 1731.2, "p10": 1342.4, "p90": 1859.1, "mean": 1643.2, "n": 8}
SPREAD_CELL = "1,731 (1,342–1,859)"
SECONDS, SECONDS_CELL = {"median": 1.234, "least": 1.0, "most": 2.0}, "1.23 (1.00–2.00)"


def document(*names):
    """A document with the places of tables alone."""
    return "".join(f"<!-- {n}-results:begin -->\n<!-- {n}-results:end -->\n" for n in names)


def value(path, form, text="?"):
    return f"AP50 <!-- value: shipped.json {path} {form} -->{text}<!-- /value --> on photos."


def test_documents_show_the_committed_results():
    assert readme_tables.main(["--check"]) == 0, "run: python benchmarks/readme_tables.py"


def test_outdated_documents_are_named_and_updated(tmp_path, monkeypatch, capsys):
    page = tmp_path / "docs" / "results" / "page.md"
    page.parent.mkdir(parents=True)
    page.write_text(value("test/ap50/value", ".3f"))
    (tmp_path / "README.md").write_text("nothing to fill")
    monkeypatch.setattr(readme_tables, "ROOT", tmp_path)
    assert readme_tables.main(["--check"]) == 1
    assert "docs/results/page.md" in capsys.readouterr().err
    assert page.read_text() == value("test/ap50/value", ".3f")
    assert readme_tables.main([]) == 0
    assert readme_tables.main(["--check"]) == 0
    page.write_text(document("nothing"))
    with pytest.raises(ValueError, match=r"page\.md: the table 'nothing' does not exist"):
        readme_tables.main([])


@pytest.mark.parametrize(
    ("form", "text"),
    [(".3f", "0.938"), (".1%", "93.8 %")],
)
def test_numbers_in_prose_come_from_results(tmp_path, form, text):
    (tmp_path / "shipped.json").write_text(json.dumps({"test": {"ap50": {"value": 0.9376}}}))
    filled = update_document(value("test/ap50/value", form), tmp_path)
    assert filled == value("test/ap50/value", form, text)
    assert update_document(filled, tmp_path) == filled


def test_a_number_may_be_a_score_or_a_count(tmp_path):
    (tmp_path / "shipped.json").write_text(json.dumps({"test": {"ap50": SCORE}}))
    text = update_document(value("test/ap50", "score") + value("test", "count"), tmp_path)
    assert f"-->{CELL}<!--" in text
    assert "-->1<!--" in text


def test_entries_of_lists_are_selected_by_their_content():
    runs = {"runs": [{"name": "a + b", "n": 1, "ap": 3}, {"name": "a + b", "n": 2, "ap": 4}]}
    assert find_value(runs, "runs/name=a + b;n=2/ap") == 4
    assert find_value(runs, "runs/0/ap") == 3
    for path, message in (
        ("runs/name=a + b/ap", "selects 2 entries"),
        ("runs/name=c/ap", "selects 0 entries"),
        ("walks/0", "nothing at 'walks'"),
        ("runs/7", "nothing at '7'"),
    ):
        with pytest.raises(ValueError, match=message):
            find_value(runs, path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- dice-results:begin -->", "<!-- dice-results:end --> is missing"),
        (document("nothing"), "the table 'nothing' does not exist. There are: shipped,"),
        ("<!-- value: shipped.json test/ap50 score -->0.9", "<!-- /value --> is missing"),
        (value("test/ap50", "score"), "shipped.json does not exist"),
    ],
)
def test_faulty_markers_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        update_document(text, tmp_path)


@pytest.mark.parametrize("name", TABLES)
def test_each_table_has_rows_and_stands_without_results(name):
    file, tabulate = TABLES[name]
    path = readme_tables.ROOT / file if file.startswith("models/") else RESULTS / file
    header, rule, *rows = tabulate(json.loads(path.read_text())).splitlines()
    assert rows
    assert {line.count("|") for line in (header, rule, *rows)} == {header.count("|")}
    assert "|" in tabulate(None)


def test_variants_stand_in_order_and_missing_ones_say_so():
    rejected = {"rejected": {"reinhard": 1234, "cyclegan-5000": 56}}
    variant = {"seeds": [{}, {}, {}], **SCORES}
    results = {
        "variants": [{"name": "another", **variant, **rejected}, {"name": "randomized", **variant}],
        "equivalents": {
            "variants": [{"variant": "randomized", "summary": "worth 40 [< 25, 60] real photos"}]
        },
    }
    lines = TABLES["dice"][1](results).splitlines()
    assert lines[2].startswith("| renders without randomization | not run | not run | not run |")
    cells = " | ".join([CELL] * 3)
    assert lines[3] == (f"| randomized renders (baseline) | {cells} | 40 [< 25, 60] | — | 3 |")
    assert lines[-1] == f"| another | {cells} | — | 1,234; 56 (trained on, too) | 3 |"


FITTED = ("randomized", "randomized + camera fit")
VARIANTS = [{"name": name, "ap50": SCORE, "ap": SCORE} for name in FITTED]
WORSE = {"value": 0.01, "ci95": [-0.02, 0.04], "p_holm": 0.25, "first": FITTED[1], "metric": "ap"}
CAMERAS = [
    {
        "camera": 0, "variants": VARIANTS, "isp_gaps": {FITTED[0]: {"jpeg": SCORE}},
        "comparisons": [SCORE | {"first": FITTED[1], "metric": "ap50", "p_holm": 0.04}],
    },
    {"camera": 1, "variants": VARIANTS[:1], "comparisons": [], "isp_gaps": {}},
]  # fmt: skip
POSES = dict.fromkeys(("ar_mssd", "ar_mspd", "add_or_s"), SCORE)
REFINED = dict.fromkeys(POSES, BETTER)
LMO = {
    "scores": {
        "ap": SCORE, "ap50": SCORE, "category_ap50": {"ape": SCORE},
        "poses": {"mean": POSES, "objects": {"ape": POSES}, "instances": {"ape": 1187}},
    },
    "refined": {"mean": REFINED, "objects": {"ape": REFINED}},
}  # fmt: skip
RECIPE = {
    "name": "dice", "samples": 1000, "objects": 12_000, "problems": [], "rejected_share": 0.125,
    "rejections": {"a die leans by N degrees": 9, "still moving": 2},
    "coverage": {
        "bins": 1900, "empty": 1, "bent": {"factor": "die/edge_m", "total_variation": 0.031},
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
COVERED = {"estimates": 2, "median_error": 0.01234, "median_width": 0.1, "covered": SCORE}
CUT = {
    "name": "CUT, 6 blocks", "patch_px": 128, "batch": 1, "step_cpu_s": SECONDS,
    "images_per_cpu_s": 0.81, "translate_cpu_s": {"256": SECONDS, "512": SECONDS}, "peak_mb": 1234.5,
}  # fmt: skip
SPEEDS = {"fp32, eager": 12.34, "bf16, compiled": 45.67}
GPU = {mode: {"device": "a GPU", "images_per_s": n} for mode, n in SPEEDS.items()}
FAILED = {
    "name": "default", "patch_px": 128, "batch": 4, "failed": "out of memory",
    "gpu": {"bf16, compiled": {"failed": "InductorError: no"}},
}  # fmt: skip
NANO = {
    "size": "nano", "device": "cpu", "cores": 1, "step_ms": SIZES, "crops_per_s": 9.74,
    "cores_busy": 1.098, "waiting_share": 0.00012, "making_cpu_ms": SIZES,
}  # fmt: skip
DETECTOR = {"name": "sim2cam, `nano`", "weights": 1_440_000, "cpu_ms": SIZES, "wall_ms": SIZES}
DRIFT = {
    "rendered": {
        "same": {"trials": 40, "alarms": 2, "named": ["sensor.blur_px"]},
        "planted": {"blur +0.4 px": {"trials": 4, "found": 3, "others": 1.25}},
    }
}
CURVE = {
    "resource": "renders", "conclusion": "render more",
    "points": [{"size": 1200, "seeds": 3, **SCORE}],
    "fit": {"gain": SCORE, "floor": SCORE, "determines_floor": True, "law": {"b": 0.4567}},
}  # fmt: skip
OPEN_FIT = CURVE["fit"] | {"determines_floor": False}
CURVES = {
    "planned": ["randomized", "randomized (40 renders)"],
    "variants": [{"name": "randomized", "seeds": [{}, {}], **SCORES}],
    "learning_curves": [
        CURVE | {"metric": "ap"},
        CURVE | {"metric": "ap50", "fit": None, "conclusion": "no prediction, because of doubts"},
        CURVE | {"metric": "agnostic_ap50", "fit": OPEN_FIT},
    ],
}
ROWS = {
    "curve-points": (
        {"dev": CURVES},
        f"| randomized | {CELL} | {CELL} | {CELL} | 2 |",
        "| randomized (40 renders) | not run | not run | not run | 0 |",
    ),
    "curve-fits": (
        {"dev": CURVES},
        f"| 2,400 renders | AP | {CELL} | {CELL} | 0.457 | render more |",
        "| 2,400 renders | AP50 | — | — | — | no prediction, because of doubts |",
        f"| 2,400 renders | AP50, class-agnostic | {CELL} | not determined | 0.457 | render more |",
    ),
    "photo-fits": ({"dev": CURVES}, "| not run | | | | | |"),
    "shipped": (
        {"dev": SCORES | {"objects": 40}},
        f"| 40 development photos | {CELL} | {CELL} | {CELL} | 40 |",
        "| 50 test photos | not run | not run | not run | 0 |",
    ),
    "days": (
        {"variants": VARIANTS, "comparisons": [WORSE]},
        f"| randomized renders (baseline) | {CELL} | — | {CELL} | — |",
        f"| {FITTED[1]} | {CELL} | — | {CELL} | 0.010 (-0.020 to 0.040), p = 0.250 |",
    ),
    "hidden": (
        {"cameras": CAMERAS},
        f"| 0 | randomized + camera fit | {CELL} | {CELL}, p = 0.040 | {CELL} | — |",
        f"| 1 | randomized renders (baseline) | {CELL} | — | {CELL} | — |",
    ),
    "hidden-isp": (
        {"cameras": CAMERAS},
        f"| 0 | randomized renders (baseline) |{' not measured |' * 5} {CELL} |",
    ),
    "gap-isp": (
        {"cameras": [{"name": "fitted", "stages": [NOISE]}]},
        f"| noise | fitted |{' not measured |' * 4} {CELL} | not measured |",
    ),
    "elsewhere": (
        {"places": [{"name": "heaps", "images": 60, "objects": 1234, **SCORES, "ood_rate": BETTER}]},
        f"| heaps | 60 | 1,234 | {CELL} | {CELL} | {CELL} | {BETTER_CELL} |",
    ),
    "lmo-objects": (
        LMO, f"| ape | 1,187 | {' | '.join([CELL] * 4 + [BETTER_CELL] * 3)} |",
    ),
    "lmo-means": (
        LMO,
        f"| without refinement | {' | '.join([CELL] * 5)} |",
        f"| contour-based refinement | {' | '.join([CELL] * 2 + [BETTER_CELL] * 3)} |",
    ),
    "calibrate": (
        {"summary": {"sensor.vignetting": COVERED}, "cameras": 3},
        f"| `sensor.vignetting` | 2 of 3 | 0.0123 | 0.1 | {CELL} |",
    ),
    "false-alarms": (
        {"summary": DRIFT},
        "| hidden cameras, 20 images and 8 later images | 40 | 2 | `sensor.blur_px` |",
        "| lens alone, random halves of 35 photos of a chessboard | not run | | |",
    ),
    "drift": ({"summary": DRIFT}, "| blur +0.4 px | 3 of 4 | 1.2 | — | — |"),
    "recipes": (
        {"recipes": [RECIPE]},
        "| `dice` | 1,000 | 12,000 | 0 | 12.5 % | a die leans on another | 1 of 1,900 | `die/edge_m`, 3 % |",
    ),
    "rest": (
        {"recipes": {"dice": REST, "bin": REST}},
        "| `dice` | 2,000 | 30,000 | 0 | 3 | 0.012 | 0.200 | 4.5 | 0 |",
        "| all | 4,000 | 60,000 | 0 | 6 | | | 4.5 | 0 |",
    ),
    "adapt": (
        {"cases": [CUT, CUT | {"times_faster": 1.418, "gpu": GPU}, FAILED]},
        *(
            f"| CUT, 6 blocks | 128 | 1 | {SECONDS_CELL} | {n} | 0.81 | {SECONDS_CELL} | {SECONDS_CELL} | 1,234 |"
            for n in ("—", "1.42")
        ),
        "Images per second on a GPU:",
        "- CUT, 6 blocks, 128 px: fp32, eager 12.3, bf16, compiled 45.7",
        "| default | 128 | 4 | failed | | | | | |",
        "- default, 128 px: bf16, compiled failed",
    ),
    "train": (
        {"cases": [NANO, NANO | {"device": "cuda", "cores": 16}]},
        *(
            f"| `nano` | {device} | {SPREAD_CELL} | 9.7 | 1.10 | 0.01 % | {SPREAD_CELL} |"
            for device in ("1 core", "GPU, 16 cores")
        ),
    ),
    "predict": (
        {
            "cases": [{**DETECTOR, "device": "cpu", "cores": n} for n in (1, 2)],
            "not_run": [{"name": "SSDlite", "reason": "no operators"}],
        },
        f"| sim2cam, `nano` | 1.4 M | {' | '.join([SPREAD_CELL] * 4)} | not run |",
        "| SSDlite | not run: no operators | | | | | |",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_tables_have_their_rows(name):
    content, *rows = ROWS[name]
    lines = TABLES[name][1](content).splitlines()
    assert [row for row in rows if row not in lines] == []


def test_a_card_counts_the_labelled_images_of_every_training():
    datasets = [{"origins": {"real": 3, "sim": 9}}]
    card = {"data": datasets, "initial_weights": {"data": datasets}}
    assert model_cards.count_origin(card, "real") == 6
    assert model_cards.count_origin(card, "adapted") == 0


def test_the_shipped_dice_weights_saw_no_label():
    card = json.loads((model_cards.WEIGHTS / "dice.json").read_text())
    assert model_cards.count_origin(card, "real") == 0


def test_a_card_lists_its_background_photographs():
    backgrounds = {
        "name": "views", "images": 1416, "origins": {"real": 1416}, "licences": ["CC0-1.0"],
    }  # fmt: skip
    card = {"data": [], "background_images": backgrounds}
    row = "| all | views | 1,416 | photographs as backgrounds (CC0-1.0) |"
    assert row in model_cards.tabulate_training_data(card).splitlines()
    assert row not in model_cards.tabulate_training_data({"data": []})
