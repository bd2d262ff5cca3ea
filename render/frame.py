"""One frame: a settled scene and one of its cameras to a picture with its labels."""

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
from sim2cam.render.physics.simulation import find_upward_face
from sim2cam.render.rasterizer import Rasterizer, assign_label_ids, convert_to_instance_ids
from sim2cam.render.sensor.auto_exposure import AutoSettings, PreviousSettings
from sim2cam.render.sensor.sensor import CapturedImage, capture_image
from sim2cam.scene.camera import Camera
from sim2cam.scene.fasteners import Bolt, Nut
from sim2cam.scene.light import Haze
from sim2cam.scene.packages import Carton, Tin
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import CARD_BACK, Block, Board, Card, Die, MeshFile
from sim2cam.scene.twisty import TwistyCube

LABEL_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies", "cover")
FLOW_CHANNELS: tuple[ChannelName, ...] = ("flow_backward", "flow_forward")
"""Channels that lead to the picture before and to the one after."""

_OPTIONAL_CHANNELS: tuple[Channel, ...] = ("parts", "normals")
_RIGHT_CAMERA_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies")
_STEREO_OUTPUTS: tuple[OutputName, ...] = ("right", "disparity", "shared")


@dataclass(frozen=True)
class Frame:
    """A picture and its ground truth, pixel by pixel through the same lens and shutter.

    Attributes:
        image: its file.
        channels: what was asked for, as ``dataset.channels`` says; flows only with other frames.
        objects: labels of every object with at least one visible pixel.
        occlusions: which of them hide which; None when not asked for.
        right: the file of the right eye's picture; None when not asked for.
        view: what is seen, for what leads to other frames.
        auto_settings: what the camera's automatics chose, for the next frame.
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
    """Return the frame that a camera takes of the scene loaded in the rasterizer.

    Args:
        scene: settled.
        camera: one of its cameras.
        rasterizer: with the scene loaded.
        outputs: what is wanted beside the picture.
        previous: what the camera's automatics chose for the frame before; None for a first one.

    Raises:
        LensError: the camera's lens does not see every pixel, or not as a channel needs it.
        UsageError: the camera has no depth camera, right eye or mosaic, and a channel needs it.
        BackendError: the rasterizer cannot give a channel.
    """
    drawn = {*LABEL_CHANNELS, *(name for name in _OPTIONAL_CHANNELS if name in outputs)}
    exposure = expose(scene, camera, rasterizer, drawn, with_coverage="coverage" in outputs)
    photo = _capture_image(exposure, scene.environment.haze, camera, previous)
    shot = RenderedView(scene, camera, exposure.ground_truth)
    ids = convert_to_instance_ids(scene, shot.gbuffer["bodies"])
    objects = _make_labels(shot, ids, outputs)
    channels = _make_channels(shot, ids, outputs)
    if "coverage" in outputs:
        channels["coverage"] = exposure.coverage
    if "sensor_depth" in outputs:
        channels["sensor_depth"] = render_sensor_depth(scene, camera, rasterizer)
    if "raw" in outputs:
        channels["raw"] = _get_raw(photo)
    right = None
    if any(name in outputs for name in _STEREO_OUTPUTS):
        right, of_pair = _render_right_camera(shot, photo.auto_settings, rasterizer, outputs)
        channels |= of_pair
    hiding = (
        find_occlusions(objects, ids, shot.gbuffer["cover"]) if "occlusions" in outputs else None
    )
    return Frame(
        image=photo.encoded,
        channels={
            name: channels[name] for name in CHANNELS if name in outputs and name in channels
        },
        objects=objects,
        occlusions=hiding,
        right=right if "right" in outputs else None,
        view=shot,
        auto_settings=photo.auto_settings,
    )


def compute_flow_channel(source: RenderedView, target: RenderedView) -> NDArray[np.float32]:
    """Return the channel (h, w, 3) of the flow from one shot to another, forward or backward."""
    found = compute_flow(source, target)
    seen = (source.gbuffer["bodies"] > 0) & np.isfinite(found.offset_px).all(axis=-1)
    state = np.where(found.visible, FLOW_VISIBLE, FLOW_OCCLUDED)
    channel = np.concatenate([found.offset_px, state[..., None]], axis=-1)
    return np.where(seen[..., None], channel, 0).astype(np.float32)


def track_labelled_points(
    points_m: Mapping[str, NDArray[np.float64]], view: RenderedView
) -> PointTracks:
    """Return where points of labelled bodies are in a shot.

    Args:
        points_m: (n, 3) of each, in its own frame, by its name.
        view: of the scene.
    """
    numbers = assign_label_ids(view.scene)
    found = [
        point
        for name, points in points_m.items()
        for point in project_body_points(points, name, view)
    ]
    return PointTracks(
        np.repeat([numbers[name] for name in points_m], [len(p) for p in points_m.values()]),
        np.concatenate(list(points_m.values())),
        np.array([point.pixel for point in found]),
        np.array([point.visible for point in found]),
    )


def compute_sensor_radiance(
    exposure: ExposureResult, haze: Haze | None, camera: Camera
) -> NDArray[np.float32]:
    """Return the radiance (h, w, 3) that reaches the sensor through air and glass.

    Args:
        exposure: what the camera gathers without them, with ``compute_depth_m``.
        haze: the air; None for clear air.
        camera: whose glass it is.
    """
    light, depth_m = exposure.radiance, exposure.ground_truth["depth_m"]
    if haze is not None:
        light = apply_haze(light, haze, camera, depth_m)
    return apply_lens_effects(light, camera, depth_m)


def _capture_image(
    exposure: ExposureResult, haze: Haze | None, camera: Camera, previous: PreviousSettings | None
) -> CapturedImage:
    return capture_image(compute_sensor_radiance(exposure, haze, camera), camera.sensor, previous)


def _get_raw(capture: CapturedImage) -> NDArray[np.uint16]:
    if capture.raw is None:
        raise UsageError(
            "the camera has no mosaic, and channel 'raw' is what one counts. Give its sensor one, or "
            "its recipe a [domain.mosaic]."
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
    found: dict[ChannelName, NDArray[Any]] = {"depth": view.gbuffer["depth_m"], "ids": ids}
    if "normals" in outputs:
        found["normals"] = view.gbuffer["normals"]
    if "parts" in outputs:
        found["parts"] = np.where(ids > 0, view.gbuffer["parts"], 0)
    if "coordinates" in outputs:
        found["coordinates"] = _compute_object_coordinates(view, ids)
    return found


def _render_right_camera(
    left: RenderedView,
    auto_settings: AutoSettings,
    rasterizer: Rasterizer,
    outputs: Collection[OutputName],
) -> tuple[bytes, dict[ChannelName, NDArray[Any]]]:
    """Return the file of the right eye's picture, and the channels that lead there.

    Args:
        left: the left eye's picture.
        auto_settings: what its automatics chose, which serve both.
        rasterizer: with the scene loaded.
        outputs: what is wanted beside the picture.
    """
    eye = make_right_camera(left.camera)
    exposure = expose(left.scene, eye, rasterizer, _RIGHT_CAMERA_CHANNELS)
    haze = left.scene.environment.haze
    picture = _capture_image(exposure, haze, eye, PreviousSettings(auto_settings, 0.0)).encoded
    if not ("disparity" in outputs or "shared" in outputs):
        return picture, {}
    truth = compute_stereo_ground_truth(left, RenderedView(left.scene, eye, exposure.ground_truth))
    return picture, {"disparity": truth.disparity, "shared": truth.shared}


def _compute_object_coordinates(view: RenderedView, ids: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the points (h, w, 3) of labelled bodies over their extents; NaN elsewhere."""
    points = compute_object_points(view)
    found = np.full(points.shape, np.nan, np.float32)
    numbers = assign_label_ids(view.scene)
    for body in view.scene.bodies:
        if body.name in numbers:
            on_it = ids == numbers[body.name]
            low, high = np.array(compute_extent(body.asset))
            found[on_it] = (points[on_it] - low) / (high - low)
    return found


def render_labels(scene: Scene, camera: Camera, rasterizer: Rasterizer) -> tuple[ObjectLabel, ...]:
    """Return the labels of the frame that ``shoot`` would take, without its picture."""
    drawn = render_ground_truth(scene, camera, rasterizer, LABEL_CHANNELS)
    return annotate(scene, camera, convert_to_instance_ids(scene, drawn["bodies"]), drawn["cover"])


def annotate(
    scene: Scene, camera: Camera, ids: NDArray[np.uint16], amodal_bits: NDArray[np.uint32]
) -> tuple[ObjectLabel, ...]:
    """Return the labels of all visible objects, in the order of their ids.

    Args:
        scene: settled.
        camera: one of its cameras.
        ids: (h, w) instance ids that it sees.
        amodal_bits: (h, w, words) as the G-buffer has it.
    """
    bodies = {body.name: body for body in scene.bodies}
    boxes = find_amodal_boxes(amodal_bits)
    found = [
        _annotate_body(bodies[name], number, camera, ids, amodal_bits, boxes[number])
        for name, number in assign_label_ids(scene).items()
        if number in boxes
    ]
    return tuple(label for label in found if label is not None)


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
        category=get_category(body),
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


def get_category(body: Body) -> str:
    """Return what a body is labelled as, where and as it lies."""
    match body.asset:
        case Die():
            return find_upward_face(body.asset, body.pose)[0]
        case MeshFile() | Block() | TwistyCube() | Tin() | Carton() | Bolt() | Nut():
            return body.asset.category
        case Board():
            return body.asset.pattern
        case Card():
            faces_up = body.pose.rotation().apply((0.0, 0.0, 1.0))[2] > 0
            return body.asset.face if faces_up else CARD_BACK
        case _:
            return body.asset.kind
