"""One frame: a settled scene and one of its cameras to a picture with its labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import CHANNELS, FLOW_HIDDEN, FLOW_SEEN, ChannelName, Wanted
from sim2cam.data.sample import ObjectLabel, Occlusion
from sim2cam.data.tracks import Tracks
from sim2cam.errors import UsageError
from sim2cam.geometry.boxes import Box, box_of_mask
from sim2cam.geometry.motion import STILL
from sim2cam.render.depth.depth_camera import sensor_depth
from sim2cam.render.gbuffer import Channel, behind, boxes_behind
from sim2cam.render.labels.ground_truth import Shot, flow, object_points, track
from sim2cam.render.labels.objects import occlusions_among, with_amodal_masks, with_keypoints
from sim2cam.render.labels.stereo import right_eye, stereo_truth
from sim2cam.render.labels.truncation import truncation_of
from sim2cam.render.meshes.mesh import extent_of
from sim2cam.render.optics.haze import through_haze
from sim2cam.render.optics.lens_effects import through_glass
from sim2cam.render.optics.shutter import Exposure, expose, truth_of
from sim2cam.render.physics.simulation import upward_face
from sim2cam.render.rasterizer import Rasterizer, instance_ids, label_numbers
from sim2cam.render.sensor.auto_exposure import Earlier, Settings
from sim2cam.render.sensor.sensor import Photo, take
from sim2cam.scene.camera import Camera
from sim2cam.scene.fasteners import Bolt, Nut
from sim2cam.scene.light import Haze
from sim2cam.scene.packages import Carton, Tin
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import CARD_BACK, Block, Board, Card, Die, MeshFile
from sim2cam.scene.twisty import TwistyCube

LABEL_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies", "cover")
FLOWS: tuple[ChannelName, ...] = ("flow_backward", "flow_forward")
"""Channels that lead to the picture before and to the one after."""

_DRAWN: tuple[Channel, ...] = ("parts", "normals")
_SEEN: tuple[Channel, ...] = ("depth_m", "bodies")
_OF_PAIRS: tuple[Wanted, ...] = ("right", "disparity", "shared")


@dataclass(frozen=True)
class Frame:
    """A picture and its ground truth, pixel by pixel through the same lens and shutter.

    Attributes:
        picture: its file.
        channels: what was asked for, as ``dataset.channels`` says; flows only with other frames.
        objects: labels of every object with at least one visible pixel.
        occlusions: which of them hide which; None when not asked for.
        right: the file of the right eye's picture; None when not asked for.
        shot: what is seen, for what leads to other frames.
        settings: what the camera's automatics chose, for the next frame.
    """

    picture: bytes
    channels: Mapping[ChannelName, NDArray[Any]]
    objects: tuple[ObjectLabel, ...]
    occlusions: tuple[Occlusion, ...] | None
    right: bytes | None
    shot: Shot
    settings: Settings


def shoot(
    scene: Scene,
    camera: Camera,
    rasterizer: Rasterizer,
    wanted: Collection[Wanted],
    earlier: Earlier | None = None,
) -> Frame:
    """Returns the frame that a camera takes of the scene loaded in the rasterizer.

    Args:
        scene: settled.
        camera: one of its cameras.
        rasterizer: with the scene loaded.
        wanted: what is wanted beside the picture.
        earlier: what the camera's automatics chose for the frame before; None for a first one.

    Raises:
        LensError: the camera's lens does not see every pixel, or not as a channel needs it.
        UsageError: the camera has no depth camera, right eye or mosaic, and a channel needs it.
        BackendError: the rasterizer cannot give a channel.
    """
    drawn = {*LABEL_CHANNELS, *(name for name in _DRAWN if name in wanted)}
    exposure = expose(scene, camera, rasterizer, drawn, with_coverage="coverage" in wanted)
    photo = _photo(exposure, scene.environment.haze, camera, earlier)
    shot = Shot(scene, camera, exposure.truth)
    ids = instance_ids(scene, shot.drawn["bodies"])
    objects = _objects(shot, ids, wanted)
    channels = _channels(shot, ids, wanted)
    if "coverage" in wanted:
        channels["coverage"] = exposure.coverage
    if "sensor_depth" in wanted:
        channels["sensor_depth"] = sensor_depth(scene, camera, rasterizer)
    if "raw" in wanted:
        channels["raw"] = _raw(photo)
    right = None
    if any(name in wanted for name in _OF_PAIRS):
        right, of_pair = _right(shot, photo.settings, rasterizer, wanted)
        channels |= of_pair
    hiding = occlusions_among(objects, ids, shot.drawn["cover"]) if "occlusions" in wanted else None
    return Frame(
        picture=photo.file,
        channels={name: channels[name] for name in CHANNELS if name in wanted and name in channels},
        objects=objects,
        occlusions=hiding,
        right=right if "right" in wanted else None,
        shot=shot,
        settings=photo.settings,
    )


def flow_channel(now: Shot, then: Shot) -> NDArray[np.float32]:
    """Returns the channel (h, w, 3) of the flow from one shot to another, forward or backward."""
    found = flow(now, then)
    seen = (now.drawn["bodies"] > 0) & np.isfinite(found.offset_px).all(axis=-1)
    state = np.where(found.visible, FLOW_SEEN, FLOW_HIDDEN)
    channel = np.concatenate([found.offset_px, state[..., None]], axis=-1)
    return np.where(seen[..., None], channel, 0).astype(np.float32)


def tracks_of(points_m: Mapping[str, NDArray[np.float64]], shot: Shot) -> Tracks:
    """Returns where points of labelled bodies are in a shot.

    Args:
        points_m: (n, 3) of each, in its own frame, by its name.
        shot: of the scene.
    """
    numbers = label_numbers(shot.scene)
    found = [point for name, points in points_m.items() for point in track(points, name, shot)]
    return Tracks(
        np.repeat([numbers[name] for name in points_m], [len(p) for p in points_m.values()]),
        np.concatenate(list(points_m.values())),
        np.array([point.pixel for point in found]),
        np.array([point.visible for point in found]),
    )


def light_on_sensor(exposure: Exposure, haze: Haze | None, camera: Camera) -> NDArray[np.float32]:
    """Returns the radiance (h, w, 3) that reaches the sensor through air and glass.

    Args:
        exposure: what the camera gathers without them, with ``depth_m``.
        haze: the air; None for clear air.
        camera: whose glass it is.
    """
    light, depth_m = exposure.radiance, exposure.truth["depth_m"]
    if haze is not None:
        light = through_haze(light, haze, camera, depth_m)
    return through_glass(light, camera, depth_m)


def _photo(exposure: Exposure, haze: Haze | None, camera: Camera, earlier: Earlier | None) -> Photo:
    return take(light_on_sensor(exposure, haze, camera), camera.sensor, earlier)


def _raw(photo: Photo) -> NDArray[np.uint16]:
    if photo.raw is None:
        raise UsageError(
            "the camera has no mosaic, and channel 'raw' is what one counts. Give its sensor one, or "
            "its recipe a [domain.mosaic]."
        )
    return photo.raw


def _objects(
    shot: Shot, ids: NDArray[np.uint16], wanted: Collection[Wanted]
) -> tuple[ObjectLabel, ...]:
    labels = annotate(shot.scene, shot.camera, ids, shot.drawn["cover"])
    if "amodal_masks" in wanted:
        labels = with_amodal_masks(labels, shot.drawn["cover"])
    return with_keypoints(labels, shot) if "keypoints" in wanted else labels


def _channels(
    shot: Shot, ids: NDArray[np.uint16], wanted: Collection[Wanted]
) -> dict[ChannelName, NDArray[Any]]:
    found: dict[ChannelName, NDArray[Any]] = {"depth": shot.drawn["depth_m"], "ids": ids}
    if "normals" in wanted:
        found["normals"] = shot.drawn["normals"]
    if "parts" in wanted:
        found["parts"] = np.where(ids > 0, shot.drawn["parts"], 0)
    if "coordinates" in wanted:
        found["coordinates"] = _coordinates(shot, ids)
    return found


def _right(
    left: Shot,
    settings: Settings,
    rasterizer: Rasterizer,
    wanted: Collection[Wanted],
) -> tuple[bytes, dict[ChannelName, NDArray[Any]]]:
    """Returns the file of the right eye's picture, and the channels that lead there.

    Args:
        left: the left eye's picture.
        settings: what its automatics chose, which serve both.
        rasterizer: with the scene loaded.
        wanted: what is wanted beside the picture.
    """
    eye = right_eye(left.camera)
    exposure = expose(left.scene, eye, rasterizer, _SEEN)
    haze = left.scene.environment.haze
    picture = _photo(exposure, haze, eye, Earlier(settings, 0.0)).file
    if not ("disparity" in wanted or "shared" in wanted):
        return picture, {}
    truth = stereo_truth(left, Shot(left.scene, eye, exposure.truth))
    return picture, {"disparity": truth.disparity, "shared": truth.shared}


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


def labels_of(scene: Scene, camera: Camera, rasterizer: Rasterizer) -> tuple[ObjectLabel, ...]:
    """Returns the labels of the frame that ``shoot`` would take, without its picture."""
    drawn = truth_of(scene, camera, rasterizer, LABEL_CHANNELS)
    return annotate(scene, camera, instance_ids(scene, drawn["bodies"]), drawn["cover"])


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
    boxes = boxes_behind(cover)
    found = [
        _label(bodies[name], number, camera, ids, cover, boxes[number])
        for name, number in label_numbers(scene).items()
        if number in boxes
    ]
    return tuple(label for label in found if label is not None)


def _label(
    body: Body,
    number: int,
    camera: Camera,
    ids: NDArray[np.uint16],
    cover: NDArray[np.uint32],
    box_amodal: Box,
) -> ObjectLabel | None:
    x0, y0, x1, y1 = (int(side) for side in box_amodal)
    visible = ids[y0:y1, x0:x1] == number
    box = box_of_mask(visible)
    if box is None:
        return None
    area = int(visible.sum())
    twist = body.course().twist
    return ObjectLabel(
        category=category_of(body),
        box_xyxy=(box[0] + x0, box[1] + y0, box[2] + x0, box[3] + y0),
        area_px=area,
        box_amodal_xyxy=box_amodal,
        visible_fraction=area / int(behind(cover[y0:y1, x0:x1], number).sum()),
        instance_id=number,
        pose=camera.pose.inverse() @ body.pose,
        extent_m=extent_of(body.asset),
        twist=None if twist == STILL else twist.seen_from(camera.pose),
        truncation=truncation_of(body, camera, box_amodal),
    )


def category_of(body: Body) -> str:
    """Returns what a body is labelled as, where and as it lies."""
    match body.asset:
        case Die():
            return upward_face(body.asset, body.pose)[0]
        case MeshFile() | Block() | TwistyCube() | Tin() | Carton() | Bolt() | Nut():
            return body.asset.category
        case Board():
            return body.asset.pattern
        case Card():
            faces_up = body.pose.rotation().apply((0.0, 0.0, 1.0))[2] > 0
            return body.asset.face if faces_up else CARD_BACK
        case _:
            return body.asset.kind
