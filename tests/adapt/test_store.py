import numpy as np
import pytest

from sim2cam.adapt.store import TRANSFER_TYPES, load_transfer, save_transfer
from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.errors import InputError


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (24, 30, 3), dtype=np.uint8) for _ in range(3)]


@pytest.mark.parametrize("kind", TRANSFER_TYPES.values())
def test_a_transfer_survives_the_disk(kind, pictures, tmp_path):
    transfer = kind.fit(pictures)
    save_transfer(transfer, tmp_path)
    again = load_transfer(tmp_path)
    frame = GBufferFrame(pictures[0])
    first, second = (t.apply(frame, np.random.default_rng(5)) for t in (transfer, again))
    assert np.array_equal(first, second)


def test_an_empty_folder_holds_no_transfer(tmp_path):
    with pytest.raises(
        InputError, match=r"no translator in this folder: neither transfer\.json nor weights"
    ):
        load_transfer(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, ".*") for text in ("{", "[]", "{}", '{"method": "reinhard"}')),
        ('{"method": "reinhart"}', r"unknown method 'reinhart'\. Did you mean 'reinhard'.*"),
        ('{"method": "reinhard", "means": [[0, 0, 0]], "deviations": [], "variety": 1}', ".*"),
        (
            '{"method": "style", "means": [[0, 0, 0]], "deviations": [[1, 1, 1], [1, 1, 1]], "spread": 1}',
            ".*",
        ),
        ('{"method": "mkl", "means": [[0, 0, 0]], "covariances": [[1, 1, 1]], "variety": 1}', ".*"),
        ('{"method": "fourier", "amplitudes": [[[[1]], [[1]], [[1]]]], "radius": 3}', ".*"),
    ],
)
def test_broken_numbers_are_refused(text, reason, tmp_path):
    (tmp_path / "transfer.json").write_text(text)
    with pytest.raises(
        InputError, match=rf"not the values of a transfer \({reason}\)\. Train it again\."
    ):
        load_transfer(tmp_path)
