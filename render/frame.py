"""One frame: a settled scene and one of its cameras to a picture with its labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.dataset.channels import ChannelName
from sim2cam.dataset.sample import ObjectLabel
from sim2cam.geometry.boxes import box_of_mask
from sim2cam.render.gbuffer import BITS_PER_WORD, Channel
from sim2cam.render.mesh import extent_of
from sim2cam.render.optics import optics_of
from sim2cam.render.physics import upward_face
from sim2cam.render.rasterizer import Rasterizer, instance_ids, label_numbers
from sim2cam.render.sensor import expose_to_jpeg
from sim2cam.render.truth import Shot, object_points
from sim2cam.render.warp import color_through, labels_through
from sim2cam.scene.asset import Die, MeshFile
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Body, Scene

LABEL_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies", "cover")
_DRAWN: tuple[Channel, ...] = ("parts", "normals")


@dataclass(frozen=True)
class Frame:
    """A picture and its ground truth, pixel by pixel through the same lens.

    Attributes:
        jpeg: the picture's file.
        channels: what was asked for, as ``dataset.channels`` says.
        objects: labels of every object with at least one visible pixel.
    """

    jpeg: bytes
    channels: Mapping[ChannelName, NDArray[Any]]
    objects: tuple[ObjectLabel, ...]


def shoot(
    scene: Scene, camera: Camera, rasterizer: Rasterizer, channels: Collection[ChannelName]
) -> Frame:
    """Returns the frame that a camera takes of the scene loaded in the rasterizer.

    Args:
        scene: settled.
        camera: one of its cameras.
        rasterizer: with the scene loaded.
        channels: what is wanted beside the picture.

    Raises:
        LensError: the camera's lens does not see every pixel.
        BackendError: the rasterizer cannot give a channel.
    """
    optics = optics_of(camera)
    radiance = color_through(optics, lambda view: rasterizer.draw(view, {"radiance"})["radiance"])
    wanted = {*LABEL_CHANNELS, *(name for name in _DRAWN if name in channels)}
    truth = labels_through(optics, lambda view: rasterizer.draw(view, wanted))
    ids = instance_ids(scene, truth["bodies"])
    found: dict[ChannelName, NDArray[Any]] = {"depth": truth["depth_m"], "ids": ids}
    if "normals" in channels:
        found["normals"] = truth["normals"]
    if "parts" in channels:
        found["parts"] = np.where(ids > 0, truth["parts"], 0)
    if "coordinates" in channels:
        found["coordinates"] = _coordinates(Shot(scene, camera, truth), ids)
    return Frame(
        jpeg=expose_to_jpeg(radiance, camera.sensor),
        channels={name: found[name] for name in channels},
        objects=annotate(scene, camera, ids, truth["cover"]),
    )


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
        _label(bodies[name], number, camera, ids == number, _behind(cover, number))
        for name, number in label_numbers(scene).items()
    ]
    return tuple(label for label in found if label is not None)


def _behind(cover: NDArray[np.uint32], number: int) -> NDArray[np.bool_]:
    """Returns the pixels (h, w) behind which a labelled body lies, seen or not."""
    word, bit = divmod(number - 1, BITS_PER_WORD)
    return np.asarray((cover[..., word] >> np.uint32(bit)) & 1 > 0)


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
    match body.asset:
        case Die():
            return upward_face(body.asset, body.pose)[0]
        case MeshFile():
            return body.asset.category
        case _:
            return body.asset.kind
