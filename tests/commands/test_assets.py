"""From meshes to a score with the commands that a user types."""

import json
import math

import numpy as np
import pytest
import trimesh

from sim2cam import images
from sim2cam.cli import main
from sim2cam.pipeline import generation, new_recipe
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.counterfactual import Intervention


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of people's own: two cups, a block, and photos of another size than usual."""
    root = tmp_path_factory.mktemp("own")
    for name in ("cup", "block"):
        (root / "objects" / name).mkdir(parents=True)
    trimesh.creation.annulus(30, 40, 90).export(root / "objects/cup/a.stl")
    trimesh.creation.annulus(25, 35, 100).export(root / "objects/cup/b.obj")
    block = trimesh.creation.box((60, 40, 30))
    block.visual.vertex_colors = np.tile([200, 30, 30, 255], (8, 1))
    block.export(root / "objects/block/red.ply")
    (root / "photos").mkdir()
    photo = images.encode_png(np.full((60, 80, 3), 100, np.uint8))
    for number in range(2):
        (root / f"photos/{number}.png").write_bytes(photo)
    return root


def test_meshes_become_a_model_and_a_score(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert main(["new", "mine", "--assets", "objects", "--captures", "photos"]) == 0
    said = capsys.readouterr().err
    assert "cup/a.stl: 80 x 80 x 90 mm (unit guessed)" in said
    assert "recipe: mine.toml (3 objects in 2 categories)" in said
    text = (place / "mine.toml").read_text()
    assert 'unit = "mm"  # guessed: the largest asset, cup/b.obj, is 70 x' in text
    assert "width = 80  # most real images have 80 x 60 pixels\nheight = 60" in text

    assert main(["render", "mine.toml", "--preview"]) == 0
    sheet = images.read_rgb(place / "mine-preview.png")
    assert sheet.shape == (4 * 270, 4 * 360, 3)

    assert main(["render", "mine.toml", "--out", "sim", "--count", "8", "--workers", "1"]) == 0
    assert main(["check", "sim"]) == 0
    assert main(["export", "sim", "--format", "coco", "--out", "coco"]) == 0
    train = [
        "train",
        "mine.toml",
        "--data",
        "sim",
        "--out",
        "run",
        "--steps",
        "3",
        "--workers",
        "1",
    ]
    assert main(train) == 0
    capsys.readouterr()
    captures = str(next((place / "coco").rglob("*.json")))
    assert main(["bench", "run/weights.safetensors", "--captures", captures, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert 0 <= result["ap"]["value"] <= 1


def test_a_recipe_that_is_there_stays(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    (place / "kept.toml").write_text("kept")
    assert main(["new", "kept", "--assets", "objects"]) == 1
    assert "kept.toml: exists. Choose another name, or add --overwrite." in capsys.readouterr().err
    assert (place / "kept.toml").read_text() == "kept"


@pytest.mark.parametrize("longest_mm", [2, 10, 16, 19, 700, 3000])
def test_a_first_recipe_suits_objects_of_any_size(longest_mm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "objects").mkdir()
    trimesh.creation.box(np.array([1, 0.8, 0.5]) * longest_mm).export("objects/a.stl")
    (tmp_path / "objects/a.toml").write_text('unit = "mm"')
    assert main(["new", "mine", "--assets", "objects"]) == 0
    assert load_recipe("mine.toml").categories == ("a",)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.toml", "objects"]


@pytest.mark.parametrize("longest_mm", [10, 1000, 2000])
def test_objects_of_any_size_come_to_rest(longest_mm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "objects").mkdir()
    trimesh.creation.box(np.array([1, 0.8, 0.6]) * longest_mm).export("objects/a.stl")
    (tmp_path / "objects/a.toml").write_text('unit = "mm"')
    assert main(["new", "mine", "--assets", "objects"]) == 0
    recipe = load_recipe("mine.toml")
    settled = simulate_scene(recipe, seed=0, index=2)
    side_m = settled.scene.bodies[0].asset.side_m
    targets = [body for body in settled.scene.bodies if body.is_target]
    assert targets
    assert all(math.hypot(*body.pose.position_m) < side_m / 2 for body in targets)


def test_a_recipe_that_cannot_be_loaded_is_not_left(place, monkeypatch):
    monkeypatch.chdir(place)
    (place / "old.toml").write_text("kept")
    monkeypatch.setattr(new_recipe, "format_recipe", lambda *_: "base = 3")
    for name in ("broken", "old"):
        assert main(["new", name, "--assets", "objects", "--overwrite"]) != 0
    assert (place / "old.toml").read_text() == "kept"
    assert not list(place.glob("*broken*"))
    assert not list(place.glob(".*"))


@pytest.mark.parametrize("has_card", [False, True])
def test_a_recipe_is_not_written_where_a_card_is_read(place, tmp_path, has_card, capsys):
    (tmp_path / "ball.obj").write_bytes((place / "objects/cup/b.obj").read_bytes())
    if has_card:
        (tmp_path / "ball.toml").write_text('unit = "mm"')
    assert main(["new", str(tmp_path / "ball"), "--assets", str(tmp_path), "--overwrite"]) == 2
    assert (
        f"{tmp_path / 'ball.toml'} is the properties file of ball.obj. Choose another name, or write the "
        "recipe to another folder."
    ) in capsys.readouterr().err
    assert (tmp_path / "ball.toml").exists() == has_card
    assert main(["new", str(tmp_path / "balls"), "--assets", str(tmp_path), "-q"]) == 0


def test_assets_are_listed_and_drawn(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert main(["assets", "objects"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == [
        "asset", "category", "size,", "mm", "unit", "faces", "closed", "parts", "mass,",
        "kg", "licence",
    ]  # fmt: skip
    assert out[1].startswith("block/red.ply  block     60 x 40 x 30   mm?   12     yes")
    assert images.read_rgb(place / "objects-assets.png").shape == (2 * 300, 2 * 256, 3)


def test_a_bad_asset_fails_the_check_and_is_named(place, tmp_path, capsys):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/a.obj").write_text("v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    (tmp_path / "bad/b.stl").write_bytes((place / "objects/cup/a.stl").read_bytes())
    assert main(["assets", str(tmp_path / "bad"), "--json"]) == 1
    printed = capsys.readouterr()
    assert "a.obj: line 1: a vertex is not finite: (nan, 0, 0)." in printed.err
    assert "1 of 2 cannot be used" in printed.err
    first, second = json.loads(printed.out)["assets"]
    assert first["info"] is None
    assert second["info"]["mesh"]["category"] == "b"


def test_render_needs_an_out_or_a_preview(capsys):
    assert main(["render", "dice", "--count", "4"]) == 2
    assert "give --out and --count, or --preview." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--count", "3"], "--count"),
        (["--channels", "depth"], "--channels"),
        (["--scenes", "sim"], "--scenes"),
        (["--skip-render"], "--skip-render"),
        (["--dry-run"], "--dry-run"),
        (["--resume"], "--resume"),
    ],
)
def test_a_preview_refuses_what_it_would_not_do(flags, named, capsys):
    assert main(["render", "dice", "--preview", *flags]) == 2
    assert f"{named} does not apply to --preview. Omit it." in capsys.readouterr().err


def test_scenes_that_are_settled_already_are_not_settled_again(tmp_path, capsys):
    command = ["render", "dice", "--out", str(tmp_path / "d"), "--count", "4", "--skip-render"]
    assert main([*command, "--scenes", "sim"]) == 2
    said = capsys.readouterr().err
    assert "--skip-render and --scenes exclude each other. Remove one." in said


SETS = ["--set", "die/edge_m=0.02", "--set", "light/warmth=0"]


def test_a_preview_and_a_plan_are_of_the_change_that_is_asked_for(capsys, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(generation, "simulate_scene", lambda *args: asked.append(args[3]))
    for flags in (["--preview", "--out", "p.png"], ["--dry-run", "--out", "d", "--count", "4"]):
        with pytest.raises(AttributeError):  # of None, which is no scene
            main(["render", "dice", *flags, "--resample", "light", *SETS])
    assert asked == 2 * [Intervention({"light": 1}, {"die/edge_m": 0.02, "light/warmth": 0})]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--resample", ","], "--resample ,: give comma-separated groups, such as light,die/3."),
        (
            ["--resample", "light,"],
            "--resample light,: give comma-separated groups, such as light,die/3.",
        ),
        (
            ["--set", "light/warmth=1", "--set", "light/warmth=0"],
            "--set light/warmth is given twice. Remove one.",
        ),
        (["--resample", "view/4"], "there is no 'view/4': scenes have view/0 to view/3 at most."),
    ],
)
def test_a_change_that_cannot_be_is_refused(flags, message, tmp_path, capsys):
    out = tmp_path / "d"
    assert (
        main(["render", "dice", "--out", str(out), "--count", "4", "--workers", "1", *flags]) == 2
    )
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_change_of_what_no_scene_of_a_run_has_is_said(tmp_path, capsys):
    (tmp_path / "few.toml").write_text(
        "base = 'dice'\n[render]\nwidth = 64\nheight = 64\nviews = 1\n[domain.layout]\n"
        "die_count = { kind = 'choice', options = [2, 3, 30], weights = [0.5, 0.5, 0] }"
    )
    render = ["render", str(tmp_path / "few.toml"), "--count", "2", "--workers", "1"]
    flags = ["--resample", "die/1,die/20", "--set", "die/21/edge_m=0.02"]
    assert main([*render, "--out", str(tmp_path / "d"), *flags]) == 0
    said = capsys.readouterr().err
    assert "no scene contains die/20: it is not changed.\n" in said
    assert "no scene contains die/21/edge_m: it is not changed.\n" in said
    assert "die/1:" not in said
