import json
import sys

import pytest

from sim2cam.data.catalog import TABLES, QueryResult, filter_datasets, run_query
from sim2cam.data.reader import read_dataset
from sim2cam.data.set_operations import merge_datasets
from sim2cam.errors import BackendError, InputError, UsageError

needs_duckdb = pytest.mark.skipif(
    "not __import__('importlib.util').util.find_spec('duckdb')", reason="needs the extra catalog"
)


@pytest.fixture
def dataset(native):
    """Four samples of two scenes, with values drawn for the second."""
    drawn = {"die/0/edge_m": 0.01, "die/1/edge_m": 0.03, "die/0/mirrored": True, "style": "worn"}
    line = {"scene_index": 1, "attempt": 1, "rejections": ["it leans"], "sampled_values": drawn}
    path = native / "shards/000001/scenes.jsonl"
    path.write_text(json.dumps(line | {"certificate": {"seconds": 0.5}}) + "\n")
    return read_dataset(native)


@needs_duckdb
def test_every_column_is_there(dataset):
    for name, columns in TABLES.items():
        assert run_query(dataset, f"SELECT * FROM {name}").columns == tuple(columns)


@needs_duckdb
def test_answers_are_those_of_the_values(dataset):
    found = run_query(
        dataset, "SELECT name, objects, scene_index, origin FROM samples ORDER BY name"
    )
    assert found.rows == tuple((s.name, 2, s.scene_index, "sim") for s in dataset.samples)
    boxes = run_query(
        dataset, "SELECT x0, y0, x1, y1, category FROM objects WHERE sample = '000001' ORDER BY x0"
    )
    objects = dataset.samples[1].objects
    assert boxes.rows == tuple((*label.box_xyxy, label.category) for label in objects)
    (distance,) = run_query(dataset, "SELECT max(distance_m) FROM objects").rows[0]
    assert distance == pytest.approx((0.1**2 + 0.5**2) ** 0.5)
    assert run_query(dataset, "SELECT count(*) FROM objects WHERE distance_m IS NULL").rows == (
        (4,),
    )


@needs_duckdb
def test_drawn_values_are_rows(dataset):
    found = run_query(
        dataset, "SELECT factor, avg(number) FROM sampled_values GROUP BY ALL ORDER BY factor"
    )
    assert found.rows == (
        ("die/edge_m", pytest.approx(0.02)), ("die/mirrored", 1.0), ("style", None),
    )  # fmt: skip
    joined = run_query(
        dataset,
        "SELECT count(*) FROM samples JOIN sampled_values USING (scene_index) WHERE sampled_values.text = 'worn'",
    )
    assert joined.rows == ((2,),)
    settled = run_query(
        dataset, "SELECT certificate->>'$.seconds', rejections FROM scenes ORDER BY 1"
    )
    assert settled.rows[0] == ("0.5", '["it leans"]')


@needs_duckdb
def test_a_condition_keeps_samples(dataset):
    other = dataset.select_by_name(["000000", "000001"])
    kept = filter_datasets([dataset, other], "scene_index = 1")
    assert [[s.name for s in part.samples] for part in kept] == [["000002", "000003"], []]
    (kept,) = filter_datasets([dataset], "name IN (SELECT sample FROM objects WHERE x0 = 6)")
    assert [s.name for s in kept.samples] == ["000000"]
    small = "SELECT scene_index FROM sampled_values WHERE name = 'die/0/edge_m' AND number < 0.02"
    (kept,) = filter_datasets([dataset], f"scene_index IN ({small})")
    assert [s.name for s in kept.samples] == ["000002", "000003"]
    with pytest.raises(InputError) as caught:
        filter_datasets([dataset, other], "objects > 2")
    roots = f"{dataset.root}, {dataset.root}"
    assert str(caught.value) == f"{roots}: no sample meets objects > 2. Choose a weaker condition."


@needs_duckdb
@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT nme FROM samples", 'Binder Error: Referenced column "nme" not found'),
        ("SELEC 1", "Parser Error: syntax error"),
        ("SELECT * FROM pictures", "Catalog Error: Table with name pictures does not exist!"),
        ("SELECT * FROM '/etc/passwd'",
         "Catalog Error: Table with name /etc/passwd does not exist!"),
        ("SELECT * FROM read_text('/etc/passwd')", "Permission Error:"),
        ("COPY samples TO 'stolen.csv'", "Permission Error:"),
        ("INSTALL httpfs", "Permission Error:"),
        ("SET enable_external_access = true", "Invalid Input Error: Cannot enable external access"),
    ],
)  # fmt: skip
def test_wrong_queries_are_refused_with_the_tables(dataset, sql, problem):
    with pytest.raises(UsageError) as caught:
        run_query(dataset, sql)
    assert str(caught.value).startswith(problem)
    assert "Tables: samples (name, scene_index, " in str(caught.value)


@needs_duckdb
def test_an_empty_query_is_refused(dataset):
    with pytest.raises(UsageError, match="the query is empty"):
        run_query(dataset, " -- nothing")


def test_a_merged_set_is_asked_in_its_parts(dataset):
    with pytest.raises(UsageError, match="a merged dataset cannot be queried"):
        run_query(merge_datasets([dataset, dataset]), "SELECT 1")


def test_without_the_extra_it_says_which(dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(BackendError) as caught:
        run_query(dataset, "SELECT 1")
    message = 'queries need DuckDB and pyarrow. Run: pip install "sim2cam[catalog]"'
    assert str(caught.value) == message


def test_answers_as_text_and_json():
    answer = QueryResult(("name", "n"), (("a", 1.23456789), ("longer", None)))
    assert answer.to_text() == "name    n\na       1.23457\nlonger  None"
    rows = [["a", 1.23456789], ["longer", None]]
    assert answer.to_json() == {"columns": ["name", "n"], "rows": rows}
