"""Regression scenes: settled scenes stored with their image and labels, to be rendered again.

A case is two files of one name: ``NAME.json`` with the scene, the camera index, its labels and
tolerances, and ``NAME.jpg`` or ``NAME.png`` with the encoded image. Meshes, textures and
environment maps are copied to ``files/`` next to the cases. A case of a sequence is one frame.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sim2cam import images
from sim2cam.data.channels import OutputName
from sim2cam.data.parsing import format_validation_error
from sim2cam.data.reader import SampleRecord, parse_sample, read_header, read_sample_records
from sim2cam.data.sample import CameraGains, ObjectLabel, Sample
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError, OutputError, SpecError, UsageError, suggest_name
from sim2cam.experiments.scene_files import copy_scene_files, resolve_scene_files
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import Box
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_records import build_instants, read_scene_record
from sim2cam.render.frame import Frame
from sim2cam.render.renderer import get_renderer
from sim2cam.render.sensor.auto_exposure import AutoSettings, PreviousSettings
from sim2cam.scene.scene import Scene

MAX_BYTES = 64_000_000
MAX_SIDE_PX = 4096

_CHANNELS: tuple[OutputName, ...] = ("ids",)


@dataclass(frozen=True)
class Tolerances:
    """Largest deviations of a new render from a stored case.

    Attributes:
        mean_difference: mean absolute difference of all pixel values (0 to 255).
        pixel_difference: absolute difference (0 to 255) above which a pixel counts as changed.
        pixel_fraction: fraction of changed pixels.
        position_m: shift of an object in the camera frame.
    """

    mean_difference: float = 0.5
    pixel_difference: float = 24.0
    pixel_fraction: float = 0.002
    box_px: float = 1.0
    visible_fraction: float = 0.02
    position_m: float = 1e-5
    rotation_rad: float = 1e-4


@dataclass(frozen=True)
class RegressionCase:
    """A stored scene with its labels and tolerances.

    Attributes:
        scene: settled scene, or the scene at the time of a frame; file paths are relative to the
            case.
        gains: settings of auto exposure and white balance that depend on earlier frames; None to
            compute them.
    """

    scene: Scene
    view: int
    objects: tuple[ObjectLabel, ...]
    tolerances: Tolerances = field(default_factory=Tolerances)
    note: str = ""
    gains: CameraGains | None = None


@dataclass(frozen=True, eq=False)
class CaseResult:
    """Result of rendering a case again.

    Attributes:
        deviations: descriptions of deviations beyond the tolerances; empty if there are none.
    """

    name: str
    deviations: tuple[str, ...]
    is_same_file: bool
    mean_difference: float
    expected: NDArray[np.uint8]
    actual: NDArray[np.uint8]
    note: str = ""


@dataclass(frozen=True)
class BrokenCase:
    """A case that cannot be rendered, and the problem."""

    name: str
    problem: str


def add_case(
    sample: Path,
    folder: Path,
    *,
    name: str | None = None,
    note: str = "",
    recipe: Recipe | None = None,
) -> Path:
    """Store the scene of a sample as a case and return the path of the case.

    Args:
        recipe: recipe of the dataset, to find files; scenes without files need none.

    Raises:
        InputError: if the sample does not exist, is not rendered, or its files differ from the
            recipe.
        OutputError: if a case of that name exists, or the folder cannot be written.
        UsageError: if the name is not a plain name.
    """
    record = _read_sample_record(sample)
    header = read_header(sample.parent)
    parsed = parse_sample(record, tuple(header["categories"]))
    target = folder / f"{name or f'{sample.parent.resolve().name}-{sample.name}'}.json"
    if target.parent != folder:
        raise UsageError(f"--name {name}: must be a plain name without folders.")
    if target.exists():
        raise OutputError(target, "already exists. Choose another --name.")
    scene = copy_scene_files(_restore_scene(record, parsed, header), recipe, folder, sample)
    labels = tuple(replace(o, amodal_mask=None, keypoints=None) for o in parsed.objects or ())
    is_later_frame = parsed.frame_info is not None and parsed.frame_info.frame_index > 0
    gains = parsed.gains if is_later_frame else None
    case = RegressionCase(scene, int(record.fields.get("view", 0)), labels, note=note, gains=gains)
    write_bytes(target.with_suffix(parsed.rgb.suffix), parsed.rgb.read_bytes())
    _write_case(target, case)
    return target


def run_cases(folder: Path, *, renew: bool = False) -> Iterator[CaseResult | BrokenCase]:
    """Render each case of a folder again and yield the results.

    Raises:
        InputError: if the folder has no case.
        OutputError: if a case cannot be renewed.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise InputError(folder, "has no regression scenes. Add one with sim2cam scenes add.")
    for path in paths:
        try:
            case = read_case(path)
            frame = _render_case(case, path)
            result = _compare_case(path, case, frame)
        except (InputError, SpecError) as error:
            yield BrokenCase(path.stem, str(error))
            continue
        if renew and result.deviations:
            write_bytes(_locate_image(path, case), frame.image)
            _write_case(path, replace(case, objects=frame.objects))
        yield result


def read_case(path: Path) -> RegressionCase:
    """Return the case of a file.

    Raises:
        InputError: if the file is missing, too large, or not a case.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(path, f"larger than {MAX_BYTES // 1_000_000} MB, so not a case.")
        case = _ADAPTER.validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise InputError(path, f"not a case: {format_validation_error(error)}.") from error
    resolve_scene_files(case.scene, path)
    if not 0 <= case.view < len(case.scene.cameras):
        raise InputError(
            path, f"view {case.view}, but the scene has {len(case.scene.cameras)} cameras."
        )
    camera = case.scene.cameras[case.view]
    if max(camera.width, camera.height) > MAX_SIDE_PX:
        raise InputError(
            path,
            f"image of {camera.width}x{camera.height} pixels; at most {MAX_SIDE_PX} are allowed.",
        )
    return case


_ADAPTER: TypeAdapter[RegressionCase] = TypeAdapter(RegressionCase)


def _write_case(path: Path, case: RegressionCase) -> None:
    write_json(path, json.loads(_ADAPTER.dump_json(case, exclude_none=True)))


def _read_sample_record(sample_path: Path) -> SampleRecord:
    header = read_header(sample_path.parent)
    if header.get("parent") is not None:
        raise InputError(
            sample_path.parent,
            f"is translated from '{header['parent']}'. Add the sample of that dataset.",
        )
    records = {str(r.fields.get("name")): r for r in read_sample_records(sample_path.parent)}
    if sample_path.name not in records:
        hint = suggest_name(sample_path.name, records)
        raise InputError(sample_path.parent, f"no sample '{sample_path.name}'. {hint}.")
    return records[sample_path.name]


def _restore_scene(sample_record: SampleRecord, sample: Sample, header: Mapping[str, Any]) -> Scene:
    """Return the scene of a sample at the time of its image."""
    path = sample_record.shard / "scenes.jsonl"
    scene_record = read_scene_record(path, sample.scene_index)
    if not scene_record.sequence:
        return scene_record.scene
    try:
        interval_s = float(header["recipe"]["render"]["sequence"]["interval_s"])
        instants = build_instants(scene_record, interval_s)
        return instants[int(sample_record.fields["frame_info"]["frame_index"])].scene
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            path, f"scene {sample.scene_index}: broken sequence ({error!r})."
        ) from error


def _render_case(case: RegressionCase, path: Path) -> Frame:
    scene = resolve_scene_files(case.scene, path)
    previous = None
    if case.gains is not None:
        settings = AutoSettings(case.gains.exposure, case.gains.red, case.gains.blue)
        previous = PreviousSettings(settings, 0.0)  # no elapsed time keeps the settings
    with get_renderer().open(scene) as stage:
        return stage.shoot(scene.cameras[case.view], _CHANNELS, previous)


def _locate_image(path: Path, case: RegressionCase) -> Path:
    """Return the path of a case's image."""
    file_format = case.scene.cameras[case.view].sensor.file_format
    return path.with_suffix(".png" if file_format == "png" else ".jpg")


def _compare_case(path: Path, case: RegressionCase, frame: Frame) -> CaseResult:
    image_path = _locate_image(path, case)
    expected, actual = images.read_rgb(image_path), images.decode_image(frame.image)
    if expected.shape != actual.shape:
        sizes = [f"{width}x{height}" for height, width, _ in (expected.shape, actual.shape)]
        raise InputError(
            image_path, f"has {sizes[0]} pixels, but its camera has {sizes[1]}. Add the case again."
        )
    difference = np.abs(expected.astype(np.int16) - actual)
    deviations = (
        *_compare_pixels(difference, case.tolerances),
        *_compare_labels(case.objects, frame.objects, case.tolerances),
    )
    return CaseResult(
        name=path.stem,
        deviations=deviations,
        is_same_file=image_path.read_bytes() == frame.image,
        mean_difference=float(difference.mean()),
        expected=expected,
        actual=actual,
        note=case.note,
    )


def _compare_pixels(difference: NDArray[np.int16], tolerances: Tolerances) -> Iterator[str]:
    mean = float(difference.mean())
    fraction = float((difference.max(axis=-1) > tolerances.pixel_difference).mean())
    if mean > tolerances.mean_difference:
        yield f"mean difference {mean:.2f} of 255 ({tolerances.mean_difference:g} allowed)"
    if fraction > tolerances.pixel_fraction:
        yield f"{100 * fraction:.2f} % changed pixels ({100 * tolerances.pixel_fraction:g} % allowed)"


def _compare_labels(
    expected: tuple[ObjectLabel, ...], actual: tuple[ObjectLabel, ...], tolerances: Tolerances
) -> Iterator[str]:
    before, after = ({o.instance_id: o for o in labels} for labels in (expected, actual))
    for number in sorted({*before, *after}, key=str):
        if number not in after:
            yield f"object {number} is missing"
        elif number not in before:
            yield f"object {number} is new"
        else:
            for deviation in _compare_label(before[number], after[number], tolerances):
                yield f"object {number}: {deviation}"


def _compare_label(
    expected: ObjectLabel, actual: ObjectLabel, tolerances: Tolerances
) -> Iterator[str]:
    if expected.category != actual.category:
        yield f"category {expected.category} is now {actual.category}"
    distances = {
        "box": (_compute_box_distance(expected.box_xyxy, actual.box_xyxy), tolerances.box_px, "px"),
        "amodal box": (_compute_box_distance(expected.box_amodal_xyxy, actual.box_amodal_xyxy), tolerances.box_px, "px"),
        "visible fraction": (
            _compute_difference(expected.visible_fraction, actual.visible_fraction), tolerances.visible_fraction, "",
        ),
    }  # fmt: skip
    if expected.pose and actual.pose:
        motion = expected.pose.inverse() @ actual.pose
        distances["position"] = (math.hypot(*motion.position_m), tolerances.position_m, "m")
        distances["rotation"] = (
            float(motion.rotation().magnitude()), tolerances.rotation_rad, "rad",
        )  # fmt: skip
    for name, (distance, limit, unit) in distances.items():
        if distance > limit:
            yield f"{name} by {distance:.3g} {unit}".rstrip() + f" ({limit:g} allowed)"


def _compute_box_distance(old: Box | None, new: Box | None) -> float:
    if old is None or new is None:
        return 0.0
    return max(abs(a - b) for a, b in zip(old, new, strict=True))


def _compute_difference(old: float | None, new: float | None) -> float:
    return 0.0 if old is None or new is None else abs(new - old)
