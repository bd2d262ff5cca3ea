"""The promise of the generator: bytes that depend on recipe and seed alone."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sim2cam.data.channels import CHANNELS
from sim2cam.data.checks.dataset import check_dataset
from sim2cam.data.reader import read_header, read_sample_records
from sim2cam.data.shards import (
    QuarantinedScene,
    ShardContent,
    read_quarantined,
    read_shard_content,
    remove_damaged,
)
from sim2cam.errors import OutputError, RepairWarning, SceneError
from sim2cam.pipeline import scene_sampling
from sim2cam.pipeline.generation import estimate_cost, generate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.distributions import Constant
from sim2cam.render.frame import FLOW_CHANNELS

DICE = load_recipe("dice")
RECIPE = replace(DICE, render=replace(DICE.render, width=96, height=80, views=2))
COUNT = 20  # a whole shard and a short one


def make(root: Path, *, count: int = COUNT, workers: int = 1, **kwargs):
    flags = {"resume": False, "overwrite": False} | kwargs
    return generate(
        RECIPE, root, count=count, seed=0, workers=workers, progress=lambda *_: None, **flags
    )


def bytes_of(root: Path) -> dict[str, str]:
    files = [p for p in root.rglob("*") if p.is_file() and p.name != "environment.json"]
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(files)
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    root = tmp_path_factory.mktemp("plain") / "d"
    dataset = make(root)
    assert len(dataset.samples) == COUNT
    return root


def test_two_workers_make_the_same_bytes(plain, tmp_path):
    make(tmp_path / "d", workers=2)
    assert bytes_of(tmp_path / "d") == bytes_of(plain)


def test_a_killed_run_resumes_to_the_same_bytes(plain, tmp_path):
    root = tmp_path / "d"
    (tmp_path / "small.toml").write_text(
        'base = "dice"\n[render]\nwidth = 96\nheight = 80\nviews = 2\n'
    )
    command = [sys.executable, "-m", "sim2cam", "render", str(tmp_path / "small.toml")]
    command += ["--out", str(root), "--count", str(COUNT)]
    child = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    while not list(root.glob("shards/*.part/rgb/*.jpg")) and child.poll() is None:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert list(root.glob("shards/*.part"))
    assert [problem.message for problem in check_dataset(root).problems] == [
        "incomplete: 0 of 20 samples exist. Run its command again with --resume."
    ]
    subprocess.run([*command, "--resume"], check=True, stderr=subprocess.DEVNULL)
    assert bytes_of(root) == bytes_of(plain)


def test_two_processes_on_one_folder_leave_it_whole(plain, tmp_path):
    root = tmp_path / "d"
    (tmp_path / "small.toml").write_text(
        'base = "dice"\n[render]\nwidth = 96\nheight = 80\nviews = 2\n'
    )
    command = [sys.executable, "-m", "sim2cam", "render", str(tmp_path / "small.toml"), "--out"]
    command += [str(root), "--count", str(COUNT), "--workers", "1", "--resume"]
    pair = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    words = [child.communicate(timeout=300)[1] for child in pair]
    refused = [child.returncode for child in pair].index(1)
    assert pair[1 - refused].returncode == 0
    assert f"{root}: is in use: process {pair[1 - refused].pid} on" in words[refused]
    assert bytes_of(root) == bytes_of(plain)


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def zero(path):
    path.write_bytes(bytes(path.stat().st_size))


TORN = {
    "a short image": ("rgb/000003.jpg", cut),
    "an image of zeros": ("rgb/000003.jpg", zero),
    "no image": ("rgb/000003.jpg", Path.unlink),
    "a short list": ("samples.jsonl", cut),
    "a list of zeros": ("samples.jsonl", zero),
    "no list": ("samples.jsonl", Path.unlink),
    "short scenes": ("scenes.jsonl", cut),
    "no scenes": ("scenes.jsonl", Path.unlink),
}


@pytest.mark.parametrize("what", TORN)
def test_resume_makes_torn_shards_anew(plain, tmp_path, what):
    place, tear = TORN[what]
    root = tmp_path / "d"
    shutil.copytree(plain, root)
    tear(root / "shards/000000" / place)
    content = read_shard_content(root, 0)
    assert content is None or content.scenes == 0
    make(root, resume=True)
    assert bytes_of(root) == bytes_of(plain)
    assert read_shard_content(root, 0) == ShardContent(16, 8)


def test_a_change_that_keeps_size_and_time_is_found_by_hashes(plain, tmp_path):
    root = tmp_path / "d"
    shutil.copytree(plain, root)
    image = root / "shards/000000/rgb/000003.jpg"
    times = image.stat()
    zero(image)
    os.utime(image, ns=(times.st_atime_ns, times.st_mtime_ns))
    make(root, resume=True)
    assert bytes_of(root) != bytes_of(plain)
    assert remove_damaged(root) == 1
    make(root, resume=True)
    assert bytes_of(root) == bytes_of(plain)
    assert remove_damaged(root) == 0


def fails_for(*indices):
    def settle(recipe, seed, index, change):
        if index in indices:
            raise SceneError(f"scene {index} cannot be made")
        return simulate_scene(recipe, seed, index, change)

    return settle


def test_a_scene_that_cannot_be_made_is_left_out_and_named(plain, tmp_path, monkeypatch):
    root = tmp_path / "d"
    monkeypatch.setattr("sim2cam.pipeline.generation.simulate_scene", fails_for(1, 9))
    with pytest.warns(RepairWarning, match=r"2 of 10 scenes could not be made.*\n  scene 1 cannot"):
        dataset = make(root)
    names = [sample.name for sample in dataset.samples]
    assert names == [f"{i:06d}" for i in range(COUNT) if i not in (2, 3, 18, 19)]
    assert read_quarantined(root) == (
        QuarantinedScene(1, 2, "scene 1 cannot be made"),
        QuarantinedScene(9, 2, "scene 9 cannot be made"),
    )
    report = check_dataset(root)
    assert report.problems == ()
    assert report.warnings[0] == "quarantined: scene 1 cannot be made"
    kept = {name for name in bytes_of(plain) if name.startswith("shards/") and "rgb" in name}
    assert kept - bytes_of(root).keys() == {
        f"shards/{shard}/rgb/{name}.jpg"
        for shard, name in (
            ("000000", "000002"),
            ("000000", "000003"),
            ("000001", "000018"),
            ("000001", "000019"),
        )
    }


def test_resume_does_not_try_a_quarantined_scene_again(tmp_path, monkeypatch):
    monkeypatch.setattr("sim2cam.pipeline.generation.simulate_scene", fails_for(1))
    with pytest.warns(RepairWarning):
        make(tmp_path / "d", count=6)
    before = bytes_of(tmp_path / "d")
    monkeypatch.setattr("sim2cam.pipeline.generation.simulate_scene", fails_for(0, 1, 2))
    with pytest.warns(RepairWarning, match="1 of 3 scenes"):
        make(tmp_path / "d", count=6, resume=True)
    assert bytes_of(tmp_path / "d") == before


def test_a_quarantined_scene_is_left_out_of_renders_of_settled_scenes_too(tmp_path, monkeypatch):
    monkeypatch.setattr("sim2cam.pipeline.generation.simulate_scene", fails_for(1))
    with pytest.warns(RepairWarning):
        made = make(tmp_path / "d", count=6)
    monkeypatch.undo()
    with pytest.warns(RepairWarning, match="scene 1 cannot be made"):
        again = make(tmp_path / "again", count=6, scenes=tmp_path / "d")
    assert [s.digest for s in again.samples] == [s.digest for s in made.samples]


def test_a_recipe_of_which_no_scene_can_be_made_is_an_error(tmp_path, monkeypatch):
    tried = []

    def fail(recipe, seed, index, change):
        tried.append(index)
        raise SceneError(f"scene {index} cannot be made")

    monkeypatch.setattr("sim2cam.pipeline.generation.simulate_scene", fail)
    with pytest.raises(SceneError, match="scene 4 cannot be made"):
        make(tmp_path / "d")
    assert tried == [0, 1, 2, 3, 4]
    with pytest.raises(SceneError, match="scene 0 cannot be made"):
        make(tmp_path / "few", count=4)


def test_resume_takes_categories_that_were_added(tmp_path):
    make(tmp_path / "d", count=2)
    more = replace(RECIPE, categories=(*RECIPE.categories, "other"))
    dataset = generate(
        more, tmp_path / "d", count=4, seed=0, workers=1, resume=True, overwrite=False,
        progress=lambda *_: None,
    )  # fmt: skip
    assert dataset.categories == more.categories
    with pytest.raises(OutputError, match="holds another dataset: categories is"):
        make(tmp_path / "d", count=4, resume=True)


def test_a_larger_count_extends(plain, tmp_path):
    make(tmp_path / "d", count=5)
    assert check_dataset(tmp_path / "d").problems == ()
    make(tmp_path / "d", resume=True)
    assert bytes_of(tmp_path / "d") == bytes_of(plain)
    shutil.rmtree(tmp_path / "d/shards/000001")
    assert [problem.message for problem in check_dataset(tmp_path / "d").problems] == [
        "incomplete: 16 of 20 samples exist. Run its command again with --resume."
    ]


def test_one_sample_can_be_made_alone(plain):
    whole = simulate_scene(RECIPE, 0, 3)
    again = simulate_scene(RECIPE, 0, 3)
    assert whole == again
    assert whole != simulate_scene(RECIPE, 1, 3)


def test_another_seed_is_refused(plain):
    with pytest.raises(OutputError, match=r"holds another dataset: seed is 0, not 1\. "):
        generate(
            RECIPE, plain, count=4, seed=1, workers=1, resume=True, overwrite=False,
            progress=lambda *_: None,
        )  # fmt: skip


def test_another_recipe_is_refused_with_the_difference(plain):
    other = replace(RECIPE, render=replace(RECIPE.render, height=96))
    with pytest.raises(OutputError, match=r"recipe\.render\.height is 80, not 96"):
        generate(
            other, plain, count=4, seed=0, workers=1, resume=True, overwrite=False,
            progress=lambda *_: None,
        )  # fmt: skip


def test_scenes_stay_within_a_shard(plain):
    shards: dict[int, set[Path]] = {}
    for raw in read_sample_records(plain):
        shards.setdefault(raw.fields["scene_index"], set()).add(raw.shard)
    assert all(len(folders) == 1 for folders in shards.values())


def test_a_sample_says_what_its_depth_is(plain):
    assert {raw.fields["depth_along"] for raw in read_sample_records(plain)} == {"axis"}


def test_a_scene_that_never_settles_is_an_error(monkeypatch):
    monkeypatch.setattr(scene_sampling, "find_blind_corner", lambda _scene: "the lens folds back")
    with pytest.raises(
        SceneError, match=r"did not settle in 20 attempts in a row \(last: the lens folds"
    ):
        simulate_scene(RECIPE, 0, 0)


def test_the_estimate_counts_shards_and_bytes():
    plan = estimate_cost(RECIPE, count=100, seed=0, workers=2)
    assert plan["shards"] == 7
    assert 0 < plan["gigabytes"] < 0.1
    assert plan["seconds"] > 0


@pytest.mark.usefixtures("opengl")
def test_everything_that_stills_have_passes_its_check(tmp_path):
    full = load_recipe("dice-full")
    domain = replace(full.domain, sensor=replace(full.domain.sensor, file_format=Constant("png")))
    small = replace(full, domain=domain, render=replace(full.render, width=96, height=80, views=2))
    dataset = generate(
        small, tmp_path / "d", count=2, seed=1, workers=1, resume=False, overwrite=False,
        progress=lambda *_: None,
    )  # fmt: skip
    assert check_dataset(tmp_path / "d").problems == ()
    for sample in dataset.samples:
        assert set(sample.channels) == set(CHANNELS) - {"coverage", "raw", *FLOW_CHANNELS}
        assert sample.rgb.suffix == sample.right_rgb.suffix == ".png"
        assert (sample.depth_unit_m, sample.occlusions is None) == (1e-4, False)
        assert 0.015 <= sample.baseline_m <= 0.03
        for label in sample.objects:
            assert [point.name for point in label.keypoints] != []
            assert label.amodal_mask.decode().any()
    (die,) = read_header(tmp_path / "d")["objects"].values()
    assert die["categories"] == list("123456")
    assert len(die["shape_symmetries"]["rotations_wxyz"]) == 23
    assert die["symmetries"] == {"axes": [], "rotations_wxyz": []}
