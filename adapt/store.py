"""Transfers on disk: run folders of trained translators and of parameter-free transfers."""

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
    """Write the fitted values of a parameter-free transfer.

    Raises:
        OutputError: the folder cannot be written.
    """
    method = next(
        name
        for name, transfer_type in TRANSFER_TYPES.items()
        if isinstance(transfer, transfer_type)
    )
    values = {field.name: getattr(transfer, field.name) for field in fields(transfer)}
    content = {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items()}
    write_bytes(run_dir / _FILE_NAME, json.dumps({"method": method, **content}).encode())


def load_transfer(run_dir: Path, *, device: str = "cpu") -> Transfer:
    """Load the transfer in a run folder: a trained translator or a parameter-free transfer.

    Raises:
        InputError: the folder holds no transfer, or its values are broken.
        CheckpointError: the weights of the translator are broken.
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
        raise InputError(
            run_dir, f"no translator in this folder: neither {_FILE_NAME} nor {WEIGHTS} exists."
        )
    is_reference = load_card(run_dir / WEIGHTS).get("kind") == REFERENCE_KIND
    return (load_reference if is_reference else load_translator)(run_dir, device=device)


def _load_parameter_free(path: Path) -> Transfer:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        method = content["method"]
        if method not in TRANSFER_TYPES:
            raise ValueError(
                f"unknown method {method!r}. {suggest_name(str(method), TRANSFER_TYPES)}"
            )
        values: dict[str, Any] = {}
        for name, shape in _SHAPES[method].items():
            if shape:
                values[name] = _parse_array(content[name], shape)
            else:
                values[name] = (int if name == "radius" else float)(content[name])
        return _build_transfer(method, values)
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            path, f"not the values of a transfer ({error}). Train it again."
        ) from error


def _build_transfer(method: ParameterFreeMethod, values: dict[str, Any]) -> Transfer:
    """Return a transfer after a check that its arrays fit together.

    Raises:
        ValueError: they do not.
    """
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    if len({len(array) for array in arrays.values()}) != 1:
        raise ValueError(f"{', '.join(arrays)} differ in their number of images")
    if method == "fourier" and arrays["amplitudes"].shape[2:] != (2 * values["radius"] + 1,) * 2:
        raise ValueError(f"amplitudes do not fit the radius {values['radius']}")
    return TRANSFER_TYPES[method](**values)


def _parse_array(values: object, shape: _Shape) -> NDArray[np.float64]:
    """Return values as a finite array of this shape, where None is any length above 0.

    Raises:
        ValueError: they have another shape or are not finite.
    """
    array = np.array(values, dtype=np.float64)
    has_rank = array.ndim == len(shape) and array.size > 0
    if not has_rank or any(
        expected not in (None, length) for expected, length in zip(shape, array.shape, strict=True)
    ):
        raise ValueError(f"values of shape {array.shape} instead of {shape}")
    if not np.isfinite(array).all():
        raise ValueError("values are not finite")
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
"""Shapes of the values of each method; None is any length, an empty shape a scalar."""
