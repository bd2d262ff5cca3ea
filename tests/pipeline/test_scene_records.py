"""Settled scenes are read back completely, and rendered again to the same bytes."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from sim2cam.cli import main
from sim2cam.errors import InputError, OutputError
from sim2cam.pipeline.generation import generate, simulate_scenes
from sim2cam.pipeline.recipe import SequenceOptions
from sim2cam.pipeline.scene_records import read_settled_scene
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.counterfactual import Intervention
from tests.support.small_recipes import FEW_BODIES, PLAIN, TWO_DICE_TOML

RECIPE = replace(
    PLAIN,
    domain=PLAIN.domain.replace_factors(FEW_BODIES),
    render=replace(PLAIN.render, width=64, height=48, views=2),
)
FILM = replace(RECIPE, render=replace(RECIPE.render, views=1, sequence=SequenceOptions(2, 0.05)))
LIT = Intervention({"light": 1})


def made(root, recipe=RECIPE, count=4, **options):
    generate(recipe, root, count=count, seed=3, **options)
    return root


def bytes_of(root):
    files = [p for p in root.rglob("*") if p.is_file() and p.name != "environment.json"]
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    return made(tmp_path_factory.mktemp("records") / "sim")


@pytest.mark.parametrize(
    ("recipe", "change"), [(RECIPE, Intervention()), (FILM, Intervention()), (RECIPE, LIT)],
    ids=["stills", "film", "counterfactual"],
)  # fmt: skip
def test_recorded_scene_equals_settled_scene(tmp_path, recipe, change):
    root = made(tmp_path / "d", recipe, count=2, change=change)
    assert read_settled_scene(root, recipe, 0) == simulate_scene(recipe, 3, 0, change)


@pytest.mark.parametrize("change", [Intervention(), LIT], ids=["plain", "counterfactual"])
def test_copied_scenes_give_same_bytes(tmp_path, change):
    direct = made(tmp_path / "direct", FILM, count=3, change=change)
    carried = made(tmp_path / "carried", FILM, count=3, change=change, scenes=direct)
    assert bytes_of(carried) == bytes_of(direct)


@pytest.mark.usefixtures("opengl")
@pytest.mark.parametrize("recipe", [RECIPE, FILM], ids=["stills", "film"])
def test_scenes_without_images_give_same_bytes(tmp_path, recipe):
    told = []
    settled = simulate_scenes(
        recipe,
        tmp_path / "scenes",
        count=18,
        seed=3,
        workers=2,
        progress=lambda *done: told.append(done),
        change=LIT,
    )
    assert settled == 9
    assert (told[0], told[-1]) == ((0, 18), (18, 18))
    assert told == sorted(told)
    assert not list((tmp_path / "scenes").rglob("*.jpg"))
    taken = made(tmp_path / "taken", recipe, 18, change=LIT, scenes=tmp_path / "scenes")
    assert bytes_of(taken) == bytes_of(made(tmp_path / "whole", recipe, 18, change=LIT))


def test_scenes_without_images_can_be_extended(tmp_path, monkeypatch):
    options = {"seed": 3, "workers": 1, "overwrite": False, "progress": lambda *_: None}
    root = tmp_path / "scenes"
    assert simulate_scenes(RECIPE, root, count=4, **options) == 2
    with pytest.raises(OutputError, match="is not empty"):
        simulate_scenes(RECIPE, root, count=4, **options)
    made_now = []
    monkeypatch.setattr("sim2cam.pipeline.generation.make_shard", made_now.append)
    monkeypatch.setattr(
        "sim2cam.pipeline.generation.map_units", lambda work, units, _, **__: map(work, units)
    )
    assert simulate_scenes(RECIPE, root, count=3, resume=True, **options) == 2
    assert not made_now
    monkeypatch.setattr(
        "sim2cam.pipeline.generation.make_shard", lambda unit: made_now.append(unit) or 0
    )
    simulate_scenes(RECIPE, root, count=20, resume=True, **options)
    assert [(unit.shard, unit.count) for unit in made_now] == [(0, 16), (1, 4)]


def test_other_channels_of_same_scenes(sim, tmp_path):
    other = replace(RECIPE, render=replace(RECIPE.render, channels=("normals",)))
    carried = made(tmp_path / "carried", other, scenes=sim)
    assert bytes_of(carried) == bytes_of(made(tmp_path / "direct", other))
    assert list(carried.rglob("normals/*.png"))


@pytest.mark.usefixtures("opengl")
def test_rendering_needs_no_physics(sim, tmp_path):
    code = (
        "import sys; sys.modules['pybullet'] = None; from sim2cam.cli import main; "
        "raise SystemExit(main(sys.argv[1:]))"
    )
    (tmp_path / "r.toml").write_text(
        TWO_DICE_TOML.replace("width = 96\nheight = 80", "width = 64\nheight = 48")
    )
    render = ["render", str(tmp_path / "r.toml"), "--count", "4", "--workers", "1"]
    render += ["--scenes", str(sim), "--out", str(tmp_path / "d"), "--seed"]
    done = subprocess.run(
        [sys.executable, "-c", code, *render, "3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert bytes_of(tmp_path / "d") == bytes_of(sim)
    alone = ["render", str(tmp_path / "r.toml"), "--count", "4", "--workers", "1", "--seed", "3"]
    assert main([*alone, "--out", str(tmp_path / "scenes"), "--skip-render"]) == 0
    recorded = [root / "shards/000000/scenes.jsonl" for root in (tmp_path / "scenes", sim)]
    assert recorded[0].read_bytes() == recorded[1].read_bytes()
    assert main([*render, "4", "--overwrite"]) == 1


WRONG = [
    ({"recipe": PLAIN}, "its recipe has another [domain]. Simulate the scenes again."),
    ({"change": LIT}, "holds other scenes: change is null, not "),
    ({"recipe": replace(RECIPE, render=replace(RECIPE.render, width=96))}, "holds other scenes: width is 64, not 96. "),
    ({"recipe": FILM}, "holds other scenes: views is 2, not 1. "),
    ({"count": 6}, "000000/scenes.jsonl: has no scene 2."),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[m for _, m in WRONG])
def test_other_scenes_are_refused(sim, tmp_path, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        made(tmp_path / "d", scenes=sim, **options)


def test_last_digits_may_differ_between_machines(sim, tmp_path):
    def header(factor):
        def changed(value):
            if isinstance(value, dict):
                return {name: changed(one) for name, one in value.items()}
            if isinstance(value, list):
                return [changed(one) for one in value]
            return value * factor if isinstance(value, float) else value

        found = json.loads((sim / "dataset.json").read_text())
        found["recipe"]["domain"] = changed(found["recipe"]["domain"])
        return json.dumps(found)

    carried = tmp_path / "carried"
    shutil.copytree(sim, carried)
    (carried / "dataset.json").write_text(header(1 + 1e-15))
    assert bytes_of(made(tmp_path / "d", scenes=carried)) == bytes_of(sim)
    (carried / "dataset.json").write_text(header(1 + 1e-6))
    with pytest.raises(InputError, match=r"another \[domain\]"):
        made(tmp_path / "e", scenes=carried)


def spoiled(sim, folder, change):
    shutil.copytree(sim, folder / "d")
    path = folder / "d/shards/000000/scenes.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([change(first), *rest]))
    return folder / "d"


def without(key):
    def change(line):
        record = json.loads(line)
        del record[key]
        return json.dumps(record)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[:-5], r"line 1: broken scene \("),
        (lambda _: "[" * 100_000, r"line 1: broken scene \("),
        (without("scene_index"), r"line 1: broken scene \(KeyError"),
        (without("certificate"), r"line 1: broken scene, certificate is missing\."),
    ],
)
def test_broken_record_is_refused(sim, tmp_path, change, message):
    root = spoiled(sim, tmp_path, change)
    with pytest.raises(InputError, match=message):
        read_settled_scene(root, RECIPE, 0)
