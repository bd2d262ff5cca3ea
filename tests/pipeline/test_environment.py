import json

from sim2cam.pipeline.environment import environment_facts


def test_folders_of_whoever_ran_it_are_not_told(monkeypatch, tmp_path):
    arguments = ["sim2cam", "render", "dice", "--out", str(tmp_path / "sim"), "--count", "4"]
    monkeypatch.setattr("sys.argv", arguments)
    facts = environment_facts("egl", 2)
    assert facts["command"] == "render dice --out sim --count 4"
    assert str(tmp_path) not in json.dumps(facts)
