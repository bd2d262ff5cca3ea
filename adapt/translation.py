"""A translated picture as it is written, and whether it still shows what its labels say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.certificate import NOT_A_SEQUENCE, ImageCertificate, certify
from sim2cam.adapt.certificate.detector_agreement import Verifier
from sim2cam.adapt.certificate.flicker import PreviousFrame
from sim2cam.adapt.certificate.image_pair import ImagePair, extract_object_regions
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.transfers.transfer import Transfer, read_buffer, read_frame
from sim2cam.adapt.translator.perceptual_consistency import PerceptionModel, PerceptualDistance
from sim2cam.data.sample import Sample
from sim2cam.data.silhouettes import rasterize_instance_ids
from sim2cam.images import (
    LOSSLESS_SUFFIXES,
    LUMA_WEIGHTS,
    decode_image,
    encode_full_depth,
    encode_jpeg,
    encode_png,
    read_full_depth,
    read_header,
)
from sim2cam.seeds import derive_rng

JPEG_QUALITY = 95


@dataclass(frozen=True)
class Verification:
    """What translations are judged by.

    Attributes:
        limits: that they have to keep to.
        verifiers: detectors, by names of ``certificate.VERIFIERS``.
        verifier_digests: of the judges' weights, by the same names.
        perception: the detector that the default translator learns to speak the same to; None without.
        lpips: by which it learns to look the same; None without.
    """

    limits: CertificateLimits = field(default_factory=CertificateLimits)
    verifiers: Mapping[str, Verifier] = field(default_factory=dict)
    verifier_digests: Mapping[str, str] = field(default_factory=dict)
    perception: PerceptionModel | None = None
    lpips: PerceptualDistance | None = None


NO_VERIFIERS = Verification()
"""The limits as they are, and no detector."""


@dataclass(frozen=True, eq=False)
class TranslatedImage:
    """A translated picture.

    Attributes:
        encoded_image: a JPEG; a PNG where the sample is one, or of 16 bits or transparent.
        pair: the picture that it was made from, and it as the file has it.
        certificate: what was measured of it.
    """

    encoded_image: bytes
    pair: ImagePair
    certificate: ImageCertificate


class IndexedSample(NamedTuple):
    """A picture in its data set.

    Attributes:
        sample_index: in the data set.
        sequence_index: that of the first picture of its film; its own where it is none.
        sample: the picture.
    """

    sample_index: int
    sequence_index: int
    sample: Sample


def index_samples(samples: Sequence[Sample]) -> tuple[IndexedSample, ...]:
    """Return pictures with their numbers; later ones of a scene that follow directly are of one film."""
    found: list[IndexedSample] = []
    for index, sample in enumerate(samples):
        is_next = bool(found) and count_frames_between(found[-1].sample, sample) > 0
        found.append(IndexedSample(index, found[-1].sequence_index if is_next else index, sample))
    return tuple(found)


def translate_samples(
    transfer: Transfer,
    indexed_samples: Iterable[IndexedSample],
    seed: int,
    stream_path: str,
    verification: Verification,
) -> Iterator[TranslatedImage]:
    """Yield the translation of each picture, in order.

    The pictures of a film get the same draw, so that it does not flicker by chance, and each is held
    against the one before it.

    Args:
        transfer: what translates.
        indexed_samples: in the order of their numbers.
        seed, stream_path: of what is drawn, as ``stream`` takes them.
        verification: what they are judged by.

    Raises:
        InputError: a file of a sample is missing or broken.
        Sim2CamError: a sample lacks a buffer that the transfer needs.
    """
    last: tuple[Sample, ImagePair] | None = None
    for number, film, sample in indexed_samples:
        rng = derive_rng(seed, stream_path, scene_index=film)
        earlier = _find_previous_frame(sample, last)
        translated = translate_sample(transfer, sample, f"{number:06d}", rng, verification, earlier)
        last = sample, translated.pair
        yield translated


def translate_sample(
    transfer: Transfer,
    sample: Sample,
    name: str,
    rng: np.random.Generator,
    verification: Verification,
    previous_frame: PreviousFrame | str = NOT_A_SEQUENCE,
) -> TranslatedImage:
    """Return the translation of a sample, measured against it.

    A picture of 16 bits or with transparency keeps both: what the transfer changes of it, as eight
    opaque bits, is added to its colours. One of a single channel stays one, of the brightness of what is made of it.

    Args:
        transfer: what translates.
        sample: a render, or a photo.
        name: of the picture in its certificate.
        rng: decides what the transfer draws.
        verification: what it is judged by.
        previous_frame: as ``certify`` takes it.

    Raises:
        InputError: a file of the sample is missing or broken.
        Sim2CamError: the sample lacks a buffer that the transfer needs.
    """
    frame = read_frame(sample)
    made = transfer.apply(frame, rng)
    file = _encode_translation(sample.rgb, frame.rgb, made)
    objects, ids = (
        (sample.objects, frame.ids) if frame.ids is not None else rasterize_instance_ids(sample)
    )
    regions = extract_object_regions(objects, ids, frame.rgb.shape)
    pair = ImagePair(frame.rgb, decode_image(file), regions, ids)
    certificate = certify(
        name,
        pair,
        verification.limits,
        labelled_boxes=None if sample.objects is None else [o.box_xyxy for o in sample.objects],
        verifiers=verification.verifiers,
        previous_frame=previous_frame,
    )
    return TranslatedImage(file, pair, certificate)


def encode_like(path: Path, rgb: NDArray[np.uint8]) -> bytes:
    """Return the file of a picture (h, w, 3) or (h, w): a PNG where another one's file keeps every level."""
    is_kept = path.suffix.lower() in LOSSLESS_SUFFIXES
    return encode_png(rgb) if is_kept else encode_jpeg(rgb, JPEG_QUALITY)


def count_frames_between(first: Sample, second: Sample) -> int:
    """Return how many pictures of a film the other is after the one; 0 where they are of two."""
    if (
        first.frame_info is None
        or second.frame_info is None
        or first.scene_index != second.scene_index
    ):
        return 0
    return max(second.frame_info.frame_index - first.frame_info.frame_index, 0)


def _find_previous_frame(
    sample: Sample, previous: tuple[Sample, ImagePair] | None
) -> PreviousFrame | str:
    """Return the picture before one of a film, or why there is none to compare it with.

    Args:
        sample: the picture.
        previous: the one before it in the data set, with its translation.

    Raises:
        InputError: the flow cannot be read.
    """
    if sample.frame_info is None:
        return NOT_A_SEQUENCE
    if sample.frame_info.frame_index == 0:
        return "it is the first of its film"
    if "flow_backward" not in sample.channels:
        is_video = sample.frame_info.camera_pose is None
        return "no flow: a video has none" if is_video else "no flow: render with flow_backward"
    if previous is None or count_frames_between(previous[0], sample) != 1:
        return "the picture before it is not there"
    flow = read_buffer(sample, "flow_backward", previous[1].after.shape)
    assert flow is not None
    return PreviousFrame(previous[1], flow)


def _encode_translation(
    path: Path, before: NDArray[np.uint8], translated: NDArray[np.uint8]
) -> bytes:
    """Return the file of a translation, with all that the picture's own file can hold.

    Args:
        path: of the picture's file.
        before: (h, w, 3), the picture.
        translated: (h, w, 3), of it.
    """
    is_grey = read_header(path).is_grey
    if is_grey:
        translated = np.repeat(
            (translated @ np.array(LUMA_WEIGHTS)).round().astype(np.uint8)[..., None], 3, axis=2
        )
    layers = read_full_depth(path)
    if layers is None:
        return encode_like(path, translated[..., 0] if is_grey else translated)
    changed = layers.add_levels(translated.astype(np.int16) - before)
    if is_grey and changed.alpha is None:
        return encode_png(changed.rgb[..., 0])
    return encode_full_depth(changed)
