"""Commands that ask data sets and write them in the formats of other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from sim2cam.commands.options import (
    OutputOptions,
    Overwrite,
    SkipInvalid,
    Split,
    check_numbers,
    check_output_files,
)
from sim2cam.errors import UsageError

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset, Sample


@dataclass(frozen=True)
class Export:
    """Write data sets or captures, or a trained network, in a format that other tools read."""

    data: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DATA")]
    """Folders of data sets, or captures; several become one. For onnx: the weights of a detector, a
    file or the name of some that ship, or the run folder of a translator."""
    out: Path
    """Folder to write; for onnx the file."""
    format: Literal["coco", "yolo", "yolo-seg", "voc", "kitti", "bop", "webdataset", "onnx"] = (
        "coco"
    )
    """coco: boxes, masks, keypoints. yolo, voc: boxes. yolo-seg: outlines. kitti: boxes, occlusion.
    bop: 6D poses, masks, depth, models, in pinhole pictures. webdataset: everything, in tar files."""
    split: Annotated[str | None, tyro.conf.arg(metavar="NAME=SHARE,...|NAME,...")] = None
    """New parts and their shares of the scenes, as train=0.8,val=0.2; or the parts of the data to write, as
    test. Without it, parts of the data stay as they are, and data without parts is train."""
    where: Annotated[str | None, tyro.conf.arg(metavar="SQL")] = None
    """Only pictures for which this holds of the table samples (see catalog), as "objects > 3"."""
    seed: int = 0
    """Decides which scenes go into which part."""
    overwrite: Overwrite = False
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Write the export."""
        if self.format == "onnx":
            self._export_network()
            return
        from sim2cam.data.catalog import filter_datasets
        from sim2cam.data.formats.export import export_dataset
        from sim2cam.data.real_images import join_splits, read_splits
        from sim2cam.data.set_operations import merge_datasets, split_by_scene
        from sim2cam.seeds import derive_rng

        check_numbers(seed=self.seed)
        is_new = self.split is not None and "=" in self.split
        shares = _parse_shares(self.split) if self.split is not None and is_new else None
        named = None if is_new else self.split
        each = [
            read_splits(path.resolve(), skip_invalid=self.skip_invalid, split=named)
            for path in self.data
        ]
        found = [join_splits(path, parts) for path, parts in zip(self.data, each, strict=True)]
        if self.where is not None:
            found = filter_datasets(found, self.where)
        whole = merge_datasets(found)
        if shares is None:
            parts = _keep_splits(whole, found, each, named is not None)
        else:
            parts = split_by_scene(whole, shares, derive_rng(self.seed, "split"))
        shapes = None
        if self.format == "bop":
            from sim2cam.experiments.object_models import create_recorded_models

            shapes = create_recorded_models()
        lacks = export_dataset(parts, self.out, self.format, shapes, overwrite=self.overwrite)
        counts = {name: len(part.samples) for name, part in parts.items()}
        self._report_omissions(lacks)
        told = ", ".join(f"{name} {count} pictures" for name, count in counts.items())
        self.output.report(
            f"{self.format}: {self.out}: {told}", out=str(self.out), images=counts, omissions=lacks
        )

    def _export_network(self) -> None:
        """Write one network.

        Raises:
            UsageError: several were given, or what concerns data sets.
        """
        from sim2cam.adapt.export import export_translator
        from sim2cam.adapt.store import load_transfer
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector, require_native_detector
        from sim2cam.models.inference.export import export_detector
        from sim2cam.pipeline.verifiers import resolve_weights

        if len(self.data) != 1 or self.split is not None or self.where is not None:
            raise UsageError("--format onnx takes one network, and neither --split nor --where.")
        use_threads(1)
        source = resolve_weights(self.data[0])
        check_output_files(
            self.out, overwrite=self.overwrite, inputs=[source, source.with_suffix(".json")]
        )
        if source.is_dir():
            export_translator(load_transfer(source), self.out)
            lacks: tuple[str, ...] = ()
        else:
            detector = require_native_detector(load_detector(source), "--format onnx")
            lacks = export_detector(detector, self.out)
        self._report_omissions(lacks)
        self.output.report(f"onnx: {self.out}", out=str(self.out), omissions=lacks)

    def _report_omissions(self, omissions: Sequence[str]) -> None:
        for what in omissions:
            self.output.make_console().info(f"{what}.")


@dataclass(frozen=True)
class Catalog:
    """Say what a data set or captures hold, or answer a question about them in SQL."""

    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """Folder of the data set, or captures."""
    sql: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="SQL")] = None
    """A query over the tables samples, objects, scenes and sampled_values (needs the extra catalog); without
    it: counts, ranges, rejections, licences and size."""
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Print the answer."""
        from sim2cam.data.card import build_card
        from sim2cam.data.catalog import run_query
        from sim2cam.data.real_images import read_real_images

        dataset = read_real_images(
            self.data.resolve(), skip_invalid=self.skip_invalid, split=self.split
        )
        console = self.output.make_console()
        if self.sql is None:
            card = build_card(dataset)
            console.print_json(card.to_json()) if self.output.json else console.print_text(
                card.to_markdown()
            )
            return
        answer = run_query(dataset, self.sql)
        console.print_json(answer.to_json()) if self.output.json else console.print_text(
            answer.to_text()
        )


def _keep_splits(
    combined: Dataset,
    datasets: Sequence[Dataset],
    splits: Sequence[Mapping[str, Dataset]],
    is_split_named: bool,
) -> dict[str, Dataset]:
    """Return merged data sets by the parts that their samples come from; one part is ``train``.

    Args:
        combined: the merged data sets.
        datasets: their samples, in the same order.
        splits: the parts of each.
        is_split_named: whether the parts were named, so that one part keeps its name.
    """
    from sim2cam.data.parts import find_split_role

    parts: dict[str, list[Sample]] = {}
    samples = iter(combined.samples)
    for data, own in zip(datasets, splits, strict=True):
        names = {s.name: find_split_role(name) for name, part in own.items() for s in part.samples}
        for sample in data.samples:
            parts.setdefault(names[sample.name], []).append(next(samples))
    if len(parts) <= 1 and not is_split_named:
        return {"train": combined}
    return {name: replace(combined, samples=tuple(part)) for name, part in parts.items()}


def _parse_shares(text: str) -> dict[str, float]:
    """Return the shares of parts that ``--split`` names."""
    shares: dict[str, float] = {}
    for entry in text.split(","):
        name, _, share = entry.partition("=")
        try:
            number = float(share)
        except ValueError:
            number = 0.0
        if not number > 0 or name in shares:
            raise UsageError(
                f"--split {text}: give different names and shares, as train=0.8,val=0.2."
            )
        shares[name] = number
    return shares
