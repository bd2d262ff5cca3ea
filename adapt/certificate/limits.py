"""Limits of a label-preservation certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sim2cam.scene.parameters import Between, list_parameters


@dataclass(frozen=True)
class CertificateLimits:
    """Limits of a certificate; for object measures, the worst object of an image counts.

    Levels are on a scale of 0 to 255.

    Attributes:
        object_shift_px: largest displacement of an object.
        structure_correlation: least correlation of an object before and after, -1 to 1.
        edge_recall: least fraction of an object's visible outline that survives.
        colour_shift: largest colour shift of an object relative to its surroundings, in log(R/G) and log(B/G).
        image_correlation: least correlation of the whole image before and after, -1 to 1.
        added_structure_levels: largest contrast of added structure.
        lost_structure_levels: largest contrast of structure lost within an object.
        grid_artefact_levels: largest amplitude of an added periodic pattern.
        seam_step_levels: largest added step along a whole row or column.
        clipped_fraction: largest increase of the fraction of clipped pixels, in the image or its objects.
        warping_error_levels: largest flicker between two frames of a sequence.
        detection_recall: least fraction of the objects that a verifier detects again with the same category.
        missed_detections: largest number of objects in an image that a verifier no longer detects.
        hallucinated_detections: largest number of new detections of a verifier in an image.
        rejected_fraction: largest fraction of a dataset's images that may break a limit.
        dataset_detection_recall: least ``detection_recall`` over all objects of a dataset; broken if the upper end of
            its 95 % interval is lower.
    """

    object_shift_px: Annotated[float, Between(0, 255)] = 1.0
    structure_correlation: Annotated[float, Between(-1, 1)] = 0.3
    edge_recall: Annotated[float, Between(0, 1)] = 0.5
    colour_shift: Annotated[float, Between(0, 255)] = 0.4
    image_correlation: Annotated[float, Between(-1, 1)] = 0.2
    added_structure_levels: Annotated[float, Between(0, 255)] = 8.0
    lost_structure_levels: Annotated[float, Between(0, 255)] = 6.0
    grid_artefact_levels: Annotated[float, Between(0, 255)] = 0.5
    seam_step_levels: Annotated[float, Between(0, 255)] = 3.0
    clipped_fraction: Annotated[float, Between(0, 1)] = 0.8
    warping_error_levels: Annotated[float, Between(0, 255)] = 4.0
    detection_recall: Annotated[float, Between(0, 1)] = 0.6
    missed_detections: Annotated[int, Between(0, 255)] = 0
    hallucinated_detections: Annotated[int, Between(0, 255)] = 0
    rejected_fraction: Annotated[float, Between(0, 1)] = 0.05
    dataset_detection_recall: Annotated[float, Between(0, 1)] = 0.97

    def __post_init__(self) -> None:
        for name, parameter in list_parameters(CertificateLimits).items():
            value = getattr(self, name)
            if not parameter.low <= value <= parameter.high:  # also refuses NaN
                raise ValueError(
                    f"{name} must be {parameter.low:g} to {parameter.high:g}, not {value}"
                )
