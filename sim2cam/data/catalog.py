"""SQL queries over the samples, objects, scenes and sampled values of a dataset."""

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
"""Columns and their types by table.

``samples``
    One row per image. ``objects`` is the number of labels, NULL for unlabelled images. In sequences,
    ``frame_index`` counts the images of a camera, ``time_s`` is the exposure time of the first row, and
    ``exposure_gain``, ``red_gain`` and ``blue_gain`` are the automatic gains.
``objects``
    One row per label. The box is in pixels, ``distance_m`` runs from the camera to the object's origin,
    ``occlusion`` and ``truncation`` are as in KITTI.
``scenes``
    One row per rendered scene. ``rejections`` is a JSON list of the reasons why earlier attempts were
    rejected, ``certificate`` the physics certificate as JSON.
``sampled_values``
    One row per sampled value: ``name`` (``die/3/edge_m``), ``factor`` (the name without indices,
    ``die/edge_m``), ``number`` (numeric values; true is 1) and ``text``.
"""


@dataclass(frozen=True)
class QueryResult:
    """Column names and rows of a query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values; values that JSON lacks become strings."""
        return {
            "columns": list(self.columns),
            "rows": json.loads(json.dumps(self.rows, default=str)),
        }

    def to_text(self) -> str:
        """Return the result as a text table with aligned columns."""
        texts = [self.columns, *([_format_value(value) for value in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        lines = (
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in texts
        )
        return "\n".join(lines)


def run_query(dataset: Dataset, sql: str) -> QueryResult:
    """Run a DuckDB SQL query over ``TABLES``, without access to files.

    Raises:
        UsageError: If the query is invalid or the dataset is merged from several.
        BackendError: If DuckDB or pyarrow is not installed.
        InputError: If a scene record is broken.
    """
    try:
        import duckdb
        import pyarrow
    except ImportError as error:
        raise BackendError(
            'queries need DuckDB and pyarrow. Run: pip install "sim2cam[catalog]"'
        ) from error
    if dataset.sources:
        raise UsageError("a merged dataset cannot be queried. Query each of its datasets.")
    used_tables = [name for name in TABLES if name in sql.lower()]  # other tables stay empty
    rows = _build_rows(dataset, used_tables)
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
    """Return the samples of each dataset that meet a condition.

    Args:
        condition: WHERE clause on the table ``samples``; subqueries may use the other tables.

    Raises:
        UsageError: If the condition is invalid.
        BackendError: If DuckDB or pyarrow is not installed.
        InputError: If no sample of any dataset meets it.
    """
    query = f"SELECT name FROM samples WHERE ({condition})"  # noqa: S608
    selected = [
        dataset.select_by_name(row[0] for row in run_query(dataset, query).rows)
        for dataset in datasets
    ]
    if not any(dataset.samples for dataset in selected):
        roots = ", ".join(str(dataset.root) for dataset in datasets)
        raise InputError(roots, f"no sample meets {condition}. Choose a weaker condition.")
    return selected


def _execute_query(connection: duckdb.DuckDBPyConnection, sql: str) -> QueryResult:
    result = connection.execute(sql)
    if result is None or result.description is None:
        raise UsageError("the query is empty. Example: SELECT count(*) FROM samples")
    columns = tuple(str(column[0]) for column in result.description)
    return QueryResult(columns, tuple(result.fetchall()))


def _build_rows(dataset: Dataset, table_names: Collection[str]) -> dict[str, list[dict[str, Any]]]:
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
        all_scenes = read_scenes(find_rendered_ancestor(dataset.root))
        scenes = [scene for scene in all_scenes if scene.scene_index in indices]
        rows["scenes"] = [_build_scene_row(scene) for scene in scenes]
        rows["sampled_values"] = [
            row for scene in scenes for row in _build_sampled_value_rows(scene)
        ]
    return rows


def _build_sample_row(sample: Sample) -> dict[str, Any]:
    frame, gains = sample.frame_info, sample.gains
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
        "frame_index": frame and frame.frame_index,
        "time_s": frame and frame.first_row_s,
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
