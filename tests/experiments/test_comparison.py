"""Scores and comparisons of detections in files."""

import gzip
import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sim2cam import images
from sim2cam.cli import main
from sim2cam.data.formats.predictions import (
    LoadedPredictions,
    compute_file_digests,
    predictions_to_json,
    read_predictions,
)
from sim2cam.data.real_images import read_evaluation_images, read_real_images
from sim2cam.data.sample import Dataset, Keypoint, ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.experiments.benchmark import collect_label_masks, score_predictions
from sim2cam.experiments.comparison import compare_predictions
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import xyxy_to_xywh
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.bootstrap import apply_holm_correction
from sim2cam.metrics.detection import DetectedKeypoint, Detection, is_ignored
from sim2cam.metrics.segmentation import count_pixel_confusions
from tests.support.evaluation import detect_labels, link_images

LMO = Path(os.environ.get("SIM2CAM_REAL", "/nowhere")) / "lmo"


@pytest.fixture(scope="module")
def captures(coco):
    return read_real_images(coco)


@pytest.fixture(scope="module")
def perfect(captures):
    return detect_labels(captures)


@pytest.fixture(scope="module")
def blind(perfect):
    """Return predictions that miss every second object."""
    return {name: found[::2] for name, found in perfect.items()}


def written(path, predictions):
    path.write_text(json.dumps({"detections": predictions_to_json(predictions)}))
    return path


def compared(captures, first, second):
    return compare_predictions(
        captures, *([LoadedPredictions(captures, one) for one in side] for side in (first, second))
    )


def coco_results(coco, predictions):
    tables = json.loads(coco.read_text())
    image_ids = {image["file_name"]: image["id"] for image in tables["images"]}
    category_ids = {category["name"]: category["id"] for category in tables["categories"]}
    return [
        {
            "image_id": image_ids[name],
            "category_id": category_ids[d.category],
            "bbox": list(xyxy_to_xywh(d.box_xyxy)),
            "score": d.score,
        }
        for name, found in predictions.items()
        for d in found
    ]


def test_bench_output_scores_the_same(coco, bare_weights, tmp_path, capsys, cli):
    out = tmp_path / "bench.json"
    weights = str(bare_weights)
    flags = ["--captures", str(coco), "--json"]
    first = json.loads(cli("bench", weights, *flags, "--out", out, "--workers", "1").out)
    assert json.loads(cli("bench", out, *flags).out) == first
    stored = json.loads(out.read_text())
    beside = (
        "reliability", "selection_scores", "slices", "threshold", "warnings", "verdict", "ap50_losses",
    )  # fmt: skip
    assert {n: stored[n] for n in beside} | stored["scores"] == first
    assert sum(image["objects"] for image in stored["images"]) == first["objects"]
    assert main(["bench", weights, *flags, "--out", str(out)]) == 1
    assert "exists. Choose another name, or add --overwrite." in capsys.readouterr().err


def test_bench_output_keeps_label_mapping(coco, bare_weights, tmp_path, capsys, cli):
    """Check labels changed by --map and --ignore-unmatched, and an unused detector category."""
    tables = json.loads(coco.read_text())
    for category in tables["categories"]:
        category["name"] = {"1": "one", "2": "coin"}.get(category["name"], category["name"])
    captures, out = link_images(coco, tmp_path) / "renamed.json", tmp_path / "bench.json"
    captures.write_text(json.dumps(tables))
    flags = ["--captures", str(captures), "--json"]
    how = ["--map", "one=1", "--ignore-unmatched", "--workers", "1"]
    first = json.loads(cli("bench", bare_weights, *flags, *how, "--out", out).out)
    assert json.loads(cli("bench", out, *flags).out) == first
    assert main(["compare", str(out), str(out), *flags]) == 0
    compared = json.loads(capsys.readouterr().out)["ap50"]["first"]  # another summation order
    assert compared["value"] == pytest.approx(first["ap50"]["value"])
    assert compared["ci95"] == pytest.approx(first["ap50"]["ci95"])
    assert json.loads(cli("bench", out, *flags, "--limit", "2").out)["images"] == 2
    plain = json.loads(out.read_text()) | {"label_mapping": None}
    found = {"detections": {name: [] for name in plain["detections"]}}
    other = tmp_path / "other.json"
    other.write_text(json.dumps(plain | found))
    assert main(["compare", str(out), str(other), *flags]) == 1
    assert "category 'one' is '1' in one run and 'one' in another." in capsys.readouterr().err
    assert main(["bench", str(out), "--captures", str(coco)]) == 1
    assert "does not fit the captures: --map one=1: " in capsys.readouterr().err


def test_other_images_of_same_names_are_refused(coco, bare_weights, tmp_path, capsys, cli):
    out = tmp_path / "bench.json"
    flags = ["--captures", str(coco)]
    assert main(["bench", str(bare_weights), *flags, "--out", str(out), "--workers", "1"]) == 0
    others = Path(shutil.copytree(coco.parent, tmp_path / "others")) / coco.name
    flags = ["--captures", str(others)]
    assert main(["bench", str(out), *flags]) == 0  # equal in another folder
    name = read_real_images(others).samples[-1].name
    picture = others.parent / name
    with Image.open(picture) as image:
        size = image.size
    Image.new("RGB", size).save(picture)
    capsys.readouterr()
    told = f"was made with another version of image {name}. Use the original captures"
    for command in (["bench", str(out)], ["compare", str(out), str(out)]):
        assert told in cli(*command, *flags, code=1).err
    assert main(["bench", str(out), *flags, "--limit", "1"]) == 0  # counted labels are unchanged


def test_coco_results_score_the_same(coco, captures, blind, tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(coco_results(coco, blind)))
    found = read_predictions(path, captures, coco)
    ours = read_predictions(written(tmp_path / "ours.json", blind), captures, coco)
    assert ours.detections == blind
    assert score_predictions(found).score == score_predictions(ours).score
    few = captures.take(3)
    assert list(read_predictions(path, few, coco).detections) == [s.name for s in few.samples]


def test_empty_results_score_zero(coco, captures, tmp_path):
    path = tmp_path / "results.json"
    path.write_text("[]")
    score = score_predictions(read_predictions(path, captures, coco)).score
    assert (score.ap.value, score.agnostic_ap50.value) == (0, 0)


def test_boxes_follow_exif_orientation(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6  # displayed rotated by 90 degrees clockwise
    Image.new("RGB", (80, 60)).save(tmp_path / "a.jpg", exif=turned)
    assert images.read_size(tmp_path / "a.jpg") == (60, 80)
    truth = {
        "images": [{"id": 7, "file_name": "a.jpg", "width": 80, "height": 60}],
        "categories": [{"id": 1, "name": "die"}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 1, "bbox": [10, 5, 20, 8]}],
    }
    labels = tmp_path / "truth.json"
    labels.write_text(json.dumps(truth))
    results = tmp_path / "results.json"
    results.write_text('[{"image_id": 7, "category_id": 1, "bbox": [10, 5, 20, 8], "score": 0.8}]')
    captures = read_real_images(labels)
    found = read_predictions(results, captures, labels)
    assert found.detections["a.jpg"][0].box_xyxy == captures.samples[0].objects[0].box_xyxy
    assert score_predictions(found).score.ap50.value == 1


def test_better_run_is_significant(captures, perfect, blind):
    found = compared(captures, [perfect], [blind, blind]).kinds["boxes"]["ap50"]
    assert found.first.value == 1
    assert found.difference.value == pytest.approx(1 - found.second.value)
    assert found.difference.value > 0.2
    assert found.difference.ci95[0] > 0
    assert found.p_holm < 0.02
    back = compared(captures, [blind], [perfect]).kinds["boxes"]["ap50"]
    assert back.difference.value == -found.difference.value


def test_one_lucky_run_is_not_significant(captures, perfect, blind):
    found = compared(captures, [perfect, blind], [blind, blind])
    assert found.kinds["boxes"]["ap50"].p_holm > 0.05
    assert found.intervals_over == "the seeds and 12 scenes of 24 images"
    alone = compared(captures, [perfect], [blind, blind]).intervals_over
    assert alone.endswith("without variation between seeds (needs two or more seeds)")


def test_command_compares_files_and_folders(coco, perfect, blind, tmp_path, capsys, cli):
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    one = written(tmp_path / "one.json", perfect)
    written(seeds / "0.json", perfect)
    written(seeds / "1.json", blind)
    command = ["compare", str(one), str(seeds), "--captures", str(coco)]
    found = cli.json(*command)
    assert found["ap50"]["difference"]["value"] > 0.1
    fields = ["ci95", "min_detectable_effect", "p_holm", "p_value", "value"]
    assert sorted(found["ap"]["difference"]) == fields
    same = cli("compare", one, one, "--captures", coco).out
    assert same.count("no difference shown") == 4
    assert "+0.000 (+0.000 to +0.000)" in same
    assert "The runs are identical, so the minimum detectable difference is unknown." in same
    assert "80 % power" not in same
    assert "Minimum detectable difference in AP50: " in cli(*command[:-2], "--captures", coco).out
    (tmp_path / "empty").mkdir()
    assert main(["compare", str(one), str(tmp_path / "empty"), "--captures", str(coco)]) == 2
    assert "contains no result files" in capsys.readouterr().err


def test_runs_on_the_first_images_are_compared_on_them(
    coco, captures, perfect, blind, tmp_path, cli
):
    first = [sample.name for sample in captures.samples[:5]]
    sides = []
    for name, predictions in (("perfect", perfect), ("blind", blind)):
        whole, limited = tmp_path / f"{name}.json", tmp_path / f"{name}-limited.json"
        cli(
            "bench", written(whole, predictions), "--captures", coco, "--limit", 5, "--out", limited
        )
        sides.append(limited)
    said = cli("compare", *sides, "--captures", coco, "--limit", 5)
    assert "--limit 5" in said.err.splitlines()[-1]
    found = cli.json("compare", *sides, "--captures", coco, "--limit", 5)
    expected = compared(
        captures.select_by_name(first),
        *([{name: side[name] for name in first}] for side in (perfect, blind)),
    )
    assert found["ap50"] == expected.to_json()["ap50"]
    cli("compare", *sides, "--captures", coco, "--limit", 0, code=2)


def test_the_page_shows_parts_and_the_images_that_differ(coco, perfect, blind, tmp_path, cli):
    first, second = written(tmp_path / "<a>.json", perfect), written(tmp_path / "b.json", blind)
    flags = [first, second, "--captures", coco]
    said = cli("compare", *flags)
    assert said.err.splitlines()[-1].startswith("next: sim2cam compare ")
    page = tmp_path / "page.html"
    said = cli("compare", *flags, "--out", page)
    assert f"page: {page}" in said.err
    assert f"next: sim2cam bench '{first}' --captures" in said.err
    text = page.read_text()
    assert "&lt;a&gt;.json has the better AP50" in text
    assert "AP50 by category and size" in text
    names = [name for name in perfect if f"{name}, b.json: " in text]
    assert names
    assert all(f"{name}, &lt;a&gt;.json: " in text for name in names)
    assert main(["compare", *map(str, flags), "--out", str(tmp_path / "page.json")]) == 2


def test_ablation_results_are_compared(coco, captures, perfect, blind, tmp_path, capsys, cli):
    def of_ladder(name, predictions):
        rows = {
            image: [[d.category, *d.box_xyxy, d.score] for d in found]
            for image, found in predictions.items()
        }
        digests = compute_file_digests(captures)
        facts = {"variant": "randomized", "detection_rows": rows, "digests": digests}
        (tmp_path / name).write_bytes(gzip.compress(json.dumps(facts).encode()))

    of_ladder("real-only-25-0.json.gz", perfect)
    of_ladder("mixed-25-0.json.gz", blind)
    of_ladder("mixed-25-1.json.gz", perfect)
    first, second = tmp_path / "real-only-25-0.json.gz", tmp_path / "mixed-25-?.json.gz"
    assert cli.json("bench", first, "--captures", coco)["ap50"]["value"] == pytest.approx(1.0)
    command = ["compare", str(first), str(second), "--captures", str(coco), "--json"]
    found = json.loads(cli(*command).out)
    halves = [[LoadedPredictions(captures, one)] for one in (perfect, blind)]
    whole = compare_predictions(captures, halves[0], halves[1] + halves[0])
    assert found["ap50"] == whole.to_json()["ap50"]
    folder = tmp_path / "mixed"
    folder.mkdir()
    for path in sorted(second.parent.glob(second.name)):
        path.rename(folder / path.name)
    assert cli.json("compare", first, folder, "--captures", coco) == found
    command[2] = str(folder)
    assert main(["compare", str(first), str(tmp_path / "tuned-*"), "--captures", str(coco)]) == 2
    assert f"no file matches {tmp_path}/tuned-*. Check the pattern." in capsys.readouterr().err
    for damaged, problem in (
        (first.read_bytes()[:-9], "is damaged (Compressed file ended before the end-of-stream"),
        (b"{}", "is damaged (Not a gzipped file (b'{}'))"),
        (gzip.compress(b'{"detection_rows": {"a": [["1", 2]]}}'), "detection_rows.a[0]"),
    ):
        first.write_bytes(damaged)
        assert problem in cli(*command, code=1).err


@pytest.mark.parametrize("scores", [(0.9, 0.0, 1.0), (-3.0,), (0.9, 1.5)])
def test_scores_need_not_be_probabilities(coco, perfect, tmp_path, cli, scores):
    """Check that the threshold of the best F1 depends on the order of scores only."""
    found = {
        name: tuple(replace(d, score=scores[i % len(scores)]) for i, d in enumerate(each))
        for name, each in perfect.items()
    }
    path = written(tmp_path / "found.json", found)
    said = cli("bench", path, "--captures", coco).out
    assert f"Detections with a score of at least {min(scores):.2f} (threshold of" in said


def test_missing_results_and_duplicate_labels_are_reported(
    coco, perfect, tmp_path, capsys, cli, monkeypatch
):
    first = next(name for name, found in perfect.items() if found)
    path = written(tmp_path / "found.json", perfect | {first: ()})
    nothing = sum(not found for name, found in perfect.items() if name != first) + 1
    assert main(["bench", str(path), "--captures", str(coco)]) == 0
    told = f"{nothing} of {len(perfect)} images, e.g. "
    said = capsys.readouterr().err
    assert told in said
    assert "labels are duplicates" not in said
    out = tmp_path / "scores.json"
    flags = ["--captures", str(coco), "--json", "--out", str(out)]
    assert json.loads(cli("bench", path, *flags).out)["images_without_detections"] == nothing
    assert json.loads(out.read_text())["scores"]["images_without_detections"] == nothing
    tables = json.loads(coco.read_text())
    more = max(entry["id"] for entry in tables["annotations"]) + 1
    tables["annotations"].append(tables["annotations"][0] | {"id": more})
    repeated = coco.with_name("repeated.json")
    repeated.write_text(json.dumps(tables))
    told = cli("bench", path, "--captures", repeated).err
    assert "1 labels are duplicates with the same category and box, e.g. in " in told
    repeated.unlink()


def test_partly_labelled_images_are_reported(coco, perfect, tmp_path, capsys, cli):
    tables = json.loads(coco.read_text())
    found = {name for name, each in perfect.items() if each}
    bare = [image for image in tables["images"] if image["file_name"] in found][:2]
    gone = {image["id"] for image in bare}
    tables["annotations"] = [a for a in tables["annotations"] if a["image_id"] not in gone]
    half = coco.with_name("half.json")
    half.write_text(json.dumps(tables))
    path, out = written(tmp_path / "found.json", perfect), tmp_path / "scores.json"
    (warning,) = cli.json("bench", path, "--captures", half, "--out", out, "-q")["warnings"]
    assert "images have no labelled object. 2 of them, e.g. " in warning
    assert json.loads(out.read_text())["warnings"] == [warning]
    other = written(tmp_path / "other.json", perfect)
    assert main(["compare", str(path), str(other), "--captures", str(half)]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "labelled object" in line]
    assert told == [f"warning: found.json: {warning}"]
    half.unlink()


def test_sessions_widen_intervals(coco, captures, blind, tmp_path, cli):
    path, table = written(tmp_path / "found.json", blind), tmp_path / "photos.csv"
    rows = [f"{s.name},{i % 12},{i % 2}" for i, s in enumerate(captures.samples)]
    table.write_text("\n".join(["image,day,light", *rows]))
    command = ["bench", str(path), "--captures", str(coco), "--sessions"]
    found = cli.json(*command, f"{table}:day")
    assert found["intervals_over"] == "12 sessions of 24 images"
    sessions = [s["objects"] for s in found["slices"] if s["attribute"] == "session"]
    assert sum(sessions) == found["objects"]
    words = cli(*command, f"{table}:light").out
    few = "24 images, without variation between sessions (2 sessions, fewer than 10)."
    assert f"95 % intervals are over {few}" in words
    both = ["compare", str(path), str(path), "--captures", str(coco), "--sessions"]
    over = "12 sessions of 24 images, without variation between seeds"
    assert f"95 % intervals are over {over}" in cli(*both, f"{table}:day").out
    assert "has no column 'dya'. Did you mean 'day'?" in cli(*both, f"{table}:dya", code=1).err
    assert main([*both, "0"]) == 2


def test_equal_scores_of_other_runs_are_not_identical(coco, perfect, tmp_path, capsys, cli):
    surer = {n: tuple(replace(d, score=0.95) for d in found) for n, found in perfect.items()}
    first, second = written(tmp_path / "1.json", perfect), written(tmp_path / "2.json", surer)
    assert main(["compare", str(first), str(second), "--captures", str(coco), "--json"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["ap50"]["difference"]["min_detectable_effect"] is None
    )
    words = cli("compare", first, second, "--captures", coco).out
    assert "The runs differ by the same AP50 in every resample, so the minimum detectable" in words
    assert "identical" not in words


def arrow(x, *, off=0.0, taller=0):
    """Return box, keypoints and mask of an arrow, optionally shifted or too tall."""
    box = (float(x), 5.0, float(x) + 20, 25.0 + taller)
    points = {"tip": (x + 10 + off, 5.0), "end": (x + 10 + off, 24.0)}
    return box, points, RleMask.from_box(box, (40, 60))


def arrows(*, off=lambda _: 0.0, taller=lambda _: 0):
    """Return images of one arrow each, and predictions with errors in some of them."""
    samples, found = [], {}
    for number in range(16):
        box, points, mask = arrow(number)
        keypoints = tuple(Keypoint(name, xy, 2) for name, xy in points.items())
        label = ObjectLabel("arrow", box, 400.0, keypoints=keypoints, mask=mask)
        samples.append(
            Sample(f"i{number}", Path("x.jpg"), 60, 40, (label,), "real", session=f"s{number // 4}")
        )
        box, points, mask = arrow(number, off=off(number), taller=taller(number))
        seen = tuple(DetectedKeypoint(name, xy, 1.0, 1.0) for name, xy in points.items())
        found[f"i{number}"] = (Detection("arrow", box, 0.9, seen, mask),)
    return Dataset(Path("set"), ("arrow",), tuple(samples)), found


def check_holm(comparisons):
    """Check the correction over all metrics, and return their number."""
    each = [one for of in comparisons.kinds.values() for one in of.values()]
    corrected = apply_holm_correction([one.difference.p_value for one in each])
    assert [one.p_holm for one in each] == list(corrected)
    return len(each)


def test_keypoints_and_masks_are_compared_if_both_have_them():
    captures, good = arrows()
    _, bad = arrows(off=lambda i: 30.0 * (i % 2), taller=lambda i: 9 * (i % 4 == 0))
    found = compared(captures, [good], [bad])
    assert {kind: list(of) for kind, of in found.kinds.items()} == {
        "boxes": ["ap", "ap50", "ap75", "agnostic_ap50"],
        "keypoints": ["ap", "ap50", "ap75"],
        "masks": ["ap", "ap50", "ap75"],
    }
    scores = score_predictions(LoadedPredictions(captures, bad))
    kinds = {"boxes": scores.score, "keypoints": scores.keypoints, "masks": scores.masks}
    for kind, score in kinds.items():
        for metric, one in found.kinds[kind].items():
            assert one.first.value == pytest.approx(1)
            assert one.second.value == pytest.approx(getattr(score, metric).value)
    keypoints, masks = found.kinds["keypoints"]["ap50"], found.kinds["masks"]["ap50"]
    assert keypoints.p_holm < 0.05
    assert masks.p_holm == 1  # mask errors are too small for a threshold of 0.5
    check_holm(found)
    assert set(found.to_json()) == {
        "ap", "ap50", "ap75", "agnostic_ap50", "keypoints", "masks", "intervals_over"
    }  # fmt: skip
    boxes = {n: tuple(replace(d, keypoints=None, mask=None) for d in of) for n, of in bad.items()}
    assert list(compared(captures, [good], [boxes]).kinds) == ["boxes"]
    assert "without variation between sessions (4 sessions, fewer than 10)" in found.intervals_over


def test_pixels_are_compared_from_bench_counts():
    captures, found = arrows()
    sides = []
    for size in (20, 14):  # of the arrows' 20 x 20 pixels, in every second image
        taken = {
            s.name: {"arrow": RleMask.from_box((i, 5, i + (size if i % 2 else 20), 25), (40, 60))}
            for i, s in enumerate(captures.samples)
        }
        pixels = count_pixel_confusions(captures, taken, collect_label_masks(captures))
        sides.append(LoadedPredictions(captures, found, pixel_confusions=pixels))
    good, bad = sides
    compared = compare_predictions(captures, [good, good], [bad])
    (one,) = compared.kinds["segments"].values()
    iou, background = (400 + 280) / 800, 2000 / (2000 + 60)  # 2000 background pixels an image
    assert (one.first.value, one.second.value) == pytest.approx((1, (iou + background) / 2))
    assert one.second == score_predictions(bad).segments.miou
    assert one.difference.ci95[0] > 0
    assert check_holm(compared) == 4 + 3 + 3 + 1
    without_pixels = LoadedPredictions(captures, found)
    assert "segments" not in compare_predictions(captures, [good], [without_pixels]).kinds
    samples = (
        replace(s, objects=tuple(replace(o, mask=None) for o in s.objects))
        for s in captures.samples
    )
    bare = replace(captures, samples=tuple(samples))
    with pytest.raises(InputError, match=r"no labelled mask to score against\."):
        compare_predictions(bare, [good._replace(captures=bare)], [bad._replace(captures=bare)])


@pytest.mark.parametrize("orientation", [1, 6])
def test_masks_and_keypoints_of_other_tools_score_the_same(tmp_path, orientation):
    """Check files of one result type, as COCO tools write them, on a photo with EXIF rotation."""
    shown = Image.Exif()
    shown[0x0112] = orientation
    Image.new("RGB", (60, 40)).save(tmp_path / "a.jpg", exif=shown)
    box, points, mask = arrow(7, off=2.0, taller=4)
    numbers = [value for xy in points.values() for value in (*xy, 2)]
    runs = {"size": [40, 60], "counts": mask.counts}
    place = {"image_id": 1, "category_id": 1}
    whole = {"bbox": list(xyxy_to_xywh(box)), "segmentation": runs, "keypoints": numbers}
    labels = tmp_path / "truth.json"
    truth = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 60, "height": 40}],
        "categories": [{"id": 1, "name": "arrow", "keypoints": list(points)}],
        "annotations": [{"id": 1, **place, **whole}],
    }
    labels.write_text(json.dumps(truth))
    captures = read_real_images(labels)
    results = tmp_path / "results.json"

    def scores(**result):
        results.write_text(json.dumps([{**place, "score": 0.8, **result}]))
        found = score_predictions(read_predictions(results, captures, labels))
        return found.score.ap.value, *(
            one and one.ap.value for one in (found.keypoints, found.masks)
        )

    unsure = [0.3 if place % 3 == 2 else value for place, value in enumerate(numbers)]
    assert scores(bbox=whole["bbox"]) == (pytest.approx(1), None, None)
    assert scores(segmentation=runs) == (pytest.approx(1), None, pytest.approx(1))
    assert scores(keypoints=unsure, bbox=whole["bbox"])[1] == pytest.approx(1)
    assert scores(keypoints=unsure)[:2] == (0, pytest.approx(1))  # box around two collinear points
    assert scores(**whole) == (pytest.approx(1),) * 3


GOOD = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5], "score": 0.5}
BAD = [
    ("[", "not JSON (Expecting value"),
    (
        '{"scores": {}}',
        "contains no detections. Allowed: a list of COCO results, a file of bench --out",
    ),
    ('{"detections": []}', "detections.Input should be a valid dictionary (found [])"),
    ('{"detections": {}}', "has no entry for 24 of 24 images, e.g. "),
    ('{"detections": {"x.jpg": []}}', "image 'x.jpg' is not in the captures (1 unknown in all)."),
    ([GOOD | {"image_id": 99}], "image_id 99 is not in the captures (1 unknown in all)."),
    ([GOOD | {"category_id": 99}], "category_id 99 is not in the captures (1 unknown in all)."),
    ([GOOD | {"bbox": [1, 1, -5, 5]}], "box [1.0, 1.0, -4.0, 6.0] must be finite, with sides of 0"),
    ([GOOD | {"bbox": [1, 1, 5]}], "[0].bbox"),
    ([GOOD | {"score": "sure"}], "[0].score: Input should be a valid number"),
    ([{"image_id": 1}], "[0].category_id is missing"),
    (
        [{k: v for k, v in GOOD.items() if k != "bbox"}],
        "[0]: bbox is missing. Write the results in COCO format.",
    ),
    (
        [GOOD | {"segmentation": {"size": [1, 2], "counts": "1"}}],
        "[0]: segmentation: size is [1, 2], not the image's [80, 96] (height, width). Write the",
    ),
    (
        [GOOD | {"keypoints": [1, 2, 1]}],
        "[0]: has keypoints, but its category has no list 'keypoints' with their names. Write the",
    ),
]


@pytest.mark.parametrize(("values", "message"), BAD)
def test_bad_detections_are_refused(values, message, coco, tmp_path, cli):
    path = tmp_path / "found.json"
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    assert message in cli("bench", path, "--captures", coco, code=1).err


def test_coco_results_need_coco_ids(sim, tmp_path, capsys):
    path = tmp_path / "found.json"
    path.write_text("[]")
    assert main(["bench", str(path), "--captures", str(sim.root)]) == 1
    assert "COCO results need the ids of a COCO file" in capsys.readouterr().err


def test_detection_categories_are_not_renamed(coco, tmp_path, cli):
    told = cli("bench", tmp_path / "f.json", "--captures", coco, "--ignore-unmatched", code=2).err
    assert "--map and --ignore-unmatched apply to weights only" in told


def bop(root, *, targets=True):
    """Return a BOP dataset of two images, one of them a target, with partly visible objects."""
    scene = root / "test/000002"
    seen = {"bbox_obj": [10, 10, 19, 19], "bbox_visib": [10, 10, 9, 19], "px_count_visib": 200}
    faint = {"bbox_obj": [40, 10, 9, 9], "bbox_visib": [40, 10, 0, 9], "px_count_visib": 9}
    pose = {"cam_R_m2c": [1, 0, 0, 0, 1, 0, 0, 0, 1], "cam_t_m2c": [0, 0, 500]}
    tables = {"scene_camera": {}, "scene_gt": {}, "scene_gt_info": {}}
    for number in (3, 4):
        picture = images.encode_png(np.zeros((48, 64, 3), np.uint8))
        write_bytes(scene / f"rgb/{number:06d}.png", picture)
        tables["scene_camera"][number] = {"cam_K": [50, 0, 32, 0, 50, 24, 0, 0, 1]}
        tables["scene_gt"][number] = [pose | {"obj_id": 5}, pose | {"obj_id": 6}]
        tables["scene_gt_info"][number] = [
            seen | {"visib_fract": 0.5}, faint | {"visib_fract": 0.09}
        ]  # fmt: skip
    for name, table in tables.items():
        (scene / f"{name}.json").write_text(json.dumps(table))
    if targets:
        target = {"scene_id": 2, "im_id": 3, "obj_id": 5, "inst_count": 1}
        (root / "test_targets_bop19.json").write_text(json.dumps([target]))
    return root


def bop_result(bbox, *, scene_id=2, image_id=3, category_id=5, score=0.9):
    return {
        "scene_id": scene_id, "image_id": image_id, "category_id": category_id, "bbox": bbox,
        "score": score, "time": 0.1,
    }  # fmt: skip


def scored(root, tmp_path, cli, results):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results))
    return cli.json("bench", path, "--captures", root)


def test_bop_detections_are_scored_on_amodal_targets(tmp_path, cli):
    root = bop(tmp_path / "bop")
    whole, faint = bop_result([10, 10, 19, 19]), bop_result([40, 10, 9, 9], category_id=6)
    found = scored(root, tmp_path, cli, [whole, faint, whole | {"image_id": 4}])
    assert (found["images"], found["objects"]) == (1, 1)
    assert found["ap"]["value"] == pytest.approx(1)
    assert found["agnostic_ap50"]["value"] == pytest.approx(1)  # barely visible objects are ignored
    half = scored(root, tmp_path, cli, [bop_result([10, 10, 9, 19])])
    assert half["ap50"]["value"] == pytest.approx(1)
    assert half["ap75"]["value"] == 0
    twice = faint | {"bbox": [40, 10, 9, 8]}  # only one matches the hidden object
    both = scored(root, tmp_path, cli, [whole | {"score": 0.1}, faint, twice])
    assert both["agnostic_ap50"]["value"] == pytest.approx(0.5)


def test_amodal_boxes_are_clipped_to_the_image(tmp_path, cli):
    root = bop(tmp_path / "bop")
    table = root / "test/000002/scene_gt_info.json"
    infos = json.loads(table.read_text())
    infos["3"][0] |= {"bbox_obj": [-30, 10, 60, 60], "bbox_visib": [0, 10, 30, 30]}
    table.write_text(json.dumps(infos))
    found = scored(root, tmp_path, cli, [bop_result([-30, 10, 60, 60])])
    assert found["ap"]["value"] == pytest.approx(1)


def test_bop_without_targets_uses_all_images_and_visible_boxes(tmp_path, cli):
    root = bop(tmp_path / "bop", targets=False)
    seen = [bop_result([10, 10, 9, 19], image_id=number) for number in (3, 4)]
    found = scored(root / "test", tmp_path, cli, seen)
    assert (found["images"], found["objects"]) == (2, 2)
    assert found["ap"]["value"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"scene_id": 9}, "scene_id 9 is not in the captures (1 unknown in all)."),
        ({"scene_id": None}, "scene_id None is not in the captures (1 unknown in all)."),
        ({"category_id": 9}, "category_id 9 is not in the captures (1 unknown in all)."),
        (
            {"bbox": [-9, 5, -5, 9]},
            "[0]: box [-9.0, 5.0, -14.0, 14.0] must be finite, with sides of",
        ),
        (
            {"bbox": [0, 5, math.inf, 9]},
            "[0]: box [0.0, 5.0, inf, 14.0] must be finite, with sides of",
        ),
    ],
)
def test_results_of_another_bop_dataset_are_refused(tmp_path, cli, change, problem):
    root, path = bop(tmp_path / "bop"), tmp_path / "results.json"
    path.write_text(json.dumps([bop_result([10, 10, 20, 20]) | change]))
    assert f"{path}: {problem}" in cli("bench", path, "--captures", root, code=1).err


@pytest.mark.real
@pytest.mark.skipif(not LMO.is_dir(), reason="needs lmo in $SIM2CAM_REAL")
def test_lmo_is_scored_like_bop():
    captures = read_evaluation_images(LMO)
    labels = [label for sample in captures.samples for label in sample.objects]
    assert len(captures.samples) == 200
    assert sum(is_ignored(label) for label in labels) == 1514 - 1474
    assert all(label.box_xyxy == label.box_amodal_xyxy for label in labels)
    found = LoadedPredictions(captures, detect_labels(captures))
    assert score_predictions(found).score.ap.value == pytest.approx(1)
