from dataclasses import replace

import pytest

from sim2cam.adapt.training.checkpoint_selection import (
    CandidateScores,
    build_selection,
    read_training_outcome,
    schedule_evaluations,
    select_best,
    split_held_out,
)
from sim2cam.errors import CheckpointError


def names(dataset):
    return {sample.name for sample in dataset.samples}


def candidate(step, accepted=10, violations=(), distance=1.0):
    return CandidateScores(step, accepted, violations, distance)


def test_a_fifth_is_held_out_and_nothing_is_lost(many_sim, many_real):
    split = split_held_out(many_sim, many_real, 3000)
    for whole, training, held_out in (
        (many_sim, split.sim, split.sim_held_out),
        (many_real, split.real, split.real_held_out),
    ):
        assert len(held_out.samples) == 10
        assert names(training) | names(held_out) == names(whole)
        assert not names(training) & names(held_out)
    assert split.candidate_steps == (600, 1200, 1800, 2400, 3000)
    assert split.reason is None
    hundred = (replace(many_sim.samples[i % 40], name=f"{i}", digest=f"{i}", scene_index=i) for i in range(200))  # fmt: skip
    many = split_held_out(replace(many_sim, samples=tuple(hundred)), many_real, 3000)
    assert len(many.sim_held_out.samples) == 20


def test_the_split_depends_on_content_alone(many_sim, many_real):
    split = split_held_out(many_sim, many_real, 3000)
    backwards = [replace(side, samples=side.samples[::-1]) for side in (many_sim, many_real)]
    renamed = tuple(replace(s, name=f"IMG {s.name}") for s in many_real.samples)
    for sim, real in (backwards, (many_sim, replace(many_real, samples=renamed))):
        again = split_held_out(sim, real, 3000)
        for side in ("sim_held_out", "real_held_out"):
            before, after = getattr(split, side), getattr(again, side)
            assert [s.rgb for s in before.samples] == [s.rgb for s in after.samples]


def test_views_of_a_scene_stay_together(many_sim, many_real):
    views = tuple(
        replace(s, scene_index=int(s.name) // 4, digest=f"{i}" * 8)
        for i, s in enumerate(many_sim.samples)
    )
    split = split_held_out(replace(many_sim, samples=views), many_real, 3000)
    held_out = [sample.scene_index for sample in split.sim_held_out.samples]
    assert len(held_out) == 12  # three scenes of four; a fifth would be eight, and ten are needed
    assert not set(held_out) & {sample.scene_index for sample in split.sim.samples}


def test_pairs_stay_together(many_sim):
    """The real images are the renders by other names, in the same order."""
    real = replace(
        many_sim,
        samples=tuple(
            replace(s, name=f"{s.name}.jpg", digest=s.digest[::-1]) for s in many_sim.samples
        ),
    )
    split = split_held_out(many_sim, real, 3000, is_paired=True)
    assert len(split.sim_held_out.samples) == 10
    assert names(split.real_held_out) == {f"{name}.jpg" for name in names(split.sim_held_out)}
    assert [f"{s.name}.jpg" for s in split.sim.samples] == [s.name for s in split.real.samples]


def test_from_too_little_nothing_is_held_out(many_sim, many_real):
    small = (replace(many_real.samples[0], height=63), *many_real.samples[1:])
    copies = tuple(replace(s, rgb=many_real.samples[0].rgb) for s in many_real.samples[:25])
    one = tuple(replace(s, scene_index=0) for s in many_sim.samples)
    cases = [
        (many_sim.samples[:29], many_real.samples, 3000, "29 renders are fewer than 30"),
        (many_sim.samples, many_real.samples[:29], 3000, "29 real images are fewer than 30"),
        (many_sim.samples, many_real.samples, 199, "199 steps are too few for two evaluations"),
        (many_sim.samples, small, 3000, "some real images are smaller than 64 px"),
        (many_sim.samples, (*copies, *many_real.samples[25:]), 3000, "too many real images are copies of one another"),
        (one, many_real.samples, 3000, "the renders show too few scenes"),
    ]  # fmt: skip
    for renders, captures, steps, reason in cases:
        sim, real = replace(many_sim, samples=renders), replace(many_real, samples=captures)
        split = split_held_out(sim, real, steps)
        assert split.reason == reason
        assert (split.sim, split.real) == (sim, real)
        held_out = split.sim_held_out.samples, split.real_held_out.samples
        assert {*held_out, split.candidate_steps} == {()}


@pytest.mark.parametrize(
    ("steps", "expected"), [(199, ()), (205, (100, 205)), (1000, (200, 400, 600, 800, 1000))]
)
def test_evaluations_are_evenly_spaced_up_to_the_last_step(steps, expected):
    assert schedule_evaluations(steps, 5, 100) == expected


def test_the_certificate_comes_first_and_then_the_distance():
    early, near, late = candidate(100, distance=3.0), candidate(200), candidate(300, distance=2.0)
    broken = candidate(400, accepted=9, violations=("10.0% rejected",), distance=0.1)
    worse = candidate(500, accepted=8, violations=("20.0% rejected",), distance=0.0)
    assert select_best([early, near, late, broken, worse]) is near
    assert select_best([worse, broken]) is broken
    same = replace(near, step=600)
    assert select_best([near, same]) is same  # of equals the one that was trained longer


def test_a_selection_explains_itself(many_sim, many_real):
    split = split_held_out(many_sim, many_real, 3000)
    broken = candidate(300, accepted=7, violations=("30.0% rejected",), distance=0.1)
    selection = build_selection(split, [candidate(100, distance=2.0), candidate(200), broken], 4.0)
    assert (selection.step, selection.source_distance) == (200, 4.0)
    assert (selection.render_count, selection.capture_count) == (10, 10)
    assert selection.reason == (
        "2 of 3 candidates keep all limits; this one is nearest to the held-out real images"
    )
    assert build_selection(split, [broken], 4.0).reason == (
        "none of 1 candidates keeps all limits; this one has the most accepted images, 7 of 10"
    )


def test_a_folder_without_an_outcome_is_refused(tmp_path):
    (tmp_path / "weights.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a card of a translator: selection"):
        read_training_outcome(tmp_path)
