"""The catalogue: what a data set holds as tables, for questions in SQL."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim2cam.data.card import get_factor_name
from sim2cam.data.reader import SceneSummary, find_rendered_ancestor, read_scenes
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import BackendError, InputError, UsageError

if TYPE_CHECKING:
    import duckdb

TABLES: dict[str, dict[str, str]] = {
    "samples": {
        "name": "string", "scene_index": "int64", "origin": "string", "width": "int64",
        "height": "int64", "objects": "int64", "digest": "string", "parent": "string",
        "rgb": "string", "frame_index": "int64", "time_s": "double",
        "exposure_gain": "double", "red_gain": "double", "blue_gain": "double",
    },
    "objects": {
        "sample": "string", "scene_index": "int64", "category": "string", "x0": "double",
        "y0": "double", "x1": "double", "y1": "double", "area_px": "double",
        "visible_fraction": "double", "distance_m": "double", "instance_id": "int64",
        "is_crowd": "bool", "occlusion": "int64", "truncation": "double",
    },
    "scenes": {
        "scene_index": "int64", "attempt": "int64", "rejections": "string", "certificate": "string",
    },
    "sampled_values": {
        "scene_index": "int64", "name": "string", "factor": "string", "number": "double",
        "text": "string",
    },
}  # fmt: skip
"""The columns of each table and their types.

``samples``
    one row a picture; ``objects`` counts its labels, NULL where it was never labelled. Of films,
    ``frame_index`` counts a camera's pictures, ``time_s`` is when its first row was exposed, and
    ``exposure_gain``, ``red_gain`` and ``blue_gain`` are what its automatics chose.
``objects``
    one row a label; its box in pixels, ``distance_m`` from the camera to its origin; ``occlusion``
    and ``truncation`` as KITTI has them.
``scenes``
    one row a rendered scene; ``rejections`` (a JSON list) says why drafts before it were thrown
    away, ``certificate`` (a JSON table) how it came to rest.
``sampled_values``
    one row a drawn value: its ``name`` (``die/3/edge_m``), that without numbers (``factor``,
    ``die/edge_m``), and the value as ``number`` where it is one, true being 1, and as ``text``.
"""


@dataclass(frozen=True)
class QueryResult:
    """What a query found: names of columns and rows of plain values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values; what JSON does not know becomes text."""
        return {
            "columns": list(self.columns),
            "rows": json.loads(json.dumps(self.rows, default=str)),
        }

    def to_text(self) -> str:
        """Return the answer as a table of fixed width."""
        texts = [self.columns, *([_format_value(value) for value in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        lines = (
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in texts
        )
        return "\n".join(lines)


def run_query(dataset: Dataset, sql: str) -> QueryResult:
    """Return the answer to a query over ``TABLES``, in DuckDB's SQL; it reads and writes no file.

    Raises:
        UsageError: the query is wrong, or the data set merged from several.
        BackendError: DuckDB or pyarrow is not installed.
        InputError: what is recorded of the scenes is broken.
    """
    try:
        import duckdb
        import pyarrow
    except ImportError as error:
        raise BackendError(
            'the catalogue needs DuckDB and pyarrow. Run: pip install "sim2cam[catalog]"'
        ) from error
    if dataset.sources:
        raise UsageError("a merged data set has no catalogue. Ask each of its data sets.")
    named = [name for name in TABLES if name in sql.lower()]  # the others stay empty
    rows = _build_rows(dataset, named)
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as connection:
        for name, columns in TABLES.items():
            schema = pyarrow.schema(list(columns.items()))
            table = pyarrow.Table.from_pylist(rows.get(name, []), schema=schema)
            connection.register(name, table)
        try:
            return _execute_query(connection, sql)
        except duckdb.Error as error:
            tables = "; ".join(f"{name} ({', '.join(TABLES[name])})" for name in TABLES)
            raise UsageError(f"{str(error).strip()}\nTables: {tables}.") from error


def filter_datasets(datasets: Sequence[Dataset], condition: str) -> list[Dataset]:
    """Return of each the samples for which a condition on the table ``samples`` holds, as in SQL's
    WHERE; the other tables may be asked in it.

    Raises:
        UsageError: the condition is wrong.
        BackendError: DuckDB or pyarrow is not installed.
        InputError: no sample is left of any.
    """
    asked = f"SELECT name FROM samples WHERE ({condition})"  # noqa: S608
    kept = [
        dataset.select_by_name(row[0] for row in run_query(dataset, asked).rows)
        for dataset in datasets
    ]
    if not any(dataset.samples for dataset in kept):
        roots = ", ".join(str(dataset.root) for dataset in datasets)
        raise InputError(roots, f"no sample is left where {condition}.")
    return kept


def _execute_query(connection: duckdb.DuckDBPyConnection, sql: str) -> QueryResult:
    result = connection.execute(sql)
    if result is None or result.description is None:
        raise UsageError("the query is empty. Ask, for example: SELECT count(*) FROM samples")
    columns = tuple(str(column[0]) for column in result.description)
    return QueryResult(columns, tuple(result.fetchall()))


def _build_rows(dataset: Dataset, table_names: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table that is named."""
    rows: dict[str, list[dict[str, Any]]] = {}
    if "samples" in table_names:
        rows["samples"] = [_build_sample_row(sample) for sample in dataset.samples]
    if "objects" in table_names:
        rows["objects"] = [
            _build_object_row(sample, label)
            for sample in dataset.samples
            for label in sample.objects or ()
        ]
    if "scenes" in table_names or "sampled_values" in table_names:
        indices = {sample.scene_index for sample in dataset.samples}
        found = read_scenes(find_rendered_ancestor(dataset.root))
        scenes = [scene for scene in found if scene.scene_index in indices]
        rows["scenes"] = [_build_scene_row(scene) for scene in scenes]
        rows["sampled_values"] = [
            row for scene in scenes for row in _build_sampled_value_rows(scene)
        ]
    return rows


def _build_sample_row(sample: Sample) -> dict[str, Any]:
    moment, gains = sample.frame_info, sample.gains
    return {
        "name": sample.name,
        "scene_index": sample.scene_index,
        "origin": sample.origin,
        "width": sample.width,
        "height": sample.height,
        "objects": None if sample.objects is None else len(sample.objects),
        "digest": sample.digest,
        "parent": sample.parent,
        "rgb": str(sample.rgb),
        "frame_index": moment and moment.frame_index,
        "time_s": moment and moment.first_row_s,
        "exposure_gain": gains and gains.exposure,
        "red_gain": gains and gains.red,
        "blue_gain": gains and gains.blue,
    }


def _build_object_row(sample: Sample, label: ObjectLabel) -> dict[str, Any]:
    return {
        "sample": sample.name,
        "scene_index": sample.scene_index,
        "category": label.category,
        **dict(zip(("x0", "y0", "x1", "y1"), label.box_xyxy, strict=True)),
        "area_px": label.area_px,
        "visible_fraction": label.visible_fraction,
        "distance_m": None if label.pose is None else math.hypot(*label.pose.position_m),
        "instance_id": label.instance_id,
        "is_crowd": label.is_crowd,
        "occlusion": label.occlusion,
        "truncation": label.truncation,
    }


def _build_scene_row(scene: SceneSummary) -> dict[str, Any]:
    return {
        "scene_index": scene.scene_index,
        "attempt": scene.attempt,
        "rejections": json.dumps(scene.rejections),
        "certificate": json.dumps(scene.certificate),
    }


def _build_sampled_value_rows(scene: SceneSummary) -> Iterator[dict[str, Any]]:
    for name, value in scene.sampled_values.items():
        yield {
            "scene_index": scene.scene_index,
            "name": name,
            "factor": get_factor_name(name),
            "number": float(value) if isinstance(value, (bool, int, float)) else None,
            "text": value if isinstance(value, str) else json.dumps(value),
        }


def _format_value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
