import json

import pytest
import torch

from sim2cam.errors import CheckpointError, OutputError
from sim2cam.learn.weight_file import check_sizes, get_card_path, load_weights, save_weights


def test_floats_are_halved_and_come_back_single(tmp_path):
    path = tmp_path / "w.safetensors"
    name = "\udcff"  # as a name of a file is read that is not in UTF-8
    save_weights(path, {"a": torch.tensor([0.1, 2.0]), "n": torch.tensor(3)}, {"ä": [1, name]})
    tensors, card = load_weights(path)
    assert card == {"ä": [1, name]}
    assert tensors["a"].dtype == torch.float32
    assert torch.equal(tensors["a"], torch.tensor([0.1, 2.0]).half().float())
    assert tensors["n"] == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["w.json", "w.safetensors"]


def test_what_cannot_be_loaded_says_why(tmp_path):
    path = tmp_path / "w.safetensors"
    with pytest.raises(CheckpointError) as caught:
        load_weights(path)
    assert str(caught.value) == f"{path}: no such weights. Check the path, or train them first."
    with pytest.raises(CheckpointError) as caught:
        load_weights(tmp_path / "w.pt")
    assert str(caught.value) == (
        f"{tmp_path / 'w.pt'}: weights must end in .safetensors, not '.pt'."
    )
    save_weights(path, {"a": torch.zeros(50)}, {})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"damaged safetensors file .*"):
        load_weights(path)
    save_weights(path, {"a": torch.zeros(50)}, {})
    for text in ("{", "[]", "\x00"):
        get_card_path(path).write_text(text)
        with pytest.raises(CheckpointError, match=r"not (a JSON card|JSON)"):
            load_weights(path)
    get_card_path(path).unlink()
    with pytest.raises(CheckpointError, match=r"the card of the weights is missing. Copy both"):
        load_weights(path)


def test_only_safetensors_are_written(tmp_path):
    with pytest.raises(CheckpointError, match=r"weights must end in .safetensors, not '.pth'"):
        save_weights(tmp_path / "w.pth", {}, {})


def test_an_output_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"w.safetensors: cannot be written \(.*Choose another"):
        save_weights(tmp_path / "file" / "w.safetensors", {}, {})


@pytest.mark.parametrize("number", [7e4, float("nan"), float("-inf")])
def test_numbers_that_files_do_not_hold_are_refused_before_anything_is_written(tmp_path, number):
    path = tmp_path / "w.safetensors"
    tensors = {"a": torch.zeros(2), "b": torch.tensor([0.0, number])}
    with pytest.raises(CheckpointError, match="'b' contains values that are not finite"):
        save_weights(path, tensors, {})
    assert list(tmp_path.iterdir()) == []


def test_a_card_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "w.safetensors"
    save_weights(path, {"a": torch.zeros(2)}, {"steps": 3})
    get_card_path(path).write_bytes(b"\xef\xbb\xbf" + get_card_path(path).read_bytes())
    assert load_weights(path)[1] == {"steps": 3}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, json.dumps({"a": json.loads("[" * 900 + "]" * 900)})]
)
def test_a_card_that_is_nested_too_deep_is_refused(tmp_path, text):
    path = tmp_path / "w.safetensors"
    save_weights(path, {"a": torch.zeros(2)}, {})
    get_card_path(path).write_text(text)
    with pytest.raises(CheckpointError, match=r"w\.json: lists or tables are nested"):
        load_weights(path)


def test_weights_with_a_name_that_no_file_has_are_not_there(tmp_path):
    with pytest.raises(CheckpointError, match="no such weights"):
        load_weights(tmp_path / ("w" * 300 + ".safetensors"))


def test_a_network_is_at_most_as_large_as_its_tensors(tmp_path):
    tensors = {"a": torch.zeros(4, 9), "b": torch.zeros(2), "nothing": torch.zeros(10**9, 0)}
    check_sizes(tmp_path, tensors, layers={"n": 2}, widths={"n": 6}, channels={"n": 9})
    for kind, most in (("layers", 2), ("widths", 6), ("channels", 9)):
        with pytest.raises(CheckpointError, match=rf"n = {most + 1}, .* at most {most}\."):
            check_sizes(tmp_path, tensors, **{kind: {"n": most + 1}})
    with pytest.raises(CheckpointError, match="at most 0"):
        check_sizes(tmp_path, {}, layers={"n": 1})
