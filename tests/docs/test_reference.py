"""The reference is complete: each test compares a page with the code or with a real dataset."""

import inspect
import json
import re
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import sim2cam
from sim2cam import commands, errors
from sim2cam.data.channels import CHANNELS, EXTRAS
from sim2cam.images import encode_png
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import parse_recipe

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"
SOURCES = [
    path
    for folder in ("sim2cam", "render", "randomize", "adapt", "models")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
EVERYTHING = {
    "base": ["dice-camera", "dice-film", "dice-full"],
    "name": "everything",
    "render": {
        "width": 48,
        "height": 48,
        "views": 1,
        "channels": [*CHANNELS, *EXTRAS],
        "sequence": {"frames": 2, "interval_s": 0.05, "track_count": 4},
    },
    "domain": {
        "automatics": {"exposure_lag_s": 0.1},
        "layout": {"die_count": 2, "distractor_count": 0},
    },
}


@pytest.fixture(scope="module")
def reference():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import reference
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return reference


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A rendered dataset with every output, and a translation of it."""
    root = tmp_path_factory.mktemp("everything")
    generate(parse_recipe(EVERYTHING), root / "sim", count=2, seed=0)
    rng = np.random.default_rng(0)
    (root / "photos").mkdir()
    for number in range(20):
        pixels = rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        (root / f"photos/{number}.png").write_bytes(encode_png(pixels))
    transfer = root / "transfer"
    commands.adapt_train(root / "sim", root / "photos", transfer, method="mkl", quiet=True)
    commands.adapt_apply(transfer, root / "sim", root / "adapted", workers=1, quiet=True)
    return root / "sim", root / "adapted"


def read_keys(title):
    """Return the keys in the table under a heading of the page on datasets."""
    text = (PAGES / "dataset.md").read_text()
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    cells = re.findall(r"^\| (`.*?) \|", section, re.M)
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


def read_records(folders, name):
    lines = [line for root in folders for path in root.rglob(name) for line in path.open()]
    return [json.loads(line) for line in lines]


def collect_keys(records):
    return {key for record in records for key in record}


def test_headers_are_documented(folders):
    headers = [json.loads((root / "dataset.json").read_text()) for root in folders]
    assert collect_keys(headers) <= read_keys("dataset.json")
    optional = {"change", "licences", "credits", "labels_digest"}
    assert read_keys("dataset.json") - optional <= collect_keys(headers)


def test_samples_are_documented(folders):
    samples = read_records(folders, "samples.jsonl")
    rejected = read_records(folders, "rejected.jsonl")
    assert collect_keys([*samples, *rejected]) == read_keys("samples.jsonl")
    objects = [record for sample in samples for record in sample["objects"]]
    assert collect_keys(objects) == read_keys("Objects")
    assert collect_keys(s["frame_info"] for s in samples) == read_keys("Frame info")


@pytest.mark.parametrize("name", ["scenes.jsonl", "certificates.jsonl"])
def test_records_are_documented(folders, name):
    assert collect_keys(read_records(folders, name)) == read_keys(name)


def test_files_are_documented(folders):
    text = (PAGES / "dataset.md").read_text()
    paths = [path for root in folders for path in root.rglob("*") if path.is_file()]
    channels = {path.parent.name for path in paths} & {*CHANNELS, *EXTRAS}
    others = {path.name for path in paths if path.parent.name not in {*channels, "rgb", "tracks"}}
    named = {name for name in others if not re.fullmatch(r"\d+\.\w+", name)}
    assert {name for name in named if name not in text} == set()


def test_environment_variables_are_documented():
    code = "\n".join(path.read_text() for path in SOURCES)
    used = set(re.findall(r'_VARIABLE = "(\w+)"', code))
    used |= set(re.findall(r'environ(?:\.get|\.setdefault)?[(\[]\s*"(\w+)"', code))
    page = (PAGES / "environment.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.M)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    threads = {"OMP_NUM_THREADS", "LP_NUM_THREADS"}  # set in a loop, for workers
    assert documented == used | threads


def test_every_command_is_on_both_pages(reference):
    cli, python = reference.build_cli_page(), reference.build_commands_page()
    for name in reference.list_commands():
        assert f"\n### {name}\n" in cli
        assert f"commands.{name.replace(' ', '_').replace('-', '_')}(" in python


def test_every_option_has_a_meaning(reference):
    for name, command in reference.list_commands().items():
        for option in reference.list_options(command):
            assert option.meaning, f"{name} {option.name}"


def test_options_are_shown_as_typed(reference):
    options = {o.name: o for o in reference.list_options(reference.list_commands()["render"])}
    assert options["RECIPE"].usage == "RECIPE"
    assert options["--preview"].usage == "--preview"
    assert options["--count"].usage == "--count INT"
    assert options["--seed"].is_rare
    assert not options["--count"].is_rare


def test_every_channel_has_a_description(reference):
    page = reference.build_channels_page()
    rows = re.findall(r"^\| (`.*?) \| (.+) \|$", page, re.M)
    names = {name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)}
    assert names == {*CHANNELS, *EXTRAS}


def test_the_python_api_names_no_internal_module():
    documented = [getattr(sim2cam, name) for name in sim2cam.__all__ if name[0].isupper()]
    members = [
        member
        for owner in documented
        for name, member in vars(owner).items()
        if not name.startswith("_") and isinstance(member, FunctionType | property)
    ]
    texts = [inspect.getdoc(item) or "" for item in (*documented, *members, sim2cam.load)]
    assert all(texts)
    modules = {match for text in texts for match in re.findall(r"sim2cam\.(\w+)", text)}
    assert modules <= {*sim2cam.__all__}


def test_every_error_is_listed(reference):
    page = reference.build_errors_page()
    raised = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.Sim2CamError)
    ]
    assert [name for name in raised if f"| `{name}` |" not in page] == []
