from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load_file

from sim2cam.adapt.training.adversarial import MIN_REAL_IMAGES, read_metrics
from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import (
    LOG_INTERVAL_STEPS,
    read_training_outcome,
    split_held_out,
)
from sim2cam.adapt.transfers.transfer import read_frame
from sim2cam.adapt.translation import NO_VERIFIERS
from sim2cam.adapt.translator import training
from sim2cam.adapt.translator.config import OMITTED_DEFAULTS
from sim2cam.adapt.translator.pairs import PairsRecord
from sim2cam.adapt.translator.training import train_translator
from sim2cam.errors import CheckpointError, DivergenceError, InputError, UsageError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb
from sim2cam.learn.run_folder import BATCH_FILE, CHECKPOINT, METRICS, WEIGHTS
from sim2cam.learn.trainer import Callbacks
from sim2cam.learn.weight_file import load_card


class KilledError(Exception):
    pass


def kill(_line: object) -> None:
    raise KilledError


def kill_at(step):
    def kill(line):
        if line.step == step:
            raise KilledError

    return kill


def test_killed_and_resumed_equals_uninterrupted_to_the_bit(sim, real, tiny, tmp_path):
    lines = []
    train_translator(sim, real, tiny, tmp_path / "whole", callbacks=Callbacks(log=lines.append))
    with pytest.raises(KilledError):
        train_translator(
            sim, real, tiny, tmp_path / "cut", callbacks=Callbacks(log=kill), checkpoint_s=0.0
        )
    assert not (tmp_path / "cut" / WEIGHTS).exists()
    with (tmp_path / "cut" / METRICS).open("a") as file:
        file.write((tmp_path / "whole" / METRICS).read_text().splitlines()[1] + "\n")
        file.write('{"step": 30, "ste')  # cut by the crash
    resumed = train_translator(sim, real, tiny, tmp_path / "cut", resume=True)

    for name in (WEIGHTS, CHECKPOINT):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    records = [read_metrics(tmp_path / name) for name in ("whole", "cut")]
    assert [line.step for line in lines] == [LOG_INTERVAL_STEPS, 2 * LOG_INTERVAL_STEPS]
    assert [line.scalars for line in records[0]] == [line.scalars for line in records[1]]
    assert {"mean_change", "discriminator_accuracy", "structure"} <= lines[-1].scalars.keys()
    assert 0 <= lines[-1].scalars["discriminator_accuracy"] <= 1
    assert lines[-1].scalars["mean_change"] > 0
    assert lines[-1].step == lines[-1].steps == tiny.steps
    frame = read_frame(sim.samples[0])
    assert resumed.buffers == ("depth", "objects")
    assert resumed.apply(frame, np.random.default_rng(0)).shape == frame.rgb.shape


def test_with_candidates_too(many_sim, many_real, tiny, tmp_path, monkeypatch):
    """And evaluations change no step."""
    interval = "sim2cam.adapt.training.checkpoint_selection.MIN_INTERVAL_STEPS"
    monkeypatch.setattr(interval, 20)
    config, whole = replace(tiny, steps=40), tmp_path / "whole"
    train_translator(many_sim, many_real, config, whole)
    for moment in (10, 30):  # before and after the first candidate
        run = tmp_path / str(moment)
        with pytest.raises(KilledError):
            train_translator(
                many_sim, many_real, config, run, callbacks=Callbacks(log=kill_at(moment)), checkpoint_s=0.0
            )  # fmt: skip
        train_translator(many_sim, many_real, config, run, resume=True)
        for name in (WEIGHTS, CHECKPOINT, "weights.json"):
            assert (whole / name).read_bytes() == (run / name).read_bytes()
        records = [read_metrics(folder) for folder in (whole, run)]
        assert [(line.scalars, line.warnings) for line in records[0]] == [
            (line.scalars, line.warnings) for line in records[1]
        ]
    often = tmp_path / "often"
    monkeypatch.setattr(interval, 10)
    train_translator(many_sim, many_real, config, often)
    losses = [
        [{k: v for k, v in line.scalars.items() if not k.startswith("held_out")} for line in lines]
        for lines in (read_metrics(whole), read_metrics(often))
    ]
    assert losses[0] == losses[1]
    counts = [len(read_training_outcome(run).selection.candidates) for run in (whole, often)]
    assert counts == [2, 4]


def test_weights_that_ship_are_those_that_were_chosen(many_sim, many_real, tiny, tmp_path):
    """Distances are measured again on what was written."""
    config = replace(tiny, steps=200, learning_rate_generator=2e-3)
    translator = train_translator(many_sim, many_real, config, tmp_path)
    ending = read_training_outcome(tmp_path)
    chosen = next(c for c in ending.selection.candidates if c.step == ending.selection.step)
    parts = split_held_out(many_sim, many_real, 200)
    again = CheckpointSelector(parts, NO_VERIFIERS, config.seed).evaluate(
        chosen.step, Loaded(translator)
    )
    assert (again.accepted, again.distance) == (chosen.accepted, chosen.distance)
    assert chosen.distance < ending.selection.source_distance
    assert ending.warnings == ()  # and a training that goes well is not warned of


def test_a_translator_that_is_never_called_changes_nothing_and_says_so(
    many_sim, many_real, tiny, tmp_path
):  # fmt: skip
    config = replace(tiny, steps=100, adversarial_weight=0.0)
    train_translator(many_sim, many_real, config, tmp_path)
    assert any("hardly changes images" in w for w in read_training_outcome(tmp_path).warnings)
    warned = [line.step for line in read_metrics(tmp_path) if line.warnings]
    assert warned == list(range(30, 101, 10))


def test_a_discriminator_that_wins_is_told(many_sim, many_real, tiny, tmp_path):
    """Bounds this narrow keep renders dark and blue, whatever is learned."""
    config = replace(
        tiny, steps=200, width=16, discriminator_scales=1, gradient_penalty=0.0, colour_bound=0.01, local_bound=0.02,
        learning_rate_discriminator=5e-3,
    )  # fmt: skip
    train_translator(many_sim, many_real, config, tmp_path)
    assert any("the discriminator dominates" in w for w in read_training_outcome(tmp_path).warnings)


class Loaded:
    def __init__(self, translator):
        self.build_transfer = lambda: translator


def test_seed_changes_the_result(sim, real, tiny, tmp_path):
    for seed in (0, 1):
        train_translator(sim, real, replace(tiny, steps=10, seed=seed), tmp_path / str(seed))
    assert (tmp_path / "0" / WEIGHTS).read_bytes() != (tmp_path / "1" / WEIGHTS).read_bytes()


@pytest.mark.parametrize("use_buffers", [True, False])
def test_buffers_are_used_only_on_request_and_where_all_have_them(
    sim, real, tiny, tmp_path, use_buffers
):
    config = replace(tiny, steps=1, use_buffers=use_buffers)
    first = replace(sim.samples[0], channels={"ids": sim.samples[0].channels["ids"]})
    no_depth = replace(sim, samples=(first, *sim.samples[1:]))
    trained = train_translator(no_depth, real, config, tmp_path)
    assert trained.buffers == (("objects",) if use_buffers else ())


def test_another_configuration_or_other_images_do_not_go_on(sim, real, tiny, tmp_path):
    config = replace(tiny, steps=1)
    train_translator(sim, real, config, tmp_path)
    other = replace(config, structure_weight=5.0)
    with pytest.raises(CheckpointError, match=r"config\.structure_weight was 4\.0 and is now 5\.0"):
        train_translator(sim, real, other, tmp_path, resume=True)
    with pytest.raises(CheckpointError, match=r"images\.sim\.5 was 'sim5' and is now None"):
        train_translator(sim.take(5), real, config, tmp_path, resume=True)


def test_cache_does_not_decide_the_result(sim, real, tiny, tmp_path):
    train_translator(sim, real, replace(tiny, steps=1), tmp_path)
    train_translator(sim, real, replace(tiny, steps=1, cache_bytes=5), tmp_path, resume=True)


def test_few_captures_or_no_renders_are_refused(sim, real, tiny, tmp_path):
    with pytest.raises(InputError) as error:
        train_translator(sim, real.take(MIN_REAL_IMAGES - 1), tiny, tmp_path)
    assert str(error.value) == (
        f"{real.root}: 19 real images, but a translator needs at least 20. "
        "Add some, or use the renders without translation."
    )
    with pytest.raises(InputError, match="no renders to train on"):
        train_translator(sim.take(0), real, tiny, tmp_path)
    assert not any(tmp_path.iterdir())


def test_runaway_training_stops_with_a_cure_and_keeps_the_batch(
    sim, real, tiny, tmp_path, monkeypatch
):
    """Its fourth batch is broken."""
    whole = training.sample_batch

    def breaking(*given):
        batch = whole(*given)
        if given[-1] == 3:
            batch.sim.rgb[0, 0, 5, 5] = float("nan")
        return batch

    monkeypatch.setattr(training, "sample_batch", breaking)
    with pytest.raises(DivergenceError) as error:
        train_translator(sim, real, tiny, tmp_path)
    assert error.value.step == 4
    said = str(error.value)
    assert "not finite at step 4 (" in said
    assert "Lower learning_rate_generator and learning_rate_discriminator, then train again" in said
    assert said.endswith(f"The batch of that step is in {tmp_path / BATCH_FILE}.")
    kept = load_file(tmp_path / BATCH_FILE)
    assert kept["sim/rgb"].shape == kept["real/rgb"].shape == (2, 3, 32, 32)
    assert kept["sim/rgb"].isnan().nonzero().tolist() == [[0, 0, 5, 5]]
    assert kept["augmentation/shift_px"].shape == (2, 2)
    assert not (tmp_path / CHECKPOINT).exists()


@pytest.fixture(scope="session")
def many_pairs(many_sim, tmp_path_factory):
    """Captures of the renders: warmer, with grain; one is not of its render's place."""
    root = tmp_path_factory.mktemp("many_pairs")
    rng = np.random.default_rng(5)
    samples = []
    for index, render in enumerate(many_sim.samples):
        rgb = read_rgb(render.rgb) * [1.15, 1.0, 0.8] + [12, 0, -6] + rng.normal(0, 4, (72, 80, 3))
        rgb = np.roll(rgb, 5, axis=1) if index == 7 else rgb
        path = root / f"{render.name}.png"
        write_bytes(path, encode_png(rgb.clip(0, 255).astype(np.uint8)))
        samples.append(
            replace(render, rgb=path, objects=None, channels={}, digest="", origin="real")
        )
    return replace(many_sim, root=root, categories=(), samples=tuple(samples))


def test_pairs_are_learned_and_resumed_to_the_bit(many_sim, many_pairs, tiny, tmp_path):
    config = replace(tiny, steps=40, learning_rate_generator=4e-3, ema_decay=0.9)
    whole = train_translator(many_sim, many_pairs, config, tmp_path / "whole", paired=True)
    with pytest.raises(KilledError):
        train_translator(
            many_sim, many_pairs, config, tmp_path / "cut", paired=True, callbacks=Callbacks(log=kill_at(20)),
            checkpoint_s=0.0,
        )  # fmt: skip
    others = many_pairs.select_by_name(s.name for s in many_pairs.samples if s.name != "7")
    renders = many_sim.select_by_name(s.name for s in others.samples)
    with pytest.raises(CheckpointError, match="paired was True and is now None"):
        train_translator(renders, others, config, tmp_path / "cut", resume=True)
    train_translator(many_sim, many_pairs, config, tmp_path / "cut", paired=True, resume=True)
    for name in (WEIGHTS, CHECKPOINT, "weights.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()

    record = PairsRecord(**load_card(tmp_path / "whole" / WEIGHTS)["pairs"])
    assert (record.pairs, record.rejected, record.unmatched) == (39, 1, 0)
    assert record.registered_fraction > 0.99
    lines = read_metrics(tmp_path / "whole")
    assert lines[-1].scalars["paired"] < 0.5 * lines[0].scalars["paired"]
    errors = []
    for render, capture in list(zip(many_sim.samples, many_pairs.samples, strict=True))[:6]:
        made = whole.apply(read_frame(render), np.random.default_rng(0)).astype(float)
        real = read_rgb(capture.rgb)
        errors.append(
            [np.abs(made - real).mean(), np.abs(read_rgb(render.rgb) - 1.0 * real).mean()]
        )
    after, before = np.mean(errors, axis=0)
    assert after < 0.6 * before


def test_too_few_pairs_are_refused(many_sim, many_pairs, tiny, tmp_path):
    few = many_pairs.take(20)
    with pytest.raises(InputError) as error:
        train_translator(many_sim, few, tiny, tmp_path, paired=True)
    assert str(error.value) == (
        f"{few.root}: 19 pairs, but a translator needs at least 20. 1 more are displaced by more than 1 px "
        "or differ in content. Register the real images to their renders, or train without --paired."
    )


def test_a_training_with_lpips_takes_its_distances(sim, real, tiny, tmp_path):
    with pytest.raises(UsageError) as error:
        train_translator(sim, real, replace(tiny, lpips_weight=1.0), tmp_path)
    assert (
        str(error.value)
        == "lpips_weight requires verification.lpips. Provide it, or set lpips_weight to 0."
    )


def test_files_of_trainings_that_use_nothing_later_do_not_name_it(sim, real, tiny, tmp_path):
    train_translator(sim, real, replace(tiny, steps=1), tmp_path)
    card = load_card(tmp_path / WEIGHTS)
    assert not set(OMITTED_DEFAULTS) & {*card, *card["config"]}
    assert "perception" not in card
    assert replace(tiny, nce_weight=2.0).to_json()["nce_weight"] == 2.0
    assert replace(tiny, perception_weight=0.0).to_json()["perception_weight"] == 0.0
