"""Fixtures: a small rendered dataset, and its COCO export as real images."""

import functools
import json
from dataclasses import replace

import pytest

from sim2cam.data.formats.export import export_dataset
from sim2cam.experiments import ablation_scores
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RenderOptions, load_recipe

SMALL = replace(load_recipe("dice"), render=RenderOptions(width=96, height=80, views=2))


@pytest.fixture(scope="session")
def sim(tmp_path_factory):
    root = tmp_path_factory.mktemp("pipeline") / "sim"
    return generate(SMALL, root, count=24, seed=3)


@pytest.fixture(scope="session")
def coco(sim, tmp_path_factory):
    out = tmp_path_factory.mktemp("captures") / "coco"
    export_dataset({"train": sim}, out, "coco")
    tables = json.loads((out / "train.json").read_text())
    for image in tables["images"]:
        del image["origin"]  # as in files of labelled photos
    (out / "train.json").write_text(json.dumps(tables))
    return out / "train.json"


@pytest.fixture
def few_resamples(monkeypatch):
    """Use few bootstrap resamples."""
    few = functools.partial(ablation_scores.bootstrap_scores, n_resamples=60)
    monkeypatch.setattr(ablation_scores, "bootstrap_scores", few)
