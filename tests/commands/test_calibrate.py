import json

import numpy as np
import pytest

from sim2cam import images
from sim2cam.adapt.calibration.camera_fit import read_camera
from sim2cam.cli import main
from sim2cam.commands.calibrate import _parse_board
from sim2cam.errors import UsageError
from sim2cam.files import write_bytes


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    for number in range(3):
        rgb = np.full((80, 96, 3), 0, np.uint8)
        write_bytes(folder / f"{number}.jpg", images.encode_jpeg(rgb, 85))
    write_bytes(folder / "wide.jpg", images.encode_jpeg(np.zeros((80, 200, 3), np.uint8), 85))
    write_bytes(folder / "broken.jpg", b"\0")
    return folder


def test_it_writes_the_camera_and_says_what_it_left_out(photos, tmp_path, capsys):
    out = tmp_path / "camera.json"
    assert main(["calibrate", str(photos), "--out", str(out)]) == 0
    said = capsys.readouterr()
    fit = read_camera(out)
    assert fit.other_cameras == {"200x80": 1}
    assert "excluded: 1 of another camera: 200x80" in said.err
    assert "excluded: broken.jpg: not an image" in said.err
    assert f"page: {tmp_path / 'camera.html'}" in said.err
    assert "The lens is not estimated" in (tmp_path / "camera.html").read_text()
    lines = {line.split()[0]: line for line in said.out.splitlines()}
    assert lines["sensor.jpeg_quality"].split()[1:] == ["85", "85", "to", "85"]
    assert "Print a chessboard" in lines["lens.fx_px"]
    assert main(["calibrate", str(photos), "--out", str(out)]) == 1
    assert "exists. Choose another name, or add --overwrite." in capsys.readouterr().err
    assert main(["calibrate", str(photos), "--out", str(out), "--overwrite", "--json", "-q"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(out.read_text())
    assert printed.err == ""


def test_drift_tells_what_moved_and_names_it_for_programs(photos, tmp_path, capsys):
    out = tmp_path / "camera.json"
    for number in range(3, 9):
        write_bytes(photos / f"{number}.jpg", (photos / "0.jpg").read_bytes())
    assert main(["calibrate", str(photos), "--out", str(out), "-q"]) == 0
    capsys.readouterr()
    assert main(["drift", str(out), str(photos), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["drifted"] == []
    assert "96x80: 9 photos; no drift detected" in said.err
    assert "excluded: 1 of another camera: 200x80" in said.err
    for path in photos.iterdir():
        write_bytes(path, images.encode_jpeg(np.zeros((80, 96, 3), np.uint8), 40))
    change = tmp_path / "change.json"
    assert main(["drift", str(out), str(photos), "--out", str(change)]) == 0
    said = capsys.readouterr()
    assert "sensor.jpeg_quality" in json.loads(change.read_text())["drifted"]
    assert f"page: {tmp_path / 'change.html'}" in said.err
    assert "The camera changed: JPEG quality" in (tmp_path / "change.html").read_text()
    assert "JPEG quality" in said.err.split("drifted: ")[1].split(";")[0]
    (line,) = (line for line in said.out.splitlines() if line.startswith("JPEG quality"))
    assert line.split()[2] == "drifted"
    assert "-45 of 100 (-45 to -45)" in line
    assert main(["drift", str(tmp_path / "none.json"), str(photos)]) == 1
    assert "none.json: no such file or folder" in capsys.readouterr().err


def test_a_detector_that_was_asked_then_is_asked_again(photos, tmp_path, capsys):
    out = tmp_path / "camera.json"
    assert main(["calibrate", str(photos), "--out", str(out), "--monitor", "dice", "-q"]) == 0
    assert set(read_camera(out).statistics) > {"detector.ood_score", "detector.confidence"}
    capsys.readouterr()
    assert main(["drift", str(out), str(photos), "--monitor", "dice", "--json", "-q"]) == 0
    changes = {one["name"]: one for one in json.loads(capsys.readouterr().out)["shifts"]}
    assert changes["detector.ood_score"]["photo_counts"] == [3, 3]  # black: nothing is found
    assert changes["detector.confidence"]["photo_counts"] == [0, 0]
    assert main(["drift", str(out), str(photos), "--monitor", "dice-verifier"]) == 2
    assert "--monitor: the calibration used other weights." in capsys.readouterr().err
    assert main(["drift", str(out), str(photos), "--monitor", "cards"]) == 2
    assert "no file or shipped weights 'cards'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["calibrate", "drift"])
def test_files_that_would_be_replaced_are_refused(command, photos, tmp_path, capsys):
    camera = [str(tmp_path / "camera.json")] if command == "drift" else []
    (tmp_path / "old.html").write_text("mine")
    arguments = [command, *camera, str(photos), "--out"]
    assert main([*arguments, str(tmp_path / "old.json")]) == 1
    assert "old.html: exists." in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "new.html")]) == 2
    assert "must not end in .html: the page is written next to it." in capsys.readouterr().err
    assert (tmp_path / "old.html").read_text() == "mine"


def test_nothing_to_calibrate_is_told(tmp_path, capsys):
    assert main(["calibrate", str(tmp_path / "none")]) == 1
    assert "no such file or folder" in capsys.readouterr().err


def test_a_board_of_markers_is_told_in_words():
    board = _parse_board("charuco:8x6:4x4_50:0.7")
    assert (board.pattern, board.columns, board.rows, board.marker_share) == ("charuco", 8, 6, 0.7)


BAD = [
    ("chessboard:9x6:4x4_50:0.7", "the pattern must be charuco or markers"),
    (
        "charuco:8x6",
        "must be PATTERN:COLUMNSxROWS:DICTIONARY:SHARE, such as charuco:8x6:4x4_50:0.7",
    ),
    ("charuco:8:4x4_50:0.7", "must be PATTERN:COLUMNSxROWS"),
    ("charuco:8x6:4x4:0.7", "Allowed: up to 1, and 4x4_50"),
    ("markers:60x60:4x4_50:0.7", "needs 3600 markers, but 4x4_50 has 50"),
]


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_a_board_that_is_none_is_refused(text, problem):
    with pytest.raises(UsageError) as error:
        _parse_board(text)
    assert str(error.value).startswith(f"--board {text}: ")
    assert problem in str(error.value)
