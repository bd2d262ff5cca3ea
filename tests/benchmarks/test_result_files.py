"""Location of real datasets, errors for missing ones, and rounding of results."""

import pytest
from result_files import locate_real_dataset, round_numbers


def test_captures_are_looked_for_where_fetch_puts_them(tmp_path, monkeypatch):
    monkeypatch.delenv("SIM2CAM_REAL", raising=False)
    monkeypatch.setenv("SIM2CAM_CACHE", str(tmp_path))
    (tmp_path / "data/dice").mkdir(parents=True)
    assert locate_real_dataset("dice") == tmp_path / "data/dice"


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("dice", "Run sim2cam fetch dice, or set SIM2CAM_REAL to the folder that holds dice/."),
        ("gopro_chessboard", "Set SIM2CAM_REAL to the folder that holds gopro_chessboard/."),
    ],
)
def test_missing_captures_say_how_to_get_them(tmp_path, monkeypatch, name, cure):
    monkeypatch.setenv("SIM2CAM_REAL", str(tmp_path))
    with pytest.raises(SystemExit) as caught:
        locate_real_dataset(name)
    assert str(caught.value) == f"{tmp_path}/{name} does not exist. {cure}"


def test_results_keep_six_digits_of_what_is_a_number():
    found = {
        "a": {"truth": 9478.748324605838, "ci95": [-0.00012345678, 3.0]},
        "b": {"value": "420"},
    }
    assert round_numbers(found) == {
        "a": {"truth": 9478.75, "ci95": [-0.000123457, 3.0]},
        "b": {"value": "420"},
    }
