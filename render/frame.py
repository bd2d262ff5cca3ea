"""One frame: a settled scene and one of its cameras to a picture with its labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.dataset.sample import ObjectLabel
from sim2cam.geometry.boxes import box_of_mask
from sim2cam.render.gbuffer import BITS_PER_WORD, Channel
from sim2cam.render.optics import optics_of
from sim2cam.render.physics import upward_face
from sim2cam.render.rasterizer import Rasterizer, instance_ids, label_numbers
from sim2cam.render.sensor import expose_to_jpeg
from sim2cam.render.warp import color_through, labels_through
from sim2cam.scene.asset import Die
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Body, Scene

LABEL_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies", "cover")


@dataclass(frozen=True)
class Frame:
    """A picture and its ground truth, pixel by pixel through the same lens.

    Attributes:
        jpeg: the picture's file.
        depth_m: (h, w) float32 along the optical axis, or along each pixel's ray where the lens's
            ``depth_along`` says so; 0 where nothing is.
        ids: (h, w) uint16 instance ids, 0 for everything unlabelled.
        objects: labels of every object with at least one visible pixel.
    """

    jpeg: bytes
    depth_m: NDArray[np.float32]
    ids: NDArray[np.uint16]
    objects: tuple[ObjectLabel, ...]


def shoot(scene: Scene, camera: Camera, rasterizer: Rasterizer) -> Frame:
    """Returns the frame that a camera takes of the scene loaded in the rasterizer.

    Raises:
        LensError: the camera's lens does not see every pixel.
    """
    optics = optics_of(camera)
    radiance = color_through(optics, lambda view: rasterizer.draw(view, {"radiance"})["radiance"])
    truth = labels_through(optics, lambda view: rasterizer.draw(view, LABEL_CHANNELS))
    ids = instance_ids(scene, truth["bodies"])
    return Frame(
        expose_to_jpeg(radiance, camera.sensor), truth["depth_m"], ids,
        annotate(scene, camera, ids, truth["cover"]),
    )  # fmt: skip


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
    )


def _category(body: Body) -> str:
    return upward_face(body.asset, body.pose)[0] if isinstance(body.asset, Die) else body.asset.kind
