"""sim2cam: from simulated scenes to perception models that work on your camera."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim2cam.api.model import Model, PredictionResult, load

__version__ = "0.1.0"

__all__ = ["Model", "PredictionResult", "__version__", "load"]

_MODULES = {
    "Model": "sim2cam.api.model",
    "PredictionResult": "sim2cam.api.model",
    "load": "sim2cam.api.model",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``import sim2cam`` loads no heavy library."""
    if name not in _MODULES:
        raise AttributeError(f"module 'sim2cam' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
