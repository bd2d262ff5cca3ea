"""Scenes: drawn, settled, held against what is required of them, and drawn again until they fit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sim2cam.data.reader import Reached
from sim2cam.engines.process_pool import beat
from sim2cam.errors import SceneError, UsageError
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.requirements import Requirement, labels_seen, measured
from sim2cam.randomize.counterfactual import NO_CHANGE, Change
from sim2cam.randomize.limits import check_settings
from sim2cam.randomize.references import check_path
from sim2cam.randomize.sampling import Draw, check_instances, draw, draw_beside
from sim2cam.render.optics.views import blind_spot
from sim2cam.render.physics.contacts import Contact
from sim2cam.render.physics.simulation import AT_FIRST, PhysicsCertificate, settle
from sim2cam.render.physics.trajectory import Film
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
        moved: bodies that do not lie as they do there, or are not in both.
    """

    change: Change
    moved: tuple[str, ...]


@dataclass(frozen=True)
class SettledScene:
    """A drawn scene at rest.

    Attributes:
        index: scene index.
        attempt: of the streams it was drawn from; drafts of lower ones were rejected.
        rejections: why.
        drawn: everything that was drawn.
        scene: bodies where they lie.
        certificate: how they got there.
        film: the times at which pictures are taken; the last shows the bodies where they lie.
        counterfactual: what is otherwise than in the scene of that index; None in that scene.
        reached: what it is of what is measured of a settled scene, by the names of requirements.
    """

    index: int
    attempt: int
    rejections: tuple[str, ...]
    drawn: Draw
    scene: Scene
    certificate: PhysicsCertificate
    film: tuple[Instant, ...]
    counterfactual: Counterfactual | None = None
    reached: Mapping[str, Reached] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rejection:
    """Why a draft cannot be used.

    Attributes:
        requirement: name of the one that it fails; None when it does not settle.
        why: in words.
    """

    requirement: str | None
    why: str

    def __str__(self) -> str:
        return f"{self.requirement}: {self.why}" if self.requirement else self.why


@dataclass(frozen=True)
class _Trial:
    """One draft of a scene: from which streams, and with which change."""

    recipe: Recipe
    seed: int
    index: int
    attempt: int
    change: Change


def settled_scene(
    recipe: Recipe, seed: int, index: int, change: Change = NO_CHANGE
) -> SettledScene:
    """Returns scene ``index``, drawn again until it comes to rest and is what is required.

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
    streams = (_Trial(recipe, seed, index, attempt, NO_CHANGE) for attempt in itertools.count())
    original = _first_that_fits(streams)
    if not change:
        return original
    first = _Trial(recipe, seed, index, original.attempt, change)
    found = _first_that_fits(_redrawn(first))
    return replace(
        found, counterfactual=Counterfactual(change, _moved(original.scene, found.scene))
    )


def check_change(recipe: Recipe, change: Change) -> None:
    """Refuses a change of what the recipe does not have, or to what it cannot be.

    Raises:
        UsageError: naming it and what is allowed.
    """
    for name in change.redraws:
        check_path(recipe.domain, name, UsageError, whole=False)
    names = [facts.name for facts in recipe.assets]
    skies, pictures = ([one.name for one in found] for found in (recipe.skies, recipe.pictures))
    check_settings(recipe.domain, change.settings, names, recipe.categories, skies, pictures)
    check_instances(recipe.domain, change, recipe.render.views)


def _redrawn(trial: _Trial) -> Iterator[_Trial]:
    yield trial
    while trial.change.redraws:
        trial = replace(trial, change=trial.change.again())
        yield trial


def _first_that_fits(trials: Iterator[_Trial]) -> SettledScene:
    rejections: list[_Rejection] = []
    for trial in trials:
        beat()
        found = _tried(trial)
        if isinstance(found, SettledScene):
            return replace(found, rejections=tuple(map(str, rejections)))
        rejections.append(found)
        _check_budget(trial, rejections)
    raise SceneError(
        f"scene {trial.index} of recipe '{trial.recipe.name}' cannot be what it is set to: "
        f"{rejections[-1]}. Set another value."
    )


def _tried(trial: _Trial) -> SettledScene | _Rejection:
    recipe, place = trial.recipe, (trial.seed, trial.index)
    drawn = draw(
        recipe.domain,
        *place,
        views=recipe.render.views,
        attempt=trial.attempt,
        change=trial.change,
    )
    failed = _failed_by_values(trial)
    if failed:
        return failed
    draft = recipe.composed(drawn)
    problem = blind_spot(draft)
    if problem is not None:
        return _Rejection(None, problem)
    record = Film(draft) if recipe.render.film else None
    scene, certificate = settle(draft, record, recipe.render.rest or AT_FIRST)
    if certificate.rejection is not None:
        return _Rejection(None, certificate.rejection)
    reached = _reached(trial, scene)
    if isinstance(reached, _Rejection):
        return reached
    film = _film(recipe, scene, certificate, record)
    return SettledScene(
        trial.index, trial.attempt, (), drawn, scene, certificate, film, reached=reached
    )


def _failed_by_values(trial: _Trial) -> _Rejection | None:
    for name, requirement in trial.recipe.require.items():
        if requirement.value is not None:
            value = draw_beside(
                trial.recipe.domain,
                requirement.value,
                f"require/{name}",
                trial.seed,
                trial.index,
                attempt=trial.attempt,
                change=trial.change,
            )
            why = requirement.complaint(name, value, trial.seed, trial.index)
            if why:
                return _Rejection(name, why)
    return None


def _reached(trial: _Trial, scene: Scene) -> dict[str, Reached] | _Rejection:
    """Returns what a settled scene is of what is required; what needs no labels is measured first."""
    found: dict[str, Reached] = {}
    wanted = [(name, r) for name, r in trial.recipe.require.items() if r.measure]
    wanted.sort(key=lambda entry: entry[1].is_of_labels)
    seen = None
    for name, requirement in wanted:
        if requirement.is_of_labels and seen is None:
            seen = labels_seen(scene)
        value = measured(str(requirement.measure), scene, seen or [])
        why = requirement.complaint(name, value, trial.seed, trial.index)
        if why:
            return _Rejection(name, why)
        found[name] = Reached(value, requirement.range_of(name, trial.seed, trial.index))
    return found


def _check_budget(trial: _Trial, rejections: Sequence[_Rejection]) -> None:
    """Refuses to go on when what rejected the last draft has rejected as many as it may.

    Drafts that do not settle count in a row: where others settle and fail a requirement, it is that
    one's budget that is spent.
    """
    last = rejections[-1]
    unsettled = list(itertools.takewhile(lambda one: one.requirement is None, reversed(rejections)))
    counts = Counter(rejection.requirement for rejection in rejections)
    scene = f"scene {trial.index} of recipe '{trial.recipe.name}'"
    others = [_tally(name, count) for name, count in counts.items() if name != last.requirement]
    besides = f" Besides, {', '.join(others)}." if others else ""
    if len(unsettled) >= MAX_ATTEMPTS:
        raise SceneError(
            f"{scene} did not settle in {MAX_ATTEMPTS} attempts in a row (last: {last}).{besides} "
            "Use fewer objects, a larger region or slower throws."
        )
    if last.requirement and counts[last.requirement] >= _budget(trial, last.requirement):
        raise SceneError(
            f"{scene} failed its requirement '{last.requirement}' {counts[last.requirement]} times "
            f"(last: {last.why}).{besides} Widen its range, raise its budget, or draw what it asks "
            "for more often."
        )


def _budget(trial: _Trial, name: str) -> int:
    requirement: Requirement = trial.recipe.require[name]
    return requirement.budget


def _tally(requirement: str | None, count: int) -> str:
    times = f"{count} {'draft' if count == 1 else 'drafts'}"
    return f"{times} failed '{requirement}'" if requirement else f"{times} did not settle"


def _moved(original: Scene, other: Scene) -> tuple[str, ...]:
    """Returns the names of bodies whose poses differ, or that one of both scenes lacks."""
    before, after = ({body.name: body.pose for body in s.bodies} for s in (original, other))
    return tuple(name for name in {**before, **after} if before.get(name) != after.get(name))


def _film(
    recipe: Recipe, settled: Scene, certificate: PhysicsCertificate, record: Film | None
) -> tuple[Instant, ...]:
    """Returns the times at which pictures are taken of a scene that came to rest."""
    seconds = certificate.seconds
    last = Instant(seconds, settled, certificate.contacts)
    options = recipe.render.film
    if options is None or record is None:
        return (last,)
    found = []
    for back in range(options.frames - 1, 0, -1):
        before = back * options.interval_s
        cameras = tuple(
            camera.at_earlier_picture(back, options.interval_s) for camera in settled.cameras
        )
        scene = replace(record.at(seconds - before), cameras=cameras)
        contacts = record.contacts_at(seconds - before)
        found.append(Instant(seconds - before, scene, contacts))
    return (*found, last)
