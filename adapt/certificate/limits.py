"""How much a translation may do to a picture, and to a set of pictures, before it is rejected."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """The limits of a certificate; of objects, the worst of a picture counts.

    Attributes:
        displacement_px: most that an object may move.
        correlation: least between an object's picture before and after, -1 to 1; negative is
            inverted.
        outline_recall: least share of an object's seen outline that must still be seen.
        colour_shift: most that an object's colour may move against its surroundings, in logarithms
            of red over green and blue over green.
        picture_correlation: least between the whole picture before and after, likewise.
        added_levels: most contrast of structure that was not there, of 255 levels.
        lost_levels: most contrast of structure within an object that is gone, of 255 levels.
        grid_levels: most amplitude of a wave of a grid that was not there.
        seam_levels: most step along a whole row or column that was not there.
        clipped_share: most pixels, of the picture or of its objects, that lost their light.
        warp_levels: most flicker of a film, from one picture to the next, of 255 levels.
        retained: least share of the objects that a judge found before and must find again, as the
            same category.
        vanished: most objects of a picture that a judge does not find any more.
        hallucinated: most objects of a picture that a judge finds where none was.
        rejected: most pictures of a set, as a share, that may break a limit.
        set_retained: as ``retained``, of all objects of a set together; it is broken where the 95 %
            interval of their share lies below.
    """

    displacement_px: float = 1.0
    correlation: float = 0.3
    outline_recall: float = 0.5
    colour_shift: float = 0.4
    picture_correlation: float = 0.2
    added_levels: float = 8.0
    lost_levels: float = 6.0
    grid_levels: float = 0.5
    seam_levels: float = 3.0
    clipped_share: float = 0.8
    warp_levels: float = 4.0
    retained: float = 0.6
    vanished: int = 0
    hallucinated: int = 0
    rejected: float = 0.05
    set_retained: float = 0.97

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = _RANGES.get(field.name, (0.0, 255.0))
            if not low <= value <= high:  # so written, it refuses NaN too
                raise ValueError(f"{field.name} must be {low:g} to {high:g}, not {value}")


_RANGES = {
    "correlation": (-1.0, 1.0),
    "picture_correlation": (-1.0, 1.0),
    "outline_recall": (0.0, 1.0),
    "clipped_share": (0.0, 1.0),
    "retained": (0.0, 1.0),
    "rejected": (0.0, 1.0),
    "set_retained": (0.0, 1.0),
}
