"""What a data set holds, whether it was rendered, translated or photographed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import InstanceOf

from sim2cam.data.channels import ChannelName
from sim2cam.data.mask_file import MaskFile
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.lens import Lens
from sim2cam.geometry.motion import ZERO_TWIST, Twist
from sim2cam.geometry.poses import Pose, Vec3
from sim2cam.geometry.run_length import RleMask
from sim2cam.scene.sensor import BayerPattern

Origin = Literal["sim", "adapted", "real", "stand-in", "pseudo-labelled"]

PSEUDO_LABELLED: Origin = "pseudo-labelled"
"""Of captures that a detector labelled: to be trained on, never to be scored against."""


@dataclass(frozen=True)
class Keypoint:
    """A named point of an object.

    Attributes:
        name: as its kind of object has it (``scene.objects``).
        xy: where it lies in the picture, pixels; (0, 0) where that is outside.
        visibility: as COCO has it: 0 outside the picture (in photos, or not labelled), 1 hidden, 2
            seen.
        point_m: where it is on the object, in the object's frame; None when unknown.
    """

    name: str
    xy: tuple[float, float]
    visibility: Literal[0, 1, 2]
    point_m: Vec3 | None = None


@dataclass(frozen=True)
class Occlusion:
    """An object that hides another.

    Attributes:
        occluder_id, occluded_id: instance ids of the one that is seen and of the one that is hidden by it.
        area_px: in which it is.
    """

    occluder_id: int
    occluded_id: int
    area_px: int


@dataclass(frozen=True)
class RawFormat:
    """What the numbers of a raw picture mean.

    Attributes:
        pattern: colours of the first two pixels of the first row, then of the second.
        black_level, white_level: numbers of darkness and of saturation.

    Raises:
        ValueError: white is not above black.
    """

    pattern: BayerPattern
    black_level: int
    white_level: int

    def __post_init__(self) -> None:
        if not 0 <= self.black_level < self.white_level:
            raise ValueError(
                f"white must be above black, not {self.white_level} and {self.black_level}"
            )


@dataclass(frozen=True)
class ObjectLabel:
    """One labelled object of an image.

    Attributes:
        category: its name.
        box_xyxy: tight box of the visible part (for photos, the box as it was drawn), pixels.
        box_amodal_xyxy: tight box of the whole object as if nothing stood before it, cut at the
            image's edge; None when unknown.
        visible_fraction: visible pixels over all pixels the object would cover, 0 to 1: over those of
            the image, but of BOP's data sets also over those beyond its edge; None when unknown.
        area_px: visible pixels (for photos, the area as it was given).
        instance_id: its value in the ids image; None without one.
        pose: the object's frame in the camera frame; None when unknown.
        extent_m: two opposite corners, low and high, of its box in its own frame; with the pose,
            its box in space; None when unknown.
        is_crowd: the box covers a group; neither trained on nor scored.
        twist: how the object moves in the world, along the axes of the camera; None when it lies
            still or that is unknown.
        amodal_mask: the pixels of the whole object as if nothing stood before it; None when unknown.
        keypoints: its named points; None when unknown.
        mask: the pixels that are seen of it, of photos, or the file that holds them, which no text
            can name; None when unknown, and where ``ids`` tell them (``silhouettes.seen_masks``
            returns any).
        occlusion: how much of it others hide, as KITTI has it: 0 next to nothing, 1 a part, 2 most;
            None when unknown.
        truncation: share of it beyond the picture's edge, 0 to 1; None when unknown.
    """

    category: str
    box_xyxy: Box
    area_px: float
    box_amodal_xyxy: Box | None = None
    visible_fraction: float | None = None
    instance_id: int | None = None
    pose: Pose | None = None
    extent_m: tuple[Vec3, Vec3] | None = None
    is_crowd: bool = False
    twist: Twist | None = None
    amodal_mask: RleMask | None = None
    keypoints: tuple[Keypoint, ...] | None = None
    mask: RleMask | InstanceOf[MaskFile] | None = None
    occlusion: Literal[0, 1, 2] | None = None
    truncation: float | None = None

    def use_amodal_box(self) -> ObjectLabel:
        """Return the label with the box of the whole object, where that is known."""
        return replace(self, box_xyxy=self.box_amodal_xyxy or self.box_xyxy)


@dataclass(frozen=True)
class FrameInfo:
    """When a picture was taken, and from where. Poses of objects are those of its middle row.

    Attributes:
        frame_index: number of the picture in the film of its camera, from 0.
        first_row_s: when the exposure of the first row was half over, from when the bodies were
            let go; of a video, from its first frame; None when unknown.
        row_s: how much later each row was exposed than the one above it; 0 for all at once, None
            when unknown.
        exposure_s: how long each row was; 0 for an instant, None when unknown.
        camera_pose: its pose in the world; None when unknown.
        twist: how it moved in the world, along its own axes; ``ZERO_TWIST`` where its pose is unknown.
    """

    frame_index: int
    first_row_s: float | None = None
    row_s: float | None = None
    exposure_s: float | None = None
    camera_pose: Pose | None = None
    twist: Twist = ZERO_TWIST


@dataclass(frozen=True)
class CameraGains:
    """What a camera's automatics chose for a picture of a film, with their lag.

    Attributes:
        exposure: level at the sensor, in its saturation, over radiance.
        red, blue: what those are multiplied by for the sake of the white balance.
    """

    exposure: float
    red: float
    blue: float


@dataclass(frozen=True)
class Sample:
    """One image with its labels and where it comes from.

    Attributes:
        name: unique in its data set.
        rgb: the image file.
        width, height: size in pixels, upright.
        objects: the labels; empty when there are none, None when the image was never labelled.
        origin: how the image was made.
        channels: files of what is known of each pixel, as ``channels.read`` reads them.
        lens: the lens, where it is known.
        frame_info: when it was taken, in films and where something moves; None otherwise.
        tracks: file of the points that are followed through the film, as ``tracks.read`` reads it.
        scene_index: samples of one scene share it; splits keep them together.
        session: photos that were taken together share it, as ``sessions`` tells; None where unknown.
        digest: SHA-256 over image and labels; empty for captures.
        parent: digest of the sample that this one was translated from; None for the first of its line.
        occlusions: which objects hide which; None when unknown.
        depth_unit_m: of the depth camera's readings; None without one.
        right_rgb: the image file of the right eye of a pair; None without one.
        baseline_m: how far to the right of this camera it stands; None without one.
        raw_format: what the numbers of its raw picture mean; None without one.
        gains: what the camera's automatics chose, in films; None otherwise.
    """

    name: str
    rgb: Path
    width: int
    height: int
    objects: tuple[ObjectLabel, ...] | None
    origin: Origin
    channels: Mapping[ChannelName, Path] = field(default_factory=dict)
    lens: Lens | None = None
    frame_info: FrameInfo | None = None
    tracks: Path | None = None
    scene_index: int = 0
    session: str | None = None
    digest: str = ""
    parent: str | None = None
    occlusions: tuple[Occlusion, ...] | None = None
    depth_unit_m: float | None = None
    right_rgb: Path | None = None
    baseline_m: float | None = None
    raw_format: RawFormat | None = None
    gains: CameraGains | None = None


INHERITED_FIELDS = (
    "lens",
    "frame_info",
    "occlusions",
    "depth_unit_m",
    "baseline_m",
    "raw_format",
    "gains",
)
"""Fields of a sample that stay true when its picture is translated, besides labels and channels; the
picture of the right eye is not translated with it."""


@dataclass(frozen=True)
class SourceDataset:
    """A data set that others were merged with.

    Attributes:
        root: its folder.
        merged_scenes: numbers of its scenes in the merged data set, by its own.
    """

    root: Path
    merged_scenes: Mapping[int, int]


@dataclass(frozen=True)
class Dataset:
    """A read data set or set of captures.

    Attributes:
        root: its folder, or that of its list of images.
        categories: names, in order; the index in this tuple is the class index of models.
        samples: in a fixed order.
        sources: those that it was merged from; empty when it is one.
    """

    root: Path
    categories: tuple[str, ...]
    samples: tuple[Sample, ...]
    sources: tuple[SourceDataset, ...] = ()

    def list_sources(self) -> tuple[SourceDataset, ...]:
        """Return those that it was merged from, and itself when it is one."""
        scenes = {sample.scene_index: sample.scene_index for sample in self.samples}
        return self.sources or (SourceDataset(self.root, scenes),)

    def collect_label_categories(self) -> set[str]:
        """Return the categories that objects have."""
        return {label.category for sample in self.samples for label in sample.objects or ()}

    def take(self, limit: int | None) -> Dataset:
        """Return the first ``limit`` samples; all when None."""
        return replace(self, samples=self.samples[:limit])

    def select_by_name(self, names: Iterable[str]) -> Dataset:
        """Return the samples with these names."""
        wanted = set(names)
        return replace(self, samples=tuple(s for s in self.samples if s.name in wanted))
