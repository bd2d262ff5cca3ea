"""The audit of what stands beside boxes and poses: whole masks, keypoints, pairs, readings."""

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
_MAX_KEYPOINT_DISTANCE_PX = (
    6.0  # between a keypoint and its pixel's point, where the surface is seen from the side
)
_DISPARITY_STEP_PX = 1 / 256
_OCCLUSION_DISPARITY_PX = 3.0
_MAX_WRONG_FRACTION = 0.5
_MAX_RELATIVE_DEPTH_ERROR = 0.05


def audit_labels(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Yield which identities do not hold, of each object and of the whole picture.

    Args:
        sample: rendered, with its lens.
        channels: of its own size; what is not there is not audited.
    """
    if sample.lens is None:
        return
    if "ids" in channels:
        for index, label in enumerate(sample.objects or ()):
            for what in _audit_object(label, sample, channels):
                yield f"object {index} (category {label.category}): {what}"
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
    """Visible and amodal: an object's whole mask holds its visible one, and fits box and fraction."""
    if label.amodal_mask is None:
        return
    try:
        whole = label.amodal_mask.decode()
    except UsageError as error:
        yield f"amodal mask: {error}"
        return
    outside = int(((ids == label.instance_id) & ~whole).sum())
    if outside:
        yield f"{outside} of its visible pixels are outside its amodal mask"
    if mask_to_box(whole) != label.box_amodal_xyxy:
        yield f"amodal box {label.box_amodal_xyxy} is not that of its mask, {mask_to_box(whole)}"
    share = label.area_px / max(int(whole.sum()), 1)
    if (
        label.visible_fraction is not None
        and abs(share - label.visible_fraction) > _FRACTION_TOLERANCE
    ):
        yield f"visible_fraction {label.visible_fraction:.6f} is not that of its masks, {share:.6f}"


def _audit_keypoint(
    keypoint: Keypoint, label: ObjectLabel, sample: Sample, channels: ChannelArrays
) -> Iterator[str]:
    """Keypoints, pose, ids and object coordinates: each lies where its point of the object is."""
    assert sample.lens is not None
    pixel = np.array(keypoint.xy)
    point = transform_to_camera(np.array([keypoint.point_m]), label, sample, pixel[1:])
    off = float(np.abs(sample.lens.project(point)[0] - pixel).max())
    if off > _PIXEL_TOLERANCE_PX:
        yield f"keypoint {keypoint.name} is {off:.2f} px beside its point, as the pose has it"
    if keypoint.visibility < 2 or off > _PIXEL_TOLERANCE_PX:
        return
    column, row = np.rint(pixel).astype(np.intp)
    window = np.s_[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
    on_it = channels["ids"][window] == label.instance_id
    if not on_it.any():
        yield f"keypoint {keypoint.name} is called seen, but its pixel shows something else"
    elif "coordinates" in channels and label.extent_m is not None:
        low, high = np.array(label.extent_m)
        points = channels["coordinates"][window][on_it] * (high - low) + low
        away = float(np.linalg.norm(points - np.array(keypoint.point_m), axis=1).min())
        if away > _MAX_KEYPOINT_DISTANCE_PX * compute_pixel_size_m(pixel, point, sample):
            yield (
                f"keypoint {keypoint.name} is called seen, but the point seen there is "
                f"{away:.4f} m off"
            )


def _audit_occlusions(sample: Sample, ids: NDArray[np.uint16]) -> Iterator[str]:
    """Who hides whom: what is hidden lies, with its amodal mask, behind what is seen."""
    whole = {o.instance_id: o.amodal_mask for o in sample.objects or () if o.instance_id}
    for occlusion in sample.occlusions or ():
        pair = f"occlusion of {occlusion.occluded_id} by {occlusion.occluder_id}"
        missing = {occlusion.occluder_id, occlusion.occluded_id} - whole.keys()
        if missing:
            yield f"{pair}: no object has the instance_id {min(missing)}"
            continue
        mask = whole[occlusion.occluded_id]
        if mask is None:
            continue
        try:
            found = int((mask.decode() & (ids == occlusion.occluder_id)).sum())
        except UsageError:
            continue  # told of the object itself
        if found != occlusion.area_px:
            yield f"{pair}: {occlusion.area_px} pixels, but their masks share {found}"


def _audit_disparity(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Disparity, baseline and depth: disparity = focal length x baseline / depth."""
    lens = sample.lens
    if "disparity" not in channels or "depth" not in channels:
        return
    if sample.baseline_m is None or not isinstance(lens, Perspective) or not lens.is_pinhole():
        yield "disparity without a baseline and a pinhole lens"
        return
    depth, disparity = (channels[name].astype(np.float64) for name in ("depth", "disparity"))
    near = depth > 0
    product = lens.fx_px * sample.baseline_m
    expected = np.divide(product, depth, out=np.zeros_like(depth), where=near)
    inexact = np.divide(expected * DEPTH_SCALE_M, depth, out=np.zeros_like(depth), where=near)
    told = (disparity > 0) | (expected < 65535 * _DISPARITY_STEP_PX - inexact)
    wrong = told & (np.abs(disparity - expected) > _DISPARITY_STEP_PX + inexact)
    if wrong.any():
        worst = float(np.abs(disparity - expected)[wrong].max())
        yield f"disparity and depth differ in {int(wrong.sum())} pixels, by up to {worst:.2f} px"


def _audit_covisibility(channels: ChannelArrays) -> Iterator[str]:
    """What both eyes see has a disparity, lies in the right picture, and has nothing before it there."""
    if "shared" not in channels or "disparity" not in channels:
        return
    shared, disparity = channels["shared"] > 0, channels["disparity"]
    depth = channels.get("depth", disparity)
    rows, columns = np.indices(disparity.shape)
    places = np.rint(columns - disparity).astype(np.intp)
    told = disparity > 0
    inside = told & (places >= 0)
    is_far_enough = told | (depth <= 0)  # disparities of what is too near cannot be told
    outside = int((shared & ~inside & is_far_enough).sum())
    if outside:
        yield f"{outside} shared pixels are outside the right picture"
    nearest = np.zeros_like(disparity)
    places = np.where(inside, places, 0)
    np.maximum.at(nearest, (rows, places), np.where(inside, disparity, 0))
    hidden = inside & (nearest[rows, places] > disparity + _OCCLUSION_DISPARITY_PX)
    wrong = int((shared & hidden).sum())
    if wrong > _MAX_WRONG_FRACTION * hidden.sum():
        yield f"{wrong} of {int(hidden.sum())} pixels that the right eye cannot see are called shared"


def _audit_sensor_depth(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Readings of a depth camera and depth: most are nearly right."""
    if "sensor_depth" not in channels or "depth" not in channels:
        return
    if sample.depth_unit_m is None:
        yield "sensor_depth without depth_unit_m"
        return
    read, depth = channels["sensor_depth"] * sample.depth_unit_m, channels["depth"]
    both = (read > 0) & (depth > 0)
    off = float(np.median(np.abs(read[both] / depth[both] - 1))) if both.any() else 0.0
    if off > _MAX_RELATIVE_DEPTH_ERROR:
        yield f"half of the sensor_depth is more than {off:.0%} off the depth"
