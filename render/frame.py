"""One frame: a settled scene and one of its cameras to a picture with its labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.dataset.channels import CHANNELS, ChannelName, Wanted
from sim2cam.dataset.sample import ObjectLabel, Occlusion
from sim2cam.geometry.boxes import box_of_mask
from sim2cam.render.depth_camera import sensor_depth
from sim2cam.render.gbuffer import Channel, behind
from sim2cam.render.labels import occlusions_among, with_amodal_masks, with_keypoints
from sim2cam.render.mesh import extent_of
from sim2cam.render.optics import Optics, optics_of
from sim2cam.render.physics import upward_face
from sim2cam.render.rasterizer import Rasterizer, instance_ids, label_numbers
from sim2cam.render.sensor import expose_to_jpeg
from sim2cam.render.stereo import StereoTruth, right_eye, stereo_truth
from sim2cam.render.truth import Shot, object_points
from sim2cam.render.warp import color_through, labels_through
from sim2cam.scene.asset import Die
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Body, Scene

LABEL_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies", "cover")
_DRAWN: tuple[Channel, ...] = ("parts", "normals")
_SEEN: tuple[Channel, ...] = ("depth_m", "bodies")


@dataclass(frozen=True)
class Frame:
    """A picture and its ground truth, pixel by pixel through the same lens.

    Attributes:
        jpeg: the picture's file.
        channels: what was asked for, as ``dataset.channels`` says.
        objects: labels of every object with at least one visible pixel.
        occlusions: which of them hide which; None when not asked for.
        right: the file of the right eye's picture; None when not asked for.
    """

    jpeg: bytes
    channels: Mapping[ChannelName, NDArray[Any]]
    objects: tuple[ObjectLabel, ...]
    occlusions: tuple[Occlusion, ...] | None
    right: bytes | None


def shoot(
    scene: Scene,
    camera: Camera,
    rasterizer: Rasterizer,
    wanted: Collection[Wanted],
) -> Frame:
    """Returns the frame that a camera takes of the scene loaded in the rasterizer.

    Args:
        scene: settled.
        camera: one of its cameras.
        rasterizer: with the scene loaded.
        wanted: what is wanted beside the picture.

    Raises:
        LensError: the camera's lens does not see every pixel, or not as a channel needs it.
        UsageError: the camera has no depth camera or no right eye, and a channel needs it.
        BackendError: the rasterizer cannot give a channel.
    """
    optics = optics_of(camera)
    radiance = _radiance(optics, rasterizer)
    drawn = {*LABEL_CHANNELS, *(name for name in _DRAWN if name in wanted)}
    truth = labels_through(optics, lambda view: rasterizer.draw(view, drawn))
    shot = Shot(scene, camera, truth)
    ids = instance_ids(scene, truth["bodies"])
    objects = _objects(shot, ids, wanted)
    hiding = occlusions_among(objects, ids, truth["cover"]) if "occlusions" in wanted else None
    return Frame(
        jpeg=expose_to_jpeg(radiance, camera.sensor),
        channels=_channels(shot, ids, rasterizer, [name for name in CHANNELS if name in wanted]),
        objects=objects,
        occlusions=hiding,
        right=_right_jpeg(camera, radiance, rasterizer) if "right" in wanted else None,
    )


def _radiance(optics: Optics, rasterizer: Rasterizer) -> NDArray[np.float32]:
    return color_through(optics, lambda view: rasterizer.draw(view, {"radiance"})["radiance"])


def _right_jpeg(camera: Camera, left: NDArray[np.float32], rasterizer: Rasterizer) -> bytes:
    """Returns the file of the right eye's picture; the left eye's light meter serves both."""
    eye = right_eye(camera)
    return expose_to_jpeg(_radiance(optics_of(eye), rasterizer), eye.sensor, metered=left)


def _objects(
    shot: Shot, ids: NDArray[np.uint16], wanted: Collection[Wanted]
) -> tuple[ObjectLabel, ...]:
    labels = annotate(shot.scene, shot.camera, ids, shot.drawn["cover"])
    if "amodal_masks" in wanted:
        labels = with_amodal_masks(labels, shot.drawn["cover"])
    return with_keypoints(labels, shot) if "keypoints" in wanted else labels


def _channels(
    shot: Shot, ids: NDArray[np.uint16], rasterizer: Rasterizer, wanted: Sequence[ChannelName]
) -> dict[ChannelName, NDArray[Any]]:
    found: dict[ChannelName, NDArray[Any]] = {"depth": shot.drawn["depth_m"], "ids": ids}
    if "normals" in wanted:
        found["normals"] = shot.drawn["normals"]
    if "parts" in wanted:
        found["parts"] = np.where(ids > 0, shot.drawn["parts"], 0)
    if "coordinates" in wanted:
        found["coordinates"] = _coordinates(shot, ids)
    if "sensor_depth" in wanted:
        found["sensor_depth"] = sensor_depth(shot.scene, shot.camera, rasterizer)
    if "disparity" in wanted or "shared" in wanted:
        pair = _stereo(shot, rasterizer)
        found |= {"disparity": pair.disparity, "shared": pair.shared}
    return {name: found[name] for name in wanted}


def _stereo(left: Shot, rasterizer: Rasterizer) -> StereoTruth:
    eye = right_eye(left.camera)
    drawn = labels_through(optics_of(eye), lambda view: rasterizer.draw(view, _SEEN))
    return stereo_truth(left, Shot(left.scene, eye, drawn))


def _coordinates(shot: Shot, ids: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Returns the points (h, w, 3) of labelled bodies over their extents; NaN elsewhere."""
    points = object_points(shot)
    found = np.full(points.shape, np.nan, np.float32)
    numbers = label_numbers(shot.scene)
    for body in shot.scene.bodies:
        if body.name in numbers:
            on_it = ids == numbers[body.name]
            low, high = np.array(extent_of(body.asset))
            found[on_it] = (points[on_it] - low) / (high - low)
    return found


def annotate(
    scene: Scene, camera: Camera, ids: NDArray[np.uint16], cover: NDArray[np.uint32]
) -> tuple[ObjectLabel, ...]:
    """Returns the labels of all visible objects, in the order of their ids.

    Args:
        scene: settled.
        camera: one of its cameras.
        ids: (h, w) instance ids that it sees.
        cover: (h, w, words) as the G-buffer has it.
    """
    bodies = {body.name: body for body in scene.bodies}
    found = [
        _label(bodies[name], number, camera, ids == number, behind(cover, number))
        for name, number in label_numbers(scene).items()
    ]
    return tuple(label for label in found if label is not None)


def _label(
    body: Body,
    number: int,
    camera: Camera,
    visible: NDArray[np.bool_],
    whole: NDArray[np.bool_],
) -> ObjectLabel | None:
    box = box_of_mask(visible)
    if box is None:
        return None
    area = int(visible.sum())
    return ObjectLabel(
        category=_category(body),
        box_xyxy=box,
        area_px=area,
        box_amodal_xyxy=box_of_mask(whole),
        visible_fraction=area / int(whole.sum()),
        instance_id=number,
        pose=camera.pose.inverse() @ body.pose,
        extent_m=extent_of(body.asset),
    )


def _category(body: Body) -> str:
    return upward_face(body.asset, body.pose)[0] if isinstance(body.asset, Die) else body.asset.kind
