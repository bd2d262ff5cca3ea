"""Writes the tables of README.md from benchmarks/results; ``--check`` only says if they differ.

A table stands between ``<!-- NAME-results:begin -->`` and ``<!-- NAME-results:end -->``.

``results/dice.json``::

    {"protocol": {...},
     "arms": [{"name": "randomized",
               "seeds": [{"seed": 0, "ap": 0.41, "ap50": 0.79, "agnostic_ap50": 0.96}, ...],
               "ap": {"value": 0.41, "ci95": [0.38, 0.44]}, "ap50": {...}, "agnostic_ap50": {...}},
              ...]}
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

DICE_ARMS = (
    "sim without randomization",
    "randomized",
    "+ transfer",
    "+ translated",
    "real only (200 labelled photos)",
)
SCORES = {"ap": "AP", "ap50": "AP50", "agnostic_ap50": "AP50, any face"}


def dice_table(results: dict[str, Any] | None) -> str:
    """Returns the core ladder as a Markdown table; arms without results say so.

    Args:
        results: the content of ``dice.json``, None when it is not there.
    """
    found = {arm["name"]: arm for arm in (results or {}).get("arms", [])}
    names = [*DICE_ARMS, *(name for name in found if name not in DICE_ARMS)]
    lines = [
        f"| trained on | {' | '.join(SCORES.values())} | seeds |",
        f"|---|{'---|' * len(SCORES)}---|",
    ]
    return "\n".join(lines + [_row(name, found.get(name)) for name in names])


def shipped_table(results: dict[str, Any] | None) -> str:
    """Returns the scores of the weights that ship as a Markdown table.

    Args:
        results: the content of ``shipped.json``, None when it is not there.
    """
    lines = [
        f"| scored on | {' | '.join(SCORES.values())} | photos |",
        f"|---|{'---|' * len(SCORES)}---|",
    ]
    for split, name in (("dev", "dice, development"), ("test", "dice, test")):
        found = (results or {}).get(split)
        cells = [_score(found[key]) if found else "not run" for key in SCORES]
        lines.append(f"| {name} | {' | '.join(cells)} | {found['images'] if found else 0} |")
    return "\n".join(lines)


def with_tables(readme: str, results: Path) -> str:
    """Returns the text with every table renewed from the files in a folder.

    Args:
        readme: the text as it is.
        results: where ``dice.json`` and ``shipped.json`` lie.

    Raises:
        ValueError: a marker is missing.
    """
    for name, table in (("dice", dice_table), ("shipped", shipped_table)):
        path = results / f"{name}.json"
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        readme = _replaced(readme, name, table(content))
    return readme


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if ``--check`` was given and the tables are out of date."""
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = with_tables(old, ROOT / "benchmarks" / "results")
    if "--check" not in arguments:
        path.write_text(new, encoding="utf-8")
        return 0
    if new != old:
        print("README.md is out of date. Run: python benchmarks/readme_tables.py", file=sys.stderr)
    return int(new != old)


def _row(name: str, arm: dict[str, Any] | None) -> str:
    if arm is None:
        return f"| {name} | {'not run | ' * len(SCORES)}0 |"
    cells = [_score(arm[key]) for key in SCORES]
    return f"| {name} | {' | '.join(cells)} | {len(arm['seeds'])} |"


def _score(score: dict[str, Any]) -> str:
    low, high = score["ci95"]
    return f"{score['value']:.3f} ({low:.3f}–{high:.3f})"


def _replaced(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}-results:begin -->", f"<!-- {name}-results:end -->"
    between = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not between.search(text):
        raise ValueError(f"README.md lacks {begin} and {end}, between which the table goes")
    return between.sub(lambda _: f"{begin}\n{table}\n{end}", text)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
