"""sim2cam: from simulated scenes to perception models that work on your camera."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sim2cam.version import __version__

if TYPE_CHECKING:
    from sim2cam import commands
    from sim2cam.api.dataset import Dataset
    from sim2cam.api.frame import Frame
    from sim2cam.api.model import Model, PredictionResult, load
    from sim2cam.api.recipe import Recipe, Scene
    from sim2cam.api.training import adapt, train

__all__ = [
    "Dataset",
    "Frame",
    "Model",
    "PredictionResult",
    "Recipe",
    "Scene",
    "__version__",
    "adapt",
    "commands",
    "load",
    "train",
]

_MODULES = {
    "Dataset": "sim2cam.api.dataset",
    "Frame": "sim2cam.api.frame",
    "Model": "sim2cam.api.model",
    "PredictionResult": "sim2cam.api.model",
    "Recipe": "sim2cam.api.recipe",
    "Scene": "sim2cam.api.recipe",
    "load": "sim2cam.api.model",
    "train": "sim2cam.api.training",
}

# Idle OpenMP threads that spin take cores from working ones. Threads that sleep at once wake up too late for the small
# operations of a network, so they spin briefly first. Torch reads both variables on import; the second one belongs to
# GNU OpenMP, which its Linux builds contain.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

# Page faults of large tensors slow a training step down. Torch reads the variable at its first allocation; other
# systems than Linux ignore it.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``import sim2cam`` loads no heavy library."""
    if name in ("adapt", "commands"):
        return import_module(f"sim2cam.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'sim2cam' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _AdaptPackage(ModuleType):
    """The package ``sim2cam.adapt``, which is also the function ``sim2cam.adapt(...)``."""

    def __call__(self, *values: Any, **options: Any) -> Dataset:
        """Call ``sim2cam.api.training.adapt``."""
        adapted: Dataset = import_module("sim2cam.api.training").adapt(*values, **options)
        return adapted


class _Package(ModuleType):
    """The package ``sim2cam``; makes its subpackage ``adapt`` callable when that is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "adapt" and type(value) is ModuleType:
            value.__class__ = _AdaptPackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
