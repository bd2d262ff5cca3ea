"""Transfers on disk: a run folder holds a trained translator or the numbers of a plain transfer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.fourier import FourierTransfer
from sim2cam.adapt.transfers.histogram import QUANTILES, HistogramTransfer
from sim2cam.adapt.transfers.mkl import MklTransfer
from sim2cam.adapt.transfers.reinhard import ReinhardTransfer
from sim2cam.adapt.transfers.sliced import COLOURS_PER_IMAGE, SlicedTransfer
from sim2cam.adapt.transfers.style_randomization import StyleRandomization
from sim2cam.adapt.transfers.transfer import Transfer
from sim2cam.errors import InputError, suggest_name
from sim2cam.files import write_bytes

ParameterFreeMethod = Literal["reinhard", "histogram", "mkl", "sliced", "fourier", "style"]
ParameterFreeTransfer = (
    ReinhardTransfer
    | HistogramTransfer
    | MklTransfer
    | SlicedTransfer
    | FourierTransfer
    | StyleRandomization
)

TRANSFER_TYPES: Mapping[ParameterFreeMethod, type[ParameterFreeTransfer]] = {
    "reinhard": ReinhardTransfer,
    "histogram": HistogramTransfer,
    "mkl": MklTransfer,
    "sliced": SlicedTransfer,
    "fourier": FourierTransfer,
    "style": StyleRandomization,
}

_FILE_NAME = "transfer.json"


def save_transfer(transfer: ParameterFreeTransfer, run_dir: Path) -> None:
    """Write what a transfer without a network has learned.

    Raises:
        OutputError: the folder cannot be written.
    """
    method = next(name for name, kind in TRANSFER_TYPES.items() if isinstance(transfer, kind))
    values = {field.name: getattr(transfer, field.name) for field in fields(transfer)}
    facts = {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items()}
    write_bytes(run_dir / _FILE_NAME, json.dumps({"method": method, **facts}).encode())


def load_transfer(run_dir: Path, *, device: str = "cpu") -> Transfer:
    """Return the transfer of a run folder, of whichever kind.

    Raises:
        InputError: the folder holds none, or its numbers are broken.
        CheckpointError: the translator's weights are broken.
    """
    path = run_dir / _FILE_NAME
    if path.is_file():
        return _load_parameter_free(path)
    from sim2cam.adapt.reference.card import REFERENCE_KIND
    from sim2cam.adapt.reference.translator import load_reference
    from sim2cam.adapt.translator.translator import load_translator
    from sim2cam.learn.run_folder import WEIGHTS
    from sim2cam.learn.weight_file import load_card

    if not (run_dir / WEIGHTS).is_file():
        raise InputError(run_dir, f"no translator: neither {_FILE_NAME} nor {WEIGHTS} is in it.")
    is_reference = load_card(run_dir / WEIGHTS).get("kind") == REFERENCE_KIND
    return (load_reference if is_reference else load_translator)(run_dir, device=device)


def _load_parameter_free(path: Path) -> Transfer:
    try:
        facts = json.loads(path.read_text(encoding="utf-8-sig"))
        method = facts["method"]
        if method not in TRANSFER_TYPES:
            raise ValueError(
                f"unknown method {method!r}. {suggest_name(str(method), TRANSFER_TYPES)}"
            )
        values: dict[str, Any] = {}
        for name, shape in _SHAPES[method].items():
            if shape:
                values[name] = _parse_array(facts[name], shape)
            else:
                values[name] = (int if name == "radius" else float)(facts[name])
        return _build_transfer(method, values)
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            path, f"not the numbers of a transfer ({error}). Train it again."
        ) from error


def _build_transfer(method: ParameterFreeMethod, values: dict[str, Any]) -> Transfer:
    """Return a transfer whose numbers belong together.

    Raises:
        ValueError: they do not.
    """
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    if len({len(array) for array in arrays.values()}) != 1:
        raise ValueError(f"{', '.join(arrays)} of different numbers of images")
    if method == "fourier" and arrays["amplitudes"].shape[2:] != (2 * values["radius"] + 1,) * 2:
        raise ValueError(f"amplitudes that do not reach the radius {values['radius']}")
    return TRANSFER_TYPES[method](**values)


def _parse_array(values: object, shape: _Shape) -> NDArray[np.float64]:
    """Return finite numbers of this shape, of which None may be any length above 0.

    Raises:
        ValueError: they are not.
    """
    array = np.array(values, dtype=np.float64)
    fits = array.ndim == len(shape) and array.size > 0
    if not fits or any(w not in (None, n) for w, n in zip(shape, array.shape, strict=True)):
        raise ValueError(f"numbers of shape {array.shape} where {shape} are needed")
    if not np.isfinite(array).all():
        raise ValueError("numbers that are not finite")
    return array


_Shape = tuple[int | None, ...]
_COLOUR_SHAPES: dict[str, _Shape] = {"means": (None, 3), "deviations": (None, 3)}
_SHAPES: Mapping[str, Mapping[str, _Shape]] = {
    "reinhard": {**_COLOUR_SHAPES, "variety": ()},
    "histogram": {"quantiles": (None, 3, QUANTILES), "variety": ()},
    "mkl": {"means": (None, 3), "covariances": (None, 3, 3), "variety": ()},
    "sliced": {"colours": (None, COLOURS_PER_IMAGE, 3), "variety": ()},
    "fourier": {"amplitudes": (None, 3, None, None), "radius": ()},
    "style": {**_COLOUR_SHAPES, "spread": ()},
}
"""Of each method, the shapes of its numbers; None is any length, an empty shape one number."""
