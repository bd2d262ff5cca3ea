"""Black-box minimization over parameters between 0 and 1, with trials stored on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2cam.errors import BackendError, OutputError
from sim2cam.seeds import derive_seed

Parameters = Mapping[str, float]

STUDY_FILE = "study.log"
"""Optuna journal of the trials."""

_STUDY_NAME = "sim2cam"
_METADATA_KEY = "facts"


@dataclass(frozen=True)
class Trial:
    """A trial of a search."""

    parameters: Parameters
    cost: float
    metadata: Mapping[str, Any]


def search(
    study: Any,
    names: Sequence[str],
    objective: Callable[[Parameters], tuple[float, Mapping[str, Any]]],
    *,
    initial_trials: Sequence[Parameters],
    count: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> tuple[Trial, ...]:
    """Return all trials of a search with a tree-structured Parzen estimator (Bergstra et al. 2011).

    Each trial depends only on the seed and the trials before it, so that a resumed or extended
    search equals an uninterrupted one.
    """
    optuna = _import_optuna()
    completed = (optuna.trial.TrialState.COMPLETE,)
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in names}
    while (done := len(study.get_trials(states=completed))) < count:
        progress(done, count)
        if done < len(initial_trials):
            cost, metadata = objective(initial_trials[done])
            study.add_trial(_create_trial(optuna, initial_trials[done], space, cost, metadata))
            continue
        study.sampler = optuna.samplers.TPESampler(seed=derive_seed(seed, f"trial/{done}") % 2**32)
        trial = study.ask(space)
        cost, metadata = objective(trial.params)
        trial.set_user_attr(_METADATA_KEY, dict(metadata))
        study.tell(trial, cost)
    progress(count, count)
    trials = study.get_trials(states=completed)[:count]
    return tuple(Trial(t.params, float(t.value), t.user_attrs[_METADATA_KEY]) for t in trials)


def open_study(root: Path, settings: Mapping[str, Any]) -> Any:
    """Return the Optuna study of a folder.

    Args:
        settings: settings that the trials depend on, as JSON values; other trials are refused.

    Raises:
        BackendError: if Optuna is not installed.
        OutputError: if the trials are broken, or have other settings.
    """
    optuna = _import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    state = optuna.trial.TrialState
    try:
        file = optuna.storages.journal.JournalFileBackend(str(root / STUDY_FILE))
        study = optuna.create_study(
            storage=optuna.storages.JournalStorage(file),
            study_name=_STUDY_NAME,
            load_if_exists=True,
        )
        for trial in study.get_trials(states=(state.RUNNING,)):  # of an interrupted search
            study.tell(trial.number, state=state.FAIL)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(
            root / STUDY_FILE, "trials cannot be read. Add --overwrite to start over."
        ) from error
    _check_settings(study, settings, root)
    return study


def _create_trial(
    optuna: Any, parameters: Parameters, space: Any, cost: float, metadata: Mapping[str, Any]
) -> Any:
    return optuna.trial.create_trial(
        params=dict(parameters),
        distributions=space,
        value=cost,
        user_attrs={_METADATA_KEY: dict(metadata)},
    )


def _check_settings(study: Any, settings: Mapping[str, Any], root: Path) -> None:
    expected = json.loads(json.dumps(settings))
    stored = study.user_attrs.get(_METADATA_KEY, expected)
    for name, value in expected.items():
        if stored.get(name) != value:
            raise OutputError(
                root / STUDY_FILE,
                f"trials have another {name} ({stored.get(name)}, not {value}). Choose another "
                "folder, or add --overwrite.",
            )
    study.set_user_attr(_METADATA_KEY, expected)


def _import_optuna() -> Any:
    try:
        import optuna
        import optuna.storages.journal
    except ImportError as error:
        raise BackendError(
            'a search needs optuna. Install it: pip install "sim2cam[search]".'
        ) from error
    return optuna
