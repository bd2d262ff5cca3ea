"""Descriptions of the measures of a label-preservation certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim2cam.adapt.certificate.certificate import VERIFIERS


@dataclass(frozen=True)
class MeasureText:
    """Description of a measure.

    Attributes:
        title: plain name.
        standard_name: term of the field, with the unit or range.
        failure: defect of images that break the limit.
        meaning: what a value says about the translated image.
        remedy: what to do if images break the limit.
    """

    title: str
    standard_name: str
    failure: str
    meaning: str
    remedy: str


_DETECTOR_TEXTS: Mapping[str, MeasureText] = {
    "detection_recall": MeasureText(
        "objects found again",
        "detection recall",
        "objects not recognized",
        "Fraction of the objects detected in the render that are detected again with the same category.",
        "Look at the objects that are lost. Train with --task, so that the training preserves detections.",
    ),
    "missed_detections": MeasureText(
        "lost objects",
        "false negatives per image",
        "lost objects",
        "Objects that are detected in the render and not in its translation.",
        "Look at the objects that are lost. Train with --task, so that the training preserves detections.",
    ),
    "hallucinated_detections": MeasureText(
        "invented objects",
        "false positives per image",
        "invented objects",
        "Confident detections in the translation where the render shows no object.",
        "Look at the new detections. Lower local_bound: the translator paints objects into the background.",
    ),
}

MEASURE_TEXTS: Mapping[str, MeasureText] = {
    "object_shift_px": MeasureText(
        "object position",
        "displacement by template matching, px",
        "moved objects",
        "How far an object moved in the image. Boxes, masks and keypoints are wrong by as much.",
        "Lower local_bound, or use --method translator, whose changes are bounded.",
    ),
    "structure_correlation": MeasureText(
        "object pattern",
        "normalized cross-correlation (NCC) of an object, -1 to 1",
        "changed patterns of objects",
        "Whether an object still has its pattern: 1 is unchanged, 0 is unrelated.",
        "Raise structure_weight, or lower local_bound.",
    ),
    "edge_recall": MeasureText(
        "object outline",
        "edge recall, 0 to 1",
        "lost outlines of objects",
        "Fraction of an object's visible outline that survives. A lost outline melts into the background.",
        "Raise structure_weight, or lower local_bound.",
    ),
    "colour_shift": MeasureText(
        "object colour",
        "log-chromaticity shift: log(R/G), log(B/G)",
        "changed colours of objects",
        "Colour change of an object relative to its surroundings. Categories defined by colour become wrong.",
        "Lower colour_bound or local_bound. Check that real images show objects of the rendered colours.",
    ),
    "lost_structure_levels": MeasureText(
        "object print",
        "lost contrast, levels of 255",
        "lost print on objects",
        "Contrast of print or relief inside an object, such as pips, that disappeared or moved.",
        "Raise structure_residual_weight, or train longer with --steps.",
    ),
    **{
        f"{verifier}_{name}": MeasureText(
            f"{text.title} ({verifier} detector)",
            text.standard_name,
            f"{text.failure} ({verifier} detector)",
            text.meaning,
            text.remedy,
        )
        for verifier in VERIFIERS
        for name, text in _DETECTOR_TEXTS.items()
    },
    "image_correlation": MeasureText(
        "image structure",
        "normalized cross-correlation (NCC) of the image, -1 to 1",
        "changed image structure",
        "Whether the whole image still shows the scene: 1 is unchanged, below 0 is inverted.",
        "Train longer with --steps, or use --method translator.",
    ),
    "added_structure_levels": MeasureText(
        "new structure",
        "added contrast, levels of 255",
        "added structure",
        "Contrast of the strongest texture or object that the render does not have.",
        "Raise structure_residual_weight, or lower local_bound.",
    ),
    "grid_artefact_levels": MeasureText(
        "checkerboard pattern",
        "checkerboard artefact: amplitude, levels of 255",
        "checkerboard patterns",
        "Amplitude of the strongest periodic pattern that the network added.",
        "Train longer with --steps.",
    ),
    "seam_step_levels": MeasureText(
        "seam",
        "step along a row or column, levels of 255",
        "seams",
        "Step along a whole row or column, as between tiles.",
        "Train longer with --steps, or with a larger patch_px.",
    ),
    "clipped_fraction": MeasureText(
        "clipped pixels",
        "increase of the saturated fraction, 0 to 1",
        "clipped pixels",
        "Fraction of pixels that became black or white and lost their content.",
        "Raise range_weight. Check the exposure of the real images.",
    ),
    "warping_error_levels": MeasureText(
        "flicker",
        "temporal warping error, levels of 255",
        "flicker",
        "Change between consecutive frames that no motion explains.",
        "Raise flow_weight. It needs sequences with the channel flow_backward.",
    ),
}
