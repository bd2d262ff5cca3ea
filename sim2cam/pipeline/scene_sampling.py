"""Scenes: drawn, settled, held against what is required of them, and drawn again until they fit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sim2cam.data.reader import RequirementResult
from sim2cam.engines.process_pool import send_heartbeat
from sim2cam.errors import SceneError, UsageError
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.requirements import Requirement, collect_camera_labels, measure_scene
from sim2cam.randomize.counterfactual import NO_INTERVENTION, Intervention
from sim2cam.randomize.limits import check_settings
from sim2cam.randomize.references import check_path
from sim2cam.randomize.sampling import (
    FactorValues,
    check_instances,
    sample_distribution,
    sample_factors,
)
from sim2cam.render.optics.views import find_blind_corner
from sim2cam.render.physics.contacts import Contact
from sim2cam.render.physics.simulation import DEFAULT_REST, PhysicsCertificate, simulate
from sim2cam.render.physics.trajectory import MotionRecording
from sim2cam.scene.scene import Scene

MAX_ATTEMPTS = 20
"""Drafts of a scene that may fail to settle."""


@dataclass(frozen=True)
class Instant:
    """A scene at one time of its film.

    Attributes:
        seconds: since the bodies were let go.
        scene: bodies and cameras where they are then.
        contacts: of its bodies.
    """

    seconds: float
    scene: Scene
    contacts: tuple[Contact, ...]


@dataclass(frozen=True)
class Counterfactual:
    """What is otherwise in a scene than in the one it is paired with.

    Attributes:
        change: of what was drawn.
        moved_bodies: bodies that do not lie as they do there, or are not in both.
    """

    change: Intervention
    moved_bodies: tuple[str, ...]


@dataclass(frozen=True)
class SettledScene:
    """A drawn scene at rest.

    Attributes:
        index: scene index.
        attempt: of the streams it was drawn from; drafts of lower ones were rejected.
        rejections: why.
        sampled_values: everything that was drawn.
        scene: bodies where they lie.
        certificate: how they got there.
        sequence: the times at which pictures are taken; the last shows the bodies where they lie.
        counterfactual: what is otherwise than in the scene of that index; None in that scene.
        requirement_values: what it is of what is measured of a settled scene, by the names of requirements.
    """

    index: int
    attempt: int
    rejections: tuple[str, ...]
    sampled_values: FactorValues
    scene: Scene
    certificate: PhysicsCertificate
    sequence: tuple[Instant, ...]
    counterfactual: Counterfactual | None = None
    requirement_values: Mapping[str, RequirementResult] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rejection:
    """Why a draft cannot be used.

    Attributes:
        requirement: name of the one that it fails; None when it does not settle.
        reason: in words.
    """

    requirement: str | None
    reason: str

    def __str__(self) -> str:
        return f"{self.requirement}: {self.reason}" if self.requirement else self.reason


@dataclass(frozen=True)
class _Candidate:
    """One draft of a scene: from which streams, and with which change."""

    recipe: Recipe
    seed: int
    index: int
    attempt: int
    change: Intervention


def simulate_scene(
    recipe: Recipe, seed: int, index: int, change: Intervention = NO_INTERVENTION
) -> SettledScene:
    """Return scene ``index``, drawn again until it comes to rest and is what is required.

    Args:
        recipe: what is drawn, and what is required.
        seed: of the data set.
        index: scene index.
        change: gives the counterfactual of the scene instead; a change that redraws is drawn again
            until it fits, one that only sets values must fit as it is.

    Raises:
        SceneError: no attempt did.
        UsageError: a change of what the recipe does not have, or to what it cannot be.
    """
    check_change(recipe, change)
    streams = (
        _Candidate(recipe, seed, index, attempt, NO_INTERVENTION) for attempt in itertools.count()
    )
    original = _find_valid_scene(streams)
    if not change:
        return original
    first = _Candidate(recipe, seed, index, original.attempt, change)
    found = _find_valid_scene(_resample_candidates(first))
    return replace(
        found,
        counterfactual=Counterfactual(change, _find_moved_bodies(original.scene, found.scene)),
    )


def check_change(recipe: Recipe, change: Intervention) -> None:
    """Refuse a change of what the recipe does not have, or to what it cannot be.

    Raises:
        UsageError: naming it and what is allowed.
    """
    for name in change.resamples:
        check_path(recipe.domain, name, UsageError, require_factor=False)
    names = [facts.name for facts in recipe.assets]
    skies, pictures = ([one.name for one in found] for found in (recipe.skies, recipe.pictures))
    check_settings(recipe.domain, change.settings, names, recipe.categories, skies, pictures)
    check_instances(recipe.domain, change, recipe.render.views)


def _resample_candidates(candidate: _Candidate) -> Iterator[_Candidate]:
    yield candidate
    while candidate.change.resamples:
        candidate = replace(candidate, change=candidate.change.resample_again())
        yield candidate


def _find_valid_scene(candidates: Iterator[_Candidate]) -> SettledScene:
    rejections: list[_Rejection] = []
    for trial in candidates:
        send_heartbeat()
        found = _evaluate_candidate(trial)
        if isinstance(found, SettledScene):
            return replace(found, rejections=tuple(map(str, rejections)))
        rejections.append(found)
        _check_budget(trial, rejections)
    raise SceneError(
        f"scene {trial.index} of recipe '{trial.recipe.name}' cannot be what it is set to: "
        f"{rejections[-1]}. Set another value."
    )


def _evaluate_candidate(candidate: _Candidate) -> SettledScene | _Rejection:
    recipe, place = candidate.recipe, (candidate.seed, candidate.index)
    drawn = sample_factors(
        recipe.domain,
        *place,
        views=recipe.render.views,
        attempt=candidate.attempt,
        intervention=candidate.change,
    )
    failed = _check_sampled_values(candidate)
    if failed:
        return failed
    draft = recipe.compose_scene(drawn)
    problem = find_blind_corner(draft)
    if problem is not None:
        return _Rejection(None, problem)
    record = MotionRecording(draft) if recipe.render.sequence else None
    scene, certificate = simulate(draft, record, recipe.render.rest or DEFAULT_REST)
    if certificate.rejection is not None:
        return _Rejection(None, certificate.rejection)
    reached = _measure_requirements(candidate, scene)
    if isinstance(reached, _Rejection):
        return reached
    film = _build_sequence(recipe, scene, certificate, record)
    return SettledScene(
        candidate.index,
        candidate.attempt,
        (),
        drawn,
        scene,
        certificate,
        film,
        requirement_values=reached,
    )


def _check_sampled_values(candidate: _Candidate) -> _Rejection | None:
    for name, requirement in candidate.recipe.require.items():
        if requirement.value is not None:
            value = sample_distribution(
                candidate.recipe.domain,
                requirement.value,
                f"require/{name}",
                candidate.seed,
                candidate.index,
                attempt=candidate.attempt,
                intervention=candidate.change,
            )
            why = requirement.describe_violation(name, value, candidate.seed, candidate.index)
            if why:
                return _Rejection(name, why)
    return None


def _measure_requirements(
    candidate: _Candidate, scene: Scene
) -> dict[str, RequirementResult] | _Rejection:
    """Return what a settled scene is of what is required; what needs no labels is measured first."""
    found: dict[str, RequirementResult] = {}
    wanted = [(name, r) for name, r in candidate.recipe.require.items() if r.measure]
    wanted.sort(key=lambda entry: entry[1].needs_labels)
    seen = None
    for name, requirement in wanted:
        if requirement.needs_labels and seen is None:
            seen = collect_camera_labels(scene)
        value = measure_scene(str(requirement.measure), scene, seen or [])
        why = requirement.describe_violation(name, value, candidate.seed, candidate.index)
        if why:
            return _Rejection(name, why)
        found[name] = RequirementResult(
            value, requirement.select_range(name, candidate.seed, candidate.index)
        )
    return found


def _check_budget(candidate: _Candidate, rejections: Sequence[_Rejection]) -> None:
    """Refuse to go on when what rejected the last draft has rejected as many as it may.

    Drafts that do not settle count in a row: where others settle and fail a requirement, it is that
    one's budget that is spent.
    """
    last = rejections[-1]
    unsettled = list(itertools.takewhile(lambda one: one.requirement is None, reversed(rejections)))
    counts = Counter(rejection.requirement for rejection in rejections)
    scene = f"scene {candidate.index} of recipe '{candidate.recipe.name}'"
    others = [
        _describe_failures(name, count)
        for name, count in counts.items()
        if name != last.requirement
    ]
    besides = f" Besides, {', '.join(others)}." if others else ""
    if len(unsettled) >= MAX_ATTEMPTS:
        raise SceneError(
            f"{scene} did not settle in {MAX_ATTEMPTS} attempts in a row (last: {last}).{besides} "
            "Use fewer objects, a larger region or slower throws."
        )
    if last.requirement and counts[last.requirement] >= _get_budget(candidate, last.requirement):
        raise SceneError(
            f"{scene} failed its requirement '{last.requirement}' {counts[last.requirement]} times "
            f"(last: {last.reason}).{besides} Widen its range, raise its budget, or draw what it asks "
            "for more often."
        )


def _get_budget(candidate: _Candidate, name: str) -> int:
    requirement: Requirement = candidate.recipe.require[name]
    return requirement.budget


def _describe_failures(requirement: str | None, count: int) -> str:
    times = f"{count} {'draft' if count == 1 else 'drafts'}"
    return f"{times} failed '{requirement}'" if requirement else f"{times} did not settle"


def _find_moved_bodies(original: Scene, changed: Scene) -> tuple[str, ...]:
    """Return the names of bodies whose poses differ, or that one of both scenes lacks."""
    before, after = ({body.name: body.pose for body in s.bodies} for s in (original, changed))
    return tuple(name for name in {**before, **after} if before.get(name) != after.get(name))


def _build_sequence(
    recipe: Recipe,
    settled: Scene,
    certificate: PhysicsCertificate,
    recording: MotionRecording | None,
) -> tuple[Instant, ...]:
    """Return the times at which pictures are taken of a scene that came to rest."""
    seconds = certificate.seconds
    last = Instant(seconds, settled, certificate.contacts)
    options = recipe.render.sequence
    if options is None or recording is None:
        return (last,)
    found = []
    for back in range(options.frames - 1, 0, -1):
        before = back * options.interval_s
        cameras = tuple(
            camera.rewind_frames(back, options.interval_s) for camera in settled.cameras
        )
        scene = replace(recording.scene_at(seconds - before), cameras=cameras)
        contacts = recording.contacts_at(seconds - before)
        found.append(Instant(seconds - before, scene, contacts))
    return (*found, last)
