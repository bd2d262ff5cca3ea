"""Ranges of size and number that cover detected objects, with renders that are samples of the ranges."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError, UsageError
from sim2cam.experiments import object_fit
from sim2cam.experiments.domain_fit import write_recipe
from sim2cam.experiments.object_fit import ObjectStatistics, fit_objects
from sim2cam.metrics.detection import Detection
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import NativeDetector
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Constant, Integers, LogUniform
from sim2cam.randomize.sampling_context import SamplingContext

SIZE, NUMBER = "view/die_px", "layout/die_count"
DETECTOR = NativeDetector(None, DetectorCard("nano", ("1",), 0, {}, ()))
RECIPE = load_recipe("dice")


def change(**distributions):
    """The recipe with other ranges of ``size`` and ``number``."""
    paths = {"size": SIZE, "number": NUMBER}
    factors = {paths[name]: distribution for name, distribution in distributions.items()}
    return replace(RECIPE, domain=RECIPE.domain.replace_factors(factors))


def sample(recipe, seed=0, n=200):
    """Return objects in the numbers of the recipe, 0.8 to 1.3 times as large."""
    rng = np.random.default_rng(seed)
    context = SamplingContext(rng)
    counts = [int(recipe.domain.get_factor(NUMBER).sample(context)) for _ in range(n)]
    sides = [
        recipe.domain.get_factor(SIZE).sample(context) * rng.uniform(0.8, 1.3)
        for _ in range(sum(counts))
    ]
    return ObjectStatistics(tuple(sides), tuple(counts))


@pytest.fixture
def fit(monkeypatch):
    """Fit a recipe to real images, twice as wide as the renders, of another recipe."""

    def run(recipe, truth, n=40):
        statistics = sample(truth, seed=1, n=n)
        width = 2 * recipe.render.width
        samples = tuple(
            Sample(str(i), Path(f"{i}.jpg"), width, width, None, "real") for i in range(n)
        )
        sides = iter(statistics.sides_px)
        detections = {
            s.name: tuple(
                Detection("1", (0.0, 0.0, 2 * next(sides), 1.0), 0.9) for _ in range(count)
            )
            for s, count in zip(samples, statistics.counts, strict=True)
        }
        monkeypatch.setattr(object_fit, "detect_dataset", lambda *_, **__: detections)
        return fit_objects(recipe, DETECTOR, Dataset(Path("photos"), ("1",), samples), sample)

    return run


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_size_that_is_wrong_by_two_is_covered_by_the_next_renders(fit, factor, tmp_path):
    recipe = change(size=LogUniform(28 * factor, 72 * factor))
    result = fit(recipe, RECIPE)
    (low, high), found = result.rendered_px, result.found_px
    assert not low <= found[0] < found[1] <= high
    write_recipe(result.distributions, "dice", "wider", tmp_path / "wider.toml")
    wider = load_recipe(str(tmp_path / "wider.toml"))
    size = wider.domain.get_factor(SIZE)
    assert size.low <= 28 * factor
    assert size.high >= 72 * factor  # no range gets narrower
    (low, high), _ = sample(wider).compute_bounds()
    assert low <= found[0] < found[1] <= high
    assert high < 1.5 * max(found[1], result.rendered_px[1])
    assert fit(wider, RECIPE).distributions == {}


def test_larger_numbers_are_covered_and_rounded_outwards(fit):
    result = fit(change(number=Integers(4, 6)), RECIPE)
    number = result.distributions[NUMBER]
    assert number.low <= 4
    assert result.found_count[1] == pytest.approx(29, abs=1)
    assert 29 <= number.high <= 36
    assert SIZE not in result.distributions
    assert result.to_json()["ranges"][0] == {
        "factor": NUMBER, "before": (4, 6), "after": (number.low, number.high),
    }  # fmt: skip


def test_missing_ranges_and_objects_are_refused(fit):
    fixed = change(size=Constant(40.0), number=Constant(5))
    with pytest.raises(UsageError, match="dice has no ranges of object size"):
        fit(fixed, RECIPE)
    with pytest.raises(InputError, match=r"photos: the detector finds 5 objects; 20 are needed"):
        fit(RECIPE, change(number=Constant(5)), n=1)
