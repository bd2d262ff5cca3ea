"""Label files that are each of one image: which image that is."""

from __future__ import annotations

from pathlib import Path

from sim2cam import images
from sim2cam.data.parsing import is_file, is_inside_folder
from sim2cam.errors import InputError


class ImageFinder:
    """Find the images that label files belong to, each once, and count what is odd.

    Args:
        root: folder of the dataset, for errors.
        folder: where the images lie.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._root = root
        self._owners: dict[Path, Path] = {}
        self._mismatches: list[str] = []

    def find(self, path: Path, stem: str, image_name: str) -> Path:
        """Return the image of a label file: the one with its own name, or else the one that it names.

        Args:
            path: the label file.
            stem: its name without the suffix.
            image_name: image that it names, perhaps with a path of another computer.

        Raises:
            InputError: there is no such image, or another label file is of it.
        """
        name = image_name.strip().replace("\\", "/")
        base = name.rsplit("/", 1)[-1]
        same = [f"{stem}{suffix}" for suffix in _list_suffixes()]
        names = [base] if base.rpartition(".")[0] == stem else []
        names += [*same, *([name] if is_inside_folder(name) else []), *([base] if base else [])]
        found = next((self.folder / one for one in names if is_file(self.folder / one)), None)
        if found is None:
            raise InputError(
                path,
                f"there is no image '{stem}' or '{base[:80]}' in {self.folder}. Copy it there.",
            )
        owner = self._owners.setdefault(found, path)
        if owner != path:
            raise InputError(path, f"it is of image {found.name}, as {owner.name} is. Remove one.")
        if base and found.stem != base.rpartition(".")[0] and base != stem:
            self._mismatches.append(f"{path.name} names {base[:80]}")
        return found

    def list_warnings(self) -> list[str]:
        """Return notes on label files that name another image than the one of their own name."""
        if not self._mismatches:
            return []
        count = len(self._mismatches)
        return [
            f"label files that name another image: {count} (first: {self._mismatches[0]}). The image with the name of "
            "the label file is used."
        ]


def _list_suffixes() -> tuple[str, ...]:
    return (*images.IMAGE_SUFFIXES, *map(str.upper, images.IMAGE_SUFFIXES))
