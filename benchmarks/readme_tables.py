"""Tables and numbers of README.md and docs from committed results.

    python benchmarks/readme_tables.py [--check]

``--check`` only reports which documents are out of date. Two kinds of markers are filled:

- A table of ``TABLES`` stands between ``<!-- NAME-results:begin -->`` and ``<!-- NAME-results:end -->``.
- A single number of a result file stands in
  ``<!-- value: FILE PATH FORMAT -->0.938<!-- /value -->``, such as ``shipped.json test/ap50/value .3f``.

FILE lies in ``benchmarks/results``, or in the repository (``models/weights/dice.json``). Steps of PATH are
separated by ``/``: a key, an index, or conditions ``key=value;key=value`` that select one entry of a list.
FORMAT is a format specification of Python, ``score`` (value with its 95 % interval), or ``count``
(number of entries).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from result_tables import (
    backbones,
    cameras,
    curves,
    dice,
    lmo,
    model_cards,
    robocup,
    scenes,
    speed,
    translators,
)
from result_tables.cells import Results, format_score

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"

TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "shipped": ("shipped.json", dice.tabulate_shipped),
    "shipped-categories": ("shipped.json", dice.tabulate_shipped_categories),
    "dice": ("dice.json", dice.tabulate_ablation),
    "dice-differences": ("dice.json", dice.tabulate_ablation_differences),
    "learning-curve": ("dice.json", dice.tabulate_learning_curve),
    "equivalents": ("dice.json", dice.tabulate_equivalents),
    "backbones": ("backbones.json", backbones.tabulate_backbones),
    "backbone-scores": ("backbones.json", backbones.tabulate_backbone_scores),
    "robocup": ("robocup.json", robocup.tabulate_robocup),
    "robocup-sizes": ("robocup.json", robocup.tabulate_robocup_sizes),
    "robocup-differences": ("robocup.json", robocup.tabulate_robocup_differences),
    "curve-points": ("curve.json", curves.tabulate_points),
    "curve-fits": ("curve.json", curves.tabulate_fits),
    "photo-fits": ("curve.json", curves.tabulate_photo_fits),
    "elsewhere": ("elsewhere.json", dice.tabulate_elsewhere),
    "ood": ("novelty.json", dice.tabulate_ood),
    "hidden": ("hidden.json", dice.tabulate_hidden_cameras),
    "hidden-isp": ("hidden.json", dice.tabulate_hidden_isp),
    "days": ("days.json", dice.tabulate_days),
    "gap": ("gap.json", dice.tabulate_gap),
    "gap-isp": ("gap.json", dice.tabulate_gap_isp),
    "translations": ("translations.json", translators.tabulate_translations),
    "certificate": ("certificate.json", translators.tabulate_certificate),
    "adapt": ("adapt.json", translators.tabulate_translator_costs),
    "calibrate": ("calibrate.json", cameras.tabulate_calibration),
    "false-alarms": ("drift.json", cameras.tabulate_false_alarms),
    "drift": ("drift.json", cameras.tabulate_drift),
    "lmo-means": ("lmo.json", lmo.tabulate_lmo_means),
    "lmo-objects": ("lmo.json", lmo.tabulate_lmo_objects),
    "lmo-refinement": ("lmo.json", lmo.tabulate_lmo_refinement),
    "lmo-visibility": ("lmo.json", lmo.tabulate_lmo_visibility),
    "lmo-published": ("lmo.json", lmo.tabulate_lmo_published),
    "lmo-training": ("lmo.json", lmo.tabulate_lmo_training),
    "lmo-truth": ("lmo_truth.json", lmo.tabulate_lmo_truth),
    "camera-databases": ("camera_databases.json", cameras.tabulate_database_noise),
    "camera-databases-isp": ("camera_databases.json", cameras.tabulate_database_gaps),
    "render": ("render.json", speed.tabulate_renderers),
    "render-targets": ("render.json", speed.tabulate_render_targets),
    "render-limits": ("render.json", speed.tabulate_renderer_limits),
    "render-stages": ("render.json", speed.tabulate_render_stages),
    "render-throughput": ("render.json", speed.tabulate_render_throughput),
    "render-channels": ("render.json", speed.tabulate_channels),
    "memory": ("leak.json", speed.tabulate_memory),
    "reference": ("reference.json", speed.tabulate_reference),
    "train": ("train.json", speed.tabulate_training),
    "predict": ("predict.json", speed.tabulate_prediction),
    "recipes": ("worlds.json", scenes.tabulate_recipes),
    "rest": ("rest.json", scenes.tabulate_rest),
    "faults": ("faults.json", scenes.tabulate_faults),
    "fault-costs": ("faults.json", scenes.tabulate_fault_costs),
} | {
    f"{kind}-{name}": (f"models/weights/{name}.json", table)
    for name in ("dice", "dice-verifier", "lmo")
    for kind, table in (
        ("card", partial(model_cards.tabulate_card, name)),
        ("data", model_cards.tabulate_training_data),
    )
}
"""Result file and function of each table."""

_TABLE = re.compile(r"<!-- (?P<name>[\w-]+)-results:begin -->.*?(?P<end><!-- (?P=name)-results:end -->|\Z)", re.DOTALL)  # fmt: skip
_VALUE = re.compile(
    r"<!-- value: (?P<file>\S+) (?P<path>(?:(?!-->).)+) (?P<format>\S+) -->(?:(?!<!--).)*(?P<end><!-- /value -->)?"
)


def main(arguments: list[str]) -> int:
    """Update the documents and return the exit code: 1 if ``--check`` is given and one is out of date."""
    outdated = []
    for path in list_documents():
        old = path.read_text(encoding="utf-8")
        try:
            new = update_document(old)
        except ValueError as error:
            raise ValueError(f"{path.relative_to(ROOT)}: {error}") from error
        if new != old:
            outdated.append(path)
            if "--check" not in arguments:
                path.write_text(new, encoding="utf-8")
    if "--check" not in arguments or not outdated:
        return 0
    names = ", ".join(str(path.relative_to(ROOT)) for path in outdated)
    print(f"Out of date: {names}. Run: python benchmarks/readme_tables.py", file=sys.stderr)
    return 1


def list_documents() -> Iterator[Path]:
    """Yield README.md and every page of the documentation."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def update_document(text: str, results: Path = RESULTS) -> str:
    """Return a text with every table and number replaced from a folder of results.

    Raises:
        ValueError: a marker is not closed, or names a table or number that does not exist.
    """
    text = _TABLE.sub(partial(_fill_table, results=results), text)
    return _VALUE.sub(partial(_fill_value, results=results), text)


def find_value(content: Any, path: str) -> Any:
    """Return the entry at a path of a result file.

    Raises:
        ValueError: the path selects nothing, or more than one entry of a list.
    """
    for step in path.split("/"):
        try:
            content = _select(content, step)
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"'{path}' does not exist: nothing at '{step}'.") from None
    return content


def _select(content: Any, step: str) -> Any:
    if not isinstance(content, list):
        return content[step]
    if step.isdecimal():
        return content[int(step)]
    conditions = [condition.split("=", 1) for condition in step.split(";")]
    entries = [
        entry for entry in content if all(str(entry[key]) == value for key, value in conditions)
    ]
    if len(entries) != 1:
        raise ValueError(f"'{step}' selects {len(entries)} entries; it has to select one.")
    return entries[0]


def _fill_table(match: re.Match[str], results: Path) -> str:
    name = match["name"]
    if not match["end"]:
        raise ValueError(f"<!-- {name}-results:end --> is missing.")
    if name not in TABLES:
        raise ValueError(f"the table '{name}' does not exist. There are: {', '.join(TABLES)}.")
    file, tabulate = TABLES[name]
    table = tabulate(_read_results(file, results))
    return f"<!-- {name}-results:begin -->\n{table}\n{match['end']}"


def _fill_value(match: re.Match[str], results: Path) -> str:
    file, path, form = match["file"], match["path"], match["format"]
    if not match["end"]:
        raise ValueError(f"<!-- /value --> is missing after 'value: {file} {path}'.")
    content = _read_results(file, results)
    if content is None:
        raise ValueError(f"{file} does not exist.")
    text = _format_value(find_value(content, path), form)
    return f"<!-- value: {file} {path} {form} -->{text}{match['end']}"


def _format_value(value: Any, form: str) -> str:
    if form == "score":
        return format_score(value)
    if form == "count":
        return f"{len(value):,}"
    return format(value, form).replace("%", " %")


def _read_results(file: str, results: Path) -> Any:
    path = ROOT / file if file.startswith("models/") else results / file
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
