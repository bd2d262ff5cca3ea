"""Matching of label files to their images."""

from __future__ import annotations

from pathlib import Path

from sim2cam import images
from sim2cam.data.parsing import is_file, is_inside_folder
from sim2cam.errors import InputError


class ImageFinder:
    """Finder of the images of label files, which records mismatching names."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._root = root
        self._owners: dict[Path, Path] = {}
        self._mismatches: list[str] = []

    def find(self, path: Path, stem: str, image_name: str) -> Path:
        """Return the image of a label file: with the same stem, or else the one that it names.

        Args:
            stem: name of the label file without suffix.
            image_name: image that the file names, possibly with a path of another computer.

        Raises:
            InputError: the image is missing, or belongs to another label file.
        """
        name = image_name.strip().replace("\\", "/")
        base = name.rsplit("/", 1)[-1]
        same_stem = [f"{stem}{suffix}" for suffix in _list_suffixes()]
        names = [base] if base.rpartition(".")[0] == stem else []
        names += [
            *same_stem,
            *([name] if is_inside_folder(name) else []),
            *([base] if base else []),
        ]
        paths = (self.folder / candidate for candidate in names)
        image = next((file for file in paths if is_file(file)), None)
        if image is None:
            raise InputError(
                path, f"image '{stem}' or '{base[:80]}' is missing in {self.folder}. Copy it there."
            )
        owner = self._owners.setdefault(image, path)
        if owner != path:
            raise InputError(
                path, f"belongs to image {image.name}, as does {owner.name}. Remove one."
            )
        if base and image.stem != base.rpartition(".")[0] and base != stem:
            self._mismatches.append(f"{path.name} names {base[:80]}")
        return image

    def list_warnings(self) -> list[str]:
        """Return notes on label files whose image name differs from their own name."""
        if not self._mismatches:
            return []
        count = len(self._mismatches)
        return [
            f"label files that name another image: {count} (first: {self._mismatches[0]}). The image with the name of "
            "the label file is used."
        ]


def _list_suffixes() -> tuple[str, ...]:
    return (*images.IMAGE_SUFFIXES, *map(str.upper, images.IMAGE_SUFFIXES))
