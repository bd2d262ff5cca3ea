"""Commands ``export`` and ``catalog``: other formats and queries of datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from sim2cam.commands.options import (
    Argument,
    Option,
    OutputOptions,
    Overwrite,
    Rare,
    SkipInvalid,
    Split,
    check_numbers,
    check_output_files,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.errors import UsageError

if TYPE_CHECKING:
    from sim2cam.data.card import DatasetCard
    from sim2cam.data.catalog import QueryResult
    from sim2cam.data.sample import Dataset, Sample


@dataclass(frozen=True)
class Export:
    """Export data or a trained network to a common format."""

    data: Annotated[tuple[Path, ...], Argument("DATA")]
    """Datasets or real images; several are merged. For onnx: weights of a detector (file or shipped name), or the run folder of a translator."""
    out: Path
    """Output folder; for onnx the output file."""
    format: Literal["coco", "yolo", "yolo-seg", "voc", "kitti", "bop", "webdataset", "onnx"] = (
        "coco"
    )
    """Format. coco: boxes, masks, keypoints. yolo, voc: boxes. yolo-seg: polygons. kitti: boxes, occlusion. bop: 6D poses, masks, depth, models, pinhole images. webdataset: all data, in tar files."""
    split: Annotated[str | None, Option("NAME=SHARE,...|NAME,...")] = None
    """New splits with their share of the scenes, such as train=0.8,val=0.2, or existing splits to export, such as test. Default: keep existing splits; data without splits becomes train."""
    where: Rare[Annotated[str | None, Option("SQL")]] = None
    """SQL condition on the table samples (see catalog) that selects images, such as "objects > 3"."""
    seed: int = 0
    """Random seed of the split."""
    overwrite: Overwrite = False
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> ExportResult:
        """Export the data."""
        check_numbers(seed=self.seed)
        if self.format == "onnx":
            return self._export_network()
        from sim2cam.data.catalog import filter_datasets
        from sim2cam.data.formats.export import export_dataset
        from sim2cam.data.real_images import join_splits, read_splits
        from sim2cam.data.set_operations import merge_datasets, split_by_scene
        from sim2cam.seeds import derive_rng

        is_new = self.split is not None and "=" in self.split
        shares = _parse_shares(self.split) if self.split is not None and is_new else None
        named = None if is_new else self.split
        splits = [
            read_splits(path.resolve(), skip_invalid=self.skip_invalid, split=named)
            for path in self.data
        ]
        datasets = [join_splits(path, parts) for path, parts in zip(self.data, splits, strict=True)]
        if self.where is not None:
            datasets = filter_datasets(datasets, self.where)
        merged = merge_datasets(datasets)
        if shares is None:
            parts = _keep_splits(merged, datasets, splits, named is not None)
        else:
            parts = split_by_scene(merged, shares, derive_rng(self.seed, "split"))
        shapes = None
        if self.format == "bop":
            from sim2cam.experiments.object_models import create_recorded_models

            shapes = create_recorded_models()
        omissions = export_dataset(parts, self.out, self.format, shapes, overwrite=self.overwrite)
        counts = {name: len(part.samples) for name, part in parts.items()}
        return ExportResult(self.format, self.out, omissions, counts)

    def _export_network(self) -> ExportResult:
        from sim2cam.adapt.export import export_translator
        from sim2cam.adapt.store import load_transfer
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector, require_native_detector
        from sim2cam.models.inference.export import export_detector
        from sim2cam.models.shipped_weights import resolve_weights

        if len(self.data) != 1 or self.split is not None or self.where is not None:
            raise UsageError("--format onnx takes one network, without --split and --where.")
        use_threads(1)
        source = resolve_weights(self.data[0])
        check_output_files(
            self.out, overwrite=self.overwrite, inputs=[source, source.with_suffix(".json")]
        )
        if source.is_dir():
            export_translator(load_transfer(source), self.out)
            omissions: tuple[str, ...] = ()
        else:
            detector = require_native_detector(load_detector(source), "--format onnx")
            omissions = export_detector(detector, self.out)
        return ExportResult("onnx", self.out, omissions)


@dataclass(frozen=True)
class ExportResult(Result):
    """Exported data or network.

    Attributes:
        format: Format.
        out: Folder, or file of the network.
        omissions: What the format cannot express.
        images: Number of images by split; None for a network.
    """

    format: str
    out: Path
    omissions: Sequence[str]
    images: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the output, the omissions and the number of images."""
        images = {} if self.images is None else {"images": self.images}
        return {"out": str(self.out), **images, "omissions": self.omissions}

    def summary(self) -> str:
        """Return omissions and the number of images."""
        counts = ", ".join(f"{name} {count} images" for name, count in (self.images or {}).items())
        lines = [f"{omission}." for omission in self.omissions]
        return "\n".join([*lines, f"{self.format}: {self.out}{counts and f': {counts}'}"])

    @property
    def next_step(self) -> str:
        """Command that shows the exported images; its path can be used as ``--captures``."""
        if self.images is None:
            return ""
        labels = [self.out / name for name in ("data.yaml", *(f"{n}.json" for n in self.images))]
        return format_command("inspect", next(filter(Path.is_file, labels), self.out))


@dataclass(frozen=True)
class Catalog:
    """Summarize a dataset, or query it with SQL."""

    data: Annotated[Path, Argument("DATA")]
    """Dataset or real images."""
    sql: Annotated[str | None, Argument("SQL")] = None
    """Query over the tables samples, objects, scenes and sampled_values (extra: catalog); default: a summary of counts, ranges, rejections, licences and size."""
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> CatalogResult:
        """Summarize or query the data."""
        from sim2cam.data.card import build_card
        from sim2cam.data.catalog import run_query
        from sim2cam.data.real_images import read_real_images

        dataset = read_real_images(
            self.data.resolve(), skip_invalid=self.skip_invalid, split=self.split
        )
        if self.sql is None:
            return CatalogResult(build_card(dataset), format_command("inspect", self.data))
        return CatalogResult(run_query(dataset, self.sql))


@dataclass(frozen=True)
class CatalogResult(Result):
    """Card of a dataset, or table of a query with ``columns`` and ``rows``."""

    table: DatasetCard | QueryResult
    next_command: str = ""

    @property
    def next_step(self) -> str:
        """Command that usually follows."""
        return self.next_command

    def to_json(self) -> dict[str, Any]:
        """Return the card or the table."""
        return self.table.to_json()

    def to_text(self) -> str:
        """Return the card as Markdown, or the table as text."""
        from sim2cam.data.card import DatasetCard

        table = self.table
        return table.to_markdown() if isinstance(table, DatasetCard) else table.to_text()


def _keep_splits(
    combined: Dataset,
    datasets: Sequence[Dataset],
    splits: Sequence[Mapping[str, Dataset]],
    is_split_named: bool,
) -> dict[str, Dataset]:
    """Split a merged dataset by the splits of its sources; a single split becomes ``train``.

    Args:
        combined: Merged datasets.
        datasets: Source datasets, in the same order of samples.
        splits: Splits of each source dataset.
        is_split_named: Keep the name of a single split, because the user selected it.
    """
    from sim2cam.data.splits import find_split_role

    parts: dict[str, list[Sample]] = {}
    samples = iter(combined.samples)
    for data, dataset_splits in zip(datasets, splits, strict=True):
        names = {
            s.name: find_split_role(name)
            for name, part in dataset_splits.items()
            for s in part.samples
        }
        for sample in data.samples:
            parts.setdefault(names[sample.name], []).append(next(samples))
    if len(parts) <= 1 and not is_split_named:
        return {"train": combined}
    return {name: replace(combined, samples=tuple(part)) for name, part in parts.items()}


def _parse_shares(text: str) -> dict[str, float]:
    """Parse ``NAME=SHARE,...`` of ``--split``."""
    shares: dict[str, float] = {}
    for entry in text.split(","):
        name, _, share = entry.partition("=")
        try:
            number = float(share)
        except ValueError:
            number = 0.0
        if not number > 0 or name in shares:
            raise UsageError(
                f"--split {text}: give unique names with positive shares, such as train=0.8,val=0.2."
            )
        shares[name] = number
    return shares
