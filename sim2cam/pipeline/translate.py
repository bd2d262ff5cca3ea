"""Translating: a rendered data set and captures to a data set that looks like the captures."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam import images
from sim2cam.adapt.fourier import FourierTransfer
from sim2cam.adapt.frame import Transfer, read_frame
from sim2cam.adapt.reinhard import ReinhardTransfer
from sim2cam.adapt.store import PlainMethod, load_transfer, save_transfer
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.training import MIN_CAPTURES, TranslatorProgress, train_translator
from sim2cam.dataset.card import card_of, write_card
from sim2cam.dataset.reader import read_dataset
from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.dataset.writer import (
    FORMAT_VERSION,
    SAMPLES_PER_SHARD,
    NewSample,
    prepare_folder,
    shard_size,
    write_environment,
    write_shard,
)
from sim2cam.errors import InputError, OutputError
from sim2cam.pipeline.engines import map_units
from sim2cam.pipeline.environment import environment_facts
from sim2cam.seeds import stream
from sim2cam.training.device import use_threads
from sim2cam.training.run import remove_run

JPEG_QUALITY = 95


@dataclass(frozen=True)
class Unit:
    """One shard to be translated."""

    run: Path
    root: Path
    shard: int
    first: int
    samples: tuple[Sample, ...]
    seed: int
    device: str


def fit_plain_transfer(
    real: Dataset, method: PlainMethod, run_dir: Path, *, overwrite: bool
) -> None:
    """Fits a transfer without a network to captures and writes it into a run folder.

    Raises:
        InputError: fewer than ``MIN_CAPTURES`` captures, or one that cannot be read.
        OutputError: the folder is not empty.
    """
    if len(real.samples) < MIN_CAPTURES:
        raise InputError(
            real.root, f"{len(real.samples)} captures; a transfer needs at least {MIN_CAPTURES}."
        )
    if overwrite:
        remove_run(run_dir)
    if run_dir.is_dir() and any(run_dir.iterdir()):
        raise OutputError(run_dir, "is not empty. Add --overwrite to start anew.")
    style = (images.read_rgb(sample.rgb) for sample in real.samples)
    transfer = ReinhardTransfer.fit(style) if method == "reinhard" else FourierTransfer.fit(style)
    save_transfer(transfer, run_dir)


def train_network(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig,
    run_dir: Path,
    *,
    resume: bool,
    device: str,
    progress: Callable[[TranslatorProgress], None] | None,
) -> None:
    """Trains the translator into a run folder.

    Raises:
        InputError: fewer than ``MIN_CAPTURES`` captures, or an image that cannot be read.
        OutputError: the folder is not empty.
        CheckpointError: it holds another training.
    """
    if (run_dir / "transfer.json").exists():
        raise OutputError(
            run_dir, "holds a transfer without a network. Add --overwrite, or choose another --out."
        )
    train_translator(sim, real, config, run_dir, resume=resume, device=device, progress=progress)


def apply_transfer(
    run_dir: Path,
    sim: Dataset,
    root: Path,
    *,
    seed: int,
    workers: int,
    device: str,
    resume: bool,
    overwrite: bool,
    progress: Callable[[int, int], None],
) -> Dataset:
    """Returns the translated data set, made or completed in ``root``; labels are its parent's.

    Raises:
        InputError: the run folder holds no transfer.
        OutputError: the folder holds something else or cannot be written.
    """
    load_transfer(run_dir, device=device)
    header = {
        "format": FORMAT_VERSION,
        "origin": "adapted",
        "parent": os.path.relpath(sim.root.resolve(), root.resolve()),
        "parent_digest": _digest_of(sim),
        "transfer_digest": _transfer_digest(run_dir),
        "seed": seed,
        "categories": sim.categories,
        "samples_per_shard": SAMPLES_PER_SHARD,
    }
    prepare_folder(root, header, resume=resume, overwrite=overwrite)
    total = len(sim.samples)
    write_environment(root, environment_facts(None, workers), wanted=total)
    units = [unit for unit in _units(run_dir, sim, root, seed, device) if _is_missing(unit)]
    done = total - sum(len(unit.samples) for unit in units)
    for finished in map_units(translate_shard, units, workers):
        done += finished
        progress(done, total)
    dataset = read_dataset(root)
    write_card(card_of(dataset), root)
    return dataset


def translate_shard(unit: Unit) -> int:
    """Makes one shard and returns its number of samples."""
    use_threads(1)  # the same bytes from any number of workers
    transfer = _transfer(unit.run, unit.device)
    write_shard(unit.root, unit.shard, _translated(unit, transfer))
    return len(unit.samples)


def _translated(unit: Unit, transfer: Transfer) -> Iterator[NewSample]:
    for index, sample in enumerate(unit.samples, start=unit.first):
        rng = stream(unit.seed, "adapt", scene_index=index)
        rgb = transfer.apply(read_frame(sample), rng)
        yield NewSample(
            index=index,
            jpeg=images.encode_jpeg(rgb, JPEG_QUALITY),
            width=sample.width,
            height=sample.height,
            origin="adapted",
            objects=None,
            channels={},
            facts={"parent": sample.digest, "scene_index": sample.scene_index},
        )


@functools.lru_cache(maxsize=1)
def _transfer(run_dir: Path, device: str) -> Transfer:
    return load_transfer(run_dir, device=device)


def _units(run_dir: Path, sim: Dataset, root: Path, seed: int, device: str) -> list[Unit]:
    n = SAMPLES_PER_SHARD
    return [
        Unit(
            run_dir, root, shard, shard * n, sim.samples[shard * n : (shard + 1) * n], seed, device
        )
        for shard in range(-(-len(sim.samples) // n))
    ]


def _is_missing(unit: Unit) -> bool:
    return shard_size(unit.root, unit.shard) < len(unit.samples)


def _digest_of(sim: Dataset) -> str:
    whole = "".join(sample.digest for sample in sim.samples)
    return hashlib.sha256(whole.encode()).hexdigest()


def _transfer_digest(run_dir: Path) -> str:
    names: Sequence[str] = ("transfer.json", "weights.safetensors")
    found = next(run_dir / name for name in names if (run_dir / name).is_file())
    return hashlib.sha256(found.read_bytes()).hexdigest()
