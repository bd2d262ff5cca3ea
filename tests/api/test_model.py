"""The public API: load weights, predict images of any type."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import sim2cam
from sim2cam.api.inputs import load_rgb
from sim2cam.errors import InputError, Sim2CamError, UsageError
from sim2cam.images import encode_png

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (40, 60, 3), np.uint8)
GREY = RGB[..., 0]
GREY_AS_RGB = np.repeat(GREY[..., None], 3, axis=2)
RGBA = np.dstack([RGB, np.full((40, 60), 255, np.uint8)])
DEEP = RGB.astype(np.uint16) * 257


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (RGB, RGB),
        (RGB[:, ::-1], RGB[:, ::-1]),
        (GREY, GREY_AS_RGB),
        (GREY[..., None], GREY_AS_RGB),
        (RGBA, RGB),
        (DEEP, RGB),
        (DEEP[..., 0], GREY_AS_RGB),
        (RGB / 255, RGB),
        ((RGB / 255).astype(np.float32), RGB),
        (Image.fromarray(RGB), RGB),
        (Image.fromarray(GREY), GREY_AS_RGB),
        (Image.fromarray(RGBA), RGB),
        (Image.fromarray(DEEP[..., 0]), GREY_AS_RGB),
        (torch.from_numpy(RGB).permute(2, 0, 1), RGB),
        (torch.from_numpy(RGB).permute(2, 0, 1) / 255, RGB),
        (torch.from_numpy(GREY), GREY_AS_RGB),
        (torch.from_numpy(GREY)[None].requires_grad_(False), GREY_AS_RGB),
    ],
)
def test_every_type_gives_the_same_pixels(image, expected):
    rgb = load_rgb(image)
    assert rgb.dtype == np.uint8
    assert rgb.flags.c_contiguous
    assert np.array_equal(rgb, expected)


def test_transparent_pixels_are_white():
    half = np.array([[[0, 0, 0, 0], [10, 20, 30, 255], [0, 0, 0, 128]]], np.uint8)
    assert load_rgb(half).tolist() == [[[255, 255, 255], [10, 20, 30], [127, 127, 127]]]


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (RGB.astype(np.int64), "an image has values of int64. Allowed: uint8, uint16 and floats."),
        (RGB > 3, "an image has values of bool"),
        (
            RGB.astype(float),
            "a floating-point image has values from 0 to 255. Scale them to 0 to 1",
        ),
        (np.full((4, 4), np.nan), "a floating-point image has values from nan to nan"),
        (RGB / 255 - 0.1, "a floating-point image has values from -0.1 to 0.9."),
        (RGB[None], "an image has shape (1, 40, 60, 3)."),
        (RGB[..., :2], "an image has shape (40, 60, 2)."),
        (RGB[:0], "an image has shape (0, 60, 3)."),
        (torch.from_numpy(RGB), "an image has shape (60, 3, 40)."),
        (7, "cannot read an image from int."),
        (None, "cannot read an image from NoneType."),
    ],
)
def test_unsupported_images_are_refused(image, message):
    with pytest.raises(UsageError) as caught:
        load_rgb(image)
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def model():
    return sim2cam.load("dice")


@pytest.fixture(scope="module")
def photo():
    return sorted((Path(sim2cam.__file__).parent / "recipes/standin").rglob("*.jpg"))[0]


def test_paths_arrays_and_lists_give_the_same_result(model, photo):
    one = model.predict(str(photo))
    rgb = load_rgb(photo)
    assert len(one)
    assert repr(one) == (
        f"PredictionResult({len(one)} objects in {rgb.shape[1]}x{rgb.shape[0]} px, "
        f"ood_score={one.ood_score})"
    )
    assert one.boxes_xyxy.shape == (len(one), 4)
    assert len(one.labels) == len(one.scores) == len(one)
    assert set(one.labels) <= set(model.categories)
    assert (np.diff(one.scores) <= 0).all()
    assert one.ood_score > 0
    assert (one.masks, one.keypoints, one.poses) == (None, None, None)
    none = replace(one, detections=())
    assert none.masks.shape == (0, *rgb.shape[:2])
    assert none.keypoints == ()
    assert np.array_equal(one.image, rgb)
    assert isinstance(model.predict([rgb]), list)
    for other in model.predict([rgb, photo, Image.fromarray(rgb)]):
        assert other.detections == one.detections
    assert len(model.predict(photo, min_score=1.0)) <= len(model.predict(photo, min_score=0.1))


def test_results_are_drawn(model, photo):
    result = model.predict(photo)
    drawn = result.plot()
    assert drawn.dtype == np.uint8
    assert (drawn.shape[1] / drawn.shape[0]) == pytest.approx(
        result.image.shape[1] / result.image.shape[0], rel=0.01
    )
    html = result._repr_html_()
    assert html.startswith("<p>")
    assert "data:image/png;base64," in html
    empty = model.predict(np.zeros((64, 64, 3), np.uint8), min_score=1.0)
    assert empty.boxes_xyxy.shape == (0, 4)
    assert "no objects" in empty._repr_html_()


def test_errors_say_what_to_do(model, photo, tmp_path):
    for bad, kind, message in (
        (lambda: sim2cam.load("dicee"), UsageError, "Did you mean 'dice'?"),
        (lambda: sim2cam.load(tmp_path / "none.safetensors"), Sim2CamError, "none.safetensors"),
        (lambda: model.predict(tmp_path / "none.png"), InputError, "none.png"),
        (lambda: model.predict(photo, min_score=2), UsageError, "min_score must be 0 to 1, not 2."),
        (lambda: model.predict(photo, lens=object()), UsageError, "dice predicts no poses."),
    ):
        with pytest.raises(kind) as caught:
            bad()
        assert message in str(caught.value)
    with pytest.raises(AttributeError, match="module 'sim2cam' has no attribute 'lod'"):
        sim2cam.lod  # noqa: B018
    assert {"load", "Model"} <= set(dir(sim2cam))


def test_importing_loads_no_heavy_library():
    code = "import sys, sim2cam; print([m for m in ('numpy', 'torch', 'cv2', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_adapt_is_a_package_and_a_function():
    code = (
        "import sim2cam; first = sim2cam.adapt; import sim2cam.adapt.card as card\n"
        "assert callable(first) and callable(sim2cam.adapt) and card.compute_sample_digest"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_16_bit_files_read_as_their_arrays_do(tmp_path):
    path = tmp_path / "deep.png"
    path.write_bytes(encode_png(DEEP))
    assert np.array_equal(load_rgb(path), load_rgb(DEEP))
