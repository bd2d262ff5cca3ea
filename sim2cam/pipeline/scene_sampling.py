"""Sampling and simulation of scenes until they come to rest and meet all requirements."""

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
from sim2cam.randomize.domain_checks import check_settings
from sim2cam.randomize.references import check_path
from sim2cam.randomize.sampling import (
    FactorValues,
    check_instances,
    sample_distribution,
    sample_factors,
)
from sim2cam.render.optics.views import find_unprojectable_corner
from sim2cam.render.physics.camera_clearance import find_blocked_camera
from sim2cam.render.physics.contacts import Contact
from sim2cam.render.physics.simulation import DEFAULT_REST, PhysicsCertificate, simulate
from sim2cam.render.physics.trajectory import MotionRecording
from sim2cam.scene.scene import Scene

MAX_ATTEMPTS = 20
"""Consecutive candidates of a scene whose bodies or cameras may be invalid."""


@dataclass(frozen=True)
class Instant:
    """A scene at the time of a frame.

    Attributes:
        seconds: time since the bodies were released.
    """

    seconds: float
    scene: Scene
    contacts: tuple[Contact, ...]


@dataclass(frozen=True)
class Counterfactual:
    """Difference between a scene and the scene that it is paired with.

    Attributes:
        moved_bodies: bodies with other poses, or in one of the scenes only.
    """

    change: Intervention
    moved_bodies: tuple[str, ...]


@dataclass(frozen=True)
class SettledScene:
    """A sampled scene at rest.

    Attributes:
        attempt: number of the random streams; scenes of lower attempts were rejected.
        rejections: reasons for the rejections.
        sampled_values: sampled values of all factors.
        sequence: instants of the frames; the last one shows the bodies at rest.
        counterfactual: difference from the original scene of that index; None in the original.
        requirement_values: measured values by requirement name.
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
    """Reason why a candidate is rejected.

    Attributes:
        requirement: name of the violated requirement; None if the bodies or cameras are invalid.
        advice: how to change a recipe whose candidates are all rejected for this reason.
    """

    requirement: str | None
    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.requirement}: {self.reason}" if self.requirement else self.reason


@dataclass(frozen=True)
class _Candidate:
    """A candidate for a scene: its random streams and intervention."""

    recipe: Recipe
    seed: int
    index: int
    attempt: int
    change: Intervention


def simulate_scene(
    recipe: Recipe, seed: int, index: int, change: Intervention = NO_INTERVENTION
) -> SettledScene:
    """Return a scene that comes to rest, has clear cameras and meets all requirements.

    Candidates are sampled until one is valid.

    Args:
        change: intervention that turns the scene into a counterfactual. A change that resamples is
            repeated until the scene is valid; one that only sets values must be valid at once.

    Raises:
        SceneError: if no candidate is valid.
        UsageError: if the change does not fit the recipe.
    """
    check_change(recipe, change)
    candidates = (
        _Candidate(recipe, seed, index, attempt, NO_INTERVENTION) for attempt in itertools.count()
    )
    original = _find_valid_scene(candidates)
    if not change:
        return original
    first = _Candidate(recipe, seed, index, original.attempt, change)
    changed = _find_valid_scene(_resample_candidates(first))
    return replace(
        changed,
        counterfactual=Counterfactual(change, _find_moved_bodies(original.scene, changed.scene)),
    )


def check_change(recipe: Recipe, change: Intervention) -> None:
    """Refuse a change that does not fit the recipe.

    Raises:
        UsageError: naming the change and the allowed values.
    """
    for name in change.resamples:
        check_path(recipe.domain, name, UsageError, require_factor=False)
    check_settings(recipe.domain, change.settings, recipe.names)
    check_instances(recipe.domain, change, recipe.render.views)


def _resample_candidates(candidate: _Candidate) -> Iterator[_Candidate]:
    yield candidate
    while candidate.change.resamples:
        candidate = replace(candidate, change=candidate.change.resample_again())
        yield candidate


def _find_valid_scene(candidates: Iterator[_Candidate]) -> SettledScene:
    rejections: list[_Rejection] = []
    for candidate in candidates:
        send_heartbeat()
        result = _evaluate_candidate(candidate)
        if isinstance(result, SettledScene):
            return replace(result, rejections=tuple(map(str, rejections)))
        rejections.append(result)
        _check_budget(candidate, rejections)
    raise SceneError(
        f"scene {candidate.index} of recipe '{candidate.recipe.name}' is not valid with the values that "
        f"are set: {rejections[-1]}. Set other values."
    )


def _evaluate_candidate(candidate: _Candidate) -> SettledScene | _Rejection:
    recipe, seed_and_index = candidate.recipe, (candidate.seed, candidate.index)
    values = sample_factors(
        recipe.domain,
        *seed_and_index,
        views=recipe.render.views,
        attempt=candidate.attempt,
        intervention=candidate.change,
    )
    rejection = _check_sampled_values(candidate)
    if rejection:
        return rejection
    composed = recipe.compose_scene(values)
    problem = find_unprojectable_corner(composed)
    if problem is not None:
        return _Rejection(None, problem, "Use less distortion or a narrower field of view.")
    recording = MotionRecording(composed) if recipe.render.sequence else None
    scene, certificate = simulate(composed, recording, recipe.render.rest or DEFAULT_REST)
    if certificate.rejection is not None:
        advice = "Use fewer objects, a larger region or slower throws."
        return _Rejection(None, certificate.rejection, advice)
    problem = find_blocked_camera(scene)
    if problem is not None:
        return _Rejection(
            None, problem, "Move the cameras away: lower the object size in [domain.view]."
        )
    measured = _measure_requirements(candidate, scene)
    if isinstance(measured, _Rejection):
        return measured
    sequence = _build_sequence(recipe, scene, certificate, recording)
    return SettledScene(
        candidate.index,
        candidate.attempt,
        (),
        values,
        scene,
        certificate,
        sequence,
        requirement_values=measured,
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
            violation = requirement.describe_violation(name, value, candidate.seed, candidate.index)
            if violation:
                return _Rejection(name, violation)
    return None


def _measure_requirements(
    candidate: _Candidate, scene: Scene
) -> dict[str, RequirementResult] | _Rejection:
    """Measure all requirements of a settled scene, those without labels first."""
    results: dict[str, RequirementResult] = {}
    measured = [(name, r) for name, r in candidate.recipe.require.items() if r.measure]
    measured.sort(key=lambda entry: entry[1].needs_labels)
    camera_labels = None
    for name, requirement in measured:
        if requirement.needs_labels and camera_labels is None:
            camera_labels = collect_camera_labels(scene)
        value = measure_scene(str(requirement.measure), scene, camera_labels or [])
        violation = requirement.describe_violation(name, value, candidate.seed, candidate.index)
        if violation:
            return _Rejection(name, violation)
        results[name] = RequirementResult(
            value, requirement.select_range(name, candidate.seed, candidate.index)
        )
    return results


def _check_budget(candidate: _Candidate, rejections: Sequence[_Rejection]) -> None:
    """Refuse further candidates when the budget of the last rejection's reason is used up.

    Only consecutive candidates with invalid bodies or cameras count: if others are valid and violate a
    requirement, the budget of that requirement applies.
    """
    last = rejections[-1]
    invalid = list(itertools.takewhile(lambda r: r.requirement is None, reversed(rejections)))
    counts = Counter(rejection.requirement for rejection in rejections)
    scene = f"scene {candidate.index} of recipe '{candidate.recipe.name}'"
    others = [
        _describe_failures(name, count)
        for name, count in counts.items()
        if name != last.requirement
    ]
    addition = f" Also, {', '.join(others)}." if others else ""
    if len(invalid) >= MAX_ATTEMPTS:
        raise SceneError(
            f"{scene} is not valid in {MAX_ATTEMPTS} consecutive attempts (last: {last}).{addition} {last.advice}"
        )
    if last.requirement and counts[last.requirement] >= _get_budget(candidate, last.requirement):
        raise SceneError(
            f"{scene} failed its requirement '{last.requirement}' {counts[last.requirement]} times "
            f"(last: {last.reason}).{addition} Widen its range, raise its budget, or change the domain."
        )


def _get_budget(candidate: _Candidate, name: str) -> int:
    requirement: Requirement = candidate.recipe.require[name]
    return requirement.budget


def _describe_failures(requirement: str | None, count: int) -> str:
    candidates = f"{count} {'candidate' if count == 1 else 'candidates'}"
    problem = f"failed '{requirement}'" if requirement else "had invalid bodies or cameras"
    return f"{candidates} {problem}"


def _find_moved_bodies(original: Scene, changed: Scene) -> tuple[str, ...]:
    """Return the names of bodies whose poses differ, or that are in one scene only."""
    before, after = ({body.name: body.pose for body in s.bodies} for s in (original, changed))
    return tuple(name for name in {**before, **after} if before.get(name) != after.get(name))


def _build_sequence(
    recipe: Recipe,
    settled: Scene,
    certificate: PhysicsCertificate,
    recording: MotionRecording | None,
) -> tuple[Instant, ...]:
    """Return the instants of a scene's frames."""
    seconds = certificate.seconds
    last = Instant(seconds, settled, certificate.contacts)
    options = recipe.render.sequence
    if options is None or recording is None:
        return (last,)
    instants = []
    for steps_back in range(options.frames - 1, 0, -1):
        offset_s = steps_back * options.interval_s
        cameras = tuple(
            camera.rewind_frames(steps_back, options.interval_s) for camera in settled.cameras
        )
        scene = replace(recording.get_scene(seconds - offset_s), cameras=cameras)
        contacts = recording.get_contacts(seconds - offset_s)
        instants.append(Instant(seconds - offset_s, scene, contacts))
    return (*instants, last)
