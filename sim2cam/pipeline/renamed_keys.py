"""Renamed recipe keys and values; old ones are refused with the new name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sim2cam.errors import RecipeError

RENAMED_KEYS: Mapping[str, str] = {
    "render.film": "render.sequence",
    "render.film.tracks": "render.sequence.track_count",
    "render.sequence.tracks": "render.sequence.track_count",
    "render.rest.grip": "render.rest.friction_scale",
    "render.rest.taps": "render.rest.max_restarts",
    "train.quarter_turns": "train.rotate_90",
    "train.free_turns": "train.rotate_any",
    "train.recolour": "train.instance_colour_jitter",
    "train.collages": "train.dead_leaves",
    "train.min_read": "train.min_category_visible",
    "train.reader": "train.roi_classifier",
    "train.first_weights": "train.initial_mix",
    "train.fine_tuning.head_rate": "train.fine_tuning.head_lr_scale",
    "adapt.translator.parts": "adapt.translator.accumulation_steps",
    "adapt.translator.scales": "adapt.translator.discriminator_scales",
    "adapt.translator.unshared_weight": "adapt.translator.structure_residual_weight",
    "adapt.certificate.displacement_px": "adapt.certificate.object_shift_px",
    "adapt.certificate.correlation": "adapt.certificate.structure_correlation",
    "adapt.certificate.outline_recall": "adapt.certificate.edge_recall",
    "adapt.certificate.picture_correlation": "adapt.certificate.image_correlation",
    "adapt.certificate.added_levels": "adapt.certificate.added_structure_levels",
    "adapt.certificate.lost_levels": "adapt.certificate.lost_structure_levels",
    "adapt.certificate.grid_levels": "adapt.certificate.grid_artefact_levels",
    "adapt.certificate.seam_levels": "adapt.certificate.seam_step_levels",
    "adapt.certificate.clipped_share": "adapt.certificate.clipped_fraction",
    "adapt.certificate.warp_levels": "adapt.certificate.warping_error_levels",
    "adapt.certificate.retained": "adapt.certificate.detection_recall",
    "adapt.certificate.vanished": "adapt.certificate.missed_detections",
    "adapt.certificate.hallucinated": "adapt.certificate.hallucinated_detections",
    "adapt.certificate.rejected": "adapt.certificate.rejected_fraction",
    "adapt.certificate.set_retained": "adapt.certificate.dataset_detection_recall",
}
"""New path of each renamed key, by its old path."""

RENAMED_VALUES: Mapping[str, Mapping[str, str]] = {
    "require.*.measure": {
        "least_visible_fraction": "min_visible_fraction",
        "least_box_px": "min_box_px",
    },
}
"""New name of each renamed value, by the path of its key (``*`` is any name) and its old name."""


def check_renamed_keys(tables: Mapping[str, Any], path: Path) -> None:
    """Refuse a recipe file with renamed keys or values.

    Raises:
        RecipeError: naming every old name and the new one.
    """
    renamed = [*_find_renamed(tables, "")]
    if renamed:
        raise RecipeError(path, f"{', '.join(renamed)}. Use the new names.")


def _find_renamed(tables: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield a description of each renamed key and value, in the order of the file."""
    for key, value in tables.items():
        key_path = f"{prefix}{key}"
        if key_path in RENAMED_KEYS:
            yield f"'{key_path}' is now '{RENAMED_KEYS[key_path]}'"
        if isinstance(value, Mapping):
            yield from _find_renamed(value, f"{key_path}.")
        elif isinstance(value, str):
            new_value = _get_renamed_values(key_path).get(value)
            if new_value is not None:
                yield f"'{key_path}': '{value}' is now '{new_value}'"


def _get_renamed_values(key_path: str) -> Mapping[str, str]:
    matches = (values for key, values in RENAMED_VALUES.items() if fnmatchcase(key_path, key))
    return next(matches, {})
