"""The log of every scoring on the dice test split: ``results/dice_test_log.jsonl``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def log_scoring(what: str, scores: Mapping[str, Any]) -> None:
    """Appends that the test split was scored, by what, and what came out."""
    line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "what": what, **scores}
    with (RESULTS / "dice_test_log.jsonl").open("a") as log:
        log.write(json.dumps(line) + "\n")


def real_folder(name: str) -> Path:
    """Returns where real captures lie, ``$SIM2CAM_REAL/NAME``.

    Raises:
        SystemExit: the variable is not set.
    """
    folder = os.environ.get("SIM2CAM_REAL")
    if not folder:
        raise SystemExit(f"set SIM2CAM_REAL to the folder that holds {name}/")
    return Path(folder) / name
