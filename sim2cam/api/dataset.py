"""Datasets: rendered, translated or real images with labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, overload

from sim2cam.api.frame import Frame

if TYPE_CHECKING:
    from sim2cam.data import sample
    from sim2cam.learn.torch_dataset import TorchDetectionDataset

_SHOWN_COUNT = 4


class Dataset(Sequence[Frame]):
    """Dataset on disk: a sequence of frames, whose pixels are read when they are used.

    Args:
        data: Dataset, COCO file, photo folder, YOLO, VOC, BOP or KITTI folder, or WebDataset tar file.
        split: Comma-separated names of splits; default: all.
        skip_invalid: Skip invalid annotations with a warning.

    Raises:
        InputError: If the data are missing or broken.
    """

    def __init__(
        self,
        data: str | Path | sample.Dataset,
        *,
        split: str | None = None,
        skip_invalid: bool = False,
    ) -> None:
        from sim2cam.data.real_images import read_real_images

        if isinstance(data, (str, Path)):
            data = read_real_images(Path(data), split=split, skip_invalid=skip_invalid)
        self.values = data

    @property
    def root(self) -> Path:
        """Folder of the dataset."""
        return self.values.root

    @property
    def categories(self) -> tuple[str, ...]:
        """Categories in the order of a model's classes."""
        return self.values.categories

    def __len__(self) -> int:
        return len(self.values.samples)

    @overload
    def __getitem__(self, index: int) -> Frame: ...

    @overload
    def __getitem__(self, index: slice) -> Dataset: ...

    def __getitem__(self, index: int | slice) -> Frame | Dataset:
        from sim2cam.data.channels import read_channel
        from sim2cam.images import read_rgb

        selected = self.values.samples[index]
        if isinstance(selected, tuple):
            return Dataset(replace(self.values, samples=selected))
        readers = {n: partial(read_channel, n, path) for n, path in selected.channels.items()}
        read_image = partial(read_rgb, selected.rgb)
        return Frame(
            selected.name, selected.objects, self.categories, readers, read_image, selected.lens
        )

    def __repr__(self) -> str:
        return f"Dataset({str(self.root)!r}, {len(self)} images)"

    def filter(self, condition: str | Callable[[Frame], bool]) -> Dataset:
        """Return the samples that meet a condition.

        Args:
            condition: Function of a frame, or SQL condition on the table ``samples``, such as ``objects > 3``
                (extra ``catalog``).

        Raises:
            UsageError: If an SQL condition is invalid.
            InputError: If no sample meets an SQL condition.
        """
        from sim2cam.data.catalog import filter_datasets

        if isinstance(condition, str):
            return Dataset(filter_datasets([self.values], condition)[0])
        pairs = zip(self.values.samples, self, strict=True)
        samples = tuple(entry for entry, frame in pairs if condition(frame))
        return Dataset(replace(self.values, samples=samples))

    def to_torch(self, *, masks: bool = False) -> TorchDetectionDataset:
        """Return a PyTorch dataset with the targets of torchvision's detection models.

        Raises:
            InputError: If an image has no labels, or no masks although requested.
        """
        from sim2cam.learn.torch_dataset import TorchDetectionDataset

        return TorchDetectionDataset(self.values, with_masks=masks)

    def to_coco(self, out: str | Path, *, overwrite: bool = False) -> Path:
        """Write a folder with images and ``train.json``; return the path of that file.

        Raises:
            OutputError: If the folder is not empty and ``overwrite`` is not set.
        """
        from sim2cam.data.formats.export import export_dataset

        export_dataset({"train": self.values}, Path(out), "coco", None, overwrite=overwrite)
        return Path(out) / "train.json"

    def _repr_html_(self) -> str:
        frames = "".join(frame._repr_html_() for frame in self[:_SHOWN_COUNT])
        text = f"{self.root}: {len(self)} images, {', '.join(self.categories)}"
        return f"<p>{escape(text)}</p>{frames}"
