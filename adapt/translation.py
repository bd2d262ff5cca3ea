"""A translated picture as it is written, and whether it still shows what its labels say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.certificate import PictureCertificate, certify
from sim2cam.adapt.certificate.limits import Limits
from sim2cam.adapt.certificate.opinion import Judge
from sim2cam.adapt.certificate.pair import Pair, regions_of
from sim2cam.adapt.frame import Transfer, read_frame
from sim2cam.dataset.sample import Sample
from sim2cam.images import decode_jpeg, encode_jpeg

JPEG_QUALITY = 95


@dataclass(frozen=True)
class Jury:
    """What translations are judged by.

    Attributes:
        limits: that they have to keep to.
        judges: detectors, by names of ``certificate.JUDGES``.
        digests: of the judges' weights, by the same names.
    """

    limits: Limits = field(default_factory=Limits)
    judges: Mapping[str, Judge] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


NO_JUDGES = Jury()
"""The limits as they are, and no detector."""


@dataclass(frozen=True, eq=False)
class Translated:
    """A translated picture.

    Attributes:
        jpeg: its file.
        rgb: (h, w, 3), as the file has it.
        certificate: what was measured of it.
    """

    jpeg: bytes
    rgb: NDArray[np.uint8]
    certificate: PictureCertificate


def translate(
    transfer: Transfer, sample: Sample, name: str, rng: np.random.Generator, jury: Jury
) -> Translated:
    """Returns the translation of a sample, measured against it.

    Args:
        transfer: what translates.
        sample: a render, or a photo.
        name: of the picture in its certificate.
        rng: decides what the transfer draws.
        jury: what it is judged by.

    Raises:
        InputError: a file of the sample is missing or broken.
        Sim2CamError: the sample lacks a buffer that the transfer needs.
    """
    frame = read_frame(sample)
    jpeg = encode_jpeg(transfer.apply(frame, rng), JPEG_QUALITY)
    rgb = decode_jpeg(jpeg)
    regions = regions_of(sample.objects, frame.ids, frame.rgb.shape)
    certificate = certify(
        name,
        Pair(frame.rgb, rgb, regions, frame.ids),
        jury.limits,
        labelled=None if sample.objects is None else [o.box_xyxy for o in sample.objects],
        judges=jury.judges,
    )
    return Translated(jpeg, rgb, certificate)
