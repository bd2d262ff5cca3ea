"""Regression scenes: settled scenes kept as files with what was seen in them, rendered again later.

A case is two files of one name: ``NAME.json`` with the scene, the view, its labels and how far both
may move, and the picture, ``NAME.jpg`` or ``NAME.png`` as its camera writes it. Meshes and pictures of surfaces and skies are copied to
``files/`` beside the cases. Of a film, a case is one picture, at its time.
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
from sim2cam.render.frame import Frame, shoot
from sim2cam.render.rasterizer import get_rasterizer
from sim2cam.render.sensor.auto_exposure import AutoSettings, PreviousSettings
from sim2cam.scene.scene import Scene

MAX_BYTES = 64_000_000
MAX_SIDE_PX = 4096

_CHANNELS: tuple[OutputName, ...] = ("ids",)


@dataclass(frozen=True)
class Tolerances:
    """How far a scene that is rendered again may be from what was kept.

    Attributes:
        mean_difference: mean difference of all pixels' colours, of 255.
        pixel_difference: difference of one pixel's colour, of 255, from which on it counts as another.
        pixel_fraction: share of other pixels.
        box_px: each side of a box.
        visible_fraction: of an object.
        position_m: of an object, in the camera frame.
        rotation_rad: of an object.
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
    """A scene that is kept.

    Attributes:
        scene: settled, or as it is at the time of a film's picture; files by their place beside the
            case.
        view: number of the camera.
        objects: labels of what it sees.
        tolerances: how far labels and picture may move.
        note: why it is kept.
        gains: what the camera's automatics chose, where pictures before this one decide that; None
            lets them choose.
    """

    scene: Scene
    view: int
    objects: tuple[ObjectLabel, ...]
    tolerances: Tolerances = field(default_factory=Tolerances)
    note: str = ""
    gains: CameraGains | None = None


@dataclass(frozen=True, eq=False)
class CaseResult:
    """What came of rendering a case again.

    Attributes:
        name: of the case.
        deviations: what is further off than it may be, in words; empty when nothing is.
        is_same_file: whether the picture's file is the same, byte by byte.
        mean_difference: mean difference of the picture.
        expected, actual: both pictures (h, w, 3).
        note: why the case is kept.
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
    """A case that cannot be rendered again: its name, and why not."""

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
    """Keep the scene of a sample and returns the file of the case.

    Args:
        sample: ``DATASET/SAMPLE``, a data set's folder and the sample's name.
        folder: where cases are kept.
        name: of the case; that of data set and sample when None.
        note: why it is kept.
        recipe: of the data set, which tells where files are; scenes without files need none.

    Raises:
        InputError: there is no such sample, it is no rendered picture, or its files are not those of
            the recipe.
        OutputError: there is a case of that name, or the folder cannot be written.
    """
    raw = _read_raw_sample(sample)
    header = read_header(sample.parent)
    found = parse_sample(raw, tuple(header["categories"]))
    target = folder / f"{name or f'{sample.parent.resolve().name}-{sample.name}'}.json"
    if target.parent != folder:
        raise UsageError(f"--name {name}: give a plain name, without a folder.")
    if target.exists():
        raise OutputError(target, "is a case already. Choose another --name.")
    scene = copy_scene_files(_restore_scene(raw, found, header), recipe, folder, sample)
    labels = tuple(replace(o, amodal_mask=None, keypoints=None) for o in found.objects or ())
    follows = found.frame_info is not None and found.frame_info.frame_index > 0
    gains = found.gains if follows else None
    case = RegressionCase(scene, int(raw.fields.get("view", 0)), labels, note=note, gains=gains)
    write_bytes(target.with_suffix(found.rgb.suffix), found.rgb.read_bytes())
    _write_case(target, case)
    return target


def run_cases(folder: Path, *, renew: bool = False) -> Iterator[CaseResult | BrokenCase]:
    """Yield what comes of rendering each case of a folder again.

    Args:
        folder: of ``add_case``.
        renew: keep what is seen now, where that has moved.

    Raises:
        InputError: there is no case.
        OutputError: one cannot be renewed.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise InputError(folder, "holds no case. Keep one with sim2cam scenes add.")
    for path in paths:
        try:
            case = read_case(path)
            frame = _render_case(case, path)
            outcome = _compare_case(path, case, frame)
        except (InputError, SpecError) as error:
            yield BrokenCase(path.stem, str(error))
            continue
        if renew and outcome.deviations:
            write_bytes(_locate_image(path, case), frame.image)
            _write_case(path, replace(case, objects=frame.objects))
        yield outcome


def read_case(path: Path) -> RegressionCase:
    """Return the case of a file.

    Raises:
        InputError: it is missing, too large, or not a case.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(path, f"larger than {MAX_BYTES // 1_000_000} MB. It is no case.")
        case = _ADAPTER.validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise InputError(path, f"not a case: {format_validation_error(error)}.") from error
    resolve_scene_files(case.scene, path)
    if not 0 <= case.view < len(case.scene.cameras):
        raise InputError(path, f"view {case.view} of {len(case.scene.cameras)} cameras.")
    camera = case.scene.cameras[case.view]
    if max(camera.width, camera.height) > MAX_SIDE_PX:
        raise InputError(
            path, f"a picture of {camera.width}x{camera.height}: {MAX_SIDE_PX} is the most."
        )
    return case


_ADAPTER: TypeAdapter[RegressionCase] = TypeAdapter(RegressionCase)


def _write_case(path: Path, case: RegressionCase) -> None:
    write_json(path, json.loads(_ADAPTER.dump_json(case, exclude_none=True)))


def _read_raw_sample(sample_path: Path) -> SampleRecord:
    header = read_header(sample_path.parent)
    if header.get("parent") is not None:
        raise InputError(
            sample_path.parent,
            f"is translated from '{header['parent']}'. Keep the sample of that data set.",
        )
    raws = {str(raw.fields.get("name")): raw for raw in read_sample_records(sample_path.parent)}
    if sample_path.name not in raws:
        hint = suggest_name(sample_path.name, list(raws)[:20])
        raise InputError(sample_path.parent, f"no sample '{sample_path.name}'. {hint}, ...")
    return raws[sample_path.name]


def _restore_scene(raw: SampleRecord, sample: Sample, header: Mapping[str, Any]) -> Scene:
    """Return the scene of a sample, as it is when its picture is taken."""
    path = raw.shard / "scenes.jsonl"
    record = read_scene_record(path, sample.scene_index)
    if not record.sequence:
        return record.scene
    try:
        interval_s = float(header["recipe"]["render"]["sequence"]["interval_s"])
        instants = build_instants(record, interval_s)
        return instants[int(raw.fields["frame_info"]["frame_index"])].scene
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(path, f"scene {sample.scene_index}: broken film ({error!r}).") from error


def _render_case(case: RegressionCase, path: Path) -> Frame:
    drawing = get_rasterizer()
    scene = resolve_scene_files(case.scene, path)
    drawing.load(scene)
    earlier = None
    if case.gains is not None:
        chosen = AutoSettings(case.gains.exposure, case.gains.red, case.gains.blue)
        earlier = PreviousSettings(chosen, 0.0)  # as another eye of the same camera takes them over
    return shoot(scene, scene.cameras[case.view], drawing, _CHANNELS, earlier)


def _locate_image(path: Path, case: RegressionCase) -> Path:
    """Return the file of a case's picture."""
    file_format = case.scene.cameras[case.view].sensor.file_format
    return path.with_suffix(".png" if file_format == "png" else ".jpg")


def _compare_case(path: Path, case: RegressionCase, frame: Frame) -> CaseResult:
    picture = _locate_image(path, case)
    expected, found = images.read_rgb(picture), images.decode_image(frame.image)
    if expected.shape != found.shape:
        height, width = expected.shape[:2]
        raise InputError(picture, f"{width}x{height} pixels, and its scene has other ones.")
    difference = np.abs(expected.astype(np.int16) - found)
    moved = (
        *_compare_pixels(difference, case.tolerances),
        *_compare_labels(case.objects, frame.objects, case.tolerances),
    )
    return CaseResult(
        name=path.stem,
        deviations=moved,
        is_same_file=picture.read_bytes() == frame.image,
        mean_difference=float(difference.mean()),
        expected=expected,
        actual=found,
        note=case.note,
    )


def _compare_pixels(difference: NDArray[np.int16], tolerances: Tolerances) -> Iterator[str]:
    mean = float(difference.mean())
    share = float((difference.max(axis=-1) > tolerances.pixel_difference).mean())
    if mean > tolerances.mean_difference:
        yield f"the picture by {mean:.2f} in the mean ({tolerances.mean_difference:g} allowed)"
    if share > tolerances.pixel_fraction:
        yield f"{100 * share:.2f} % of the pixels ({100 * tolerances.pixel_fraction:g} % allowed)"


def _compare_labels(
    expected: tuple[ObjectLabel, ...], actual: tuple[ObjectLabel, ...], tolerances: Tolerances
) -> Iterator[str]:
    before, after = ({o.instance_id: o for o in labels} for labels in (expected, actual))
    for number in sorted({*before, *after}, key=str):
        if number not in after:
            yield f"object {number} is not seen any more"
        elif number not in before:
            yield f"object {number} is new"
        else:
            for what in _compare_label(before[number], after[number], tolerances):
                yield f"object {number}: {what}"


def _compare_label(
    expected: ObjectLabel, actual: ObjectLabel, tolerances: Tolerances
) -> Iterator[str]:
    if expected.category != actual.category:
        yield f"category {expected.category} is now {actual.category}"
    distances = {
        "box": (_compute_box_distance(expected.box_xyxy, actual.box_xyxy), tolerances.box_px, "px"),
        "whole box": (_compute_box_distance(expected.box_amodal_xyxy, actual.box_amodal_xyxy), tolerances.box_px, "px"),
        "visible fraction": (
            _compute_difference(expected.visible_fraction, actual.visible_fraction), tolerances.visible_fraction, "",
        ),
    }  # fmt: skip
    if expected.pose and actual.pose:
        apart = expected.pose.inverse() @ actual.pose
        distances["position"] = (math.hypot(*apart.position_m), tolerances.position_m, "m")
        distances["turn"] = (float(apart.rotation().magnitude()), tolerances.rotation_rad, "rad")
    for what, (distance, most, unit) in distances.items():
        if distance > most:
            yield f"{what} by {distance:.3g} {unit}".rstrip() + f" ({most:g} allowed)"


def _compute_box_distance(old: Box | None, new: Box | None) -> float:
    if old is None or new is None:
        return 0.0
    return max(abs(a - b) for a, b in zip(old, new, strict=True))


def _compute_difference(old: float | None, new: float | None) -> float:
    return 0.0 if old is None or new is None else abs(new - old)
