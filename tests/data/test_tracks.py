import json
import re

import numpy as np
import pytest

from sim2cam.data.tracks import PointTracks, encode_tracks, read_tracks
from sim2cam.errors import InputError

TRACKS = PointTracks(
    np.array([1, 1, 7]),
    np.array([[0.001, -0.002, 0.003], [0.0, 0.0, 0.0], [1 / 3, 1e-6, -0.5]]),
    np.array([[12.34567, -3.0], [np.nan, np.nan], [400.0, 0.25]]),
    np.array([True, False, False]),
)
WHOLE = json.loads(encode_tracks(TRACKS))


def test_points_come_back(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(encode_tracks(TRACKS))
    found = read_tracks(path)
    assert found.instance_id.tolist() == [1, 1, 7]
    assert found.visible.tolist() == [True, False, False]
    assert np.allclose(found.point_m, TRACKS.point_m, atol=1e-9)
    assert np.allclose(found.pixel, TRACKS.pixel, atol=1e-4, equal_nan=True)


def test_no_points_come_back_too(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(
        encode_tracks(
            PointTracks(np.zeros(0, int), np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0, bool))
        )
    )
    assert read_tracks(path).pixel.shape == (0, 2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (WHOLE | {"visible": [True]}, "lists have different lengths: [1, 3]. "),
        ({k: v for k, v in WHOLE.items() if k != "pixel"}, "pixel is missing. "),
        (WHOLE | {"instance_id": [1, "a", 3]}, "instance_id[1]: Input should be a valid integer"),
        (WHOLE | {"point_m": [[1.0, 2.0]] * 3}, "point_m[0][2] is missing. "),
    ],
)
def test_a_broken_file_is_told(tmp_path, table, message):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(table))
    with pytest.raises(InputError, match=f"^{re.escape(f'{path}: {message}')}.*Generate the data"):
        read_tracks(path)


def test_a_missing_file_is_told(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(InputError, match=f"^{re.escape(f'{path}: no such file. ')}"):
        read_tracks(path)


def test_a_folder_is_not_read(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        read_tracks(tmp_path)
