"""Frame of a settled scene: the image of one camera with its ground truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import ChannelName, OutputName
from sim2cam.data.sample import ObjectLabel, Occlusion
from sim2cam.geometry.boxes import Box, is_inside_image, mask_to_box
from sim2cam.geometry.motion import ZERO_TWIST
from sim2cam.render.gbuffer import assign_label_ids, decode_amodal_mask, find_amodal_boxes
from sim2cam.render.labels.ground_truth import RenderedView, compute_object_points
from sim2cam.render.labels.objects import add_amodal_masks, add_keypoints
from sim2cam.render.meshes.mesh import build_mesh, compute_extent
from sim2cam.render.sensor.auto_exposure import AutoSettings
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Body, Scene


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


def make_labels(
    view: RenderedView, ids: NDArray[np.uint16], outputs: Collection[OutputName]
) -> tuple[ObjectLabel, ...]:
    """Return the labels of all visible objects, with amodal masks and keypoints on request.

    Args:
        view: rendered view, with channel ``cover``.
        ids: (h, w) instance ids of the view.
        outputs: requested outputs.
    """
    labels = annotate(view.scene, view.camera, ids, view.gbuffer["cover"])
    if "amodal_masks" in outputs:
        labels = add_amodal_masks(labels, view.gbuffer["cover"])
    return add_keypoints(labels, view) if "keypoints" in outputs else labels


def make_channels(
    view: RenderedView, ids: NDArray[np.uint16], outputs: Collection[OutputName]
) -> dict[ChannelName, NDArray[Any]]:
    """Return the channels that follow from one view; see ``make_labels``."""
    channels: dict[ChannelName, NDArray[Any]] = {"depth": view.gbuffer["depth_m"], "ids": ids}
    if "normals" in outputs:
        channels["normals"] = view.gbuffer["normals"]
    if "parts" in outputs:
        channels["parts"] = np.where(ids > 0, view.gbuffer["parts"], 0)
    if "coordinates" in outputs:
        channels["coordinates"] = _compute_object_coordinates(view, ids)
    return channels


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
        truncation=_compute_truncation(body, camera, amodal_box),
    )


def _compute_truncation(body: Body, camera: Camera, amodal_box: Box) -> float | None:
    """Return the share of a body's area that lies outside the image, 0 to 1.

    The area is that of the convex hull of the projected vertices. None if the lens cannot project
    all of them, or the area is 0.
    """
    if is_inside_image(amodal_box, camera.width, camera.height):
        return 0.0
    corners = (camera.pose.inverse() @ body.pose).apply(build_mesh(body.asset).vertices_m)
    if not camera.lens.can_project(corners).all():
        return None
    pixels = camera.lens.project(corners) + 0.5
    hull = cv2.convexHull(pixels.astype(np.float32))
    right, bottom = camera.width, camera.height
    image_corners = np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], np.float32)
    area, inside = cv2.contourArea(hull), cv2.intersectConvexConvex(hull, image_corners)[0]
    return float(np.clip(1 - inside / area, 0, 1)) if area > 0 else None
