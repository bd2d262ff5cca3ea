"""Frame of a settled scene: the image of one camera with its ground truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import CHANNELS, FLOW_OCCLUDED, FLOW_VISIBLE, ChannelName, OutputName
from sim2cam.data.sample import ObjectLabel, Occlusion
from sim2cam.data.tracks import PointTracks
from sim2cam.errors import UsageError
from sim2cam.geometry.boxes import Box, mask_to_box
from sim2cam.geometry.motion import ZERO_TWIST
from sim2cam.render.depth.depth_camera import render_sensor_depth
from sim2cam.render.gbuffer import Channel, decode_amodal_mask, find_amodal_boxes
from sim2cam.render.labels.ground_truth import (
    RenderedView,
    compute_flow,
    compute_object_points,
    project_body_points,
)
from sim2cam.render.labels.objects import add_amodal_masks, add_keypoints, find_occlusions
from sim2cam.render.labels.stereo import compute_stereo_ground_truth, make_right_camera
from sim2cam.render.labels.truncation import compute_truncation
from sim2cam.render.meshes.mesh import compute_extent
from sim2cam.render.optics.haze import apply_haze
from sim2cam.render.optics.lens_effects import apply_lens_effects
from sim2cam.render.optics.shutter import ExposureResult, expose, render_ground_truth
from sim2cam.render.rasterizer import Rasterizer, assign_label_ids, convert_to_instance_ids
from sim2cam.render.sensor.auto_exposure import AutoSettings, PreviousSettings
from sim2cam.render.sensor.sensor import CapturedImage, capture_image
from sim2cam.scene.camera import Camera
from sim2cam.scene.light import Haze
from sim2cam.scene.scene import Body, Scene

LABEL_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies", "cover")
FLOW_CHANNELS: tuple[ChannelName, ...] = ("flow_backward", "flow_forward")
"""Optical flow to the previous and to the next frame."""

_OPTIONAL_CHANNELS: tuple[Channel, ...] = ("parts", "normals")
_RIGHT_CAMERA_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies")
_STEREO_OUTPUTS: tuple[OutputName, ...] = ("right", "disparity", "shared")


@dataclass(frozen=True)
class Frame:
    """An image and its ground truth, through the same lens and shutter.

    Attributes:
        image: encoded image file.
        channels: requested channels, in the order of ``CHANNELS``; without optical flow, which
            needs other frames.
        objects: labels of all objects with at least one visible pixel.
        occlusions: pairs of occluding and occluded objects; None unless requested.
        right: encoded image of the right camera; None unless requested.
        view: rendered view, for optical flow to other frames and tracks.
        auto_settings: automatic exposure and white balance, for the next frame.
    """

    image: bytes
    channels: Mapping[ChannelName, NDArray[Any]]
    objects: tuple[ObjectLabel, ...]
    occlusions: tuple[Occlusion, ...] | None
    right: bytes | None
    view: RenderedView
    auto_settings: AutoSettings


def shoot(
    scene: Scene,
    camera: Camera,
    rasterizer: Rasterizer,
    outputs: Collection[OutputName],
    previous: PreviousSettings | None = None,
) -> Frame:
    """Render the frame of one camera.

    Args:
        scene: settled scene.
        camera: one of its cameras.
        rasterizer: rasterizer that has loaded the scene.
        outputs: channels and files to make in addition to the image and its labels.
        previous: automatic settings of the previous frame; None for the first frame.

    Raises:
        LensError: the lens cannot render every pixel, or does not suit a channel.
        UsageError: a channel needs a depth camera, right camera or mosaic that the camera lacks.
        BackendError: the rasterizer does not support a channel.
    """
    gbuffer_channels = {*LABEL_CHANNELS, *(name for name in _OPTIONAL_CHANNELS if name in outputs)}
    exposure = expose(
        scene, camera, rasterizer, gbuffer_channels, with_coverage="coverage" in outputs
    )
    capture = _capture_image(exposure, scene.environment.haze, camera, previous)
    view = RenderedView(scene, camera, exposure.ground_truth)
    ids = convert_to_instance_ids(scene, view.gbuffer["bodies"])
    objects = _make_labels(view, ids, outputs)
    channels = _make_channels(view, ids, outputs)
    if "coverage" in outputs:
        channels["coverage"] = exposure.coverage
    if "sensor_depth" in outputs:
        channels["sensor_depth"] = render_sensor_depth(scene, camera, rasterizer)
    if "raw" in outputs:
        channels["raw"] = _get_raw(capture)
    right = None
    if any(name in outputs for name in _STEREO_OUTPUTS):
        right, stereo_channels = _render_right_camera(
            view, capture.auto_settings, rasterizer, outputs
        )
        channels |= stereo_channels
    occlusions = (
        find_occlusions(objects, ids, view.gbuffer["cover"]) if "occlusions" in outputs else None
    )
    return Frame(
        image=capture.encoded,
        channels={
            name: channels[name] for name in CHANNELS if name in outputs and name in channels
        },
        objects=objects,
        occlusions=occlusions,
        right=right if "right" in outputs else None,
        view=view,
        auto_settings=capture.auto_settings,
    )


def compute_flow_channel(source: RenderedView, target: RenderedView) -> NDArray[np.float32]:
    """Return the optical flow between two views as a channel.

    Returns:
        (h, w, 3): offset to the right and down in pixels, and the visibility state; 0 without flow.
    """
    flow = compute_flow(source, target)
    is_valid = (source.gbuffer["bodies"] > 0) & np.isfinite(flow.offset_px).all(axis=-1)
    state = np.where(flow.visible, FLOW_VISIBLE, FLOW_OCCLUDED)
    channel = np.concatenate([flow.offset_px, state[..., None]], axis=-1)
    return np.where(is_valid[..., None], channel, 0).astype(np.float32)


def track_labelled_points(
    points_m: Mapping[str, NDArray[np.float64]], view: RenderedView
) -> PointTracks:
    """Return the pixels and visibility of points of labelled bodies.

    Args:
        points_m: name of a body to its points (n, 3), in the frame of the body.
        view: rendered view of the scene.
    """
    label_ids = assign_label_ids(view.scene)
    tracked = [
        point
        for name, body_points in points_m.items()
        for point in project_body_points(body_points, name, view)
    ]
    return PointTracks(
        np.repeat([label_ids[name] for name in points_m], [len(p) for p in points_m.values()]),
        np.concatenate(list(points_m.values())),
        np.array([point.pixel for point in tracked]),
        np.array([point.visible for point in tracked]),
    )


def compute_sensor_radiance(
    exposure: ExposureResult, haze: Haze | None, camera: Camera
) -> NDArray[np.float32]:
    """Return the radiance (h, w, 3) at the sensor, after haze and lens effects.

    Args:
        exposure: exposure without haze and lens effects, with channel ``depth_m``.
        haze: haze of the air; None for clear air.
        camera: camera with the lens.
    """
    radiance, depth_m = exposure.radiance, exposure.ground_truth["depth_m"]
    if haze is not None:
        radiance = apply_haze(radiance, haze, camera, depth_m)
    return apply_lens_effects(radiance, camera, depth_m)


def _capture_image(
    exposure: ExposureResult, haze: Haze | None, camera: Camera, previous: PreviousSettings | None
) -> CapturedImage:
    return capture_image(compute_sensor_radiance(exposure, haze, camera), camera.sensor, previous)


def _get_raw(capture: CapturedImage) -> NDArray[np.uint16]:
    if capture.raw is None:
        raise UsageError(
            "channel 'raw' needs a sensor with a mosaic, which the camera lacks. Add one to the sensor, "
            "or [domain.mosaic] to the recipe."
        )
    return capture.raw


def _make_labels(
    view: RenderedView, ids: NDArray[np.uint16], outputs: Collection[OutputName]
) -> tuple[ObjectLabel, ...]:
    labels = annotate(view.scene, view.camera, ids, view.gbuffer["cover"])
    if "amodal_masks" in outputs:
        labels = add_amodal_masks(labels, view.gbuffer["cover"])
    return add_keypoints(labels, view) if "keypoints" in outputs else labels


def _make_channels(
    view: RenderedView, ids: NDArray[np.uint16], outputs: Collection[OutputName]
) -> dict[ChannelName, NDArray[Any]]:
    channels: dict[ChannelName, NDArray[Any]] = {"depth": view.gbuffer["depth_m"], "ids": ids}
    if "normals" in outputs:
        channels["normals"] = view.gbuffer["normals"]
    if "parts" in outputs:
        channels["parts"] = np.where(ids > 0, view.gbuffer["parts"], 0)
    if "coordinates" in outputs:
        channels["coordinates"] = _compute_object_coordinates(view, ids)
    return channels


def _render_right_camera(
    left: RenderedView,
    auto_settings: AutoSettings,
    rasterizer: Rasterizer,
    outputs: Collection[OutputName],
) -> tuple[bytes, dict[ChannelName, NDArray[Any]]]:
    """Return the encoded image of the right camera, and the stereo channels of the left one.

    Both cameras share the automatic settings of the left one.
    """
    right_camera = make_right_camera(left.camera)
    exposure = expose(left.scene, right_camera, rasterizer, _RIGHT_CAMERA_CHANNELS)
    haze = left.scene.environment.haze
    image = _capture_image(
        exposure, haze, right_camera, PreviousSettings(auto_settings, 0.0)
    ).encoded
    if not ("disparity" in outputs or "shared" in outputs):
        return image, {}
    ground_truth = compute_stereo_ground_truth(
        left, RenderedView(left.scene, right_camera, exposure.ground_truth)
    )
    return image, {"disparity": ground_truth.disparity, "shared": ground_truth.shared}


def _compute_object_coordinates(view: RenderedView, ids: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return normalized object coordinates (h, w, 3) of labelled bodies; NaN elsewhere."""
    points = compute_object_points(view)
    coordinates = np.full(points.shape, np.nan, np.float32)
    label_ids = assign_label_ids(view.scene)
    for body in view.scene.bodies:
        if body.name in label_ids:
            mask = ids == label_ids[body.name]
            low, high = np.array(compute_extent(body.asset))
            coordinates[mask] = (points[mask] - low) / (high - low)
    return coordinates


def render_labels(scene: Scene, camera: Camera, rasterizer: Rasterizer) -> tuple[ObjectLabel, ...]:
    """Return the labels of the frame of a camera without rendering its image."""
    gbuffer = render_ground_truth(scene, camera, rasterizer, LABEL_CHANNELS)
    return annotate(
        scene, camera, convert_to_instance_ids(scene, gbuffer["bodies"]), gbuffer["cover"]
    )


def annotate(
    scene: Scene, camera: Camera, ids: NDArray[np.uint16], amodal_bits: NDArray[np.uint32]
) -> tuple[ObjectLabel, ...]:
    """Return the labels of all visible objects, in the order of their ids.

    Args:
        scene: settled scene.
        camera: one of its cameras.
        ids: (h, w) instance ids.
        amodal_bits: (h, w, words), channel ``cover`` of the G-buffer.
    """
    bodies = {body.name: body for body in scene.bodies}
    boxes = find_amodal_boxes(amodal_bits)
    labels = [
        _annotate_body(bodies[name], label_id, camera, ids, amodal_bits, boxes[label_id])
        for name, label_id in assign_label_ids(scene).items()
        if label_id in boxes
    ]
    return tuple(label for label in labels if label is not None)


def _annotate_body(
    body: Body,
    label_id: int,
    camera: Camera,
    ids: NDArray[np.uint16],
    amodal_bits: NDArray[np.uint32],
    amodal_box: Box,
) -> ObjectLabel | None:
    x0, y0, x1, y1 = (int(side) for side in amodal_box)
    visible = ids[y0:y1, x0:x1] == label_id
    box = mask_to_box(visible)
    if box is None:
        return None
    area = int(visible.sum())
    twist = body.get_motion().twist
    return ObjectLabel(
        category=body.get_category(),
        box_xyxy=(box[0] + x0, box[1] + y0, box[2] + x0, box[3] + y0),
        area_px=area,
        box_amodal_xyxy=amodal_box,
        visible_fraction=area / int(decode_amodal_mask(amodal_bits[y0:y1, x0:x1], label_id).sum()),
        instance_id=label_id,
        pose=camera.pose.inverse() @ body.pose,
        extent_m=compute_extent(body.asset),
        twist=None if twist == ZERO_TWIST else twist.express_in(camera.pose),
        truncation=compute_truncation(body, camera, amodal_box),
    )
