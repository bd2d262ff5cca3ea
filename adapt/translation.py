"""A translated picture as it is written, and whether it still shows what its labels say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.certificate import NO_FILM, PictureCertificate, certify
from sim2cam.adapt.certificate.detector_agreement import Judge
from sim2cam.adapt.certificate.flicker import Earlier
from sim2cam.adapt.certificate.image_pair import Pair, regions_of
from sim2cam.adapt.certificate.limits import Limits
from sim2cam.adapt.transfers.transfer import Transfer, read_buffer, read_frame
from sim2cam.adapt.translator.perceptual_consistency import Distances, Perception
from sim2cam.data.sample import Dataset, Sample
from sim2cam.data.silhouettes import painted
from sim2cam.images import (
    LOSSLESS,
    LUMA,
    decode_picture,
    encode_jpeg,
    encode_layers,
    encode_png,
    read_header,
    read_layers,
)
from sim2cam.seeds import stream

JPEG_QUALITY = 95


@dataclass(frozen=True)
class Jury:
    """What translations are judged by.

    Attributes:
        limits: that they have to keep to.
        judges: detectors, by names of ``certificate.JUDGES``.
        digests: of the judges' weights, by the same names.
        perception: the detector that the default translator learns to speak the same to; None without.
        lpips: by which it learns to look the same; None without.
        dev: labelled captures that help to choose among weights (``Probe``); None without.
    """

    limits: Limits = field(default_factory=Limits)
    judges: Mapping[str, Judge] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    perception: Perception | None = None
    lpips: Distances | None = None
    dev: Dataset | None = None


NO_JUDGES = Jury()
"""The limits as they are, and no detector."""


@dataclass(frozen=True, eq=False)
class Translated:
    """A translated picture.

    Attributes:
        file: a JPEG; a PNG where the sample is one, or of 16 bits or transparent.
        pair: the picture that it was made from, and it as the file has it.
        certificate: what was measured of it.
    """

    file: bytes
    pair: Pair
    certificate: PictureCertificate


class Numbered(NamedTuple):
    """A picture in its data set.

    Attributes:
        number: in the data set.
        film: that of the first picture of its film; its own where it is none.
        sample: the picture.
    """

    number: int
    film: int
    sample: Sample


def numbered(samples: Sequence[Sample]) -> tuple[Numbered, ...]:
    """Returns pictures with their numbers; later ones of a scene that follow directly are of one film."""
    found: list[Numbered] = []
    for index, sample in enumerate(samples):
        is_next = bool(found) and frames_between(found[-1].sample, sample) > 0
        found.append(Numbered(index, found[-1].film if is_next else index, sample))
    return tuple(found)


def translate_all(
    transfer: Transfer, pictures: Iterable[Numbered], seed: int, path: str, jury: Jury
) -> Iterator[Translated]:
    """Yields the translation of each picture, in order.

    The pictures of a film get the same draw, so that it does not flicker by chance, and each is held
    against the one before it.

    Args:
        transfer: what translates.
        pictures: in the order of their numbers.
        seed, path: of what is drawn, as ``stream`` takes them.
        jury: what they are judged by.

    Raises:
        InputError: a file of a sample is missing or broken.
        Sim2CamError: a sample lacks a buffer that the transfer needs.
    """
    last: tuple[Sample, Pair] | None = None
    for number, film, sample in pictures:
        rng = stream(seed, path, scene_index=film)
        earlier = _earlier(sample, last)
        translated = translate(transfer, sample, f"{number:06d}", rng, jury, earlier)
        last = sample, translated.pair
        yield translated


def translate(
    transfer: Transfer,
    sample: Sample,
    name: str,
    rng: np.random.Generator,
    jury: Jury,
    earlier: Earlier | str = NO_FILM,
) -> Translated:
    """Returns the translation of a sample, measured against it.

    A picture of 16 bits or with transparency keeps both: what the transfer changes of it, as eight
    opaque bits, is added to its colours. One of a single channel stays one, of the brightness of what is made of it.

    Args:
        transfer: what translates.
        sample: a render, or a photo.
        name: of the picture in its certificate.
        rng: decides what the transfer draws.
        jury: what it is judged by.
        earlier: as ``certify`` takes it.

    Raises:
        InputError: a file of the sample is missing or broken.
        Sim2CamError: the sample lacks a buffer that the transfer needs.
    """
    frame = read_frame(sample)
    made = transfer.apply(frame, rng)
    file = _written(sample.rgb, frame.rgb, made)
    objects, ids = (sample.objects, frame.ids) if frame.ids is not None else painted(sample)
    regions = regions_of(objects, ids, frame.rgb.shape)
    pair = Pair(frame.rgb, decode_picture(file), regions, ids)
    certificate = certify(
        name,
        pair,
        jury.limits,
        labelled=None if sample.objects is None else [o.box_xyxy for o in sample.objects],
        judges=jury.judges,
        earlier=earlier,
    )
    return Translated(file, pair, certificate)


def encode_as(path: Path, rgb: NDArray[np.uint8]) -> bytes:
    """Returns the file of a picture (h, w, 3) or (h, w): a PNG where another one's file keeps every level."""
    is_kept = path.suffix.lower() in LOSSLESS
    return encode_png(rgb) if is_kept else encode_jpeg(rgb, JPEG_QUALITY)


def frames_between(one: Sample, other: Sample) -> int:
    """Returns how many pictures of a film the other is after the one; 0 where they are of two."""
    if one.moment is None or other.moment is None or one.scene_index != other.scene_index:
        return 0
    return max(other.moment.frame - one.moment.frame, 0)


def _earlier(sample: Sample, last: tuple[Sample, Pair] | None) -> Earlier | str:
    """Returns the picture before one of a film, or why there is none to compare it with.

    Args:
        sample: the picture.
        last: the one before it in the data set, with its translation.

    Raises:
        InputError: the flow cannot be read.
    """
    if sample.moment is None:
        return NO_FILM
    if sample.moment.frame == 0:
        return "it is the first of its film"
    if "flow_backward" not in sample.channels:
        is_video = sample.moment.camera is None
        return "no flow: a video has none" if is_video else "no flow: render with flow_backward"
    if last is None or frames_between(last[0], sample) != 1:
        return "the picture before it is not there"
    flow = read_buffer(sample, "flow_backward", last[1].after.shape)
    assert flow is not None
    return Earlier(last[1], flow)


def _written(path: Path, before: NDArray[np.uint8], made: NDArray[np.uint8]) -> bytes:
    """Returns the file of a translation, with all that the picture's own file can hold.

    Args:
        path: of the picture's file.
        before: (h, w, 3), the picture.
        made: (h, w, 3), of it.
    """
    is_grey = read_header(path).is_grey
    if is_grey:
        made = np.repeat((made @ np.array(LUMA)).round().astype(np.uint8)[..., None], 3, axis=2)
    layers = read_layers(path)
    if layers is None:
        return encode_as(path, made[..., 0] if is_grey else made)
    changed = layers.changed(made.astype(np.int16) - before)
    if is_grey and changed.alpha is None:
        return encode_png(changed.rgb[..., 0])
    return encode_layers(changed)
