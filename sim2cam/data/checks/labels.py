"""Consistency of amodal masks, keypoints, occlusions, stereo pairs and depth camera readings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import DEPTH_SCALE_M
from sim2cam.data.checks.geometry import ChannelArrays, compute_pixel_size_m, transform_to_camera
from sim2cam.data.sample import Keypoint, ObjectLabel, Sample
from sim2cam.errors import LensError, UsageError
from sim2cam.geometry.boxes import mask_to_box
from sim2cam.geometry.perspective import Perspective

_PIXEL_TOLERANCE_PX = 0.01
_FRACTION_TOLERANCE = 1e-6
_MAX_KEYPOINT_DISTANCE_PX = 6.0  # to the pixel's point, large at grazing angles
_DISPARITY_STEP_PX = 1 / 256
_OCCLUSION_DISPARITY_PX = 3.0
_MAX_WRONG_FRACTION = 0.5
_MAX_RELATIVE_DEPTH_ERROR = 0.05


def audit_labels(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Yield inconsistencies of each object and of the whole image.

    Args:
        sample: Rendered sample with its lens.
        channels: Channels of the sample's size; missing ones are skipped.
    """
    if sample.lens is None:
        return
    if "ids" in channels:
        for index, label in enumerate(sample.objects or ()):
            for message in _audit_object(label, sample, channels):
                yield f"object {index} (category {label.category}): {message}"
        yield from _audit_occlusions(sample, channels["ids"])
    yield from _audit_disparity(sample, channels)
    yield from _audit_covisibility(channels)
    yield from _audit_sensor_depth(sample, channels)


def _audit_object(label: ObjectLabel, sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    yield from _audit_amodal_mask(label, channels["ids"])
    if label.pose is None:
        return
    try:
        for keypoint in label.keypoints or ():
            if keypoint.visibility > 0 and keypoint.point_m is not None:
                yield from _audit_keypoint(keypoint, label, sample, channels)
    except LensError as error:
        yield str(error)


def _audit_amodal_mask(label: ObjectLabel, ids: NDArray[np.uint16]) -> Iterator[str]:
    """Check that the amodal mask contains the visible mask and matches box and fraction."""
    if label.amodal_mask is None:
        return
    try:
        amodal_mask = label.amodal_mask.decode()
    except UsageError as error:
        yield f"amodal mask: {error}"
        return
    outside = int(((ids == label.instance_id) & ~amodal_mask).sum())
    if outside:
        yield f"{outside} visible pixels are outside the amodal mask"
    if mask_to_box(amodal_mask) != label.box_amodal_xyxy:
        yield f"amodal box {label.box_amodal_xyxy} is not the box of its mask, {mask_to_box(amodal_mask)}"
    fraction = label.area_px / max(int(amodal_mask.sum()), 1)
    if (
        label.visible_fraction is not None
        and abs(fraction - label.visible_fraction) > _FRACTION_TOLERANCE
    ):
        yield f"visible_fraction {label.visible_fraction:.6f} is not the fraction of its masks, {fraction:.6f}"


def _audit_keypoint(
    keypoint: Keypoint, label: ObjectLabel, sample: Sample, channels: ChannelArrays
) -> Iterator[str]:
    """Check that a keypoint matches the projection of its object point, the ids and the coordinates."""
    assert sample.lens is not None
    pixel = np.array(keypoint.xy)
    point = transform_to_camera(np.array([keypoint.point_m]), label, sample, pixel[1:])
    distance_px = float(np.abs(sample.lens.project(point)[0] - pixel).max())
    if distance_px > _PIXEL_TOLERANCE_PX:
        yield f"keypoint {keypoint.name} is {distance_px:.2f} px from the projection of its point"
    if keypoint.visibility < 2 or distance_px > _PIXEL_TOLERANCE_PX:
        return
    column, row = np.rint(pixel).astype(np.intp)
    window = np.s_[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
    is_object = channels["ids"][window] == label.instance_id
    if not is_object.any():
        yield f"keypoint {keypoint.name} is labelled visible, but its pixel shows something else"
    elif "coordinates" in channels and label.extent_m is not None:
        low, high = np.array(label.extent_m)
        points = channels["coordinates"][window][is_object] * (high - low) + low
        distance_m = float(np.linalg.norm(points - np.array(keypoint.point_m), axis=1).min())
        if distance_m > _MAX_KEYPOINT_DISTANCE_PX * compute_pixel_size_m(pixel, point, sample):
            yield (
                f"keypoint {keypoint.name} is labelled visible, but its pixel shows a point "
                f"{distance_m:.4f} m away"
            )


def _audit_occlusions(sample: Sample, ids: NDArray[np.uint16]) -> Iterator[str]:
    """Check the areas of occlusions against ids and amodal masks."""
    amodal_masks = {
        label.instance_id: label.amodal_mask for label in sample.objects or () if label.instance_id
    }
    for occlusion in sample.occlusions or ():
        pair = f"occlusion of {occlusion.occluded_id} by {occlusion.occluder_id}"
        missing = {occlusion.occluder_id, occlusion.occluded_id} - amodal_masks.keys()
        if missing:
            yield f"{pair}: no object has the instance_id {min(missing)}"
            continue
        mask = amodal_masks[occlusion.occluded_id]
        if mask is None:
            continue
        try:
            shared_px = int((mask.decode() & (ids == occlusion.occluder_id)).sum())
        except UsageError:
            continue  # reported for the object itself
        if shared_px != occlusion.area_px:
            yield f"{pair}: {occlusion.area_px} pixels, but their masks share {shared_px}"


def _audit_disparity(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Check that disparity = focal length x baseline / depth."""
    lens = sample.lens
    if "disparity" not in channels or "depth" not in channels:
        return
    if sample.baseline_m is None or not isinstance(lens, Perspective) or not lens.is_pinhole():
        yield "disparity without a baseline and a pinhole lens"
        return
    depth, disparity = (channels[name].astype(np.float64) for name in ("depth", "disparity"))
    has_depth = depth > 0
    product = lens.fx_px * sample.baseline_m
    expected = np.divide(product, depth, out=np.zeros_like(depth), where=has_depth)
    tolerance = np.divide(
        expected * DEPTH_SCALE_M, depth, out=np.zeros_like(depth), where=has_depth
    )
    has_disparity = (disparity > 0) | (expected < 65535 * _DISPARITY_STEP_PX - tolerance)
    wrong = has_disparity & (np.abs(disparity - expected) > _DISPARITY_STEP_PX + tolerance)
    if wrong.any():
        worst = float(np.abs(disparity - expected)[wrong].max())
        yield f"disparity and depth differ in {int(wrong.sum())} pixels, by up to {worst:.2f} px"


def _audit_covisibility(channels: ChannelArrays) -> Iterator[str]:
    """Check that shared pixels have a disparity and are inside and visible in the right image."""
    if "shared" not in channels or "disparity" not in channels:
        return
    shared, disparity = channels["shared"] > 0, channels["disparity"]
    depth = channels.get("depth", disparity)
    rows, columns = np.indices(disparity.shape)
    right_columns = np.rint(columns - disparity).astype(np.intp)
    has_disparity = disparity > 0
    is_inside = has_disparity & (right_columns >= 0)
    is_far_enough = has_disparity | (depth <= 0)  # disparities of nearer points exceed 16 bits
    outside = int((shared & ~is_inside & is_far_enough).sum())
    if outside:
        yield f"{outside} shared pixels are outside the right image"
    nearest = np.zeros_like(disparity)
    right_columns = np.where(is_inside, right_columns, 0)
    np.maximum.at(nearest, (rows, right_columns), np.where(is_inside, disparity, 0))
    is_hidden = is_inside & (nearest[rows, right_columns] > disparity + _OCCLUSION_DISPARITY_PX)
    wrong = int((shared & is_hidden).sum())
    if wrong > _MAX_WRONG_FRACTION * is_hidden.sum():
        yield f"{wrong} of {int(is_hidden.sum())} pixels that are occluded in the right image are labelled shared"


def _audit_sensor_depth(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Check that the median error of the depth camera is small."""
    if "sensor_depth" not in channels or "depth" not in channels:
        return
    if sample.depth_unit_m is None:
        yield "sensor_depth without depth_unit_m"
        return
    readings, depth = channels["sensor_depth"] * sample.depth_unit_m, channels["depth"]
    is_valid = (readings > 0) & (depth > 0)
    median_error = (
        float(np.median(np.abs(readings[is_valid] / depth[is_valid] - 1)))
        if is_valid.any()
        else 0.0
    )
    if median_error > _MAX_RELATIVE_DEPTH_ERROR:
        yield f"sensor_depth differs from depth by a median of {median_error:.0%}"
