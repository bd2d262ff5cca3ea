"""The next step of a command: printed at the end, not with --quiet or --json."""

import json
from pathlib import Path

import pytest

from sim2cam.cli import main
from sim2cam.commands.ablate import AblateResult
from sim2cam.commands.data import RenderPreview, RenderResult
from sim2cam.commands.results import PageResult, format_command
from sim2cam.commands.scenes import ScenesRunResult
from sim2cam.commands.train import TrainResult
from sim2cam.commands.tune import TuneResult
from sim2cam.models.reliability.domain_shift import DomainShift
from tests.support.command_lines import parse_command_line

RESULTS = [
    RenderResult(Path("my data"), {"images": 4}, "mine.toml"),
    RenderResult(Path("sim"), {"scenes": 4}, "mine.toml"),
    RenderPreview(Path("p.png"), 16, "mine.toml"),
    TrainResult(Path("run/weights.safetensors"), DomainShift()),
    TuneResult(Path("run/weights.safetensors"), 1.0, 0.1, calibrated=True, images=20),
    AblateResult({}, Path("p.html"), Path(__file__)),
    ScenesRunResult(Path("scenes"), ("changed",), {"a": ["box"]}, {}, None, True),
    PageResult(Path("p.html"), format_command("train", "RECIPE", "--data", "a b", "--out", "run")),
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_next_step_is_a_valid_command(result):
    assert parse_command_line(result.next_step.replace(" N ", " 4 "))


def test_no_step_follows_unchanged_scenes_and_deleted_weights():
    assert ScenesRunResult(Path("scenes"), ("ok",), {}, {}, None, False).next_step == ""
    assert AblateResult({}, Path("p.html"), Path("deleted.safetensors")).next_step == ""


def test_a_preview_says_why_it_has_fewer_scenes():
    assert RenderPreview(Path("p.png"), 16, "mine.toml").summary() == "image: p.png (16 scenes)"
    assert RenderPreview(Path("p.png"), 8, "mine.toml").summary() == (
        "image: p.png\n8 of 16 scenes: the preview stops after 6 s of CPU time"
    )


def test_next_step_is_the_last_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine", "--kind", "die"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "recipe: mine.toml (6 categories)",
        "next: sim2cam render mine.toml --preview",
    ]
    assert main(["new", "mine", "--kind", "die", "--overwrite", "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["new", "mine", "--kind", "die", "--overwrite", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "next:" not in err
    assert json.loads(out)["categories"] == list("123456")
