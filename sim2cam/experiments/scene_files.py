"""Files of regression scenes: meshes and images, copied next to the cases."""

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
    """Return a scene whose files are copied to ``files/DIGEST/NAME`` in a folder.

    Raises:
        InputError: if the recipe is missing, or has other files than the scene.
        OutputError: if the folder cannot be written.
    """
    names = scene.get_file_paths()
    if not names:
        return scene
    if recipe is None:
        raise InputError(sample, f"uses files such as '{names[0]}'. Add --recipe.")
    paths = {name: Path(path) for path, name in recipe.map_file_names().items()}
    digests = {asset.name: asset.mesh.digest for asset in recipe.assets}
    digests |= {f"skies/{sky.name}": sky.file.digest for sky in recipe.skies}
    digests |= {f"pictures/{texture.name}": texture.file.digest for texture in recipe.pictures}
    for name, digest in scene.get_file_digests().items():
        if name not in digests:
            raise InputError(
                sample,
                f"uses '{name}', which recipe '{recipe.name}' does not have. Give the recipe of its "
                "dataset.",
            )
        if digests[name] != digest:
            raise InputError(
                sample,
                f"'{name}' changed since the scene was rendered with recipe '{recipe.name}'. Restore the "
                "file, or render the scene again.",
            )
    limits = {
        b.asset.path: b.asset.max_faces for b in scene.bodies if isinstance(b.asset, MeshFile)
    }
    copies = {
        name: _copy_file(paths[name], limits.get(name), folder, sample) for name in set(names)
    }
    return _clear_mesh_digests(scene.replace_paths(copies))


def resolve_scene_files(scene: Scene, case_path: Path) -> Scene:
    """Return the scene of a case with absolute file paths.

    Raises:
        InputError: if a file is outside ``files/`` next to the case.
    """
    for name in scene.get_file_paths():
        if not is_inside_folder(name) or PurePosixPath(name).parts[0] != FILES_FOLDER:
            raise InputError(
                case_path, f"'{Path(name).name}' must be in {FILES_FOLDER}/ next to the case."
            )
    return scene.replace_paths(
        {name: str(case_path.parent / name) for name in scene.get_file_paths()}
    )


def _clear_mesh_digests(scene: Scene) -> Scene:
    """Remove mesh digests, which depend on the tools of this machine."""
    bodies = (
        replace(body, asset=replace(body.asset, digest=""))
        if isinstance(body.asset, MeshFile)
        else body
        for body in scene.bodies
    )
    return replace(scene, bodies=tuple(bodies))


def _copy_file(path: Path, max_faces: int | None, folder: Path, sample: Path) -> str:
    """Copy a file, with the files that a mesh refers to, and return its relative path."""
    names = [path.name]
    if max_faces is not None:
        names = list(parse_file(path, max_faces).sources.hashes)
    content = {name: read_bytes(path.parent / name) for name in names}
    digest = hashlib.sha256()
    for name, data in content.items():
        if not is_inside_folder(name):
            raise InputError(
                sample,
                f"'{path.name}' refers to '{name}' outside its folder. Move the file inside.",
            )
        digest.update(f"{name} {hashlib.sha256(data).hexdigest()}\n".encode())
    target = f"{FILES_FOLDER}/{digest.hexdigest()[:16]}"
    for name, data in content.items():
        write_bytes(folder / target / name, data)
    return f"{target}/{path.name}"
