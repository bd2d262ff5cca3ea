import json
from pathlib import Path

import numpy as np
import pytest
import torch

from sim2cam.adapt.card import ImageSetRecord
from sim2cam.adapt.certificate.artefacts import measure_seam_step
from sim2cam.adapt.certificate.image_pair import ImagePair
from sim2cam.adapt.tiles import split_into_tiles
from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.adapt.translator.card import TranslatorCard
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.generator import initialise_generator
from sim2cam.adapt.translator.translator import (
    TILE_PX,
    Translator,
    build_generator,
    load_translator,
    save_translator,
)
from sim2cam.errors import CheckpointError, Sim2CamError
from sim2cam.learn.run_folder import WEIGHTS

CONFIG = TranslatorConfig(width=8, blocks=1)
BUFFERS = ("depth", "objects")


def make_translator(*, trained: bool, buffers: tuple[str, ...] = ()) -> Translator:
    generator = build_generator(CONFIG, buffers)
    rng = torch.Generator().manual_seed(0)
    initialise_generator(generator, rng)
    if trained:
        with torch.no_grad():
            generator.residual.head.weight.normal_(0.0, 0.1, generator=rng)
            generator.colour_head.matrix.weight.normal_(0.0, 0.1, generator=rng)
    return Translator(generator.eval(), buffers, torch.device("cpu"))


def make_frame(height: int, width: int) -> GBufferFrame:
    rng = np.random.default_rng(height * 1000 + width)
    return GBufferFrame(
        rng.integers(0, 256, (height, width, 3)).astype(np.uint8),
        rng.uniform(0.5, 2.0, (height, width)).astype(np.float32),
        rng.integers(0, 3, (height, width)).astype(np.uint16),
    )


def save(folder: Path, translator: Translator) -> Path:
    images = ImageSetRecord("set", 20, "0" * 64)
    card = TranslatorCard(20, translator.buffers, CONFIG, images, images)
    save_translator(folder / WEIGHTS, translator.generator.state_dict(), card)
    return folder / WEIGHTS


@pytest.mark.parametrize("buffers", [(), BUFFERS])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (37, 53), (64, 48), (129, 31)])
def test_untrained_is_the_identity_to_the_bit(size, buffers):
    frame = make_frame(*size)
    translator = make_translator(trained=False, buffers=buffers)
    assert np.array_equal(translator.apply(frame, np.random.default_rng(0)), frame.rgb)


@pytest.mark.parametrize("size", [(1, 1), (5, 2), (37, 53)])
def test_size_stays_and_equal_rng_gives_equal_images(size):
    frame, translator = make_frame(*size), make_translator(trained=True)
    first, second = (translator.apply(frame, np.random.default_rng(3)) for _ in range(2))
    assert first.dtype == np.uint8
    assert first.shape == frame.rgb.shape
    assert np.array_equal(first, second)


def test_noise_comes_from_the_rng():
    frame, translator = make_frame(24, 24), make_translator(trained=True)
    first, other = (translator.apply(frame, np.random.default_rng(s)) for s in (0, 1))
    assert not np.array_equal(first, other)


def test_padding_does_not_reach_far_into_the_image():
    """Only the last pixels of a cut image differ from those of the whole one."""
    translator = make_translator(trained=True)
    rgb = torch.rand((1, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    others = (torch.zeros(1, 0, 64, 64), torch.zeros(1, 1, 64, 64), torch.zeros(1, 3, 32, 32))
    with torch.inference_mode():
        whole = translator.generator(rgb, *others).unclamped
        cut = translator.generator(
            rgb[..., :48], others[0][..., :48], others[1][..., :48], others[2]
        ).unclamped
    assert torch.allclose(whole[..., :16], cut[..., :16], atol=1e-6)
    assert not torch.allclose(whole[..., 44:48], cut[..., 44:48], atol=1e-6)


@pytest.mark.parametrize("blocks", [1, 3])
def test_reach_covers_all_that_a_pixel_is_made_from(blocks):
    """A change beyond it leaves the pixel as it was, to the bit; one within changes something."""
    generator = build_generator(TranslatorConfig(width=4, blocks=blocks), ())
    rng = torch.Generator().manual_seed(1)
    initialise_generator(generator, rng)
    with torch.no_grad():
        generator.residual.head.weight.normal_(0.0, 0.1, generator=rng)
    side, reach = 4 * generator.receptive_radius_px, generator.receptive_radius_px
    rgb = torch.rand((1, 3, side, side), generator=rng)
    others = torch.zeros(1, 0, side, side), torch.zeros(1, 1, side, side), torch.zeros(1, 3, 32, 32)
    for place in range(side // 2, side // 2 + 4):  # each phase of the stride
        changed = rgb.clone()
        changed[:, :, place, place] = 1.0 - changed[:, :, place, place]
        with torch.inference_mode():
            local = [generator(image, *others).residual for image in (rgb, changed)]
        rows = torch.nonzero((local[0] != local[1]).any(dim=(0, 1, 3))).ravel() - place
        assert reach - 16 < rows.abs().max() <= reach


@pytest.mark.parametrize("size", [(150, 203), (64, 65), (40, 300)])
def test_tiles_join_as_if_there_had_been_one(size, monkeypatch):
    frame, translator = make_frame(*size), make_translator(trained=True, buffers=BUFFERS)
    whole, tiled, careless = (
        translator.translate(frame, np.random.default_rng(0)),
        *(
            _tiled(monkeypatch, translator, frame, reach_px)
            for reach_px in (translator.generator.receptive_radius_px, 0)
        ),
    )
    for name in ("unclamped", "residual", "colour_delta"):
        assert torch.allclose(getattr(whole, name), getattr(tiled, name), atol=1e-5)
    assert not torch.allclose(whole.unclamped, careless.unclamped, atol=1e-3)


def test_tiles_leave_no_seam_that_a_certificate_sees(monkeypatch):
    frame, translator = make_frame(160, 160), make_translator(trained=True, buffers=BUFFERS)
    found = []
    for tile_px, reach_px in ((1536, 24), (64, 24), (64, 0)):
        monkeypatch.setattr("sim2cam.adapt.translator.translator.TILE_PX", tile_px)
        monkeypatch.setattr(translator.generator, "receptive_radius_px", reach_px)
        found.append(translator.apply(frame, np.random.default_rng(0)))
    whole, tiled, careless = found
    assert np.abs(whole.astype(int) - tiled).max() <= 1  # of rounding
    assert np.abs(whole.astype(int) - careless).max() > 2
    grey = np.full_like(whole, 128)
    seams = [measure_seam_step(ImagePair(grey, made)) for made in found]
    assert seams[1] == pytest.approx(seams[0], abs=0.05)


def _tiled(monkeypatch, translator, frame, reach_px):
    with monkeypatch.context() as patch:
        patch.setattr("sim2cam.adapt.translator.translator.TILE_PX", 64)
        patch.setattr(translator.generator, "receptive_radius_px", reach_px)
        return translator.translate(frame, np.random.default_rng(0))


@pytest.mark.parametrize("length", [4, 64, 1536, 1540, 3000, 4000, 100_000])
def test_spans_cover_a_side_once_and_see_what_they_need(length):
    found = list(split_into_tiles(length, 48, TILE_PX))
    made = [
        place for span in found for place in range(span.output_slice.start, span.output_slice.stop)
    ]
    assert made == list(range(length))
    for span in found:
        assert span.output_slice.stop - span.output_slice.start <= TILE_PX
        assert (
            span.crop_slice.stop - span.crop_slice.start
            == span.output_slice.stop - span.output_slice.start
        )
        assert span.input_slice.start + span.crop_slice.start == span.output_slice.start
        assert span.input_slice.start == max(0, span.output_slice.start - 48)
        assert span.input_slice.stop == min(length, span.output_slice.stop + 48)
        assert span.input_slice.start % 4 == span.input_slice.stop % 4 == 0
    assert len(found) == -(-length // TILE_PX)


def test_buffers_change_the_image_of_a_conditioned_translator_alone():
    frame = make_frame(24, 24)
    bare = GBufferFrame(frame.rgb, frame.depth_m, np.zeros_like(frame.ids))
    for buffers, equal in (((), True), (("depth",), True), (BUFFERS, False)):
        translator = make_translator(trained=True, buffers=buffers)
        one, two = (translator.apply(f, np.random.default_rng(0)) for f in (frame, bare))
        assert np.array_equal(one, two) == equal


def test_missing_buffer_is_refused():
    translator = make_translator(trained=True, buffers=BUFFERS)
    with pytest.raises(Sim2CamError, match="trained with depth"):
        translator.apply(GBufferFrame(make_frame(8, 8).rgb), np.random.default_rng(0))


def test_stored_identity_is_still_exact(tmp_path):
    loaded = load_translator(save(tmp_path, make_translator(trained=False, buffers=BUFFERS)))
    frame = make_frame(33, 18)
    assert loaded.buffers == BUFFERS
    assert np.array_equal(loaded.apply(frame, np.random.default_rng(0)), frame.rgb)


def test_folder_and_file_load_the_same(tmp_path):
    file = save(tmp_path, make_translator(trained=True))
    frame = make_frame(16, 20)
    by_file, by_folder = (
        load_translator(path).apply(frame, np.random.default_rng(0)) for path in (file, tmp_path)
    )
    assert np.array_equal(by_file, by_folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "sim2cam detector"}, "not a card of a translator: kind:"),
        (
            {"buffers": ["light"]},
            "unknown buffer 'light'. Allowed: coordinates, depth, normals, objects",
        ),
        ({"buffers": ["depht"]}, "Did you mean 'depth'?"),
        ({"config": {"local_bound": 0.9}}, "local_bound must be above 0 and at most 0.3, not 0.9"),
        ({"config": {"width": 16}}, "the card requires"),
        ({"config": {"blocks": 10**9}}, "the card has config.blocks = 1000000000, but"),
        ({"config": {"width": 10**6}}, "the card has config.width = 1000000, but"),
        ({"config": {"width": 10**30}}, "the card has config.width = 1000000000000"),
        ({"buffers": ["depth"] * 9999}, "the card has buffers (channels) = 9999, but"),
    ],
)
def test_card_that_does_not_fit_is_refused(tmp_path, change, message):
    file = save(tmp_path, make_translator(trained=False))
    card = file.with_suffix(".json")
    content = json.loads(card.read_text())
    content["config"].update(change.pop("config", {}))
    card.write_text(json.dumps(content | change))
    with pytest.raises(CheckpointError) as error:
        load_translator(file)
    assert message in str(error.value)


def test_empty_folder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no such weights"):
        load_translator(tmp_path)
