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
from sim2cam.dataset.writer import PictureSuffix
from sim2cam.images import (
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_layers,
    read_layers,
)

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
        file: a JPEG; a PNG where the sample is of 16 bits or transparent.
        suffix: of the file's name.
        rgb: (h, w, 3), as the file has it.
        certificate: what was measured of it.
    """

    file: bytes
    suffix: PictureSuffix
    rgb: NDArray[np.uint8]
    certificate: PictureCertificate


def translate(
    transfer: Transfer, sample: Sample, name: str, rng: np.random.Generator, jury: Jury
) -> Translated:
    """Returns the translation of a sample, measured against it.

    A picture of 16 bits or with transparency keeps both: what the transfer changes of it, as eight
    opaque bits, is added to its colours.

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
    made = transfer.apply(frame, rng)
    file, suffix, rgb = _written(sample, made, made.astype(np.int16) - frame.rgb)
    regions = regions_of(sample.objects, frame.ids, frame.rgb.shape)
    certificate = certify(
        name,
        Pair(frame.rgb, rgb, regions, frame.ids),
        jury.limits,
        labelled=None if sample.objects is None else [o.box_xyxy for o in sample.objects],
        judges=jury.judges,
    )
    return Translated(file, suffix, rgb, certificate)


def _written(
    sample: Sample, made: NDArray[np.uint8], change: NDArray[np.int16]
) -> tuple[bytes, PictureSuffix, NDArray[np.uint8]]:
    """Returns the file of a translation, its suffix, and the picture (h, w, 3) in it."""
    layers = read_layers(sample.rgb)
    if layers is None:
        jpeg = encode_jpeg(made, JPEG_QUALITY)
        return jpeg, ".jpg", decode_jpeg(jpeg)
    png = encode_layers(layers.changed(change))
    return png, ".png", decode_png(png)
