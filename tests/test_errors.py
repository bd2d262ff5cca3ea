"""Errors: their text, their family, and that they survive the way out of a worker."""

from __future__ import annotations

import pickle  # noqa: TID251 (how a process pool brings an error home)
from pathlib import Path

import pytest

from sim2cam.errors import (
    BackendError,
    CheckpointError,
    InputError,
    LensError,
    OutputError,
    RecipeError,
    SceneError,
    Sim2CamError,
    UsageError,
    suggest_name,
)

WITH_PATH = [InputError, RecipeError, CheckpointError, OutputError]


@pytest.mark.parametrize("kind", WITH_PATH)
def test_an_input_error_names_the_file_first_and_survives_a_process_pool(kind):
    error = kind(Path("a/b.json"), "empty. Put something in.")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert isinstance(back, InputError)
    assert (str(back), back.path) == ("a/b.json: empty. Put something in.", Path("a/b.json"))


@pytest.mark.parametrize("kind", [UsageError, InputError, BackendError, SceneError, LensError])
def test_every_error_has_one_base(kind):
    assert issubclass(kind, Sim2CamError)
    assert issubclass(kind, ValueError) is (kind is LensError)  # readers add the place


@pytest.mark.parametrize(
    ("name", "allowed", "text"),
    [
        ("ligth", ["light", "layout"], "Did you mean 'light'? Allowed: layout, light"),
        ("zzz", ["light", "layout"], "Allowed: layout, light"),
        ("a", [], "Allowed: "),
    ],
)
def test_did_you_mean(name, allowed, text):
    assert suggest_name(name, allowed) == text
