import hashlib
import json
import shutil
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch

from sim2cam import images
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.data.channels import read_channel
from sim2cam.data.checks.dataset import check_dataset
from sim2cam.data.formats.export import export_dataset
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import read_real_images
from sim2cam.data.sample import INHERITED_FIELDS
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.data.writer import SAMPLES_PER_SHARD
from sim2cam.errors import BackendError, CheckpointError, InputError, OutputError, UsageError
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import save_detector
from sim2cam.models.network.detector import DetectorNetwork
from sim2cam.pipeline import translation
from sim2cam.pipeline.translation import (
    Certification,
    apply_transfer,
    fit_parameter_free_transfer,
    list_image_pairs,
    read_certificate,
    train_network,
)

LENIENT = CertificateLimits(object_shift_px=9, structure_correlation=-1, image_correlation=-1, edge_recall=0, colour_shift=9, added_structure_levels=99, lost_structure_levels=99, grid_artefact_levels=99, seam_step_levels=99, clipped_fraction=1, detection_recall=0, missed_detections=99, hallucinated_detections=99)  # fmt: skip


def apply(run, sim, root, *, limits=LENIENT, judges=(), **kwargs):
    """Return the adapted dataset."""
    certify(run, sim, root, limits=limits, judges=judges, **kwargs)
    return read_dataset(root)


def certify(run, sim, root, *, limits=LENIENT, judges=(), **kwargs):
    """Return the certificate of the adapted dataset."""
    flags = {"workers": 1, "resume": False, "overwrite": False, "progress": lambda *_: None}
    certification = Certification(limits, judges)
    return apply_transfer(run, sim, root, certification=certification, seed=0, **flags | kwargs)


def contents(root):
    """Return the content of all files in the shards, by path."""
    files = sorted(path for path in (root / "shards").rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def digests(root):
    return [hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(root.rglob("*.jpg"))]


@pytest.fixture(scope="module")
def reinhard(coco, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "reinhard"
    fit_parameter_free_transfer(read_real_images(coco), "reinhard", run, overwrite=False)
    return run


def test_labels_stay_and_images_change(reinhard, sim, tmp_path):
    adapted = apply(reinhard, sim, tmp_path / "adapted")
    assert len(adapted.samples) == len(sim.samples)
    for ours, parent in zip(adapted.samples, sim.samples, strict=True):
        assert ours.origin == "adapted"
        assert (ours.parent, ours.objects, ours.channels) == (
            parent.digest,
            parent.objects,
            parent.channels,
        )
        assert ours.scene_index == parent.scene_index
    assert not np.array_equal(
        images.read_rgb(adapted.samples[0].rgb), images.read_rgb(sim.samples[0].rgb)
    )
    assert not check_dataset(tmp_path / "adapted").problems


def test_other_images_do_not_change_bytes(reinhard, sim, tmp_path):
    apply(reinhard, sim, tmp_path / "whole")
    apply(reinhard, sim.take(5), tmp_path / "part")
    assert digests(tmp_path / "part") == digests(tmp_path / "whole")[:5]


def test_refitted_transfer_translates(sim, coco, tmp_path):
    captures, run = read_real_images(coco), tmp_path / "run"
    for method in ("reinhard", "mkl"):
        fit_parameter_free_transfer(captures, method, run, overwrite=True)
        apply(run, sim.take(2), tmp_path / method)
        fit_parameter_free_transfer(captures, method, tmp_path / f"new {method}", overwrite=False)
        apply(tmp_path / f"new {method}", sim.take(2), tmp_path / f"as {method}")
        assert digests(tmp_path / method) == digests(tmp_path / f"as {method}")
    assert digests(tmp_path / "reinhard") != digests(tmp_path / "mkl")


def test_interrupted_translation_is_incomplete(reinhard, sim, tmp_path):
    def interrupt(done, _total):
        if done >= 16:  # the first shard
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply(reinhard, sim, tmp_path / "adapted", progress=interrupt)
    assert [problem.message for problem in check_dataset(tmp_path / "adapted").problems] == [
        "incomplete: 16 of 24 samples exist. Run its command again with --resume."
    ]
    apply(reinhard, sim, tmp_path / "adapted", resume=True)
    assert check_dataset(tmp_path / "adapted").problems == ()


def test_translator_is_trained_and_applied(coco, sim, tmp_path):
    config = TranslatorConfig(steps=2, batch=2, patch_px=64)
    train_network(
        sim,
        read_real_images(coco),
        config,
        tmp_path / "run",
        certification=Certification(LENIENT),
        resume=False,
        device="cpu",
    )
    adapted = apply(tmp_path / "run", sim.take(3), tmp_path / "adapted")
    assert [s.parent for s in adapted.samples] == [s.digest for s in sim.samples[:3]]
    poor = replace(sim.samples[2], channels={})
    with pytest.raises(InputError, match=f"{poor.rgb}: has no depth buffer, but the translator"):
        apply(
            tmp_path / "run",
            replace(sim, samples=(*sim.samples[:2], poor)),
            tmp_path / "adapted",
            overwrite=True,
        )
    assert len(read_dataset(tmp_path / "adapted").samples) == 3


def test_too_few_real_images_are_refused(coco, tmp_path):
    few = read_real_images(coco).take(19)
    with pytest.raises(InputError, match="19 real images; a transfer needs at least 20"):
        fit_parameter_free_transfer(few, "fourier", tmp_path / "run", overwrite=False)


def test_used_run_folder_is_refused(reinhard, coco):
    with pytest.raises(OutputError, match=r"is not empty. Add --overwrite"):
        fit_parameter_free_transfer(read_real_images(coco), "reinhard", reinhard, overwrite=False)


def test_other_transfer_does_not_resume(reinhard, coco, sim, tmp_path):
    apply(reinhard, sim.take(4), tmp_path / "adapted")
    fit_parameter_free_transfer(
        read_real_images(coco), "fourier", tmp_path / "fourier", overwrite=False
    )
    with pytest.raises(OutputError, match="holds another dataset: transfer_digest is"):
        apply(tmp_path / "fourier", sim.take(4), tmp_path / "adapted", resume=True)


def test_changed_parent_is_reported(reinhard, sim, tmp_path):
    copy = tmp_path / "sim"
    shutil.copytree(sim.root, copy)
    apply(reinhard, read_dataset(copy).take(4), tmp_path / "adapted")
    lines = copy / "shards" / "000000" / "samples.jsonl"
    lines.write_text("\n".join(lines.read_text().splitlines()[1:]) + "\n")
    with pytest.raises(InputError, match="000000"):
        read_dataset(tmp_path / "adapted")


@pytest.mark.parametrize("flags", [{}, {"overwrite": True}, {"resume": True}])
def test_output_in_own_lineage_is_refused(reinhard, sim, tmp_path, flags):
    shutil.copytree(sim.root, tmp_path / "sim")
    first = apply(reinhard, read_dataset(tmp_path / "sim"), tmp_path / "first")
    (tmp_path / "link").symlink_to(tmp_path / "sim")
    before = contents(tmp_path / "sim")
    for parent, out in ((read_dataset(tmp_path / "sim"), "sim"), (first, "sim"), (first, "link")):
        with pytest.raises(OutputError, match=r"contains the input images or their labels\. Ch"):
            apply(reinhard, parent, tmp_path / out, **flags)
    assert contents(tmp_path / "sim") == before
    assert (tmp_path / "sim" / "dataset.json").is_file()


def test_moved_pair_finds_its_labels(reinhard, sim, tmp_path):
    shutil.copytree(sim.root, tmp_path / "a" / "sim")
    apply(reinhard, read_dataset(tmp_path / "a" / "sim").take(4), tmp_path / "a" / "adapted")
    shutil.move(tmp_path / "a", tmp_path / "b")
    moved = read_dataset(tmp_path / "b" / "adapted")
    assert moved.samples[0].objects == sim.samples[0].objects
    assert replace(moved, samples=()).categories == sim.categories


@pytest.fixture(scope="module")
def strict(reinhard, sim, tmp_path_factory):
    """Return a translation, and a limit that about half of its images exceed."""
    root = tmp_path_factory.mktemp("strict")
    free = certify(reinhard, sim, root / "free")
    values = sorted(p.checks["added_structure_levels"].value for p in free.images)
    limits = replace(LENIENT, added_structure_levels=values[len(values) // 2])
    return root / "set", limits, certify(reinhard, sim, root / "set", limits=limits)


def test_rejected_images_leave_gaps(strict, reinhard, sim, tmp_path):
    root, _, certificate = strict
    adapted, free = read_dataset(root), apply(reinhard, sim, tmp_path / "free")
    rejected = {picture.name for picture in certificate.rejected_images}
    assert 0 < len(rejected) < len(sim.samples)
    assert {s.name for s in free.samples} - {s.name for s in adapted.samples} == rejected
    by_name = {s.name: s for s in free.samples}
    for sample in adapted.samples:
        other = by_name[sample.name]
        assert sample.rgb.read_bytes() == other.rgb.read_bytes()
        assert (sample.digest, sample.objects) == (other.digest, other.objects)
    kept_aside = sorted(root.glob("shards/*/rejected/*.jpg"))
    assert {path.stem for path in kept_aside} == rejected
    for path in kept_aside:
        assert path.read_bytes() == by_name[path.stem].rgb.read_bytes()


def test_dataset_with_gaps_is_complete(strict):
    root, _, certificate = strict
    report = check_dataset(root)
    assert report.problems == ()
    assert report.samples == certificate.accepted_count


def test_missing_rejected_image_is_reported(strict, tmp_path):
    root, _, _ = strict
    copy = tmp_path / "deeper" / "set"  # the relative path to its parent is unchanged
    shutil.copytree(root, copy)
    first = min(copy.glob("shards/*/rejected/*.jpg"))
    first.unlink()
    what = [p.message for p in check_dataset(copy).problems if p.sample == first.stem]
    assert what == [f"rejected/{first.name} is missing"]


def test_gaps_do_not_depend_on_workers_or_interruptions(strict, reinhard, sim, tmp_path):
    root, limits, _ = strict

    def interrupt(done, _total):
        if done >= 16:  # the first shard
            raise KeyboardInterrupt

    certify(reinhard, sim, tmp_path / "two", limits=limits, workers=2)
    with pytest.raises(KeyboardInterrupt):
        certify(reinhard, sim, tmp_path / "cut", limits=limits, progress=interrupt)
    certify(reinhard, sim, tmp_path / "cut", limits=limits, resume=True)
    assert contents(root) == contents(tmp_path / "two") == contents(tmp_path / "cut")


def test_certificate_is_next_to_the_dataset(strict, sim):
    root, limits, certificate = strict
    assert read_certificate(root) == certificate
    assert certificate.limits == limits
    paths = list_image_pairs(root, sim)
    assert {name for name, _ in paths.items()} == {p.name for p in certificate.images}
    assert all(before.is_file() and after.is_file() for before, after in paths.values())


def test_other_limits_do_not_resume(strict, reinhard, sim, tmp_path):
    certify(reinhard, sim.take(2), tmp_path / "set")
    with pytest.raises(
        OutputError, match=r"certification\.limits\.grid_artefact_levels is 99, not 98"
    ):
        certify(
            reinhard,
            sim.take(2),
            tmp_path / "set",
            limits=replace(LENIENT, grid_artefact_levels=98),
            resume=True,
        )


def test_full_memory_before_first_shard_is_reported(reinhard, sim, tmp_path, monkeypatch):
    def full(*_given, **_named):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(translation, "load_transfer", full)
    with pytest.raises(BackendError, match=r"^GPU memory is full\. "):
        certify(reinhard, sim.take(1), tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_certificate_is_written_if_all_are_rejected(reinhard, sim, tmp_path):
    certificate = certify(
        reinhard, sim.take(3), tmp_path / "set", limits=replace(LENIENT, added_structure_levels=0)
    )
    assert (certificate.accepted_count, certificate.decision) == (0, "failed")
    assert read_certificate(tmp_path / "set") == certificate


def test_photos_are_translated_with_their_labels(reinhard, coco, tmp_path):
    photos = read_real_images(coco).take(3)
    adapted = apply(reinhard, photos, tmp_path / "set")
    for ours, photo in zip(adapted.samples, photos.samples, strict=True):
        assert [o.category for o in ours.objects] == [o.category for o in photo.objects]
        assert ours.parent == images.compute_digest(photo.rgb)
    assert check_dataset(tmp_path / "set").problems == ()
    measured = read_certificate(tmp_path / "set").images[0].checks
    assert measured["object_shift_px"].status == "pass"
    assert measured["edge_recall"].status == "pass"  # from labelled masks


def test_box_outlines_are_not_measured(reinhard, coco, tmp_path):
    photos = read_real_images(coco).take(1)
    boxes = tuple(replace(label, mask=None) for label in photos.samples[0].objects)
    apply(reinhard, replace(photos, samples=(replace(photos.samples[0], objects=boxes),)), tmp_path)
    measured = read_certificate(tmp_path).images[0].checks
    assert measured["edge_recall"].reason == ("the labels have neither instance ids nor masks")


@pytest.mark.parametrize("which", ["bbox", "category_id"])
def test_photos_with_changed_labels_do_not_resume(reinhard, coco, tmp_path, which):
    """Check that a dataset never mixes old and new labels."""
    apply(reinhard, read_real_images(coco).take(3), tmp_path / "set")
    apply(reinhard, read_real_images(coco).take(3), tmp_path / "set", resume=True)
    tables = json.loads(coco.read_text())
    for annotation in tables["annotations"]:
        if which == "bbox":
            annotation["bbox"][2] *= 0.5
        else:
            annotation["category_id"] = tables["categories"][0]["id"]
    changed = coco.with_name(f"{which}.json")
    changed.write_text(json.dumps(tables))
    photos = read_real_images(changed).take(3)
    changed.unlink()
    with pytest.raises(OutputError, match="holds another dataset: labels_digest is"):
        apply(reinhard, photos, tmp_path / "set", resume=True)


def test_unlabelled_photos_check_appearance_only(reinhard, sim, tmp_path):
    (tmp_path / "photos").mkdir()
    for sample in sim.samples[:2]:
        (tmp_path / "photos" / sample.rgb.name).write_bytes(sample.rgb.read_bytes())
    photos = read_real_images(tmp_path / "photos")
    certificate = certify(reinhard, photos, tmp_path / "set")
    assert certificate.decision == "appearance only"
    assert read_dataset(tmp_path / "set").samples[0].objects is None


@pytest.fixture(scope="module")
def foreign(sim, tmp_path_factory):
    """Return three renders in other dataset formats, read as real images."""
    root = tmp_path_factory.mktemp("foreign")
    for form in ("bop", "webdataset"):
        export_dataset({"test": sim.take(3)}, root / form, form)
    return {form: read_real_images(root / form) for form in ("bop", "webdataset")}


@pytest.mark.parametrize(
    ("form", "channels"), [("bop", {"sensor_depth"}), ("webdataset", {"depth", "ids"})]
)
def test_channels_are_copied(reinhard, foreign, tmp_path, form, channels):
    parent = foreign[form]
    adapted = apply(reinhard, parent, tmp_path / "set")
    assert check_dataset(tmp_path / "set").problems == ()
    for ours, theirs in zip(adapted.samples, parent.samples, strict=True):
        assert ours.channels.keys() == theirs.channels.keys() == channels
        for name, path in theirs.channels.items():
            assert ours.channels[name].is_relative_to(tmp_path / "set")
            assert np.array_equal(read_channel(name, ours.channels[name]), read_channel(name, path))
        for name in INHERITED_FIELDS:
            assert getattr(ours, name) == getattr(theirs, name)
        assert ours.lens is not None
        assert (ours.depth_unit_m is None) == (form == "webdataset")
        seen = [read_visible_masks(sample) for sample in (ours, theirs)]
        assert not any(mask is None for mask in seen[0])
        assert all(np.array_equal(*pair) for pair in zip(*seen, strict=True))


@pytest.mark.parametrize("what", ["channels", "lens"])
def test_images_with_changed_channels_do_not_resume(reinhard, foreign, tmp_path, what):
    first, second, *_ = foreign["webdataset"].samples
    apply(reinhard, replace(foreign["webdataset"], samples=(first,)), tmp_path / "set")
    other = replace(first, **{what: getattr(second, what) if what == "channels" else None})
    with pytest.raises(OutputError, match="holds another dataset: labels_digest is"):
        apply(
            reinhard,
            replace(foreign["webdataset"], samples=(other,)),
            tmp_path / "set",
            resume=True,
        )


def test_broken_channel_fails_before_removal(reinhard, foreign, tmp_path):
    apply(reinhard, foreign["bop"], tmp_path / "set")
    before = contents(tmp_path / "set")
    *others, last = foreign["bop"].samples
    (tmp_path / "broken.png").write_bytes(last.channels["sensor_depth"].read_bytes()[:200])
    broken = replace(last, channels={"sensor_depth": tmp_path / "broken.png"})
    with pytest.raises(InputError, match=r"broken\.png"):
        apply(
            reinhard,
            replace(foreign["bop"], samples=(*others, broken)),
            tmp_path / "set",
            overwrite=True,
        )
    assert contents(tmp_path / "set") == before


def test_video_is_one_sequence(coco, sim, tmp_path, monkeypatch):
    """Check that a static video has no flicker, also across shards."""
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path / "cache"))
    fit_parameter_free_transfer(
        read_real_images(coco), "style", tmp_path / "style", overwrite=False
    )
    still = images.read_rgb(sim.samples[0].rgb)
    height, width = still.shape[:2]
    film = cv2.VideoWriter(
        str(tmp_path / "still.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (width, height)
    )
    for _ in range(SAMPLES_PER_SHARD + 2):
        film.write(still[..., ::-1])
    film.release()
    video = read_real_images(tmp_path / "still.avi")
    adapted = apply(tmp_path / "style", video, tmp_path / "set")
    assert len({sample.rgb.read_bytes() for sample in video.samples}) == 1
    assert len({sample.rgb.read_bytes() for sample in adapted.samples}) == 1
    assert check_dataset(tmp_path / "set").problems == ()
    assert [s.frame_info for s in adapted.samples] == [s.frame_info for s in video.samples]
    told = [
        p.checks["warping_error_levels"].reason for p in read_certificate(tmp_path / "set").images
    ]
    assert told[:2] == ["first frame of its sequence", "a video has no flow"]


def test_verifiers_measure_agreement(reinhard, sim, weights, tmp_path):
    judges = (("task", weights("nano")), ("verifier", weights("small")))
    certificate = certify(reinhard, sim.take(2), tmp_path / "set", judges=judges)
    assert certificate.verifiers == {name: images.compute_digest(path) for name, path in judges}
    assert all(set(picture.agreements) == {"task", "verifier"} for picture in certificate.images)


def test_verifiers_select_checkpoints(sim, weights, tmp_path, monkeypatch):
    monkeypatch.setattr("sim2cam.adapt.training.checkpoint_selection.MIN_INTERVAL_STEPS", 10)
    again = (
        replace(s, name=f"{s.name}b", digest=s.digest[::-1], scene_index=100 + s.scene_index)
        for s in sim.samples[:12]
    )
    many = replace(sim, samples=(*sim.samples, *again))

    def train(judges, resume=False):
        return train_network(
            many, many, TranslatorConfig(steps=20, batch=1, patch_px=32, width=4),
            tmp_path / "run", certification=Certification(CertificateLimits(), judges), resume=resume,
            device="cpu",
        )  # fmt: skip

    judges = (("task", weights("nano")), ("verifier", weights("small")))
    ending = train(judges)
    assert [candidate.step for candidate in ending.selection.candidates] == [10, 20]
    assert ending == train(judges, resume=True)
    with pytest.raises(
        CheckpointError, match=r"certificate\.verifiers\.verifier was '.*' and is now None"
    ):
        train(judges[:1], resume=True)
    with pytest.raises(UsageError, match="has the architecture 'nano', like --task"):
        train((judges[0], ("verifier", judges[0][1])), resume=True)


def test_verifiers_need_different_architectures(reinhard, sim, weights, tmp_path):
    judges = (("task", weights("nano")), ("verifier", weights("nano")))
    with pytest.raises(UsageError, match=r"has the architecture 'nano', like --task\. Independent"):
        certify(reinhard, sim.take(2), tmp_path / "set", judges=judges)
    assert not (tmp_path / "set").exists()


@pytest.fixture
def weights(tmp_path):
    """Return weights of an untrained detector of an architecture."""

    def made(architecture):
        path = tmp_path / f"{architecture}.safetensors"
        network = DetectorNetwork(architecture, 6, torch.Generator().manual_seed(0))
        card = DetectorCard(architecture, tuple("123456"), 0, {}, ())
        save_detector(path, network.state_dict(), card)
        return path

    return made
