"""Files of results: one of each benchmark, and the logs of all scorings on test splits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sim2cam.data.data_folder import DATA_FOLDER_VARIABLE, locate_data_folder
from sim2cam.data.public.catalogue import PUBLIC_DATASETS
from sim2cam.data.writer import write_json

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parents[1] / "docs" / "results" / "figures"
"""Folder of the images that the documentation shows."""
DIGITS = 6
"""Significant digits of numbers in the results, below the precision of any estimate."""
_HEADLINES = ("protocol", "ap", "ap50", "agnostic_ap50", "images", "objects")


def log_scoring(what: str, scores: Mapping[str, Any], dataset: str = "dice") -> None:
    """Append time, detector and headline scores of a scoring on the test split.

    Args:
        scores: scores of a detector, or of an ablation study with its variants.
        dataset: name of the real dataset.
    """
    line: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "what": what}
    line |= {name: scores[name] for name in _HEADLINES if name in scores}
    if "variants" in scores:
        line["variants"] = {
            variant["name"]: (variant.get("ap50") or {}).get("value")
            for variant in scores["variants"]
        }
    with (RESULTS / f"{dataset}_test_log.jsonl").open("a") as log:
        log.write(json.dumps(round_numbers(line)) + "\n")


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write the results of a benchmark on one line: the repository holds many of them."""
    write_json(path, results, indented=False)


def round_numbers(results: dict[str, Any]) -> dict[str, Any]:
    """Return the results with numbers rounded to ``DIGITS`` significant digits."""
    text = json.dumps(results)
    rounded: dict[str, Any] = json.loads(
        text, parse_float=lambda t: float(f"{float(t):.{DIGITS}g}")
    )
    return rounded


def locate_real_dataset(name: str) -> Path:
    """Return the folder of a real dataset: ``$SIM2CAM_REAL/NAME``, or the download folder of ``sim2cam fetch``.

    Raises:
        SystemExit: the folder does not exist.
    """
    folder = locate_data_folder() / name
    if not folder.is_dir():
        fetch = f"Run sim2cam fetch {name}, or s" if name in PUBLIC_DATASETS else "S"
        raise SystemExit(
            f"{folder} does not exist. {fetch}et {DATA_FOLDER_VARIABLE} to the folder that holds {name}/."
        )
    return folder
