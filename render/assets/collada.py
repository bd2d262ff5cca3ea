"""COLLADA: what is looked at before pycollada reads it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError, did_you_mean
from sim2cam.render.assets.xml_file import local_name, number, read_xml

_MOST_BYTES = 64 * 2**20
_LEAST_UNIT_M = 1e-6
_UPRIGHT = {
    "X_UP": ((0, -1, 0), (1, 0, 0), (0, 0, 1)),
    "Y_UP": ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    "Z_UP": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}


def upright(path: Path) -> NDArray[np.float64]:
    """Returns the way (4, 4) of a COLLADA file's numbers to metres with z up.

    The file is read with all caution here: pycollada's parser follows whatever XML says.

    Raises:
        InputError: it cannot be read, or pycollada is not there.
    """
    root = read_xml(path, _MOST_BYTES)
    if local_name(root) != "COLLADA":
        problem = f"no COLLADA: it begins with <{local_name(root)[:40]}>, not with <COLLADA>."
        raise InputError(path, problem)
    if importlib.util.find_spec("collada") is None:
        raise InputError(path, 'needs pycollada. Run pip install "sim2cam[assets]".')
    told = {local_name(fact): fact for one in root if local_name(one) == "asset" for fact in one}
    found = np.eye(4)
    up = (told["up_axis"].text or "").strip() if "up_axis" in told else "Y_UP"
    if up not in _UPRIGHT:
        raise InputError(path, f"up_axis is '{up[:20]}'. {did_you_mean(up, _UPRIGHT)}.")
    found[:3, :3] = _UPRIGHT[up]
    if "unit" in told:
        metres = number(told["unit"].get("meter", "1"), "meter of its unit", path)
        if not _LEAST_UNIT_M < metres < 1 / _LEAST_UNIT_M:
            raise InputError(path, f"one unit of it is {metres:g} m.")
        found[:3, :3] *= metres
    return found
