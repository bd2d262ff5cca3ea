"""Commands that ask data sets and write them in the formats of other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from sim2cam.commands.options import Overwrite, SkipInvalid, Split, Talk, check_new, check_numbers
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
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Writes the export."""
        if self.format == "onnx":
            self._write_network()
            return
        from sim2cam.data.catalog import where
        from sim2cam.data.formats.export import export
        from sim2cam.data.real_images import join_parts, read_parts
        from sim2cam.data.set_operations import merge, split
        from sim2cam.seeds import stream

        check_numbers(seed=self.seed)
        is_new = self.split is not None and "=" in self.split
        shares = _shares(self.split) if self.split is not None and is_new else None
        named = None if is_new else self.split
        each = [
            read_parts(path.resolve(), skip_invalid=self.skip_invalid, split=named)
            for path in self.data
        ]
        found = [join_parts(path, parts) for path, parts in zip(self.data, each, strict=True)]
        if self.where is not None:
            found = where(found, self.where)
        whole = merge(found)
        if shares is None:
            parts = _as_they_are(whole, found, each, named is not None)
        else:
            parts = split(whole, shares, stream(self.seed, "split"))
        shapes = None
        if self.format == "bop":
            from sim2cam.experiments.object_models import recorded_shapes

            shapes = recorded_shapes()
        lacks = export(parts, self.out, self.format, shapes, overwrite=self.overwrite)
        counts = {name: len(part.samples) for name, part in parts.items()}
        self._tell_lacks(lacks)
        told = ", ".join(f"{name} {count} pictures" for name, count in counts.items())
        self.talk.tell(
            f"{self.format}: {self.out}: {told}", out=str(self.out), pictures=counts, lacks=lacks
        )

    def _write_network(self) -> None:
        """Writes one network.

        Raises:
            UsageError: several were given, or what concerns data sets.
        """
        from sim2cam.adapt.export import export_translator
        from sim2cam.adapt.store import load_transfer
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector, own_detector
        from sim2cam.models.inference.export import export_detector
        from sim2cam.pipeline.verifiers import weights_file

        if len(self.data) != 1 or self.split is not None or self.where is not None:
            raise UsageError("--format onnx takes one network, and neither --split nor --where.")
        use_threads(1)
        source = weights_file(self.data[0])
        check_new(self.out, overwrite=self.overwrite, inputs=[source, source.with_suffix(".json")])
        if source.is_dir():
            export_translator(load_transfer(source), self.out)
            lacks: tuple[str, ...] = ()
        else:
            detector = own_detector(load_detector(source), "--format onnx")
            lacks = export_detector(detector, self.out)
        self._tell_lacks(lacks)
        self.talk.tell(f"onnx: {self.out}", out=str(self.out), lacks=lacks)

    def _tell_lacks(self, lacks: Sequence[str]) -> None:
        for what in lacks:
            self.talk.console().say(f"{what}.")


@dataclass(frozen=True)
class Catalog:
    """Say what a data set or captures hold, or answer a question about them in SQL."""

    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """Folder of the data set, or captures."""
    sql: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="SQL")] = None
    """A query over the tables samples, objects, scenes and drawn (needs the extra catalog); without
    it: counts, ranges, rejections, licences and size."""
    split: Split = None
    skip_invalid: SkipInvalid = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Prints the answer."""
        from sim2cam.data.card import card_of
        from sim2cam.data.catalog import query
        from sim2cam.data.real_images import read_captures

        dataset = read_captures(
            self.data.resolve(), skip_invalid=self.skip_invalid, split=self.split
        )
        console = self.talk.console()
        if self.sql is None:
            card = card_of(dataset)
            console.result(card.to_json()) if self.talk.json else console.table(card.to_markdown())
            return
        answer = query(dataset, self.sql)
        console.result(answer.to_json()) if self.talk.json else console.table(answer.to_text())


def _as_they_are(
    whole: Dataset,
    merged: Sequence[Dataset],
    each: Sequence[Mapping[str, Dataset]],
    is_named: bool,
) -> dict[str, Dataset]:
    """Return merged data sets by the parts that their samples come from; one part is ``train``.

    Args:
        whole: the merged data sets.
        merged: their samples, in the same order.
        each: the parts of each.
        is_named: whether the parts were named, so that one part keeps its name.
    """
    from sim2cam.data.parts import use_of

    parts: dict[str, list[Sample]] = {}
    samples = iter(whole.samples)
    for data, own in zip(merged, each, strict=True):
        names = {s.name: use_of(name) for name, part in own.items() for s in part.samples}
        for sample in data.samples:
            parts.setdefault(names[sample.name], []).append(next(samples))
    if len(parts) <= 1 and not is_named:
        return {"train": whole}
    return {name: replace(whole, samples=tuple(part)) for name, part in parts.items()}


def _shares(text: str) -> dict[str, float]:
    """Returns the shares of parts that ``--split`` names."""
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
