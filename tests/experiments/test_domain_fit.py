"""Domain fits with features that are known functions of sampled values, and with renders."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import BackendError, OutputError, SceneError, UsageError
from sim2cam.experiments.domain_fit import FitOptions, fit_domain, write_recipe
from sim2cam.experiments.domain_gap import ImageFeatures
from sim2cam.experiments.search import STUDY_FILE, open_study, search
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import LogUniform, Uniform
from sim2cam.randomize.sampling_context import SamplingContext
from sim2cam.seeds import derive_rng

pytest.importorskip("optuna")

FACTORS = ("light/sky_level", "light/warmth", "view/tilt_rad")
START = load_recipe("dice").domain.replace_factors(
    {
        "light/sky_level": LogUniform(0.1, 1.0),
        "light/warmth": Uniform(-1.0, 1.0),
        "view/tilt_rad": Uniform(0.0, 0.8),
    },
)
TRUTH = {"light/sky_level": LogUniform(0.9, 1.6), "light/warmth": Uniform(0.2, 0.4)}
OPTIONS = FitOptions(trials=12, count=40, seed=3, factors=FACTORS)


def seen(domain, seed, count):
    """Return noisy features that depend on light and warmth, but not on tilt."""
    factors = {path: domain.get_factor(path) for path in FACTORS}
    drawn = tuple(
        {
            p: d.sample(SamplingContext(derive_rng(seed, p, scene_index=i)))
            for p, d in factors.items()
        }
        for i in range(count)
    )
    noise = np.random.default_rng(seed).standard_normal((count, 6))
    sky = np.log([values["light/sky_level"] for values in drawn])
    warm = np.array([values["light/warmth"] for values in drawn])
    signal = np.column_stack([sky, sky + warm, warm, np.exp(sky), 0 * sky, 0 * sky])
    return ImageFeatures(signal + 0.1 * noise, drawn)


def captures(changes, count=120):
    return seen(START.replace_factors(changes), 77, count).features


def fit(root, changes=None, options=OPTIONS, facts=None):
    looks = captures(TRUTH if changes is None else changes)
    return fit_domain(START, looks, seen, root, options, facts or {}, lambda *_: None)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return fit(tmp_path_factory.mktemp("fit"))


def test_shifted_ranges_move_to_the_truth(found):
    ranges = {one.estimate.path: one for one in found.ranges}
    low, high = ranges["light/sky_level"].after
    assert high > 1.4  # initially 1.0
    assert low > 0.3  # initially 0.1
    low, high = ranges["light/warmth"].after
    assert -0.5 < low <= 0.2
    assert 0.4 <= high < 0.9
    assert found.after.gap.sliced_wasserstein.ci95[1] < found.before.gap.sliced_wasserstein.ci95[0]
    assert found.after.gap.auc.value < found.before.gap.auc.value


def test_ranges_contain_estimated_interval(found):
    for one in found.ranges:
        if one.interval is None:
            assert one.after == one.before
        else:
            assert one.after[0] <= one.interval[0] * (1 + 1e-9)
            assert one.after[1] >= one.interval[1] * (1 - 1e-9)
    shown = {one.estimate.path: one.interval for one in found.ranges}
    assert shown["light/sky_level"][0] < 0.95  # includes the ends of the true range
    assert shown["light/sky_level"][1] > 1.5


def test_undetermined_factors_stay_unchanged(found):
    tilt = found.ranges[-1]
    assert (tilt.estimate.path, tilt.interval) == ("view/tilt_rad", None)
    assert tilt.estimate.loo_r2 < 0.2
    assert tilt.fitted == tilt.original
    assert "view/tilt_rad" not in found.distributions


def test_distant_images_narrow_no_range(tmp_path):
    """Check images whose features match no sampled value."""
    strange = seen(START, 5, 80).features + np.array([0, 0, 0, 0, 400, -400])
    found = fit_domain(START, strange, seen, tmp_path, OPTIONS, {}, lambda *_: None)
    for one in found.ranges:
        assert one.after[0] <= one.before[0] + 1e-9
        assert one.after[1] >= one.before[1] - 1e-9


def test_images_of_same_domain_keep_ranges(tmp_path):
    found = fit(tmp_path, changes={})
    for one in found.ranges[:2]:
        of = LogUniform if "sky" in one.estimate.path else Uniform
        width = np.diff(np.log(one.after) if of is LogUniform else one.after)[0]
        was = np.diff(np.log(one.before) if of is LogUniform else one.before)[0]
        assert width > 0.85 * was
    assert found.after.coverage.coverage.value > 0.9


def test_interrupted_search_gives_same_trials(found, tmp_path):
    class StopError(Exception):
        pass

    def stop(done, _total):
        if done == 7:
            raise StopError

    looks = captures(TRUTH)
    with pytest.raises(StopError):
        fit_domain(START, looks, seen, tmp_path, OPTIONS, {}, stop)
    again = fit(tmp_path)
    assert again.trials == found.trials
    assert again.distributions == found.distributions
    longer = fit(tmp_path, options=replace(OPTIONS, trials=14))
    assert longer.trials[:12] == found.trials
    assert len(longer.trials) == 14


def test_unfinished_trial_does_not_count(tmp_path):
    calls = []

    def tried(numbers):
        calls.append(numbers)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return numbers["a"], {}

    def go():
        return search(
            open_study(tmp_path, {}), ["a"], tried, initial_trials=[{"a": 0.5}], count=4, seed=0,
            progress=lambda *_: None,
        )  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        go()
    trials = go()
    assert len(trials) == 4
    assert calls[1] == calls[2] == trials[1].parameters


def test_trials_with_other_settings_are_refused(tmp_path):
    few = replace(OPTIONS, trials=1)
    fit(tmp_path, options=few, facts={"recipe": "a"})
    with pytest.raises(OutputError) as error:
        fit(tmp_path, options=few, facts={"recipe": "b"})
    assert str(error.value) == (
        f"{tmp_path / STUDY_FILE}: trials have another recipe (a, not b). Choose another folder, or add "
        "--overwrite."
    )


def test_broken_trials_are_refused(tmp_path):
    (tmp_path / STUDY_FILE).write_text("{}\nno journal\n")
    with pytest.raises(OutputError, match=r"trials cannot be read\. Add --overwrite"):
        fit(tmp_path)


def test_unsettled_ranges_are_not_selected(tmp_path):
    """Check that ranges are not selected if scenes under a dark sky do not come to rest."""

    def settled(domain, seed, count):
        if domain.get_factor("light/sky_level").low < 0.11 and domain is not START:
            raise SceneError("scene 3 did not settle")
        return seen(domain, seed, count)

    found = fit_domain(
        START, captures(TRUTH), settled, tmp_path, replace(OPTIONS, trials=4), {}, lambda *_: None
    )
    assert found.trials[0].metadata == {"problem": "scene 3 did not settle"}
    assert found.distributions["light/sky_level"].low > 0.11


def test_missing_optuna_gives_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(BackendError, match=r'pip install "sim2cam\[search\]"'):
        fit(tmp_path)


BAD = [
    # (captures, options, message)
    (
        19, {},
        "19 real images are too few: 20 are needed, half of them for the fit and half to measure the "
        "result. Take more photos.",
    ),
    (40, {"count": 9}, "--count must be 10 or more, not 9"),
    (
        40, {"factors": ("light/wramth",)},
        "'light/wramth' is not a group or factor with a range. Did you mean 'light/warmth'?",
    ),
    (40, {"factors": ("table/family",)}, "'table/family' is not a group or factor with a range."),
]  # fmt: skip


@pytest.mark.parametrize(("count", "changes", "message"), BAD)
def test_bad_inputs_are_refused(count, changes, message, tmp_path):
    options = replace(OPTIONS, **changes)
    with pytest.raises(UsageError) as error:
        fit_domain(START, captures({}, count), seen, tmp_path, options, {}, lambda *_: None)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("base", ["dice", "mine.toml"])
def test_written_recipe_has_fitted_ranges(found, base, tmp_path):
    (tmp_path / "mine.toml").write_text('base = "dice"\n')
    named = base if base == "dice" else str(tmp_path / base)
    out = tmp_path / "out" / "new.toml"
    write_recipe(found.distributions, named, "new", out)
    domain = load_recipe(str(out)).domain
    assert load_recipe(str(out)).name == "new"
    for path, distribution in found.distributions.items():
        assert domain.get_factor(path) == distribution
    assert domain.groups["die"] == load_recipe("dice").domain.groups["die"]
