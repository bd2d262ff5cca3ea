"""Amodal masks, keypoints and occlusions of labelled objects."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Keypoint, ObjectLabel, Occlusion
from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.geometry.run_length import RleMask
from sim2cam.objects.solid import Solid
from sim2cam.render.gbuffer import assign_label_ids, decode_amodal_mask
from sim2cam.render.labels.ground_truth import (
    ProjectedPoint,
    RenderedView,
    count_occluded_pixels,
    project_body_points,
)
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.scene.shape import MeshFile, Shape

ObjectLabels = Sequence[ObjectLabel]

_MIN_VISIBLE_COSINE = (
    0.1  # between normal and line of sight; faces at flatter angles are unreadable
)


def add_amodal_masks(
    labels: ObjectLabels, amodal_bits: NDArray[np.uint32]
) -> tuple[ObjectLabel, ...]:
    """Return labels with amodal masks.

    Args:
        labels: labels of one image.
        amodal_bits: (h, w, words), channel ``cover`` of its G-buffer.
    """
    return tuple(
        replace(
            label,
            amodal_mask=RleMask.from_mask(decode_amodal_mask(amodal_bits, label.instance_id or 0)),
        )
        for label in labels
    )


def add_keypoints(labels: ObjectLabels, view: RenderedView) -> tuple[ObjectLabel, ...]:
    """Return labels with keypoints.

    Args:
        labels: labels of one image.
        view: rendered view of that image.
    """
    names = {label_id: name for name, label_id in assign_label_ids(view.scene).items()}
    bodies = {body.name: body for body in view.scene.bodies}
    labelled = []
    for label in labels:
        body = bodies[names[label.instance_id or 0]]
        points = body.asset.get_keypoints()
        tracks = project_body_points(
            np.array(list(points.values())).reshape(-1, 3), body.name, view
        )
        normals = _compute_keypoint_normals(body.asset)
        keypoints = tuple(
            _make_keypoint(name, point, normals[name], projection, label, view)
            for (name, point), projection in zip(points.items(), tracks, strict=True)
        )
        labelled.append(replace(label, keypoints=keypoints))
    return tuple(labelled)


def find_occlusions(
    labels: ObjectLabels, ids: NDArray[np.uint16], amodal_bits: NDArray[np.uint32]
) -> tuple[Occlusion, ...]:
    """Return the pairs of occluding and occluded objects, with pixel counts.

    Args:
        labels: labels of one image.
        ids: (h, w) instance ids.
        amodal_bits: (h, w, words), channel ``cover`` of the G-buffer.
    """
    visible_ids = {label.instance_id for label in labels}
    return tuple(
        Occlusion(front, back, pixels)
        for (front, back), pixels in count_occluded_pixels(ids, amodal_bits).items()
        if back in visible_ids
    )


@functools.lru_cache(maxsize=1024)
def _compute_keypoint_normals(asset: Shape) -> dict[str, Vec3]:
    """Return the surface normal at each keypoint of a shape, in its own frame."""
    points = asset.get_keypoints()
    if isinstance(asset, Solid):
        return asset.get_keypoint_normals()
    assert isinstance(asset, MeshFile)
    from trimesh.triangles import closest_point

    mesh = build_mesh(asset)
    corners = mesh.vertices_m[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    keypoint_normals = {}
    for name, point in points.items():
        offsets = closest_point(corners, np.tile(point, (len(corners), 1))) - point
        keypoint_normals[name] = vec3(normals[np.argmin((offsets**2).sum(axis=1))])
    return keypoint_normals


def _make_keypoint(
    name: str,
    point_m: Vec3,
    surface_normal: Vec3,
    projection: ProjectedPoint,
    label: ObjectLabel,
    view: RenderedView,
) -> Keypoint:
    """Return a keypoint, visible only if its surface faces the camera.

    The depth test alone also accepts faces just behind the edge of a visible one.
    """
    x, y = projection.pixel
    height, width = view.gbuffer["bodies"].shape
    if not (-0.5 <= x < width - 0.5 and -0.5 <= y < height - 0.5):
        return Keypoint(name, (0.0, 0.0), 0, point_m)
    assert label.pose is not None
    position = label.pose.apply(np.array([point_m]))[0]
    normal = label.pose.rotation().apply(surface_normal)
    cosine = -normal @ position / (np.linalg.norm(normal) * np.linalg.norm(position))
    visibility: Literal[1, 2] = 2 if projection.visible and cosine > _MIN_VISIBLE_COSINE else 1
    return Keypoint(name, projection.pixel, visibility, point_m)
