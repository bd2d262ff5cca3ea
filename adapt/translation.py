"""Translation of samples: encoded images and their certificates."""

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
    """How translations are verified, and networks for perceptual losses.

    Attributes:
        limits: limits of the certificate.
        verifiers: verifier detectors by the names in ``certificate.VERIFIERS``.
        verifier_digests: digests of their weights by the same names.
        perception: detector of the perception-consistency loss; None without it.
        lpips: distance of the LPIPS loss; None without it.
    """

    limits: CertificateLimits = field(default_factory=CertificateLimits)
    verifiers: Mapping[str, Verifier] = field(default_factory=dict)
    verifier_digests: Mapping[str, str] = field(default_factory=dict)
    perception: PerceptionModel | None = None
    lpips: PerceptualDistance | None = None


NO_VERIFIERS = Verification()
"""Default limits without detectors."""


@dataclass(frozen=True, eq=False)
class TranslatedImage:
    """A translated image.

    Attributes:
        encoded_image: file content: JPEG, or PNG if the source is lossless, 16-bit or transparent.
        pair: the source, and the translation as decoded from the file.
        certificate: certificate of the translation.
    """

    encoded_image: bytes
    pair: ImagePair
    certificate: ImageCertificate


class IndexedSample(NamedTuple):
    """A sample with its position in the dataset.

    Attributes:
        sample_index: index in the dataset.
        sequence_index: index of the first frame of its sequence; its own index for single images.
        sample: the sample.
    """

    sample_index: int
    sequence_index: int
    sample: Sample


def index_samples(samples: Sequence[Sample]) -> tuple[IndexedSample, ...]:
    """Return samples with their indices; consecutive later frames of a scene form a sequence."""
    indexed_samples: list[IndexedSample] = []
    for index, sample in enumerate(samples):
        is_next = (
            bool(indexed_samples) and count_frames_between(indexed_samples[-1].sample, sample) > 0
        )
        indexed_samples.append(
            IndexedSample(index, indexed_samples[-1].sequence_index if is_next else index, sample)
        )
    return tuple(indexed_samples)


def translate_samples(
    transfer: Transfer,
    indexed_samples: Iterable[IndexedSample],
    seed: int,
    stream_path: str,
    verification: Verification,
) -> Iterator[TranslatedImage]:
    """Yield the translation of each sample, in order.

    All frames of a sequence use the same random numbers, so that sampling adds no flicker. Each frame is
    compared with the frame before it.

    Args:
        indexed_samples: samples in the order of their indices.
        stream_path: path of the random stream, as in ``derive_rng``.

    Raises:
        InputError: a file of a sample is missing or broken.
        Sim2CamError: a sample lacks a buffer that the transfer needs.
    """
    previous: tuple[Sample, ImagePair] | None = None
    for index, sequence_index, sample in indexed_samples:
        rng = derive_rng(seed, stream_path, scene_index=sequence_index)
        previous_frame = _find_previous_frame(sample, previous)
        translated = translate_sample(
            transfer, sample, f"{index:06d}", rng, verification, previous_frame
        )
        previous = sample, translated.pair
        yield translated


def translate_sample(
    transfer: Transfer,
    sample: Sample,
    name: str,
    rng: np.random.Generator,
    verification: Verification,
    previous_frame: PreviousFrame | str = NOT_A_SEQUENCE,
) -> TranslatedImage:
    """Translate a sample and certify the translation.

    A 16-bit or transparent image keeps its depth and alpha: the change of its 8-bit opaque version is added to
    its colours. A single-channel image stays so and takes the luma of the translation.

    Args:
        previous_frame: previous frame of the sequence, as in ``certify``.

    Raises:
        InputError: a file of the sample is missing or broken.
        Sim2CamError: the sample lacks a buffer that the transfer needs.
    """
    frame = read_frame(sample)
    output = transfer.apply(frame, rng)
    encoded = _encode_translation(sample.rgb, frame.rgb, output)
    objects, ids = (
        (sample.objects, frame.ids) if frame.ids is not None else rasterize_instance_ids(sample)
    )
    regions = extract_object_regions(objects, ids, frame.rgb.shape)
    pair = ImagePair(frame.rgb, decode_image(encoded), regions, ids)
    certificate = certify(
        name,
        pair,
        verification.limits,
        labelled_boxes=None if sample.objects is None else [o.box_xyxy for o in sample.objects],
        verifiers=verification.verifiers,
        previous_frame=previous_frame,
    )
    return TranslatedImage(encoded, pair, certificate)


def encode_like(path: Path, rgb: NDArray[np.uint8]) -> bytes:
    """Encode an image (h, w, 3) or (h, w): as PNG if the format of ``path`` is lossless, else as JPEG."""
    is_lossless = path.suffix.lower() in LOSSLESS_SUFFIXES
    return encode_png(rgb) if is_lossless else encode_jpeg(rgb, JPEG_QUALITY)


def count_frames_between(first: Sample, second: Sample) -> int:
    """Return by how many frames the second sample follows the first; 0 if they share no sequence."""
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
    """Return the previous frame of a sequence, or the reason why there is none.

    Args:
        previous: the previous sample of the dataset, with its translation.

    Raises:
        InputError: the flow cannot be read.
    """
    if sample.frame_info is None:
        return NOT_A_SEQUENCE
    if sample.frame_info.frame_index == 0:
        return "first frame of its sequence"
    if "flow_backward" not in sample.channels:
        is_video = sample.frame_info.camera_pose is None
        return "a video has no flow" if is_video else "no flow: render with flow_backward"
    if previous is None or count_frames_between(previous[0], sample) != 1:
        return "the previous frame is missing"
    flow = read_buffer(sample, "flow_backward", previous[1].after.shape)
    assert flow is not None
    return PreviousFrame(previous[1], flow)


def _encode_translation(
    path: Path, before: NDArray[np.uint8], translated: NDArray[np.uint8]
) -> bytes:
    """Encode a translation (h, w, 3) with the channels and bit depth of the source file."""
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
