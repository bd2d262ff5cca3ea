"""Rendering of the stand-in camera's images, which ship in sim2cam/recipes/standin.

The images are path-traced, which leaves a domain gap to the rasterized training images, with the lens and
the sensor of ``standin.toml``. Needs ``pip install "sim2cam[reference]"`` and OpenGL. Takes about half an
hour on one core. File names hold a hash of the scene; existing files are kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2cam.data.sample import ObjectLabel
from sim2cam.engines.process_pool import map_units
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import xyxy_to_xywh
from sim2cam.pipeline.recipe import RECIPES_FOLDER, Recipe, load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.render.backends.mitsuba import PathTracer
from sim2cam.render.backends.opengl.rasterizer import OpenGLRasterizer
from sim2cam.render.frame import annotate
from sim2cam.render.gbuffer import LABEL_CHANNELS, convert_to_instance_ids
from sim2cam.render.optics.shutter import render_ground_truth
from sim2cam.render.optics.views import build_optics
from sim2cam.render.optics.warp import warp_radiance
from sim2cam.render.sensor.sensor import capture_image
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

SEED = 71
IMAGE_COUNTS = {"style": 48, "test": 48}
SAMPLES = 48
MIN_CLEAR_DICE = 3
CLEAR_FRACTION = 0.25
"""Dice with a smaller visible fraction are marked as crowds, which are not scored."""


@dataclass(frozen=True)
class RenderJob:
    """A scene to render, as JSON so that it can be sent to another process.

    Attributes:
        scene: JSON of the scene, whose first camera takes the image.
        index: index of the scene, which seeds the path tracer.
    """

    scene: str
    index: int
    path: Path


def main() -> None:
    """Render all images and write both COCO files."""
    recipe = load_recipe(str(Path(__file__).with_name("standin.toml")))
    make_sets(recipe, SEED, IMAGE_COUNTS, RECIPES_FOLDER / "standin", at_once=1)


def make_sets(
    recipe: Recipe, seed: int, image_counts: Mapping[str, int], out: Path, *, at_once: int
) -> None:
    """Render the images of sets and write their COCO files; only the set ``test`` has labels.

    Args:
        out: folder of the COCO files and of one image folder per set.
        at_once: images in parallel.
    """
    labelled_scenes = generate_scenes(recipe, seed)
    missing: list[RenderJob] = []
    for name, count in image_counts.items():
        entries: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for number in range(1, count + 1):
            index, scene, labels = next(labelled_scenes)
            digest = hashlib.sha256(scene.to_json().encode()).hexdigest()
            file_name = f"{name}/{index:03d}-{digest[:8]}.jpg"
            if not (out / file_name).is_file():
                missing.append(RenderJob(scene.to_json(), index, out / file_name))
            entries.append(
                {
                    "id": number,
                    "file_name": file_name,
                    "width": recipe.render.width,
                    "height": recipe.render.height,
                }
            )
            annotations += [make_annotation(label, number, recipe) for label in labels]
        write_coco(out / f"{name}.json", recipe, entries, annotations if name == "test" else None)
    for done, path in enumerate(map_units(render_image, missing, at_once), 1):
        print(f"{done} of {len(missing)}: {path}", file=sys.stderr)


def generate_scenes(
    recipe: Recipe, seed: int
) -> Iterator[tuple[int, Scene, tuple[ObjectLabel, ...]]]:
    """Yield index, scene and labels of scenes that show at least ``MIN_CLEAR_DICE`` clearly visible dice."""
    rasterizer = OpenGLRasterizer("egl")
    index = 0
    while True:
        scene = simulate_scene(recipe, seed, index).scene
        camera = scene.cameras[0]
        truth = render_ground_truth(scene, camera, rasterizer, LABEL_CHANNELS)
        ids = convert_to_instance_ids(scene, truth["bodies"])
        labels = annotate(scene, camera, ids, truth["cover"])
        if sum(is_clear(label) for label in labels) >= MIN_CLEAR_DICE:
            yield index, scene, labels
        index += 1


def render_image(unit: RenderJob) -> Path:
    """Write a path-traced image and return its file."""
    scene = Scene.from_json(unit.scene)
    write_bytes(unit.path, trace_image(scene, scene.cameras[0], unit.index))
    return unit.path


def trace_image(scene: Scene, camera: Camera, seed: int) -> bytes:
    """Return a path-traced image as JPEG."""
    trace = functools.partial(PathTracer(scene).trace, samples_per_pixel=SAMPLES, seed=seed)
    return capture_image(warp_radiance(build_optics(camera), trace), camera.sensor).encoded


def is_clear(label: ObjectLabel) -> bool:
    """Return whether enough of a die is visible."""
    return label.visible_fraction is not None and label.visible_fraction >= CLEAR_FRACTION


def make_annotation(label: ObjectLabel, image_id: int, recipe: Recipe) -> dict[str, Any]:
    """Return a label as a COCO annotation without id."""
    return {
        "image_id": image_id,
        "category_id": recipe.categories.index(label.category) + 1,
        "bbox": list(xyxy_to_xywh(label.box_xyxy)),
        "area": label.area_px,
        "iscrowd": int(not is_clear(label)),
    }


def write_coco(
    path: Path,
    recipe: Recipe,
    entries: list[dict[str, Any]],
    annotations: list[dict[str, Any]] | None,
) -> None:
    """Write a COCO file; without annotations, its images are unlabelled."""
    content: dict[str, Any] = {
        "info": {"description": "sim2cam's stand-in camera: path-traced images, not photos"},
        "categories": [{"id": i, "name": name} for i, name in enumerate(recipe.categories, 1)],
        "images": entries,
    }
    if annotations is not None:
        content["annotations"] = [{"id": i} | a for i, a in enumerate(annotations, 1)]
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
