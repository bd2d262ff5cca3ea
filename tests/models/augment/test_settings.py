"""Augmentations that need instance masks are settings of a training, and stand in its card."""

import json
from dataclasses import replace

import pytest

from sim2cam.errors import InputError
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.setup import AuxiliaryData, make_training_setup
from sim2cam.models.training.training import build_batch_maker, train_detector

CONFIG = TrainConfig(steps=4, batch=2, crop_px=64, warmup_steps=1)
PURPOSES = {
    "copy_paste": "pasted into other images",
    "dead_leaves": "put on dead-leaves backgrounds",
    "instance_colour_jitter": "jittered in colour",
}


@pytest.mark.parametrize("setting", PURPOSES)
def test_it_is_a_training_s_to_say(make_dataset, tmp_path, setting):
    parts = ((make_dataset(n=4), 1.0),)
    usual, changed = CONFIG, replace(CONFIG, **{setting: True})
    batches = []
    for config in (usual, changed):
        lesson = make_training_setup(parts, config, AuxiliaryData())
        assert lesson.tasks.needs_instance_map == (config is changed)
        maker = build_batch_maker(lesson.datasets, lesson.categories, lesson.tasks, config)
        batches.append(b"".join(maker.make(step).rgb.tobytes() for step in range(4)))
    assert batches[0] != batches[1]
    train_detector(parts, changed, tmp_path / "run")
    card = json.loads((tmp_path / "run" / "weights.json").read_text())
    assert card["config"][setting] is True
    assert "background_images" not in card
    assert setting not in usual.to_json()


@pytest.mark.parametrize(("setting", "purpose"), PURPOSES.items())
def test_data_without_instance_masks_are_refused(make_dataset, setting, purpose):
    photos = make_dataset("photos", with_ids=False)
    with pytest.raises(InputError) as caught:
        make_training_setup(((photos, 1.0),), replace(CONFIG, **{setting: True}), AuxiliaryData())
    assert str(caught.value) == (
        f"{photos.root}: has no instance masks, so objects cannot be {purpose}. Render with ids in "
        f"--channels, or train with {setting} = false."
    )
