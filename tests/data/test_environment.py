import json
from importlib.metadata import PackageNotFoundError

import pytest

from sim2cam.data.environment import collect_environment


def test_folders_of_whoever_ran_it_are_not_told(monkeypatch, tmp_path):
    arguments = ["sim2cam", "render", "dice", "--out", str(tmp_path / "sim"), "--count", "4"]
    monkeypatch.setattr("sys.argv", arguments)
    facts = collect_environment("egl", 2)
    assert facts["command"] == "render dice --out sim --count 4"
    assert str(tmp_path) not in json.dumps(facts)


def test_a_package_that_is_not_there_has_no_version(monkeypatch):
    def version(name):
        if name == "pybullet":
            raise PackageNotFoundError(name)
        return "1.2"

    monkeypatch.setattr("sim2cam.data.environment.version", version)
    packages = collect_environment(None, 1)["packages"]
    assert packages["pybullet"] is None
    assert packages["numpy"] == "1.2"


INTEL = "processor\t: 0\nmodel name\t: Xeon: fast\nflags\t\t: sse2 avx2\nmodel name\t: Xeon: fast\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (INTEL, "Xeon: fast, avx2"),
        (INTEL.replace("avx2", "avx2 avx512f"), "Xeon: fast, avx512f"),
        (INTEL.replace("avx2", ""), "Xeon: fast"),
        (ARM, "aarch64, asimd"),
        (None, "aarch64"),
    ],
)
def test_the_processor_is_told(monkeypatch, tmp_path, told, words):
    path = tmp_path / "cpuinfo"
    if told is not None:
        path.write_text(told)
    monkeypatch.setattr("sim2cam.data.environment._CPU_INFO", path)
    monkeypatch.setattr("platform.processor", lambda: "aarch64")
    assert collect_environment(None, 1)["processor"] == words
