from dataclasses import replace

import numpy as np
import pytest

from sim2cam import images
from sim2cam.data.real_images import read_real_images
from sim2cam.errors import InputError
from sim2cam.experiments.domain_gap import (
    RAW_RENDER,
    extract_real_features,
    extract_render_features,
    measure_stage_gaps,
    shrink_to_width,
)
from sim2cam.files import write_bytes
from sim2cam.metrics.image_statistics import compute_image_statistics
from sim2cam.pipeline.recipe import RenderOptions, load_recipe
from sim2cam.scene.image_formation import FORMATION_STAGES

SMALL = replace(load_recipe("dice"), render=RenderOptions(width=96, height=80, views=2))


def quiet(*_):
    pass


def test_all_stages_equal_rendered_images(sim):
    bare, whole = extract_render_features(
        SMALL, ((), FORMATION_STAGES), count=2, seed=3, workers=1, progress=quiet, keep_count=2
    )
    for index in (0, 1):
        rendered = images.read_rgb(sim.samples[index * SMALL.render.samples_per_scene].rgb)
        assert np.array_equal(whole.images[index], rendered)
        assert not np.array_equal(bare.images[index], rendered)
    assert whole.sampled_values[1]["light/warmth"] == bare.sampled_values[1]["light/warmth"]
    assert whole.features.shape == bare.features.shape == (2, whole.features.shape[1])


def test_gap_closes_with_the_last_stage(sim):
    captures = replace(sim, samples=sim.samples[::2])  # one per scene
    (steps,) = measure_stage_gaps([SMALL], captures, count=14, seed=9, workers=1, progress=quiet)
    assert [step.stage for step in steps] == [RAW_RENDER, *FORMATION_STAGES]
    raw, last = steps[0], steps[-1]
    assert raw.aspects["detail"].p_value < 0.1  # of 14 images
    assert last.aspects["detail"].p_value > 0.1
    assert last.gap.sliced_wasserstein.value < raw.gap.sliced_wasserstein.value
    assert last.gap.auc.value < 0.8
    assert {"exposure", "noise", "jpeg"} <= raw.isp_gaps.keys()
    assert raw.to_json()["isp_gaps"]["jpeg"]["value"] == raw.isp_gaps["jpeg"].value


def test_larger_images_are_downscaled():
    rgb = np.zeros((90, 120, 3), np.uint8)
    assert shrink_to_width(rgb, 60).shape == (45, 60, 3)
    assert shrink_to_width(rgb, 120) is rgb


def test_small_image_is_refused(tmp_path):
    path = tmp_path / "strip.jpg"
    write_bytes(path, images.encode_jpeg(np.zeros((40, 400, 3), np.uint8), 90))
    with pytest.raises(InputError) as error:
        extract_real_features(read_real_images(tmp_path), 256, compute_image_statistics)
    assert str(error.value) == (
        f"{path}: the shorter side is 26 px at a width of 256 px; at least 64 px are needed. Remove "
        "the image."
    )
