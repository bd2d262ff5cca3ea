"""The log of every scoring on the dice test split: ``results/dice_test_log.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sim2cam.data.data_folder import DATA_FOLDER_VARIABLE, locate_data_folder
from sim2cam.data.public.catalogue import PUBLIC_DATASETS

RESULTS = Path(__file__).parent / "results"
DIGITS = 6
"""Of numbers in the results: far fewer than any estimate is good to, and half as many bytes as all."""
_HEADLINES = ("protocol", "ap", "ap50", "agnostic_ap50", "images", "objects")


def log_scoring(what: str, scores: Mapping[str, Any]) -> None:
    """Append the time, the detector and the headline scores of a scoring on the test split.

    Args:
        what: what was scored.
        scores: of a detector, or of a ladder with its arms; other results hold the rest.
    """
    line: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "what": what}
    line |= {name: scores[name] for name in _HEADLINES if name in scores}
    if "variants" in scores:
        line["variants"] = {
            arm["name"]: (arm.get("ap50") or {}).get("value") for arm in scores["variants"]
        }
    with (RESULTS / "dice_test_log.jsonl").open("a") as log:
        log.write(json.dumps(short(line)) + "\n")


def short(found: dict[str, Any]) -> dict[str, Any]:
    """Return the same with as many digits of its numbers as the results keep."""
    text = json.dumps(found)
    rounded: dict[str, Any] = json.loads(
        text, parse_float=lambda t: float(f"{float(t):.{DIGITS}g}")
    )
    return rounded


def real_folder(name: str) -> Path:
    """Return where real captures lie: ``$SIM2CAM_REAL/NAME``, or without the variable where ``sim2cam fetch`` put
    them.

    Raises:
        SystemExit: they are not there.
    """
    folder = locate_data_folder() / name
    if not folder.is_dir():
        fetch = f"Run sim2cam fetch {name}, or s" if name in PUBLIC_DATASETS else "S"
        raise SystemExit(
            f"{folder} is not there. {fetch}et {DATA_FOLDER_VARIABLE} to the folder that holds {name}/."
        )
    return folder
