"""Files of kept scenes: meshes and pictures, copied beside the cases and named by what they hold."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path, PurePosixPath

from sim2cam.assets.mesh import parse_file
from sim2cam.data.formats.writing import read_bytes
from sim2cam.data.parsing import is_inside_folder
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.pipeline.recipe import Recipe
from sim2cam.scene.scene import Scene
from sim2cam.scene.shape import MeshFile

FILES_FOLDER = "files"


def copy_scene_files(scene: Scene, recipe: Recipe | None, folder: Path, sample: Path) -> Scene:
    """Return a recorded scene that is made of copies, ``files/DIGEST/NAME``, in a folder.

    Args:
        scene: with files by their names in its recipe.
        recipe: that it was made with; None is enough for scenes without files.
        folder: to copy into.
        sample: whose scene it is, for errors.

    Raises:
        InputError: it is made of files, and the recipe does not name them, or other ones.
        OutputError: the folder cannot be written.
    """
    names = scene.get_file_paths()
    if not names:
        return scene
    if recipe is None:
        raise InputError(sample, f"is made of files, as '{names[0]}'. Name its recipe: --recipe.")
    found = {name: Path(path) for path, name in recipe.map_file_names().items()}
    held = {one.name: one.mesh.digest for one in recipe.assets}
    held |= {f"skies/{one.name}": one.file.digest for one in recipe.skies}
    held |= {f"pictures/{one.name}": one.file.digest for one in recipe.pictures}
    for name, digest in scene.get_file_digests().items():
        if name not in held:
            raise InputError(
                sample,
                f"is made of a '{name}' that recipe '{recipe.name}' does not name. Name the recipe "
                "of its data set.",
            )
        if held[name] != digest:
            raise InputError(
                sample,
                f"is made of another '{name}' than the one that recipe '{recipe.name}' finds now. Bring "
                "the old file back, or render the scene anew.",
            )
    limits = {
        b.asset.path: b.asset.max_faces for b in scene.bodies if isinstance(b.asset, MeshFile)
    }
    kept = {name: _copy_file(found[name], limits.get(name), folder, sample) for name in set(names)}
    return _clear_mesh_digests(scene.replace_paths(kept))


def resolve_scene_files(scene: Scene, case_path: Path) -> Scene:
    """Return the scene of a case with its files where they are.

    Raises:
        InputError: one lies elsewhere than in ``files/`` beside the case.
    """
    for name in scene.get_file_paths():
        if not is_inside_folder(name) or PurePosixPath(name).parts[0] != FILES_FOLDER:
            raise InputError(
                case_path, f"'{Path(name).name}' is no file in {FILES_FOLDER}/ beside it."
            )
    return scene.replace_paths(
        {name: str(case_path.parent / name) for name in scene.get_file_paths()}
    )


def _clear_mesh_digests(scene: Scene) -> Scene:
    """Return it with meshes that are read as they are: their digest is also of this machine's tools."""
    bodies = (
        replace(body, asset=replace(body.asset, digest=""))
        if isinstance(body.asset, MeshFile)
        else body
        for body in scene.bodies
    )
    return replace(scene, bodies=tuple(bodies))


def _copy_file(path: Path, max_faces: int | None, folder: Path, sample: Path) -> str:
    """Copy a file, with those that a mesh names, and returns where it is in the folder."""
    beside = [path.name]
    if max_faces is not None:
        beside = list(parse_file(path, max_faces).sources.hashes)
    content = {name: read_bytes(path.parent / name) for name in beside}
    digest = hashlib.sha256()
    for name, data in content.items():
        if not is_inside_folder(name):
            raise InputError(
                sample, f"'{path.name}' is made of '{name}', outside its folder. Move it inside."
            )
        digest.update(f"{name} {hashlib.sha256(data).hexdigest()}\n".encode())
    place = f"{FILES_FOLDER}/{digest.hexdigest()[:16]}"
    for name, data in content.items():
        write_bytes(folder / place / name, data)
    return f"{place}/{path.name}"
