"""Makes the stand-in camera's pictures, which ship in sim2cam/recipes/standin.

They are path-traced, so that what a detector learns from rasterized pictures has a gap to cross,
and go through the lens and the sensor of ``standin.toml``. Needs ``pip install "sim2cam[reference]"``
and OpenGL; takes about half an hour on one core. A picture's name holds a hash of its scene: those
that are there already are kept.
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
from sim2cam.render.frame import LABEL_CHANNELS, annotate
from sim2cam.render.optics.views import build_optics
from sim2cam.render.optics.warp import warp_labels, warp_radiance
from sim2cam.render.rasterizer import convert_to_instance_ids
from sim2cam.render.sensor.sensor import capture_image
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

SEED = 71
PICTURES = {"style": 48, "test": 48}
SAMPLES = 48
MIN_CLEAR_DICE = 3
CLEAR_FRACTION = 0.25
"""Dice of which less is visible are marked as crowds, which are not scored: nobody could tell."""


@dataclass(frozen=True)
class Exposed:
    """A scene to be photographed; as JSON, so that it travels to another process.

    Attributes:
        scene: whose first camera takes the picture.
        index: of it, which decides the paths of light.
        path: of the picture's file.
    """

    scene: str
    index: int
    path: Path


def main() -> None:
    """Make all pictures and both COCO files."""
    recipe = load_recipe(str(Path(__file__).with_name("standin.toml")))
    make_sets(recipe, SEED, PICTURES, RECIPES_FOLDER / "standin", at_once=1)


def make_sets(
    recipe: Recipe, seed: int, pictures: Mapping[str, int], out: Path, *, at_once: int
) -> None:
    """Make the pictures of sets and their COCO files; only the set ``test`` has labels.

    Args:
        recipe: of the camera and what it sees.
        seed: of the scenes.
        pictures: how many there are of each set.
        out: folder of the files and of a folder for each set.
        at_once: pictures side by side.
    """
    found = scenes(recipe, seed)
    missing: list[Exposed] = []
    for name, count in pictures.items():
        entries: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for number in range(1, count + 1):
            index, scene, labels = next(found)
            digest = hashlib.sha256(scene.to_json().encode()).hexdigest()
            file_name = f"{name}/{index:03d}-{digest[:8]}.jpg"
            if not (out / file_name).is_file():
                missing.append(Exposed(scene.to_json(), index, out / file_name))
            entries.append(
                {
                    "id": number,
                    "file_name": file_name,
                    "width": recipe.render.width,
                    "height": recipe.render.height,
                }
            )
            annotations += [annotation(label, number, recipe) for label in labels]
        write_coco(out / f"{name}.json", recipe, entries, annotations if name == "test" else None)
    for done, path in enumerate(map_units(expose, missing, at_once), 1):
        print(f"{done} of {len(missing)}: {path}", file=sys.stderr)


def scenes(recipe: Recipe, seed: int) -> Iterator[tuple[int, Scene, tuple[ObjectLabel, ...]]]:
    """Yield index, scene and labels of those that show at least ``MIN_CLEAR_DICE`` dice."""
    rasterizer = OpenGLRasterizer("egl")
    index = 0
    while True:
        scene = simulate_scene(recipe, seed, index).scene
        camera = scene.cameras[0]
        rasterizer.load(scene)
        truth = warp_labels(
            build_optics(camera), lambda view: rasterizer.render(view, LABEL_CHANNELS)
        )
        ids = convert_to_instance_ids(scene, truth["bodies"])
        labels = annotate(scene, camera, ids, truth["cover"])
        if sum(is_clear(found) for found in labels) >= MIN_CLEAR_DICE:
            yield index, scene, labels
        index += 1


def expose(unit: Exposed) -> Path:
    """Return the file to which a path-traced picture was written."""
    scene = Scene.from_json(unit.scene)
    write_bytes(unit.path, photograph(scene, scene.cameras[0], unit.index))
    return unit.path


def photograph(scene: Scene, camera: Camera, seed: int) -> bytes:
    """Return the JPEG file of a path-traced picture."""
    draw = functools.partial(PathTracer(scene).trace, samples_per_pixel=SAMPLES, seed=seed)
    return capture_image(warp_radiance(build_optics(camera), draw), camera.sensor).encoded


def is_clear(label: ObjectLabel) -> bool:
    """Return whether enough of a die is visible."""
    return label.visible_fraction is not None and label.visible_fraction >= CLEAR_FRACTION


def annotation(label: ObjectLabel, image_id: int, recipe: Recipe) -> dict[str, Any]:
    """Return a label as COCO has it, without its number."""
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
        "info": {"description": "sim2cam's stand-in camera: path-traced pictures, not photos"},
        "categories": [{"id": i, "name": name} for i, name in enumerate(recipe.categories, 1)],
        "images": entries,
    }
    if annotations is not None:
        content["annotations"] = [{"id": i} | a for i, a in enumerate(annotations, 1)]
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
