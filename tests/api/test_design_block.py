"""The Python API as section 8 of the design shows it, at the smallest size."""

import json

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import sim2cam
from sim2cam import commands
from sim2cam.errors import InputError, RecipeError, UsageError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.learn.torch_dataset import collate
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Constant

SMALL = {
    "name": "small",
    "render": {"width": 96, "height": 80, "views": 4},
    "train": {"steps": 2, "batch": 2, "crop_px": 64, "warmup_steps": 1, "architecture": "nano"},
    "adapt": {"certificate": {"rejected_fraction": 1.0}},
}


@pytest.fixture(scope="module")
def recipe():
    return sim2cam.Recipe("dice").replace(**SMALL)


@pytest.fixture(scope="module")
def sim(recipe, tmp_path_factory):
    return recipe.render(str(tmp_path_factory.mktemp("api") / "sim"), count=20, workers=1)


def test_the_design_block(recipe, sim, tmp_path):
    frame = recipe.sample(seed=0, index=7).render()
    assert frame.rgb.shape == (80, 96, 3)
    assert frame.depth_m.shape == (80, 96)
    assert {label.category for label in frame.objects} <= set(recipe.categories)
    photos = sim.to_coco(str(tmp_path / "photos"))
    adapted = sim2cam.adapt(
        sim,
        real=str(photos),
        out=str(tmp_path / "adapted"),
        recipe=recipe,
        method="reinhard",
        workers=1,
    )
    assert 0 < len(adapted) <= len(sim)
    assert adapted[0].objects in [frame.objects for frame in sim]
    toml = tmp_path / "mine.toml"
    nano = 'architecture = "nano"\nsteps = 1\nbatch = 2\ncrop_px = 64\nwarmup_steps = 1\n'
    toml.write_text(f'base = "dice"\n[train]\n{nano}')
    model = sim2cam.train([sim, adapted], recipe=str(toml), out=str(tmp_path / "run"), workers=1)
    result = model.predict(frame.rgb)
    assert (result.boxes_xyxy.shape, result.scores.shape) == ((len(result), 4), (len(result),))
    report = model.evaluate(str(photos), workers=1)
    assert 0 <= report.ap50 <= 1
    assert report.save(str(tmp_path / "found.html")).read_text().startswith("<!")
    assert "AP50" in report._repr_html_()


def test_a_sampled_scene_is_that_of_the_dataset(recipe, sim):
    scene = recipe.sample(seed=0, index=1)
    for view in (0, 1):
        assert np.array_equal(scene.render(view).rgb, sim[4 + view].rgb)
        assert scene.render(view).objects == sim[4 + view].objects
    frame = scene.render(1)
    assert np.allclose(frame.depth_m, sim[5].depth_m, atol=1e-4)
    assert frame.lens == sim[5].lens
    assert scene.certificate.rejection is None
    assert "data:image/png" in scene._repr_html_()
    changed = recipe.sample(seed=0, index=1, settings={"light/warmth": 0.25})
    different = {n for n, v in scene.sampled_values.items() if changed.sampled_values[n] != v}
    assert different == {"light/warmth"}
    assert changed.sampled_values["light/warmth"] == 0.25


def test_datasets_are_sequences(sim, tmp_path):
    assert [frame.name for frame in sim] == [sample.name for sample in sim.values.samples]
    assert [frame.name for frame in sim[-2:]] == [sim[18].name, sim[19].name]
    full = sim.filter(lambda frame: len(frame.objects) > 2)
    assert [f.name for f in full] == [f.name for f in sim if len(f.objects) > 2]
    pytest.importorskip("duckdb")
    assert [f.name for f in sim.filter("objects > 2")] == [f.name for f in full]
    with pytest.raises(IndexError):
        sim[20]
    with pytest.raises(UsageError, match=r"has no channel 'dept'\. Did you mean 'depth'\?"):
        sim[0].read_channel("dept")
    assert sim[0].read_channel("ids").dtype == np.uint16
    assert sim._repr_html_().count("data:image/png") == 4
    images, targets = next(iter(DataLoader(sim.to_torch(masks=True), 2, collate_fn=collate)))
    assert images[0].shape == (3, 80, 96)
    assert torch.is_tensor(targets[0]["masks"])
    tables = json.loads(sim[:3].to_coco(tmp_path / "coco").read_text())
    assert len(tables["images"]) == 3
    assert len(sim2cam.Dataset(str(tmp_path / "coco"))) == 3


def test_subsets_stay_in_memory(recipe, sim, tmp_path):
    """Training and evaluation use the selected samples, not the folder."""
    model = sim2cam.train(sim[:4], recipe=recipe, out=tmp_path / "run", quiet=True, workers=1)
    assert model.weights == tmp_path / "run" / "weights.safetensors"
    report = model.evaluate(sim[4:7], workers=1)
    assert repr(report).startswith(f"BenchScores(ap50={report.ap50:.3f}, images=3, ")
    assert len(report.result.captures.samples) == 3
    write_bytes(tmp_path / "photos" / "a.png", encode_png(sim[0].rgb))
    with pytest.raises(InputError, match="has no labels"):
        model.evaluate(tmp_path / "photos", workers=1)


def test_recipes_come_from_names_files_and_tables(recipe, tmp_path, monkeypatch):
    assert sim2cam.Recipe({"base": "dice"}).values == load_recipe("dice")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text('base = "dice"\n[render]\nwidth = 64\n')
    for source in ("own.toml", tmp_path / "own.toml", {"base": "own.toml"}):
        own = sim2cam.Recipe(source)
        assert (own.values.render.width, own.name) == (64, "dice")
        assert own.replace(render={"height": 32}).values.render.width == 64
    warm = recipe.replace(domain={"light": {"warmth": 0.5}})
    assert warm.values.domain.get_factor("light/warmth") == Constant(0.5)
    count = "light/lamp_count"
    assert warm.values.domain.get_factor(count) == recipe.values.domain.get_factor(count)
    with pytest.raises(RecipeError, match=r"recipe: unknown key 'render.widht'. Did you mean"):
        recipe.replace(render={"widht": 1})
    with pytest.raises(UsageError, match="Did you mean 'dice'"):
        sim2cam.Recipe("dcie")


def test_commands_are_functions(tmp_path, capsys):
    out = tmp_path / "sim"
    (tmp_path / "own.toml").write_text(
        'base = "dice"\n[render]\nwidth = 64\nheight = 64\nviews = 1\n'
    )
    done = commands.render(str(tmp_path / "own.toml"), out=str(out), count=2, workers=1)
    assert (done.out, done.counts["images"], done.failure) == (out, 2, None)
    assert done.to_json() == done.counts
    assert commands.check(out).report.problems == ()
    assert commands.export([str(out)], str(tmp_path / "coco"), split="a=0.5,b=0.5").images == {
        "a": 1,
        "b": 1,
    }
    records = list(commands.predict("dice", str(out), limit=1, workers=1))
    assert records[0]["image"] == "000000"
    assert capsys.readouterr().out == ""
    for options, message in (
        ({"count": "many"}, "count: "),
        ({"count": 1, "seed": -1}, "--seed must be 0 or more, not -1"),
    ):
        with pytest.raises(UsageError) as error:
            commands.render("dice", out=out, **options)
        assert message in str(error.value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'cuont'"):
        commands.render("dice", cuont=1)
