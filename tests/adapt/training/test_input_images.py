import pytest

from sim2cam.adapt.training.input_images import check_images_unchanged, explain_unreadable_images
from sim2cam.errors import CheckpointError, InputError, OutputError
from sim2cam.learn.checkpoint import Checkpoint, save_checkpoint
from sim2cam.learn.run_folder import CHECKPOINT

BEGUN = {"sim": {"0": "a"}, "real": {name: name for name in "abcdef"}}


@pytest.fixture
def run(tmp_path):
    save_checkpoint(tmp_path / CHECKPOINT, Checkpoint(7, {}, {}, {"image_digests": BEGUN}))
    return tmp_path


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (
            {"sim": {}},
            "--sim differ from those at the start of the training: 0 is missing. Restore it and continue",
        ),
        (
            {"real": {"f": "f"}},
            "--real differ from those at the start of the training: a, b, c and 2 more are missing. Restore them and continue",
        ),
        (
            {"real": BEGUN["real"] | {"b": "x", "c": "y"}},
            "--real differ from those at the start of the training: b, c are changed. Restore them and continue",
        ),
        (
            {"real": BEGUN["real"] | {"g": "g"}},
            "--real differ from those at the start of the training: g is new. Remove it and continue",
        ),
    ],
)
def test_what_is_no_longer_the_same_is_named(run, now, told):
    with pytest.raises(CheckpointError) as caught:
        check_images_unchanged(run, BEGUN | now)
    assert str(caught.value) == (
        f"{run / CHECKPOINT}: the images of {told} with --resume, or start again with --overwrite."
    )


def test_the_same_pictures_and_checkpoints_that_do_not_say_are_gone_on_with(run, tmp_path):
    check_images_unchanged(run, BEGUN)
    check_images_unchanged(tmp_path / "none", {})
    save_checkpoint(run / CHECKPOINT, Checkpoint(7, {}, {}))
    check_images_unchanged(run, {})
    (run / CHECKPOINT).write_bytes(b"broken")
    check_images_unchanged(run, {})


def test_only_of_pictures_it_is_told_what_to_do():
    with pytest.raises(InputError) as caught, explain_unreadable_images():
        raise InputError("a.jpg", "damaged image.")
    assert str(caught.value) == (
        "a.jpg: damaged image. Restore the file and continue with --resume; progress so far is kept."
    )
    with pytest.raises(OutputError, match=r"^a: full$"), explain_unreadable_images():
        raise OutputError("a", "full")
