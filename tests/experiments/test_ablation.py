"""A complete ablation study on tiny data: jobs, predictions and scores of every variant."""

import gzip
import itertools
import json
from dataclasses import replace

import pytest

from sim2cam import images
from sim2cam.adapt.calibration.camera_fit import CameraFit, ParameterEstimate
from sim2cam.adapt.calibration.jpeg import estimate_jpeg_quality
from sim2cam.adapt.transfers.selection import TransferScore, TransferSelection
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import RealImageSplits, read_real_images
from sim2cam.data.sample import Keypoint, ObjectLabel
from sim2cam.data.writer import write_json
from sim2cam.errors import BackendError, InputError, OutputError, UsageError
from sim2cam.experiments import ablation
from sim2cam.experiments.ablation import (
    CAMERA,
    PSEUDO_LABELLED,
    REAL,
    AblationPlan,
    Variant,
    list_pending_jobs,
    locate_result,
    open_ablation,
    run_jobs,
    select_images,
)
from sim2cam.experiments.ablation_scores import score_ablation
from sim2cam.metrics.detection import Detection
from sim2cam.models.inference.detector import load_detector
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.pseudo_labels import pseudo_label
from sim2cam.pipeline import camera_recipes
from sim2cam.pipeline.translation import read_certificate

pytestmark = pytest.mark.usefixtures("few_resamples")

PLAN = AblationPlan(
    variants=(
        Variant("randomized", ("randomized",)),
        Variant("+ transfer", ("randomized", "reinhard")),
        Variant("real only", (REAL,)),
    ),
    seeds=(0, 1),
    config=TrainConfig(steps=2, batch=2, crop_px=64),
    image_count=4,
    data_seed=0,
    recipe="dice",
    fixed_recipe=None,
)


TINY = """
base = "dice"
[adapt.translator]
preset = "demo"
steps = 2
patch_px = 32
batch = 1
[adapt.reference]
steps = 1
patch_px = 32
blocks = 5
width = 2
"""


@pytest.fixture
def captures(coco):
    return RealImageSplits(*[read_real_images(coco)] * 4)


@pytest.fixture
def work(sim, tmp_path, monkeypatch):
    monkeypatch.setattr(ablation, "_render", lambda *_: None)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "randomized").symlink_to(sim.root)
    return tmp_path / "work"


@pytest.fixture
def tuned_arms(monkeypatch):
    """Dataset names and image counts of the tuned detectors."""
    names = []

    def tuned(detector, dev):
        names.append((*(part.name for part in detector.card.data), len(dev.samples)))
        return detector

    monkeypatch.setattr(ablation, "tune_detector", tuned)
    return names


def test_every_variant_has_predictions_and_scores(work, captures, tmp_path, tuned_arms):
    results = tmp_path / "results"
    assert ablation.prepare_data(PLAN, captures, work, workers=1) == {}
    planned = list_pending_jobs(PLAN, captures, work, results, threads=1)
    assert [(p.variant.name, p.seed) for p in planned] == [
        ("randomized", 0), ("+ transfer", 0), ("real only", 0),
        ("randomized", 1), ("+ transfer", 1), ("real only", 1),
    ]  # fmt: skip
    assert list(run_jobs(PLAN, captures, work, results, workers=1, minutes=0)) == []
    done = list(run_jobs(PLAN, captures, work, results, workers=1, minutes=9))
    assert done == [piece.result_path for piece in planned]
    assert list_pending_jobs(PLAN, captures, work, results, threads=1) == []
    # no photo is held out
    assert tuned_arms == [("randomized", 24), ("randomized", "reinhard", 24)] * 2
    scores = score_ablation(PLAN, captures, results, baseline="randomized")
    assert {arm["name"]: len(arm["seeds"]) for arm in scores["variants"]} == {
        "randomized": 2, "+ transfer": 2, "real only": 2,
    }  # fmt: skip
    kept_out = len(read_certificate(work / "reinhard").rejected_images)
    assert [a.get("rejected") for a in scores["variants"]] == [None, {"reinhard": kept_out}, None]
    assert [(c["first"], c["metric"]) for c in scores["comparisons"]] == [
        (name, metric) for metric in ("ap50", "ap") for name in ("+ transfer", "real only")
    ]
    assert scores["equivalents"]["variants"] == []  # a curve needs two points
    over = "95 %, bootstrap over the seeds and 12 scenes of 24 images"
    assert scores["protocol"]["intervals"] == over

    path = results / "randomized-1.json.gz"
    facts = unpacked(path)
    path.unlink()
    alone = score_ablation(PLAN, captures, results, baseline="randomized")["protocol"]["intervals"]
    assert "without variation between seeds" in alone
    del facts["config"]["mix_steps"]  # as in files before that setting
    write_json(path, facts)
    assert score_ablation(PLAN, captures, results, baseline="randomized") == scores
    facts["data"][0]["digest"] = "of other renders"
    write_json(path, facts)
    with pytest.raises(
        InputError, match="the seeds of variant 'randomized' were trained on different"
    ):
        score_ablation(PLAN, captures, results, baseline="randomized")
    write_json(path, unpacked(path) | {"digests": {}})
    with pytest.raises(InputError, match=r"was made with another version of image \S+\. Use"):
        score_ablation(PLAN, captures, results, baseline="randomized")
    write_json(path, facts | {"config": {"steps": 3}})
    with pytest.raises(InputError, match="Remove the file to run the job again"):
        score_ablation(PLAN, captures, results, baseline="randomized")
    for damaged in (path.read_bytes()[:-20], b"{}", b""):
        path.write_bytes(damaged)
        with pytest.raises(
            InputError, match=r"is damaged \(.*\)\. Remove the file to run the job again\."
        ):
            score_ablation(PLAN, captures, results, baseline="randomized")


def test_predictions_keep_highest_scores(work, captures, tmp_path, monkeypatch):
    sure = Detection("1", (1.0, 2.0, 3.0, 4.0), 0.9)
    faint = [replace(sure, score=0.5 / n) for n in range(1, 200)]
    monkeypatch.setattr(
        ablation, "detect_dataset", lambda _, test: {s.name: (sure, *faint) for s in test.samples}
    )
    plan = replace(PLAN, variants=PLAN.variants[:1], seeds=(0,))
    (path,) = run_jobs(plan, captures, work, tmp_path / "results", workers=1, minutes=9)
    found = unpacked(path)["detection_rows"]
    assert len(found) == 24
    for kept in found.values():  # limit of COCO
        assert [row[-1] for row in kept] == [0.9, *(round(0.5 / n, 4) for n in range(1, 100))]


def test_trainings_run_on_requested_device(work, captures, tmp_path, tuned_arms, monkeypatch):
    places = []

    def told(what):
        def record(*_, device, **__):
            places.append((what, device))
            raise OutputError(tmp_path, "no matter")

        monkeypatch.setattr(ablation, what, record)

    trained = Variant("+ translated", ("randomized", "translated"))
    for what, arm in (
        ("train_network", trained), ("apply_transfer", Variant("+ reinhard", ("reinhard",))),
    ):  # fmt: skip
        told(what)
        plan = replace(PLAN, variants=(arm,))
        with pytest.raises(OutputError):
            ablation.prepare_data(plan, captures, work, workers=1, device="cuda:1")
    told("train_detector")
    with pytest.raises(OutputError):
        list(run_jobs(PLAN, captures, work, tmp_path, workers=1, minutes=9, device="cuda:1"))
    assert places == [(n, "cuda:1") for n in ("train_network", "apply_transfer", "train_detector")]


def test_missing_dependency_is_reported_before_rendering(captures, tmp_path, monkeypatch):
    def missing(network):
        raise BackendError(f"no {network}")

    monkeypatch.setattr("sim2cam.pipeline.translation.check_lpips", missing)
    monkeypatch.setattr(ablation, "_render", lambda *_: pytest.fail("something is rendered"))
    recipe = tmp_path / "lpips.toml"
    recipe.write_text(TINY.replace("steps = 2", "steps = 2\nlpips_weight = 1.0"))
    arm = Variant("+ translated", ("randomized", "translated"))
    plan = replace(PLAN, variants=(arm,), recipe=str(recipe))
    with pytest.raises(BackendError, match="no vgg"):
        ablation.prepare_data(plan, captures, tmp_path / "work", workers=1)


def test_camera_renders_are_translated_by_their_own_network(work, captures, tmp_path, monkeypatch):
    (work / "randomized").rename(work / "camera")
    monkeypatch.setattr(ablation, "write_camera_recipe", lambda *_: "around.toml")
    rendered = []
    monkeypatch.setattr(
        ablation, "_render", lambda _, recipe, root, *__: rendered.append((recipe, root))
    )
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(TINY)
    arm = Variant("randomized + camera fit, translated", ("camera", "camera-translated"))
    plan = replace(PLAN, variants=(arm,), recipe=str(recipe))
    assert ablation.prepare_data(plan, captures, work, workers=1) == {}
    assert rendered == [("around.toml", work / "camera")]
    names = [sample.name for sample in read_dataset(work / "camera-translated").samples]
    assert names == [sample.name for sample in read_dataset(work / "camera").samples]


def test_translators_with_two_seeds_and_published_methods(work, captures, tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    names = ("translated", "translated-1", "cyclegan", "cyclegan-2", "cut", "fastcut")
    arms = tuple(Variant(f"+ {name}", ("randomized", name)) for name in names)
    plan = replace(PLAN, variants=arms, recipe=str(tmp_path / "tiny.toml"))
    assert ablation.prepare_data(plan, captures, work, workers=1) == {}
    headers = [json.loads((work / name / "dataset.json").read_text()) for name in names]
    assert len({header["transfer_digest"] for header in headers}) == len(names)
    cards = [json.loads((work / f"transfers/{name}/weights.json").read_text()) for name in names]
    assert [card["steps"] for card in cards] == [2, 2, 1, 2, 1, 1]


def test_published_translations_are_all_kept(work, captures, tmp_path, tuned_arms):
    (tmp_path / "strict.toml").write_text(f"{TINY}[adapt.certificate]\nimage_correlation = 1.0\n")
    arms = Variant("+ ours", ("randomized", "translated")), Variant("+ cut", ("randomized", "cut"))
    plan = replace(PLAN, variants=arms, seeds=(0,), recipe=str(tmp_path / "strict.toml"))
    assert ablation.prepare_data(plan, captures, work, workers=1) == {
        "translated": "the certificate rejected all 4 translations"
    }
    plan = replace(plan, variants=arms[1:])
    results = tmp_path / "results"
    (path,) = run_jobs(plan, captures, work, results, workers=1, minutes=9)
    facts = unpacked(path)
    assert [(part["name"], part["images"]) for part in facts["data"]] == [
        ("randomized", 24), ("cut", 24),
    ]  # fmt: skip
    assert facts["rejected"] == {"cut": 24}
    before, after = (
        read_dataset(work / name, with_rejected=True).samples for name in ("randomized", "cut")
    )
    assert [s.name for s in after] == [s.name for s in before]
    assert [s.objects for s in after] == [s.objects for s in before]
    assert {s.rgb.parent.name for s in after} == {"rejected"}
    with pytest.raises(InputError, match="the dataset has no samples"):
        read_dataset(work / "cut")


def test_fine_tuning_and_adaptation_take_equal_steps(work, captures, tmp_path, tuned_arms):
    arms = (
        Variant("then photos", ("randomized",), fine_tuning_data=("real-5",)),
        Variant("+ coral", ("randomized",), alignment="coral"),
    )
    plan = replace(PLAN, variants=arms, seeds=(0,), config=replace(PLAN.config, steps=4))
    found = {}
    for path in run_jobs(plan, captures, work, tmp_path / "results", workers=1, minutes=9):
        facts = unpacked(path)
        found[facts["variant"]] = [(part["name"], part["images"]) for part in facts["data"]]
    assert found == {
        "then photos": [("randomized", 24), ("coco", 5)],
        "+ coral": [("randomized", 24)],
    }
    names = ("then-photos-0", "then-photos-0-tuned", "coral-0")
    cards = [load_detector(work / "runs" / name / "weights.safetensors").card for name in names]
    assert [card.steps for card in cards] == [3, 1, 4]
    assert [card.target_images is not None for card in cards] == [False, False, True]
    assert tuned_arms == [("coco", 19), ("randomized", 24)]  # tuned on held-out photos only
    assert [arm.count_photos(24) for arm in arms] == [5, 0]


def test_a_variant_from_scratch_starts_from_random_weights(work, captures, tmp_path, monkeypatch):
    configs = []

    def record(_datasets, config, *_arguments, **_options):
        configs.append(config)
        raise UsageError("not trained")

    monkeypatch.setattr(ablation, "train_detector", record)
    arms = (
        Variant("randomized", ("randomized",)),
        Variant("from scratch", ("randomized",), from_scratch=True),
    )
    config = replace(PLAN.config, architecture="lite0", pretrained="auto")
    plan = replace(PLAN, variants=arms, seeds=(0,), config=config)
    for job in list_pending_jobs(plan, captures, work, tmp_path / "results", threads=1):
        with pytest.raises(UsageError, match="not trained"):
            ablation.run_job(job)
    assert [config.pretrained for config in configs] == ["auto", ""]


def test_points_of_learning_curves_differ_in_renders_or_steps(work, captures, tmp_path, tuned_arms):
    few = Variant("randomized (3 renders)", ("randomized-3",))
    short = Variant("randomized (1 steps)", ("randomized",), steps=1)
    plan = replace(PLAN, variants=(PLAN.variants[0], few, short))
    results = tmp_path / "results"
    assert ablation.prepare_data(plan, captures, work, workers=1) == {}
    assert len(list(run_jobs(plan, captures, work, results, workers=1, minutes=9))) == 6
    cards = {
        (name, seed): load_detector(work / "runs" / f"{name}-{seed}" / "weights.safetensors").card
        for name in ("randomized", "randomized-3-renders", "randomized-1-steps")
        for seed in (0, 1)
    }
    assert {name: (card.steps, card.data[0].images) for (name, _), card in cards.items()} == {
        "randomized": (2, 24), "randomized-3-renders": (2, 3), "randomized-1-steps": (1, 24),
    }  # fmt: skip
    digests = [cards["randomized-3-renders", seed].data[0].digest for seed in (0, 1)]
    assert digests[0] != digests[1]  # of other renders
    scores = score_ablation(plan, captures, results, baseline="randomized")
    assert scores["comparisons"] == []
    assert [
        (curve["resource"], curve["metric"], [point["size"] for point in curve["points"]])
        for curve in scores["learning_curves"]
    ] == [
        (resource, metric, sizes)
        for resource, sizes in (("renders", [3, 4]), ("steps", [1, 2]))
        for metric in ("ap", "ap50", "agnostic_ap50")
    ]
    assert all(curve["fit"] is None for curve in scores["learning_curves"])


def test_unusable_fine_tuning_data_is_refused_first(work, captures, tmp_path):
    def pointed(label):
        return replace(label, keypoints=(Keypoint("top", label.box_xyxy[:2], 2),))

    samples = (replace(s, objects=tuple(map(pointed, s.objects))) for s in captures.train.samples)
    captures = replace(captures, train=replace(captures.train, samples=tuple(samples)))
    config = replace(PLAN.config, keypoints=True, flips=False)
    late = Variant("late", (REAL,), fine_tuning_data=("randomized",))
    plan = replace(PLAN, variants=(late,), config=config)
    reasons = []
    run = run_jobs(
        plan, captures, work, tmp_path / "results", workers=1, minutes=9,
        on_failure=lambda arm, error: reasons.append((arm.name, str(error))),
    )  # fmt: skip
    assert list(run) == []
    ((name, reason),) = reasons  # of two seeds
    assert name == "late"
    assert "no object has keypoints to learn" in reason
    assert not (work / "runs").exists()
    with pytest.raises(InputError, match="no object has keypoints to learn"):
        list(run_jobs(plan, captures, work, tmp_path / "results", workers=1, minutes=9))


def test_variant_trains_on_its_pseudo_labels(work, captures, tmp_path, tuned_arms, monkeypatch):
    calls = itertools.count(1)

    def found(detector, style):  # varies, unlike a detector of three steps
        label = ObjectLabel("1", (0.0, 0.0, 9.0 + next(calls), 9.0), 90.0)
        samples = pseudo_label(detector, style).samples
        return replace(style, samples=tuple(replace(s, objects=(label,)) for s in samples))

    monkeypatch.setattr(ablation, "pseudo_label", found)
    arm = Variant("+ self-labelled photos", ("randomized",), ("randomized", PSEUDO_LABELLED))
    plan = replace(PLAN, variants=(arm,), config=replace(PLAN.config, steps=4))
    results = tmp_path / "results"
    first, second = run_jobs(plan, captures, work, results, workers=1, minutes=9)
    data = unpacked(first)["data"]
    assert data != unpacked(second)["data"]  # pseudo-labels differ between seeds
    style = len(captures.style.samples)
    assert [(part["images"], part["origins"]) for part in data] == [
        (24, {"sim": 24}), (24, {"sim": 24}), (style, {"pseudo-labelled": style}),
    ]  # fmt: skip
    # before labelling and at the end
    assert tuned_arms == 2 * [("randomized", 24), ("randomized", "coco", 24)]
    scores = score_ablation(plan, captures, results, baseline=arm.name)
    assert len(scores["variants"][0]["seeds"]) == 2
    assert arm.count_photos(24) == 0


def test_scores_need_the_baseline(captures, tmp_path):
    with pytest.raises(InputError, match="no predictions of the variant 'randomized' yet"):
        score_ablation(PLAN, captures, tmp_path, baseline="randomized")


def test_dataset_with_all_images_rejected_is_reported(work, captures, monkeypatch):
    monkeypatch.setattr(ablation, "_translate", lambda *_: 0)
    assert ablation.prepare_data(PLAN, captures, work, workers=1) == {
        "reinhard": "the certificate rejected all 4 translations"
    }


def test_best_transfer_with_all_images_rejected_is_reported(work, captures, monkeypatch):
    nearest = TransferSelection(
        "style", 24, 40, (TransferScore("mkl", 40, 0.5), TransferScore("style", 40, 0.7))
    )
    translated = []
    monkeypatch.setattr(ablation, "select_best_transfer", lambda *_, **__: nearest)
    monkeypatch.setattr(ablation, "_translate", lambda _, name, *__: translated.append(name))
    best = Variant("+ best", ("randomized", "best-transfer"))
    plan = replace(PLAN, variants=(*PLAN.variants, best))
    reason = "the certificate rejected all 4 translations"
    assert ablation.prepare_data(plan, captures, work, workers=1) == {
        "reinhard": reason,
        "best-transfer": reason,
    }
    assert translated == ["mkl", "reinhard"]


def test_camera_is_estimated_once_from_style_photos(captures, tmp_path, monkeypatch):
    quality = ParameterEstimate("sensor.jpeg_quality", 61.0, (61.0, 61.0))
    asked = []

    def calibrate_files(files, path, _):
        asked.append((sorted(files), path))
        return CameraFit("96x80", 96, 80, photos=24, boards=0, estimates=(quality,))

    monkeypatch.setattr(camera_recipes, "calibrate_files", calibrate_files)
    plan = replace(PLAN, variants=(Variant("randomized + camera fit", (CAMERA,)),))
    for _ in range(2):
        assert ablation.prepare_data(plan, captures, tmp_path, workers=1) == {}
    style = captures.style
    assert asked == [(sorted(sample.rgb for sample in style.samples), style.root)]
    assert {path.name for path in tmp_path.iterdir()} == {"camera", "camera-fit"}
    made = read_dataset(tmp_path / "camera")
    headers = [images.read_header(sample.rgb) for sample in made.samples]
    assert [(h.width, h.height, estimate_jpeg_quality(h)) for h in headers] == [(96, 80, 61)] * 4


def test_smaller_photo_subsets_are_nested_and_depend_on_seed(captures):
    photos = captures.train
    few, more = (select_images(photos, n, 0) for n in (5, 12))
    names = {sample.name for sample in few.samples}
    assert len(names) == 5
    assert names < {sample.name for sample in more.samples}
    assert few.categories == photos.categories
    assert names != {sample.name for sample in select_images(photos, 5, 1).samples}
    reversed_photos = photos.select_by_name(reversed([*names, "x"]))
    turned = RealImageSplits(photos, photos, train=reversed_photos).train
    assert {s.name for s in select_images(turned, 5, 0).samples} == names


def write_predictions(results, arm, seed, dataset, every):
    """Write exact predictions of all but every n-th object."""
    found, number = {}, 0
    for sample in dataset.samples:
        found[sample.name] = []
        for label in sample.objects:
            number += 1
            if number % every:
                found[sample.name].append([label.category, *label.box_xyxy, 0.9])
    config = json.loads(json.dumps(PLAN.config.to_json()))
    data = [{"name": name, "digest": str(seed)} for name in arm.data]
    facts = {
        "variant": arm.name, "seed": seed, "config": config, "data": data, "detection_rows": found
    }  # fmt: skip
    path = locate_result(results, arm, seed)
    write_json(path, facts)
    return path


def unpacked(path):
    return json.loads(gzip.decompress(path.read_bytes()))


def test_equivalent_photos_of_simulated_detectors(captures, tmp_path):
    misses = {"real-5": 2, "real-10": 3, "real": 10}  # with 24 photos every tenth object
    curve = [Variant(name, (name,)) for name in misses]
    middle = Variant("randomized", ("randomized",))
    plan = replace(PLAN, variants=(middle, *curve), seeds=(0,))
    for arm in curve:
        write_predictions(tmp_path / "found", arm, 0, captures.test, misses[arm.name])
    write_predictions(tmp_path / "found", middle, 0, captures.test, 3)
    scores = score_ablation(plan, captures, tmp_path / "found", baseline="randomized")
    found = scores["equivalents"]
    assert [point["labelled_images"] for point in found["curve"]] == [5, 10, 24]
    (worth,) = found["variants"]
    assert worth["variant"] == "randomized"
    assert worth["images"] == pytest.approx(10)
    assert worth["ci95"] == pytest.approx([10, 10])
    same = next(c for c in scores["comparisons"] if c["first"] == "real-10")
    assert (same["value"], same["min_detectable_effect"]) == (0, None)


def test_seed_variance_is_not_significant(captures, tmp_path):
    lucky, steady = Variant("lucky", ("lucky",)), Variant("randomized", ("randomized",))
    for seed, every in enumerate((2, 2, 20)):
        write_predictions(tmp_path, lucky, seed, captures.test, every)
        write_predictions(tmp_path, steady, seed, captures.test, 2)
    for arm in (lucky, steady):  # equal data for all seeds of a variant
        for path in (locate_result(tmp_path, arm, seed) for seed in range(3)):
            write_json(path, unpacked(path) | {"data": []})
    plan = replace(PLAN, variants=(lucky, steady), seeds=(0, 1, 2))
    scores = score_ablation(plan, captures, tmp_path, baseline="randomized")
    luck, rest = (arm["ap50"]["ci95"] for arm in scores["variants"])
    assert luck[1] - luck[0] > 2 * (rest[1] - rest[0])
    for found in scores["comparisons"]:
        assert found["value"] > 0.1
        assert found["ci95"][0] <= 0.01
        assert found["p_holm"] > 0.05
    assert [found["metric"] for found in scores["comparisons"]] == ["ap50", "ap"]


def test_different_datasets_of_one_name_are_reported(captures, tmp_path):
    plain, mixed = Variant("randomized", ("randomized",)), Variant("mixed", ("randomized", "fixed"))
    plan = replace(PLAN, variants=(plain, mixed), seeds=(0,))
    for arm in plan.variants:
        write_predictions(tmp_path, arm, 0, captures.test, 3)
    assert not score_ablation(plan, captures, tmp_path, baseline="randomized")["warnings"]
    path = locate_result(tmp_path, mixed, 0)
    data = [{"name": "randomized", "digest": "other"}, {"name": "fixed", "digest": "0"}]
    write_json(path, unpacked(path) | {"data": data})
    assert score_ablation(plan, captures, tmp_path, baseline="randomized")["warnings"] == [
        "The variants 'randomized' and 'mixed' were trained on different datasets 'randomized'. Remove the "
        "predictions of one and run it again."
    ]


def test_other_folder_is_refused(captures, tmp_path):
    root = tmp_path / "run"
    open_ablation(PLAN, captures, root, resume=False, overwrite=False)

    def refuses(plan, message, **how):
        with pytest.raises(OutputError, match=message):
            open_ablation(plan, captures, root, **({"resume": False, "overwrite": False} | how))

    refuses(PLAN, r"run: is not empty\. Add --resume to continue or --overwrite")
    open_ablation(PLAN, captures, root, resume=True, overwrite=False)
    other = replace(PLAN, image_count=5)
    refuses(other, r"plan\.json: image_count was 4, not 5\. Add --overwrite", resume=True)
    (root / "mine.txt").write_text("mine")
    mine = r"contains 'mine\.txt', which is not part of an ablation study"
    refuses(other, mine, overwrite=True)
    (root / "mine.txt").unlink()
    open_ablation(other, captures, root, resume=False, overwrite=True)
    (root / "plan.json").unlink()
    (root / "runs").mkdir()
    refuses(PLAN, r"plan\.json: no ablation study to resume", resume=True)


@pytest.mark.parametrize("part", ["train", "dev"])
def test_resume_with_other_labels_is_refused(captures, tmp_path, part):
    open_ablation(PLAN, captures, tmp_path, resume=False, overwrite=False)
    photos = getattr(captures, part)
    first, *others = photos.samples
    changed = replace(photos, samples=(replace(first, objects=first.objects[1:]), *others))
    for now in (changed, None):
        real = replace(captures, **{part: now})
        with pytest.raises(OutputError, match=rf"the real images changed \(split {part}\)"):
            open_ablation(PLAN, real, tmp_path, resume=True, overwrite=False)


@pytest.mark.parametrize("part", ["style", "test"])
def test_resume_with_other_images_is_refused(captures, tmp_path, part):
    open_ablation(PLAN, captures, tmp_path, resume=False, overwrite=False)
    photos = getattr(captures, part)
    other = tuple(replace(sample, objects=()) for sample in photos.samples)
    relabelled = replace(captures, **{part: replace(photos, samples=other)})
    open_ablation(PLAN, relabelled, tmp_path, resume=True, overwrite=False)
    fewer = replace(captures, **{part: replace(photos, samples=photos.samples[1:])})
    with pytest.raises(OutputError, match=rf"the real images changed \(split {part}\)"):
        open_ablation(PLAN, fewer, tmp_path, resume=True, overwrite=False)
