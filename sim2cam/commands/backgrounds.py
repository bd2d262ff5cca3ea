"""Background images of a training: files, fetched photographs, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim2cam.errors import UsageError

if TYPE_CHECKING:
    from sim2cam.commands.console import Console
    from sim2cam.data.sample import Dataset

AUTO, NONE = Path("auto"), Path("none")
"""Values of ``--backgrounds`` besides paths."""


@dataclass(frozen=True)
class Backgrounds:
    """Background images.

    Attributes:
        images: Images of all sources; None without any.
        shares: Number of images and share of each source; empty for equally frequent images.
    """

    images: Dataset | None = None
    shares: tuple[tuple[int, float], ...] = ()


def list_background_paths(values: Sequence[Path]) -> list[Path]:
    """Return the paths among the values of ``--backgrounds``.

    Raises:
        UsageError: If ``auto`` or ``none`` stands beside others.
    """
    for word in (AUTO, NONE):
        if word in values and len(values) > 1:
            raise UsageError(f"--backgrounds {word} excludes other values. Remove one of them.")
    return [path for path in values if path not in (AUTO, NONE)]


def read_backgrounds(
    paths: Sequence[Path], mix: Sequence[float], *, skip_invalid: bool
) -> Backgrounds:
    """Read background images.

    Args:
        paths: Datasets and image folders.
        mix: Relative share of each; empty for equally frequent images.
        skip_invalid: Leave flawed annotations out.

    Raises:
        UsageError: If a share is negative, or all are 0.
        InputError: If a path holds no images.
    """
    from sim2cam.data.real_images import read_real_images
    from sim2cam.data.set_operations import merge_datasets
    from sim2cam.data.splits import STYLE

    if mix and not min(mix) >= 0 < sum(mix):
        raise UsageError(
            f"--background-mix must have no negative and one positive value, not {mix}"
        )
    datasets = [read_real_images(path, skip_invalid=skip_invalid, roles=STYLE) for path in paths]
    if not datasets:
        return Backgrounds()
    sizes = [len(dataset.samples) for dataset in datasets]
    return Backgrounds(merge_datasets(datasets), tuple(zip(sizes, mix, strict=bool(mix))))


def find_backgrounds(data: Sequence[Dataset], console: Console) -> Backgrounds:
    """Return the photographs that ``fetch`` stored, in equal shares, and print their names.

    Photographs of a trained category are left out. Without instance masks in the data there are none.

    Args:
        data: Datasets of the training.
        console: Printer of messages.

    Raises:
        InputError: If a photograph or a list of sources is broken.
    """
    from sim2cam.data.data_folder import locate_data_folder
    from sim2cam.data.photo_sources import find_photo_sources, list_photo_folders
    from sim2cam.data.real_images import read_real_images
    from sim2cam.data.set_operations import merge_datasets
    from sim2cam.models.training.setup import has_instance_masks
    from sim2cam.pipeline.background_images import IMAGES_FOLDER

    folders = list_photo_folders(locate_data_folder())
    if not folders:
        return Backgrounds()
    names = ", ".join(folder.name for folder in folders)
    if not has_instance_masks(data):
        console.info(
            f"The photographs {names} are not used as backgrounds: the data has no instance masks. Render with "
            "ids in --channels."
        )
        return Backgrounds()
    categories = {name.lower() for dataset in data for name in dataset.categories}
    datasets = []
    for folder in folders:
        dataset = read_real_images(folder / IMAGES_FOLDER)
        sources = find_photo_sources([sample.rgb for sample in dataset.samples])
        samples = tuple(
            sample
            for sample in dataset.samples
            if not (
                sample.rgb in sources
                and categories.intersection(map(str.lower, sources[sample.rgb].categories))
            )
        )
        datasets.append(replace(dataset, root=folder, samples=samples))
    datasets = [dataset for dataset in datasets if dataset.samples]
    counts = ", ".join(f"{len(dataset.samples)} of {dataset.root.name}" for dataset in datasets)
    console.info(f"background photographs: {counts or 'none'}. --backgrounds none does without.")
    if not datasets:
        return Backgrounds()
    shares = tuple((len(dataset.samples), 1.0) for dataset in datasets)
    return Backgrounds(merge_datasets(datasets), shares)
