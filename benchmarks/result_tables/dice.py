"""Tables of detectors of dice: shipped weights, ablation study, hidden cameras, other test sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, get_args

from result_tables.cells import (
    DETECTION_SCORES,
    Results,
    format_difference,
    format_score,
    format_table,
)
from sim2cam.adapt.reference.config import ReferenceMethod

VARIANTS = {
    "sim without randomization": "renders without randomization",
    "randomized": "randomized renders (baseline)",
    "randomized + camera fit": "randomized + camera fit",
    "randomized + camera fit, translated": "randomized + camera fit, translated",
    "+ transfer": "+ Reinhard colour transfer",
    "+ self-labelled photos": "+ pseudo-labelled photos",
    "+ translated": "+ translated",
    "+ translated, next seed": "+ translated, second seed of the translator",
    "+ CycleGAN in the time of ours, under-trained": "+ CycleGAN, 390 steps (as much CPU time as ours)",
    "+ CycleGAN, 5,000 steps": "+ CycleGAN, 5,000 steps",
    "real only (5 labelled photos)": "5 labelled photos",
    "real only (10 labelled photos)": "10 labelled photos",
    "real only (25 labelled photos)": "25 labelled photos",
    "real only (50 labelled photos)": "50 labelled photos",
    "real only (100 labelled photos)": "100 labelled photos",
    "real only (200 labelled photos)": "200 labelled photos",
}
"""Planned variants of the ablation study, in order, with the name that tables print."""
UNGATED = get_args(ReferenceMethod)
"""Translators whose rejected images are trained on, too (docs/decisions/0014-translators.md)."""
ISP_FEATURES = ("lens", "exposure", "tone", "sharpness", "noise", "jpeg")
COMPARED_COLUMNS = ("trained on", "AP50", "difference to the baseline", "AP", "difference to the baseline")  # fmt: skip
"""Column headers of tables that compare variants with the baseline; p-values are Holm-adjusted."""
GAPS = {"sliced_wasserstein": "distance, all features", "detail": "distance, fine detail"}


SHIPPED_SCORES = {
    "dev": "40 development photos",
    "test": "50 test photos",
    "tuned": "50 test photos, input scale and boxes tuned on the development photos",
}


def tabulate_shipped(results: Results) -> str:
    """Return the scores of the shipped weights on real photos."""
    rows = []
    for split, name in SHIPPED_SCORES.items():
        result = (results or {}).get(split)
        cells = [format_score(result[key]) if result else "not run" for key in DETECTION_SCORES]
        rows.append((name, *cells, result["objects"] if result else 0))
    return format_table(("scored on", *DETECTION_SCORES.values(), "dice"), rows)


def tabulate_shipped_categories(results: Results) -> str:
    """Return the test scores of the shipped weights by category."""
    test = (results or {}).get("test", {"category_ap": {}})
    return format_table(
        ("face", "AP50", "AP"),
        (
            (face, format_score(test["category_ap50"][face]), format_score(ap))
            for face, ap in test["category_ap"].items()
        ),
    )


def tabulate_ablation(results: Results) -> str:
    """Return the ablation study; variants without results are marked."""
    results = results or {}
    variants = {variant["name"]: variant for variant in results.get("variants", [])}
    names = dict.fromkeys((*VARIANTS, *variants))
    equivalents = results.get("equivalents", {}).get("variants", [])
    photos = {row["variant"]: _format_equivalent(row) for row in equivalents}
    return format_table(
        ("trained on", *DETECTION_SCORES.values(), "equivalent labelled photos", "rejected images", "seeds"),
        (_format_variant(name, variants.get(name), photos.get(name, "—")) for name in names),
    )  # fmt: skip


def tabulate_ablation_differences(results: Results) -> str:
    """Return the paired differences between the variants of the ablation study and the baseline."""
    comparisons = {
        (entry["first"], entry["metric"]): entry for entry in (results or {}).get("comparisons", [])
    }
    names = [name for name in VARIANTS if (name, "ap50") in comparisons]
    return format_table(
        ("trained on", "difference in AP50", "detectable", "difference in AP", "detectable"),
        (
            (
                VARIANTS[name],
                *(
                    cell
                    for metric in ("ap50", "ap")
                    for entry in [comparisons[name, metric]]
                    for cell in (format_difference(entry), f"{entry['min_detectable_effect']:.3f}")
                ),
            )
            for name in names
        ),
    )


def tabulate_learning_curve(results: Results) -> str:
    """Return the AP50 of trainings on labelled photos alone."""
    curve = (results or {}).get("equivalents", {}).get("curve", [])
    return format_table(
        ("labelled photos", "AP50"),
        ((point["labelled_images"], format_score(point)) for point in curve),
    )


def tabulate_equivalents(results: Results) -> str:
    """Return the equivalent number of labelled photos of each variant."""
    variants = (results or {}).get("equivalents", {}).get("variants", [])
    return format_table(
        ("trained on 2,400 renders", "equivalent labelled photos (95 % interval)"),
        ((VARIANTS[row["variant"]], _format_equivalent(row)) for row in variants),
    )


def tabulate_elsewhere(results: Results) -> str:
    """Return the scores of the shipped weights on other test sets."""
    rows = [
        (
            entry["name"], entry["images"], f"{entry['objects']:,}",
            *(format_score(entry[key]) for key in (*DETECTION_SCORES, "ood_rate")),
        )
        for entry in (results or {}).get("places", [])
    ]  # fmt: skip
    return format_table(
        ("test images", "images", "dice", *DETECTION_SCORES.values(), "OOD rate"), rows
    )


def tabulate_ood(results: Results) -> str:
    """Return the OOD rate and the AUC of both OOD scores for each image set."""
    rows = [
        (
            entry["name"], entry["images"], format_score(entry["ood_rate"]),
            f"{auc['distance']:.2f}", f"{auc['uncertainty']:.2f}",
        )
        for entry in (results or {}).get("sets", [])
        for auc in [entry["auc"]]
    ]  # fmt: skip
    return format_table(
        ("images", "number", "OOD rate", "AUC, feature distance", "AUC, uncertainty"), rows
    )


def tabulate_hidden_cameras(results: Results) -> str:
    """Return the benefit of the camera fit and of translation on hidden cameras."""
    return format_table(
        ("camera", *COMPARED_COLUMNS),
        (
            (entry["camera"], *row)
            for entry in (results or {}).get("cameras", [])
            for row in _compare_with_baseline(entry)
        ),
    )


def tabulate_hidden_isp(results: Results) -> str:
    """Return the AUC by which ISP features separate renders from images of hidden cameras."""
    return format_table(
        ("camera", "renders", *ISP_FEATURES),
        (
            (entry["camera"], VARIANTS[name], *_format_isp_gaps(isp_gaps))
            for entry in (results or {}).get("cameras", [])
            for name, isp_gaps in entry["isp_gaps"].items()
        ),
    )


def tabulate_days(results: Results) -> str:
    """Return the benefit of the camera fit and of translation on photos of another day."""
    return format_table(COMPARED_COLUMNS, _compare_with_baseline(results) if results else ())


def tabulate_gap(results: Results) -> str:
    """Return the stage-wise domain gap."""
    cameras = (results or {}).get("cameras", [])
    headers = [f"{GAPS[key]}; camera {entry['name']}" for entry in cameras for key in GAPS]
    rows = []
    for stages in zip(*(entry["stages"] for entry in cameras), strict=True):
        gaps = [{**stage, "detail": stage["aspects"]["detail"]} for stage in stages]
        rows.append((stages[0]["stage"], *(format_score(gap[key]) for gap in gaps for key in GAPS)))
    return format_table(("image formation up to", *(headers or GAPS.values())), rows)


def tabulate_gap_isp(results: Results) -> str:
    """Return the AUC of ISP features after each image-formation stage."""
    cameras = (results or {}).get("cameras", [])
    rows = (
        (stage["stage"], entry["name"], *_format_isp_gaps(stage["isp_gaps"]))
        for stages in zip(*(entry["stages"] for entry in cameras), strict=True)
        for entry, stage in zip(cameras, stages, strict=True)
        if "isp_gaps" in stage
    )
    return format_table(("image formation up to", "camera", *ISP_FEATURES), rows)


def _format_variant(
    name: str, variant: dict[str, Any] | None, equivalent: str
) -> tuple[object, ...]:
    label = VARIANTS.get(name, name)
    if variant is None:
        return (label, *["not run"] * len(DETECTION_SCORES), equivalent, "—", 0)
    rejections = "; ".join(
        f"{count:,}{' (trained on, too)' if dataset.partition('-')[0] in UNGATED else ''}"
        for dataset, count in variant.get("rejected", {}).items()
    )
    scores = (format_score(variant[key]) for key in DETECTION_SCORES)
    return (label, *scores, equivalent, rejections or "—", len(variant["seeds"]))


def _format_equivalent(row: dict[str, Any]) -> str:
    return str(row["summary"]).removeprefix("worth ").replace(" real photos", "")


def _compare_with_baseline(scores: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each variant, as in ``COMPARED_COLUMNS``."""
    comparisons = {(entry["first"], entry["metric"]): entry for entry in scores["comparisons"]}
    for variant in scores["variants"]:
        name = variant["name"]
        cells = (
            (format_score(variant[metric]), format_difference(comparisons.get((name, metric))))
            for metric in ("ap50", "ap")
        )
        yield VARIANTS.get(name, name), *itertools.chain.from_iterable(cells)


def _format_isp_gaps(isp_gaps: dict[str, Any]) -> list[str]:
    return [
        format_score(isp_gaps[feature]) if feature in isp_gaps else "not measured"
        for feature in ISP_FEATURES
    ]
