"""Search: numbers between 0 and 1 that make something small, with trials that are kept on disk."""

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
"""File of the trials, an Optuna journal."""

_STUDY_NAME = "sim2cam"
_METADATA_KEY = "facts"


@dataclass(frozen=True)
class Trial:
    """What was tried.

    Attributes:
        parameters: by name, 0 to 1.
        cost: what is to be small.
        metadata: besides, as JSON values.
    """

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
    """Return all trials of a search by a tree of Parzen estimators (Bergstra et al. 2011; Optuna).

    Each trial depends on the seed and on the trials before it alone, so that a search that was
    interrupted, or that is told to go on, gives what one without a break gives.

    Args:
        study: of ``open_study``; trials that are in it already are taken as they are.
        names: of the numbers.
        objective: returns what is to be small, and facts that are kept beside it.
        initial_trials: what is tried first.
        count: of trials in all.
        seed: decides what is tried after that.
        progress: is told how many trials are done.
    """
    optuna = _import_optuna()
    completed = (optuna.trial.TrialState.COMPLETE,)
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in names}
    while (done := len(study.get_trials(states=completed))) < count:
        progress(done, count)
        if done < len(initial_trials):
            cost, found = objective(initial_trials[done])
            study.add_trial(_create_trial(optuna, initial_trials[done], space, cost, found))
            continue
        study.sampler = optuna.samplers.TPESampler(seed=derive_seed(seed, f"trial/{done}") % 2**32)
        trial = study.ask(space)
        cost, found = objective(trial.params)
        trial.set_user_attr(_METADATA_KEY, dict(found))
        study.tell(trial, cost)
    progress(count, count)
    trials = study.get_trials(states=completed)[:count]
    return tuple(Trial(t.params, float(t.value), t.user_attrs[_METADATA_KEY]) for t in trials)


def open_study(root: Path, settings: Mapping[str, Any]) -> Any:
    """Return the Optuna study whose trials are kept in a folder.

    Args:
        root: folder of the file ``STUDY_FILE``.
        settings: what trials depend on, as JSON values; trials of other ones are refused.

    Raises:
        BackendError: Optuna is not installed.
        OutputError: the trials in the folder are broken, or depend on something else.
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
        for trial in study.get_trials(states=(state.RUNNING,)):  # of a search that was interrupted
            study.tell(trial.number, state=state.FAIL)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(
            root / STUDY_FILE, "holds no trials that can be read. Use --overwrite to start anew."
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
    wanted = json.loads(json.dumps(settings))
    known = study.user_attrs.get(_METADATA_KEY, wanted)
    for name, value in wanted.items():
        if known.get(name) != value:
            raise OutputError(
                root / STUDY_FILE,
                f"its trials have another {name} ({known.get(name)}, not {value}). Take another "
                "folder, or use --overwrite.",
            )
    study.set_user_attr(_METADATA_KEY, wanted)


def _import_optuna() -> Any:
    try:
        import optuna
        import optuna.storages.journal
    except ImportError as error:
        raise BackendError(
            'a search needs optuna. Install it: pip install "sim2cam[search]".'
        ) from error
    return optuna
