"""Transfers on disk: a run folder holds a trained translator or the numbers of a plain transfer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.fourier import FourierTransfer
from sim2cam.adapt.frame import Transfer
from sim2cam.adapt.reinhard import ReinhardTransfer
from sim2cam.errors import InputError
from sim2cam.images import write_bytes

PlainMethod = Literal["reinhard", "fourier"]

_FILE = "transfer.json"


def save_transfer(transfer: ReinhardTransfer | FourierTransfer, run_dir: Path) -> None:
    """Writes what a transfer without a network has learned.

    Raises:
        OutputError: the folder cannot be written.
    """
    match transfer:
        case ReinhardTransfer():
            facts = {
                "method": "reinhard",
                "means": transfer.means.tolist(),
                "deviations": transfer.deviations.tolist(),
                "variety": transfer.variety,
            }
        case FourierTransfer():
            facts = {
                "method": "fourier",
                "amplitudes": transfer.amplitudes.tolist(),
                "radius": transfer.radius,
            }
    write_bytes(run_dir / _FILE, json.dumps(facts).encode())


def load_transfer(run_dir: Path, *, device: str = "cpu") -> Transfer:
    """Returns the transfer of a run folder, of whichever kind.

    Raises:
        InputError: the folder holds none, or its numbers are broken.
        CheckpointError: the translator's weights are broken.
    """
    path = run_dir / _FILE
    if path.is_file():
        return _plain(path)
    from sim2cam.adapt.translator.translator import load_translator
    from sim2cam.training.run import WEIGHTS

    if not (run_dir / WEIGHTS).is_file():
        raise InputError(run_dir, f"no translator: neither {_FILE} nor {WEIGHTS} is in it.")
    return load_translator(run_dir, device=device)


def _plain(path: Path) -> Transfer:
    try:
        facts = json.loads(path.read_text())
        if facts["method"] == "reinhard":
            means = _numbers(facts["means"], (None, 3))
            deviations = _numbers(facts["deviations"], (len(means), 3))
            return ReinhardTransfer(means, deviations, float(facts["variety"]))
        if facts["method"] != "fourier":
            raise ValueError(f"unknown method {facts['method']!r}")
        side = 2 * int(facts["radius"]) + 1
        amplitudes = _numbers(facts["amplitudes"], (None, 3, side, side))
        return FourierTransfer(amplitudes, int(facts["radius"]))
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            path, f"not the numbers of a transfer ({error}). Train it again."
        ) from error


def _numbers(values: object, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Returns finite numbers of this shape, of which None may be any length above 0.

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
