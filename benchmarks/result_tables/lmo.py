"""Tables of detection and 6D poses on Linemod-Occluded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from result_tables.cells import Results, format_score, format_table

POSES = {"ar_mssd": "AR of MSSD", "ar_mspd": "AR of MSPD", "add_or_s": "ADD(-S), 10 %"}
NAMES = {
    "obj_000001": "ape", "obj_000005": "can", "obj_000006": "cat", "obj_000008": "drill",
    "obj_000009": "duck", "obj_000010": "egg box", "obj_000011": "glue", "obj_000012": "hole puncher",
}  # fmt: skip
REFINEMENTS = ("without refinement", "contour-based refinement")
PUBLISHED = (
    ("Mask R-CNN of CosyPose, 2020", "mean over BOP's seven core datasets", "0.603"),
    ("GDRNPP, 2022", "mean over BOP's seven core datasets", "0.773"),
)
"""Published detection results of BOP: method, test set, AP of boxes."""


def tabulate_lmo_means(results: Results) -> str:
    """Return the mean scores."""
    rows: list[Sequence[str]] = []
    if results:
        scores = results["scores"]
        boxes = [format_score(scores[key]) for key in ("ap", "ap50")]
        rows = [
            (name, *boxes, *(format_score(poses["mean"][metric]) for metric in POSES))
            for name, poses in zip(REFINEMENTS, (scores["poses"], results["refined"]), strict=True)
        ]
    return format_table(("poses", "AP, box", "AP50, box", *POSES.values()), rows)


def tabulate_lmo_objects(results: Results) -> str:
    """Return the scores of each object."""
    refined_headers = (f"refined: {header}" for header in POSES.values())
    headers = ("object", "instances", "AP50, box", *POSES.values(), *refined_headers)
    if not results:
        return format_table(headers, [])
    scores = results["scores"]
    poses, refined = scores["poses"], results["refined"]
    return format_table(
        headers,
        (
            (
                _name_object(name),
                f"{poses['instances'][name]:,}",
                format_score(scores["category_ap50"][name]),
                *(
                    format_score(entry[metric])
                    for entry in (poses["objects"][name], refined["objects"][name])
                    for metric in POSES
                ),
            )
            for name in poses["objects"]
        ),
    )


def tabulate_lmo_refinement(results: Results) -> str:
    """Return what contour-based refinement adds, over all instances."""
    return format_table(
        ("metric", "without", "with refinement", "difference", "p (Holm)"),
        (
            (
                header,
                format_score(entry["second"]),
                format_score(entry["first"]),
                format_score(entry["difference"]),
                f"{entry['difference']['p_holm']:.3f}",
            )
            for metric, header in POSES.items()
            for entry in ([results["difference"][metric]] if results else [])
        ),
    )


def tabulate_lmo_visibility(results: Results) -> str:
    """Return the recall by visible fraction."""
    slices = results["scores"]["slices"] if results else []
    return format_table(
        ("visible fraction", "objects", "recall"),
        (
            (entry["value"], entry["objects"], format_score(entry["recall"]))
            for entry in slices
            if entry["attribute"] == "visible"
        ),
    )


def tabulate_lmo_published(results: Results) -> str:
    """Return the AP of boxes beside published results."""
    rows: list[Sequence[str]] = []
    if results:
        rows = [("sim2cam, `lmo`", "LM-O", f"{results['scores']['ap']['value']:.3f}"), *PUBLISHED]
    return format_table(("method", "measured on", "AP, box"), rows)


def tabulate_lmo_training(results: Results) -> str:
    """Return the trainings of the shipped weights, one after the other."""
    return format_table(
        ("training", "architecture", "renders", "background renders", "steps", "batch", "crop, px"),
        (
            (
                number,
                f"`{training['config']['architecture']}`",
                f"{training['images']:,}",
                f"{training['background_images']:,}",
                f"{training['config']['steps']:,}",
                training["config"]["batch"],
                training["config"]["crop_px"],
            )
            for number, training in enumerate((results or {}).get("trainings", []), start=1)
        ),
    )


def tabulate_lmo_truth(results: Results) -> str:
    """Return the deviation of contours from annotated poses, in photos and in renders."""
    headers = ("objects", "size, px", "scale", "right, px", "down, px", "ADD(-S), 10 %")
    columns = (
        "object", *(f"photos: {header}" for header in headers), *(f"renders: {header}" for header in headers),
    )  # fmt: skip
    photos, renders = (results or {}).get("photos", {}), (results or {}).get("renders", {})
    return format_table(
        columns,
        (
            (
                _name_object(name),
                *_format_deviations(photos[name]),
                *_format_deviations(renders[name]),
            )
            for name in photos
        ),
    )


def _name_object(name: str) -> str:
    return f"{NAMES[name]} (`{name}`)" if name in NAMES else name


def _format_deviations(entry: dict[str, Any]) -> tuple[str, ...]:
    shifts = (
        f"{shift['value']:.1f} ({shift['ci95'][0]:.1f} to {shift['ci95'][1]:.1f})"
        for shift in (entry["right_px"], entry["down_px"])
    )
    return (
        f"{entry['objects']:,}",
        f"{entry['size_px']['value']:.0f}",
        format_score(entry["scale"]),
        *shifts,
        format_score(entry["add_or_s"]),
    )
