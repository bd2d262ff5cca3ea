"""Metric keys of result files, in the order of tables, with display names."""

from __future__ import annotations

BOX_METRICS = {"ap": "AP", "ap50": "AP50", "ap75": "AP75", "agnostic_ap50": "AP50, class-agnostic"}
SHAPE_METRICS = {"ap": "AP", "ap50": "AP50", "ap75": "AP75"}
"""Metrics of keypoints and of masks."""
SEGMENT_METRICS = {"miou": "mIoU"}
POSE_METRICS = {
    "ar": "AR", "ar_vsd": "AR(VSD)", "ar_mssd": "AR(MSSD)", "ar_mspd": "AR(MSPD)",
    "add_or_s": "ADD(-S)",
}  # fmt: skip


def get_metric_titles(kind: str) -> dict[str, str]:
    """Return the metrics of a kind of output, with display names."""
    titles = {"boxes": BOX_METRICS, "segments": SEGMENT_METRICS, "poses": POSE_METRICS}
    return titles.get(kind, SHAPE_METRICS)
