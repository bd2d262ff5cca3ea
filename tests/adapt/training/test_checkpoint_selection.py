from dataclasses import replace

import pytest

from sim2cam.adapt.training.checkpoint_selection import (
    CandidateScores,
    build_selection,
    read_training_outcome,
    select_best,
    split_held_out,
)
from sim2cam.errors import CheckpointError

PLENTY = {"steps": 3000, "pixels": 65536, "log_interval_steps": 10, "verifier_count": 0}


def names(dataset):
    return {sample.name for sample in dataset.samples}


def candidate(step, passed=10, faults=(), distance=1.0):
    return CandidateScores(step, passed, faults, distance)


def test_a_fifth_is_kept_aside_and_nothing_is_lost(many_sim, many_real):
    parts = split_held_out(many_sim, many_real, **PLENTY)
    assert (len(parts.sim_held_out.samples), len(parts.real_held_out.samples)) == (10, 10)
    assert names(parts.sim) | names(parts.sim_held_out) == names(many_sim)
    assert names(parts.real) | names(parts.real_held_out) == names(many_real)
    assert not names(parts.sim) & names(parts.sim_held_out)
    assert not names(parts.real) & names(parts.real_held_out)
    assert parts.candidate_steps == (380, 750, 1120, 1500, 1880, 2250, 2620, 3000)
    assert parts.reason is None


def test_what_is_kept_aside_depends_on_content_alone(many_sim, many_real):
    parts = split_held_out(many_sim, many_real, **PLENTY)
    turned = [replace(side, samples=side.samples[::-1]) for side in (many_sim, many_real)]
    renamed = tuple(replace(s, name=f"IMG {s.name}") for s in many_real.samples)
    for sim, real in (turned, (many_sim, replace(many_real, samples=renamed))):
        again = split_held_out(sim, real, **PLENTY)
        for side in ("sim_held_out", "real_held_out"):
            before, after = getattr(parts, side), getattr(again, side)
            assert [s.rgb for s in before.samples] == [s.rgb for s in after.samples]


def test_views_of_a_scene_stay_together(many_sim, many_real):
    views = tuple(
        replace(s, scene_index=int(s.name) // 4, digest=f"{i}" * 8)
        for i, s in enumerate(many_sim.samples)
    )
    parts = split_held_out(replace(many_sim, samples=views), many_real, **PLENTY)
    aside = [sample.scene_index for sample in parts.sim_held_out.samples]
    assert len(aside) == 12  # three scenes of four; a fifth would be eight, and ten are needed
    assert not set(aside) & {sample.scene_index for sample in parts.sim.samples}


NOTHING = [
    # (renders, captures, flags, why nothing is kept aside)
    (29, 30, {}, "29 renders are fewer than 30"),
    (40, 29, {}, "29 real images are fewer than 30"),
    (40, 30, {"steps": 199}, "199 steps are too few for two evaluations"),
]


@pytest.mark.parametrize(("renders", "captures", "flags", "why"), NOTHING)
def test_from_too_little_nothing_is_kept_aside(
    many_sim, many_real, renders, captures, flags, why
):  # fmt: skip
    sim, real = many_sim.take(renders), many_real.take(captures)
    parts = split_held_out(sim, real, **PLENTY | flags)
    assert parts.reason == why
    assert (parts.sim, parts.real) == (sim, real)
    assert {parts.sim_held_out.samples, parts.real_held_out.samples, parts.candidate_steps} == {()}


def test_small_pictures_copies_and_one_scene_are_told(many_sim, many_real):
    small = (replace(many_real.samples[0], height=63), *many_real.samples[1:])
    copies = tuple(replace(s, rgb=many_real.samples[0].rgb) for s in many_real.samples[:25])
    one = tuple(replace(s, scene_index=0) for s in many_sim.samples)
    cases = [
        (many_sim.samples, small, "some real images are smaller than 64 px"),
        (many_sim.samples, (*copies, *many_real.samples[25:]), "too many real images are copies"),
        (one, many_real.samples, "the renders show too few scenes"),
    ]
    for renders, captures, why in cases:
        sim, real = replace(many_sim, samples=renders), replace(many_real, samples=captures)
        assert why in split_held_out(sim, real, **PLENTY).reason


def test_judging_stays_within_its_share(many_sim, many_real):
    """Fewer candidates, not more time, where pictures are large or the training is short."""
    for steps, pixels in ((3000, 65536), (1000, 4096), (400, 1024), (5000, 16384)):
        parts = split_held_out(
            many_sim, many_real, steps=steps, pixels=pixels, log_interval_steps=10, verifier_count=0
        )
        judged = len(parts.candidate_steps) * sum(
            s.width * s.height for s in parts.sim_held_out.samples
        )
        assert judged <= 0.5 * steps * pixels or (
            len(parts.candidate_steps),
            len(parts.sim_held_out.samples),
        ) == (2, 10)
        assert len(parts.candidate_steps) <= 8
        assert parts.candidate_steps[-1] == steps
        assert all(step % 10 == 0 for step in parts.candidate_steps[:-1])


def test_judges_leave_time_for_fewer_candidates(many_sim, many_real):
    flags = PLENTY | {"pixels": 250}
    counts = [
        len(
            split_held_out(
                many_sim, many_real, **flags | {"verifier_count": judges}
            ).candidate_steps
        )
        for judges in (0, 1, 2)
    ]
    assert counts == [6, 2, 2]


@pytest.mark.parametrize(
    ("pixels", "renders", "candidates"), [(4096, 20, 8), (120, 15, 2), (8, 10, 2)]
)
def test_of_large_pictures_fewer_are_kept_before_none_is(
    many_sim, many_real, pixels, renders, candidates
):
    hundred = tuple(
        replace(many_sim.samples[i % 40], name=str(i), digest=f"{i}", scene_index=i)
        for i in range(100)
    )
    sim = replace(many_sim, samples=hundred)
    parts = split_held_out(sim, many_real, **PLENTY | {"pixels": pixels})
    assert (len(parts.sim_held_out.samples), len(parts.candidate_steps)) == (renders, candidates)


def test_the_certificate_comes_first_and_then_the_distance():
    early, near, late = candidate(100, distance=3.0), candidate(200), candidate(300, distance=2.0)
    broken = candidate(400, passed=9, faults=("10.0% rejected",), distance=0.1)
    worse = candidate(500, passed=8, faults=("20.0% rejected",), distance=0.0)
    assert select_best([early, near, late, broken, worse]) is near
    assert select_best([worse, broken]) is broken
    same = replace(near, step=600)
    assert select_best([near, same]) is same  # of equals the one that was trained longer


def test_a_selection_says_why(many_sim, many_real):
    parts = split_held_out(many_sim, many_real, **PLENTY)
    broken = candidate(300, passed=7, faults=("30.0% rejected",), distance=0.1)
    found = build_selection(parts, [candidate(100, distance=2.0), candidate(200), broken], 4.0)
    assert (found.step, found.render_count, found.capture_count, found.source_distance) == (
        200,
        10,
        10,
        4.0,
    )
    assert found.reason == (
        "2 of 3 candidates keep all limits; this one is nearest to the held-out real images"
    )
    assert build_selection(parts, [broken], 4.0).reason == (
        "none of 1 candidates keeps all limits; this one has the most accepted images, 7 of 10"
    )


def test_a_folder_without_an_ending_is_told(tmp_path):
    (tmp_path / "weights.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a card of a translator: selection"):
        read_training_outcome(tmp_path)


def test_a_capture_goes_with_its_render(many_sim):
    """Captures are the renders by other names, in the same order."""
    captures = replace(
        many_sim,
        samples=tuple(
            replace(s, name=f"{s.name}.jpg", digest=s.digest[::-1]) for s in many_sim.samples
        ),
    )
    parts = split_held_out(many_sim, captures, **PLENTY, is_paired=True)
    assert len(parts.sim_held_out.samples) == 10
    assert names(parts.real_held_out) == {f"{name}.jpg" for name in names(parts.sim_held_out)}
    assert [f"{s.name}.jpg" for s in parts.sim.samples] == [s.name for s in parts.real.samples]
