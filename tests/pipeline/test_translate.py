import hashlib
from dataclasses import replace

import numpy as np
import pytest

from sim2cam import images
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.dataset.captures import read_captures
from sim2cam.dataset.check import check_dataset
from sim2cam.dataset.reader import read_dataset
from sim2cam.errors import InputError, OutputError
from sim2cam.pipeline.translate import apply_transfer, fit_plain_transfer, train_network


def apply(run, sim, root, **kwargs):
    flags = {"workers": 1, "resume": False, "overwrite": False, "progress": lambda *_: None}
    return apply_transfer(run, sim, root, seed=0, device="cpu", **flags | kwargs)


def digests(root):
    return [hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(root.rglob("*.jpg"))]


@pytest.fixture(scope="module")
def reinhard(coco, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "reinhard"
    fit_plain_transfer(read_captures(coco), "reinhard", run, overwrite=False)
    return run


def test_labels_are_the_parents_and_pictures_are_not(reinhard, sim, tmp_path):
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


def test_workers_and_resumption_do_not_change_a_byte(reinhard, sim, tmp_path):
    apply(reinhard, sim, tmp_path / "one")
    apply(reinhard, sim, tmp_path / "two", workers=2)
    apply(reinhard, sim.take(5), tmp_path / "part")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert digests(tmp_path / "part") == digests(tmp_path / "one")[:5]


def test_an_interrupted_translation_is_found_incomplete(reinhard, sim, tmp_path):
    def interrupt(done, _total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply(reinhard, sim, tmp_path / "adapted", progress=interrupt)
    assert [problem.what for problem in check_dataset(tmp_path / "adapted").problems] == [
        "incomplete: 16 of 24 samples are there. Run its command again with --resume."
    ]
    apply(reinhard, sim, tmp_path / "adapted", resume=True)
    assert check_dataset(tmp_path / "adapted").problems == ()


def test_a_translator_is_trained_and_applied(coco, sim, tmp_path):
    config = TranslatorConfig(steps=2, batch=2, patch_px=64)
    train_network(
        sim,
        read_captures(coco),
        config,
        tmp_path / "run",
        resume=False,
        device="cpu",
        progress=None,
    )
    adapted = apply(tmp_path / "run", sim.take(3), tmp_path / "adapted")
    assert [s.parent for s in adapted.samples] == [s.digest for s in sim.samples[:3]]


def test_too_few_captures_are_refused(coco, tmp_path):
    few = read_captures(coco).take(19)
    with pytest.raises(InputError, match="19 captures; a transfer needs at least 20"):
        fit_plain_transfer(few, "fourier", tmp_path / "run", overwrite=False)


def test_a_used_run_folder_is_refused(reinhard, coco):
    with pytest.raises(OutputError, match=r"is not empty. Add --overwrite"):
        fit_plain_transfer(read_captures(coco), "reinhard", reinhard, overwrite=False)


def test_another_transfer_does_not_resume(reinhard, coco, sim, tmp_path):
    apply(reinhard, sim.take(4), tmp_path / "adapted")
    fit_plain_transfer(read_captures(coco), "fourier", tmp_path / "fourier", overwrite=False)
    with pytest.raises(OutputError, match="holds another data set: transfer_digest is"):
        apply(tmp_path / "fourier", sim.take(4), tmp_path / "adapted", resume=True)


def test_a_changed_parent_is_told(reinhard, sim, tmp_path):
    import shutil

    copy = tmp_path / "sim"
    shutil.copytree(sim.root, copy)
    apply(reinhard, read_dataset(copy).take(4), tmp_path / "adapted")
    lines = copy / "shards" / "000000" / "samples.jsonl"
    lines.write_text("\n".join(lines.read_text().splitlines()[1:]) + "\n")
    with pytest.raises(InputError, match="000000"):
        read_dataset(tmp_path / "adapted")


def test_a_moved_pair_still_finds_its_labels(reinhard, sim, tmp_path):
    import shutil

    shutil.copytree(sim.root, tmp_path / "a" / "sim")
    apply(reinhard, read_dataset(tmp_path / "a" / "sim").take(4), tmp_path / "a" / "adapted")
    shutil.move(tmp_path / "a", tmp_path / "b")
    moved = read_dataset(tmp_path / "b" / "adapted")
    assert moved.samples[0].objects == sim.samples[0].objects
    assert replace(moved, samples=()).categories == sim.categories
