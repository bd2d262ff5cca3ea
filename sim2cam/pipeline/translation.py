"""Translating: a rendered data set and captures to a data set that looks like the captures."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.card import digest_of_sample
from sim2cam.adapt.certificate.certificate import (
    PictureCertificate,
    SetCertificate,
    certificate_from_json,
    picture_from_json,
)
from sim2cam.adapt.certificate.limits import Limits
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.training import train_reference
from sim2cam.adapt.store import METHODS, PlainMethod, load_transfer, save_transfer
from sim2cam.adapt.training.adversarial import (
    MIN_CAPTURES,
    TranslatorProgress,
    check_images,
    kept_apart,
)
from sim2cam.adapt.training.checkpoint_selection import Ending, read_ending
from sim2cam.adapt.training.data_warnings import concerns
from sim2cam.adapt.training.linear_probe import check_probe
from sim2cam.adapt.transfers.transfer import Transfer, read_buffer, read_frame
from sim2cam.adapt.translation import Jury, Numbered, numbered, translate_all
from sim2cam.adapt.translator.buffers import check_buffers
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.pairs import named_alike
from sim2cam.adapt.translator.perceptual_consistency import Perception
from sim2cam.adapt.translator.training import train_translator
from sim2cam.adapt.translator.translator import Translator
from sim2cam.data.card import card_of, write_card
from sim2cam.data.channels import ChannelName
from sim2cam.data.checks.duplicates import check_apart
from sim2cam.data.environment import environment_facts
from sim2cam.data.reader import line_of, read_dataset, read_lines
from sim2cam.data.sample import CARRIED, Dataset, Sample
from sim2cam.data.shards import read_content
from sim2cam.data.writer import (
    CERTIFICATE,
    FORMAT_VERSION,
    HEADER,
    REJECTED,
    SAMPLES_PER_SHARD,
    NewSample,
    plain,
    prepare_folder,
    write_environment,
    write_json,
    write_shard,
)
from sim2cam.engines.process_pool import STALL_S, beat, map_units
from sim2cam.errors import InputError, OutputError
from sim2cam.files import is_empty, locked
from sim2cam.learn.device import check_compiles, find_device, full_memory_told, use_threads
from sim2cam.learn.distributed import own_device
from sim2cam.learn.launch import is_first
from sim2cam.learn.run_folder import remove_run
from sim2cam.models.losses.lpips import check_lpips, lpips_distances
from sim2cam.pipeline.verifiers import Judges, check_judges, load_judges
from sim2cam.seeds import stream

Training = TranslatorConfig | tuple[ReferenceMethod, ReferenceConfig]
"""Of the default translator, or of a published one."""


@dataclass(frozen=True)
class Certification:
    """How every translation is judged before it becomes a sample.

    Attributes:
        limits: that it has to keep to.
        judges: weights files of detectors, by names of ``certificate.JUDGES``.
        dev: labelled captures that help to choose among the weights of a training; None without.
    """

    limits: Limits
    judges: tuple[tuple[str, Path], ...] = ()
    dev: Dataset | None = None


@dataclass(frozen=True)
class Unit:
    """One shard to be translated.

    Attributes:
        run: folder of the transfer.
        root: of the data set that is made.
        shard: its number.
        pictures: to be translated, with their numbers in the set.
        seed: decides what is drawn.
        device: where networks run.
        certification: of the translations.
        has_parent: whether labels stay with the data set that the samples are from.
    """

    run: Path
    root: Path
    shard: int
    pictures: tuple[Numbered, ...]
    seed: int
    device: str
    certification: Certification
    has_parent: bool


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
    if not overwrite and run_dir.is_dir() and not is_empty(run_dir):
        raise OutputError(run_dir, "is not empty. Add --overwrite to start anew.")
    transfer = METHODS[method].fit(images.read_rgb(sample.rgb) for sample in real.samples)
    if overwrite:  # only now, as a capture may have been refused
        remove_run(run_dir)
    save_transfer(transfer, run_dir)


def check_training(
    sim: Dataset,
    real: Dataset,
    training: Training,
    run_dir: Path,
    judges: Judges,
    *,
    paired: bool,
    dev: Dataset | None,
    device: str,
) -> tuple[str, ...]:
    """Returns what is odd about the pictures (``concerns``) and the judges, and refuses what ``train_network``
    would; a picture that is mended after that would be another training's.

    Raises:
        InputError: no renders, fewer than ``MIN_CAPTURES`` captures or, of ``paired`` ones, pairs, or a
            picture that cannot be read; or captures of ``dev`` tell nothing, or are among the others.
        OutputError: the run's folder holds the pictures.
        CheckpointError: a judge's weights are missing or broken.
        UsageError: the judges are not independent of one another.
        BackendError: what LPIPS takes is missing, or torch cannot compile here, where the training asks for it.
    """
    check_images(sim, real)
    check_judges(judges)
    folders = {sample.rgb.parent.resolve() for sample in (*sim.samples, *real.samples)}
    if run_dir.resolve() in folders:
        raise OutputError(run_dir, "holds pictures that are learned from. Choose another --out.")
    named = named_alike(sim, real) if paired else (sim, real)
    if paired and len(named[1].samples) < MIN_CAPTURES:
        raise InputError(
            real.root,
            f"{len(named[1].samples)} captures have the names of renders, but a translator needs at least "
            f"{MIN_CAPTURES} pairs. Add some, or train without --paired.",
        )
    if dev is not None:
        check_probe(sim, dev)
        check_apart(real.samples, dev)
    check_extras(training, device)
    odd = concerns(sim, real, paired=paired)
    choosing = [f"--{name}" for name in (*dict(judges), *(() if dev is None else ("dev",)))]
    if not choosing:
        return odd
    config = training if isinstance(training, TranslatorConfig) else training[1]
    # of pairs at most these; which are refused is known once they are registered
    why = kept_apart(*named, config, judges=len(judges), is_paired=paired).why
    if why is None:
        return odd
    return (*odd, f"{', '.join(choosing)}: no weights are chosen, the last ones ship, as {why}.")


@full_memory_told()
def train_network(
    sim: Dataset,
    real: Dataset,
    training: Training,
    run_dir: Path,
    *,
    certification: Certification,
    resume: bool,
    device: str,
    progress: Callable[[TranslatorProgress], None] | None,
    paired: bool = False,
    perception: Perception | None = None,
) -> Ending:
    """Trains the default translator, or a published one, into a run folder, and returns how it ended.

    Weights are chosen by the certification of renders that are kept aside. Only the default one learns
    from ``paired`` captures and ``perception``, as ``train_translator`` takes them.

    Raises:
        InputError: fewer than ``MIN_CAPTURES`` captures, or an image that cannot be read.
        OutputError: the folder is not empty.
        CheckpointError: it holds another training, or a judge's weights are broken.
        UsageError: the judges are not independent of one another.
        BackendError: as ``check_training``.
    """
    if is_first() and (run_dir / "transfer.json").exists():  # it may have removed one just now
        raise OutputError(
            run_dir, "holds a transfer without a network. Add --overwrite, or choose another --out."
        )
    check_judges(certification.judges)
    jury = replace(jury_of(certification, own_device(device)), perception=perception)
    how: dict[str, Any] = {"resume": resume, "device": device, "progress": progress}
    if isinstance(training, TranslatorConfig):
        if training.compile:
            check_compiles(find_device(device))
        if training.lpips_weight:
            lpips = lpips_distances(training.lpips_network, own_device(device))
            jury = replace(jury, lpips=lpips)
        train_translator(sim, real, training, run_dir, paired=paired, jury=jury, **how)
    else:
        method, config = training
        train_reference(method, sim, real, config, run_dir, jury=jury, **how)
    return read_ending(run_dir)


def check_extras(training: Training | None, device: str) -> None:
    """Refuses a training for which something is missing that few have; of none, nothing is.

    Raises:
        BackendError: the package or the weights of LPIPS are missing, or torch cannot compile here.
    """
    if not isinstance(training, TranslatorConfig):
        return
    if training.lpips_weight:
        check_lpips(training.lpips_network)
    if training.compile:
        check_compiles(find_device(device))


@full_memory_told()
def apply_transfer(
    run_dir: Path,
    sim: Dataset,
    root: Path,
    *,
    certification: Certification,
    seed: int,
    workers: int,
    device: str,
    resume: bool,
    overwrite: bool,
    progress: Callable[[int, int], None],
) -> SetCertificate:
    """Makes or completes the translated data set in ``root``, and returns its certificate.

    Translations that break a limit are no samples of it: they are kept aside in their shards, and
    the numbers of the others stay. Labels and channels are those of the parent where that is a data
    set of sim2cam, and written anew where it is not.

    Raises:
        InputError: the run folder holds no transfer, or a picture or channel cannot be read.
        CheckpointError: a judge's weights are broken.
        UsageError: the judges are not independent of one another.
        BackendError: the GPU's memory is full, or the machine's.
        OutputError: the folder holds something else, such as what is translated, or cannot be written.
    """
    _refuse_own_folder(sim, root)
    transfer = load_transfer(run_dir, device=device)
    check_judges(certification.judges)
    needed = transfer.buffers if isinstance(transfer, Translator) else ()
    for sample in sim.samples:  # before anything is made of others
        check_buffers(sample, needed)
        images.read_rgb(sample.rgb)
    has_parent = (sim.root / HEADER).is_file()
    if not has_parent:
        for sample in sim.samples:
            _channels(sample)  # can be read, before an earlier set is removed
    for first in sim.samples[:1]:  # can be translated, before an earlier set is removed
        transfer.apply(read_frame(first), stream(seed, "adapt"))
    digests = _judge_digests(certification)
    header = {
        "format": FORMAT_VERSION,
        "origin": "adapted",
        **(_parent_facts(sim, root) if has_parent else {"labels_digest": _labels_digest(sim)}),
        "parent_digest": _digest_of(sim),
        "transfer_digest": _transfer_digest(run_dir),
        "certification": {"limits": certification.limits, "judges": digests},
        "seed": seed,
        "categories": sim.categories,
        "samples_per_shard": SAMPLES_PER_SHARD,
    }
    with locked(root):
        prepare_folder(root, header, resume=resume, overwrite=overwrite)
        total = len(sim.samples)
        write_environment(root, environment_facts(None, workers), wanted=total)
        units = [
            Unit(run_dir, root, shard, pictures, seed, device, certification, has_parent)
            for shard, pictures in _shards(sim)
            if not _is_finished(root, shard, len(pictures))
        ]
        done = total - sum(len(unit.pictures) for unit in units)
        for finished in map_units(translate_shard, units, workers, stall_s=STALL_S):
            done += finished
            progress(done, total)
        certificate = SetCertificate(certification.limits, digests, _certificates(root))
        write_json(root / CERTIFICATE, certificate.to_json())
        if certificate.kept:
            write_card(card_of(read_dataset(root)), root)
    return certificate


def _is_finished(root: Path, shard: int, count: int) -> bool:
    content = read_content(root, shard)
    return content is not None and content.is_of(count)


def read_certificate(root: Path) -> SetCertificate:
    """Returns the certificate of a translated data set.

    Raises:
        InputError: it has none, or a broken one.
    """
    path = root / CERTIFICATE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(path, f"no certificate ({error}). Run adapt apply.") from error
    return certificate_from_json(path, content)


def translation_paths(root: Path, sim: Dataset) -> dict[str, tuple[Path, Path]]:
    """Returns the files of each picture before and after, rejected ones too, by its name.

    Args:
        root: the translated data set.
        sim: what it was made from.
    """
    parents = {digest_of_sample(sample): sample.rgb for sample in sim.samples}
    lines = [*read_lines(root), *read_lines(root, REJECTED)]
    return {
        raw.line["name"]: (parents[raw.line["parent"]], raw.shard / next(iter(raw.line["files"])))
        for raw in lines
        if raw.line["parent"] in parents
    }


@full_memory_told()
def translate_shard(unit: Unit) -> int:
    """Makes one shard and returns its number of samples, with rejected ones."""
    use_threads(1)  # the same bytes from any number of workers
    found: list[dict[str, Any]] = []
    write_shard(unit.root, unit.shard, _translated(unit, found), certificates=found)
    return len(unit.pictures)


def _translated(unit: Unit, certificates: list[dict[str, Any]]) -> Iterator[NewSample]:
    transfer = _transfer(unit.run, _transfer_digest(unit.run), unit.device)
    jury = jury_of(unit.certification, unit.device)
    made = translate_all(transfer, unit.pictures, unit.seed, "adapt", jury)
    for picture, translated in zip(unit.pictures, made, strict=True):
        beat()
        certificates.append(asdict(translated.certificate))
        sample = picture.sample
        yield NewSample(
            index=picture.number,
            picture=translated.file,
            width=sample.width,
            height=sample.height,
            origin="adapted",
            objects=None if unit.has_parent else sample.objects,
            channels={} if unit.has_parent else _channels(sample),
            facts={
                "parent": digest_of_sample(sample),
                "scene_index": sample.scene_index,
                **({} if unit.has_parent else _own_facts(picture)),
            },
            is_rejected=bool(translated.certificate.failed),
        )


def _channels(sample: Sample) -> dict[ChannelName, NDArray[Any]]:
    """Returns every channel of a sample.

    Raises:
        InputError: one cannot be read, or is of another size than the picture.
    """
    shape = sample.height, sample.width
    found = {name: read_buffer(sample, name, shape) for name in sample.channels}
    return {name: values for name, values in found.items() if values is not None}


def _own_facts(picture: Numbered) -> dict[str, Any]:
    """Returns what is recorded of a picture whose labels stay with no parent."""
    film = {} if picture.sample.moment is None else {"film": picture.film}
    return {**_carried(picture.sample), **film, "source": picture.sample.rgb.name}


def _carried(sample: Sample) -> dict[str, Any]:
    """Returns what is known of the fields of ``CARRIED``."""
    found = {name: getattr(sample, name) for name in CARRIED}
    return {name: value for name, value in found.items() if value is not None}


def jury_of(certification: Certification, device: str) -> Jury:
    """Returns what translations are judged by.

    Raises:
        InputError, CheckpointError: a judge's weights are missing or broken.
    """
    judges = load_judges(certification.judges, device)
    return Jury(certification.limits, judges, _judge_digests(certification), dev=certification.dev)


def _judge_digests(certification: Certification) -> dict[str, str]:
    return {name: _file_digest(path) for name, path in certification.judges}


@functools.lru_cache(maxsize=1)
def _transfer(run_dir: Path, digest: str, device: str) -> Transfer:
    del digest  # tells it from one that was in the folder before
    return load_transfer(run_dir, device=device)


def _shards(sim: Dataset) -> Iterator[tuple[int, tuple[Numbered, ...]]]:
    """Yields the number of each shard and its pictures with theirs."""
    pictures = numbered(sim.samples)
    for first in range(0, len(pictures), SAMPLES_PER_SHARD):
        yield first // SAMPLES_PER_SHARD, pictures[first : first + SAMPLES_PER_SHARD]


def _certificates(root: Path) -> tuple[PictureCertificate, ...]:
    return tuple(
        picture_from_json(raw.shard / "certificates.jsonl", raw.line)
        for raw in read_lines(root, "certificates")
    )


def _refuse_own_folder(sim: Dataset, root: Path) -> None:
    """Refuses a folder that holds what is translated, or its labels, which would be removed first."""
    folders = [folder for source in sim.origins() for folder in line_of(source.root)]
    folders += dict.fromkeys(sample.rgb.parent for sample in sim.samples)
    if any(folder.resolve().is_relative_to(root.resolve()) for folder in folders):
        raise OutputError(
            root, "holds what is to be translated, or its labels. Choose another --out."
        )


def _parent_facts(sim: Dataset, root: Path) -> dict[str, str]:
    return {"parent": os.path.relpath(sim.root.resolve(), root.resolve())}


def _digest_of(sim: Dataset) -> str:
    whole = "".join(digest_of_sample(sample) for sample in sim.samples)
    return hashlib.sha256(whole.encode()).hexdigest()


def _labels_digest(sim: Dataset) -> str:
    """Returns the SHA-256 over what is written anew of samples whose labels stay with no parent."""
    whole = hashlib.sha256()
    for sample in sim.samples:
        facts = {"scene_index": sample.scene_index, "objects": sample.objects, **_carried(sample)}
        facts |= {name: images.digest_of(path) for name, path in sample.channels.items()}
        whole.update(json.dumps(plain(facts), sort_keys=True).encode())
    return whole.hexdigest()


def _transfer_digest(run_dir: Path) -> str:
    names: Sequence[str] = ("transfer.json", "weights.safetensors")
    found = next(run_dir / name for name in names if (run_dir / name).is_file())
    return _file_digest(found)


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
