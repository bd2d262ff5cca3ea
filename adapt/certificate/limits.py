"""How much a translation may do to a picture, and to a set of pictures, before it is rejected."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class CertificateLimits:
    """The limits of a certificate; of objects, the worst of a picture counts.

    Attributes:
        object_shift_px: most that an object may move.
        structure_correlation: least between an object's picture before and after, -1 to 1; negative is
            inverted.
        edge_recall: least share of an object's seen outline that must still be seen.
        colour_shift: most that an object's colour may move against its surroundings, in logarithms
            of red over green and blue over green.
        image_correlation: least between the whole picture before and after, likewise.
        added_structure_levels: most contrast of structure that was not there, of 255 levels.
        lost_structure_levels: most contrast of structure within an object that is gone, of 255 levels.
        grid_artefact_levels: most amplitude of a wave of a grid that was not there.
        seam_step_levels: most step along a whole row or column that was not there.
        clipped_fraction: most pixels, of the picture or of its objects, that lost their light.
        warping_error_levels: most flicker of a film, from one picture to the next, of 255 levels.
        detection_recall: least share of the objects that a judge found before and must find again, as the
            same category.
        missed_detections: most objects of a picture that a judge does not find any more.
        hallucinated_detections: most objects of a picture that a judge finds where none was.
        rejected_fraction: most pictures of a set, as a share, that may break a limit.
        dataset_detection_recall: as ``detection_recall``, of all objects of a set together; it is broken where the 95 %
            interval of their share lies below.
    """

    object_shift_px: float = 1.0
    structure_correlation: float = 0.3
    edge_recall: float = 0.5
    colour_shift: float = 0.4
    image_correlation: float = 0.2
    added_structure_levels: float = 8.0
    lost_structure_levels: float = 6.0
    grid_artefact_levels: float = 0.5
    seam_step_levels: float = 3.0
    clipped_fraction: float = 0.8
    warping_error_levels: float = 4.0
    detection_recall: float = 0.6
    missed_detections: int = 0
    hallucinated_detections: int = 0
    rejected_fraction: float = 0.05
    dataset_detection_recall: float = 0.97

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = _FIELD_RANGES.get(field.name, (0.0, 255.0))
            if not low <= value <= high:  # so written, it refuses NaN too
                raise ValueError(f"{field.name} must be {low:g} to {high:g}, not {value}")


_FIELD_RANGES = {
    "structure_correlation": (-1.0, 1.0),
    "image_correlation": (-1.0, 1.0),
    "edge_recall": (0.0, 1.0),
    "clipped_fraction": (0.0, 1.0),
    "detection_recall": (0.0, 1.0),
    "rejected_fraction": (0.0, 1.0),
    "dataset_detection_recall": (0.0, 1.0),
}
