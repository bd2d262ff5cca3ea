"""Pairs of renders and real images of the same scene, with masks of registered tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np

from sim2cam.adapt.certificate.displacement import TemplateMatch, match_objects
from sim2cam.adapt.certificate.image_pair import ImagePair, ObjectRegion
from sim2cam.adapt.translator.patches import TILE_PX, TileMask
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.images import IMAGE_SUFFIXES, read_rgb

MAX_SHIFT_PX = 1.0
"""Largest displacement of a tile of the render in the real image for the tile to be used."""

MIN_CORRELATION = 0.3
"""Least correlation of such a tile with the real image at its position; negative means inverted."""

MIN_REGISTERED_FRACTION = 0.5
"""Least fraction of a pair's tiles with contrast that must be registered for the pair to be used."""


@dataclass(frozen=True)
class PairsRecord:
    """Record of the pairs of a training in its card.

    Attributes:
        pairs: used pairs.
        rejected: pairs that are not registered or differ in content.
        unmatched: renders and real images without a partner.
        registered_fraction: fraction of the tiles of used pairs that are registered.
    """

    pairs: int
    rejected: int
    unmatched: int
    registered_fraction: float


@dataclass(frozen=True, eq=False)
class RegisteredPairs:
    """Renders and their paired real images, in the same order.

    Attributes:
        sim, real: images of the used pairs.
        tile_masks: mask of registered tiles by name of the render.
        record: record of all pairs.
    """

    sim: Dataset
    real: Dataset
    tile_masks: Mapping[str, TileMask]
    record: PairsRecord


def register_pairs(sim: Dataset, real: Dataset) -> RegisteredPairs:
    """Pair renders and real images by name and keep pairs whose tiles are mostly registered.

    Names are compared without file suffix. The displacement of tiles is measured as for certificates
    (``match_objects``). Tiles without contrast count as registered.

    Args:
        real: real images of the same scenes through the same lens.

    Raises:
        InputError: a name is not unique, no names match, sizes of a pair differ, or an image cannot be read.
    """
    renders, captures = match_by_name(sim, real)
    candidates = list(zip(renders.samples, captures.samples, strict=True))
    masks = {render.name: register_tiles(render, capture) for render, capture in candidates}
    accepted = [(render, capture) for render, capture in candidates if masks[render.name].any()]
    accepted_masks = [masks[render.name] for render, _ in accepted]
    record = PairsRecord(
        pairs=len(accepted),
        rejected=len(candidates) - len(accepted),
        unmatched=len(sim.samples) + len(real.samples) - 2 * len(candidates),
        registered_fraction=round(
            sum(int(mask.sum()) for mask in accepted_masks)
            / max(sum(mask.size for mask in accepted_masks), 1),
            4,
        ),
    )
    return RegisteredPairs(
        replace(sim, samples=tuple(render for render, _ in accepted)),
        replace(real, samples=tuple(capture for _, capture in accepted)),
        {render.name: masks[render.name] for render, _ in accepted},
        record,
    )


def match_by_name(sim: Dataset, real: Dataset) -> tuple[Dataset, Dataset]:
    """Return the renders and real images that share a name (without file suffix), in the same order.

    Raises:
        InputError: a name is not unique, or no names match.
    """
    renders, captures = _index_by_name(sim), _index_by_name(real)
    names = [name for name in renders if name in captures]
    if not names:
        raise InputError(
            real.root,
            f"no real image has the name of a render (renders: '{next(iter(renders))}', …; real images: "
            f"'{next(iter(captures))}', …). Give both images of a pair the same name.",
        )
    return (
        replace(sim, samples=tuple(renders[name] for name in names)),
        replace(real, samples=tuple(captures[name] for name in names)),
    )


def register_tiles(render: Sample, capture: Sample) -> TileMask:
    """Return the mask of registered tiles of a pair; all False if too few are registered.

    Raises:
        InputError: the sizes differ, or an image cannot be read.
    """
    before, after = read_rgb(render.rgb), read_rgb(capture.rgb)
    (height, width), (other_height, other_width) = before.shape[:2], after.shape[:2]
    if before.shape != after.shape:
        raise InputError(
            capture.rgb,
            f"has {other_width}x{other_height} pixels, but its render {render.rgb.name} has "
            f"{width}x{height}. Resize both images of a pair to the same size.",
        )
    rows, columns = -(-height // TILE_PX), -(-width // TILE_PX)
    regions = tuple(
        _build_tile_region(row, column, height, width)
        for row in range(rows)
        for column in range(columns)
    )
    matches = match_objects(ImagePair(before, after, regions))
    measured = [match for match in matches if match is not None]
    mask = np.array([match is None or _is_registered(match) for match in matches])
    if sum(map(_is_registered, measured)) < MIN_REGISTERED_FRACTION * len(measured):
        mask[:] = False
    return mask.reshape(rows, columns)


def _is_registered(template_match: TemplateMatch) -> bool:
    return template_match.shift_px <= MAX_SHIFT_PX and template_match.correlation >= MIN_CORRELATION


def _build_tile_region(row: int, column: int, height: int, width: int) -> ObjectRegion:
    rows, columns = (
        slice(TILE_PX * index, min(TILE_PX * (index + 1), length))
        for index, length in ((row, height), (column, width))
    )
    mask = np.ones((rows.stop - rows.start, columns.stop - columns.start), np.bool_)
    return ObjectRegion((rows, columns), mask)


def _index_by_name(dataset: Dataset) -> dict[str, Sample]:
    """Return samples by name without image file suffix.

    Raises:
        InputError: a name is not unique.
    """
    samples: dict[str, Sample] = {}
    for sample in dataset.samples:
        path = PurePath(sample.name)
        name = str(path.with_suffix("")) if path.suffix.lower() in IMAGE_SUFFIXES else sample.name
        if name in samples:
            raise InputError(
                sample.rgb,
                f"another image has the name '{name}' too. Give each pair a unique name.",
            )
        samples[name] = sample
    return samples
