"""Samples, labels and datasets, whether rendered, translated or photographed."""

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
"""Origin of real images labelled by a detector; for training only, never for evaluation."""


@dataclass(frozen=True)
class Keypoint:
    """A named point of an object.

    Attributes:
        name: Name within its object kind.
        xy: Position in the image, pixels; (0, 0) outside it.
        visibility: As in COCO: 0 outside the image (in photos, or not labelled), 1 occluded, 2 visible.
        point_m: Position in the object frame; None if unknown.
    """

    name: str
    xy: tuple[float, float]
    visibility: Literal[0, 1, 2]
    point_m: Vec3 | None = None


@dataclass(frozen=True)
class Occlusion:
    """A pair of occluding and occluded object.

    Attributes:
        occluder_id, occluded_id: Instance ids.
        area_px: Occluded area in pixels.
    """

    occluder_id: int
    occluded_id: int
    area_px: int


@dataclass(frozen=True)
class RawFormat:
    """Format of a raw image.

    Attributes:
        pattern: Colours of the 2x2 colour filter pattern, row by row.
        black_level, white_level: Values of darkness and saturation.

    Raises:
        ValueError: If white is not above black.
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
        box_xyxy: Tight box of the visible part in pixels; for photos, the annotated box.
        box_amodal_xyxy: Tight box of the whole object, ignoring occlusion, clipped to the image; None if
            unknown.
        visible_fraction: Visible pixels over all pixels the object would cover, 0 to 1. Pixels beyond the image
            edge count in BOP datasets only. None if unknown.
        area_px: Visible pixels; for photos, the annotated area.
        instance_id: Value in the ids channel; None without one.
        pose: Pose of the object frame in the camera frame; None if unknown.
        extent_m: Low and high corner of the box in the object frame; None if unknown.
        is_crowd: Whether the box covers a group; such labels are ignored in training and evaluation.
        twist: Motion in the world along the camera axes; None if at rest or unknown.
        amodal_mask: Pixels of the whole object, ignoring occlusion; None if unknown.
        mask: Visible pixels, or a file with them, for photos; None if unknown or if the ``ids`` channel holds
            them (``silhouettes.read_visible_masks`` reads both).
        occlusion: Level of occlusion as in KITTI: 0 none or little, 1 partly, 2 largely; None if unknown.
        truncation: Fraction beyond the image edge, 0 to 1; None if unknown.
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
        """Return the label with its amodal box if known."""
        return replace(self, box_xyxy=self.box_amodal_xyxy or self.box_xyxy)


@dataclass(frozen=True)
class FrameInfo:
    """Time and camera motion of an image. Poses of objects are those of its middle row.

    Attributes:
        frame_index: Index in the sequence of its camera, from 0.
        first_row_s: Middle of the exposure of the first row, from the start of the simulation or video; None if
            unknown.
        row_s: Delay from row to row; 0 for a global shutter, None if unknown.
        exposure_s: Exposure time of a row; 0 for an instant, None if unknown.
        camera_pose: Camera pose in the world; None if unknown.
        twist: Camera motion in the world along its own axes; ``ZERO_TWIST`` if the pose is unknown.
    """

    frame_index: int
    first_row_s: float | None = None
    row_s: float | None = None
    exposure_s: float | None = None
    camera_pose: Pose | None = None
    twist: Twist = ZERO_TWIST


@dataclass(frozen=True)
class CameraGains:
    """Gains of auto-exposure and auto white balance for an image of a sequence.

    Attributes:
        exposure: Sensor level, relative to saturation, over radiance.
        red, blue: White balance gains.
    """

    exposure: float
    red: float
    blue: float


@dataclass(frozen=True)
class Sample:
    """One image with its labels and provenance.

    Attributes:
        name: Unique name in its dataset.
        width, height: Size in pixels, upright.
        objects: Labels; empty without objects, None for unlabelled images.
        channels: Files of per-pixel channels, for ``channels.read_channel``.
        frame_info: Time and motion, in sequences and moving scenes; None otherwise.
        tracks: File of the points tracked through the sequence, for ``tracks.read_tracks``.
        scene_index: Index of the scene, shared by its samples; splits keep scenes together.
        session: Name of the capture session (see ``sessions``); None if unknown.
        digest: SHA-256 over image and labels; empty for real images.
        parent: Digest of the sample that this one was translated from; None without one.
        depth_unit_m: Unit of the depth camera's readings; None without one.
        gains: Automatic gains, in sequences; None otherwise.
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
"""Fields that a translated sample takes from its source besides labels and channels. The right image of a
stereo pair is not translated.
"""


@dataclass(frozen=True)
class SourceDataset:
    """A dataset that was merged into another.

    Attributes:
        root: Its folder.
        merged_scenes: Scene index in the merged dataset by original index.
    """

    root: Path
    merged_scenes: Mapping[int, int]


@dataclass(frozen=True)
class Dataset:
    """A dataset or set of real images.

    Attributes:
        root: Its folder, or the folder of its image list.
        categories: Names in the order of a model's class indices.
        sources: Datasets that were merged; empty for a single dataset.
    """

    root: Path
    categories: tuple[str, ...]
    samples: tuple[Sample, ...]
    sources: tuple[SourceDataset, ...] = ()

    def list_sources(self) -> tuple[SourceDataset, ...]:
        """Return the merged datasets, or the dataset itself if it is a single one."""
        scenes = {sample.scene_index: sample.scene_index for sample in self.samples}
        return self.sources or (SourceDataset(self.root, scenes),)

    def collect_label_categories(self) -> set[str]:
        """Return the categories that occur in labels."""
        return {label.category for sample in self.samples for label in sample.objects or ()}

    def take(self, limit: int | None) -> Dataset:
        """Return the first ``limit`` samples, or all if None."""
        return replace(self, samples=self.samples[:limit])

    def select_by_name(self, names: Iterable[str]) -> Dataset:
        """Return the samples with the given names."""
        wanted = set(names)
        return replace(
            self, samples=tuple(sample for sample in self.samples if sample.name in wanted)
        )
