"""Renders and captures of the same scenes, and where in them a pair shows the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np

from sim2cam.adapt.certificate.image_pair import ImagePair, ObjectRegion
from sim2cam.adapt.certificate.structure import TemplateMatch, match_objects
from sim2cam.adapt.translator.patches import TILE_PX, TileMask
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.images import IMAGE_SUFFIXES, read_rgb

MAX_SHIFT_PX = 1.0
"""How far a tile of the render may lie from its place in the capture to be learned from."""

MIN_CORRELATION = 0.3
"""Least correlation of such a tile with what the capture has in its place; negative is inverted."""

MIN_REGISTERED_FRACTION = 0.5
"""Least share of a pair's tiles with contrast that have to be so; of others, no tile is believed."""


@dataclass(frozen=True)
class PairsRecord:
    """What a card says of the pairs of a training.

    Attributes:
        pairs: that are used.
        rejected: that show different places, or different things.
        unmatched: renders and captures without a partner.
        registered_fraction: share of the tiles of the used ones that are learned from.
    """

    pairs: int
    rejected: int
    unmatched: int
    registered_fraction: float


@dataclass(frozen=True, eq=False)
class RegisteredPairs:
    """Renders and, in the same order, their captures.

    Attributes:
        sim, real: of the pairs that are used.
        tile_masks: by the render's name, which tiles show the same.
        record: of all.
    """

    sim: Dataset
    real: Dataset
    tile_masks: Mapping[str, TileMask]
    record: PairsRecord


def register_pairs(sim: Dataset, real: Dataset) -> RegisteredPairs:
    """Return the renders and captures of one name, of which most tiles with contrast lie within
    ``MAX_SHIFT_PX`` of one another.

    Names are compared without the suffix of their file. Displacement is that of a certificate
    (``place.places``), of the render's tiles in the capture; a tile without contrast has none.

    Args:
        sim: renders.
        real: captures of the same scenes through the same lens.

    Raises:
        InputError: two of a side have one name, no names match, a pair's sizes differ, or an image
            cannot be read.
    """
    renders, captures = match_by_name(sim, real)
    named = list(zip(renders.samples, captures.samples, strict=True))
    tiles = {render.name: register_tiles(render, capture) for render, capture in named}
    used = [(render, capture) for render, capture in named if tiles[render.name].any()]
    shown = [tiles[render.name] for render, _ in used]
    record = PairsRecord(
        pairs=len(used),
        rejected=len(named) - len(used),
        unmatched=len(sim.samples) + len(real.samples) - 2 * len(named),
        registered_fraction=round(
            sum(int(one.sum()) for one in shown) / max(sum(one.size for one in shown), 1), 4
        ),
    )
    return RegisteredPairs(
        replace(sim, samples=tuple(render for render, _ in used)),
        replace(real, samples=tuple(capture for _, capture in used)),
        {render.name: tiles[render.name] for render, _ in used},
        record,
    )


def match_by_name(sim: Dataset, real: Dataset) -> tuple[Dataset, Dataset]:
    """Return the renders and the captures that share their names, without the suffix of their file, in one order.

    Raises:
        InputError: two of a side have one name, or no names match.
    """
    renders, captures = _index_by_name(sim), _index_by_name(real)
    names = [name for name in renders if name in captures]
    if not names:
        raise InputError(
            real.root,
            f"no capture has the name of a render ('{next(iter(renders))}' and so on; here "
            f"'{next(iter(captures))}' and so on). Name both of a pair alike.",
        )
    return (
        replace(sim, samples=tuple(renders[name] for name in names)),
        replace(real, samples=tuple(captures[name] for name in names)),
    )


def register_tiles(render: Sample, capture: Sample) -> TileMask:
    """Return which tiles of a pair show the same; none where too few do.

    Raises:
        InputError: the sizes differ, or an image cannot be read.
    """
    before, after = read_rgb(render.rgb), read_rgb(capture.rgb)
    (height, width), (other_height, other_width) = before.shape[:2], after.shape[:2]
    if before.shape != after.shape:
        raise InputError(
            capture.rgb,
            f"{other_width}x{other_height} pixels, but its render {render.rgb.name} has "
            f"{width}x{height}. Bring both of a pair to one size.",
        )
    rows, columns = -(-height // TILE_PX), -(-width // TILE_PX)
    regions = tuple(
        _build_tile_region(row, column, height, width)
        for row in range(rows)
        for column in range(columns)
    )
    found = match_objects(ImagePair(before, after, regions))
    seen = [place for place in found if place is not None]
    tiles = np.array([place is None or _is_registered(place) for place in found])
    if sum(map(_is_registered, seen)) < MIN_REGISTERED_FRACTION * len(seen):
        tiles[:] = False
    return tiles.reshape(rows, columns)


def _is_registered(template_match: TemplateMatch) -> bool:
    return template_match.shift_px <= MAX_SHIFT_PX and template_match.correlation >= MIN_CORRELATION


def _build_tile_region(row: int, column: int, height: int, width: int) -> ObjectRegion:
    rows, columns = (
        slice(TILE_PX * number, min(TILE_PX * (number + 1), side))
        for number, side in ((row, height), (column, width))
    )
    mask = np.ones((rows.stop - rows.start, columns.stop - columns.start), np.bool_)
    return ObjectRegion((rows, columns), mask)


def _index_by_name(dataset: Dataset) -> dict[str, Sample]:
    """Return samples by their names without the suffix of a picture's file.

    Raises:
        InputError: two have one name.
    """
    found: dict[str, Sample] = {}
    for sample in dataset.samples:
        path = PurePath(sample.name)
        name = str(path.with_suffix("")) if path.suffix.lower() in IMAGE_SUFFIXES else sample.name
        if name in found:
            raise InputError(
                sample.rgb, f"another picture is called '{name}' too. Give each pair its own name."
            )
        found[name] = sample
    return found
