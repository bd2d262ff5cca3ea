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
from sim2cam.adapt.card import compute_sample_digest
from sim2cam.adapt.certificate.certificate import (
    DatasetCertificate,
    ImageCertificate,
    dataset_certificate_from_json,
    image_certificate_from_json,
)
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.training import train_reference
from sim2cam.adapt.store import TRANSFER_TYPES, ParameterFreeMethod, load_transfer, save_transfer
from sim2cam.adapt.training.adversarial import (
    MIN_REAL_IMAGES,
    TranslatorProgress,
    check_image_counts,
    split_training_images,
)
from sim2cam.adapt.training.checkpoint_selection import TrainingOutcome, read_training_outcome
from sim2cam.adapt.training.data_warnings import find_data_warnings
from sim2cam.adapt.transfers.transfer import Transfer, read_buffer, read_frame
from sim2cam.adapt.translation import IndexedSample, Verification, index_samples, translate_samples
from sim2cam.adapt.translator.buffers import check_buffers
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.pairs import match_by_name
from sim2cam.adapt.translator.perceptual_consistency import PerceptionModel
from sim2cam.adapt.translator.training import train_translator
from sim2cam.adapt.translator.translator import Translator
from sim2cam.data.card import build_card, write_card
from sim2cam.data.channels import ChannelName
from sim2cam.data.environment import collect_environment
from sim2cam.data.reader import list_lineage, read_dataset, read_sample_records
from sim2cam.data.sample import INHERITED_FIELDS, Dataset, Sample
from sim2cam.data.shards import read_shard_content
from sim2cam.data.writer import (
    CERTIFICATE,
    FORMAT_VERSION,
    HEADER,
    REJECTED,
    SAMPLES_PER_SHARD,
    NewSample,
    prepare_folder,
    to_json_value,
    write_environment,
    write_json,
    write_shard,
)
from sim2cam.engines.process_pool import STALL_S, map_units, send_heartbeat
from sim2cam.errors import InputError, OutputError
from sim2cam.files import is_empty, lock_folder
from sim2cam.learn.device import (
    check_torch_compile,
    explain_out_of_memory,
    find_device,
    use_threads,
)
from sim2cam.learn.distributed import select_local_device
from sim2cam.learn.launch import is_main_process
from sim2cam.learn.run_folder import clear_run_folder
from sim2cam.models.losses.lpips import check_lpips, make_lpips_distance
from sim2cam.pipeline.verifiers import VerifierFiles, check_verifiers, load_verifiers
from sim2cam.seeds import derive_rng

TranslationConfig = TranslatorConfig | tuple[ReferenceMethod, ReferenceConfig]
"""Of the default translator, or of a published one."""


@dataclass(frozen=True)
class Certification:
    """How every translation is judged before it becomes a sample.

    Attributes:
        limits: that it has to keep to.
        verifiers: weights files of detectors, by names of ``certificate.VERIFIERS``.
    """

    limits: CertificateLimits
    verifiers: tuple[tuple[str, Path], ...] = ()


@dataclass(frozen=True)
class TranslationUnit:
    """One shard to be translated.

    Attributes:
        run_dir: folder of the transfer.
        root: of the data set that is made.
        shard: its number.
        numbered_samples: to be translated, with their numbers in the set.
        seed: decides what is drawn.
        device: where networks run.
        certification: of the translations.
        has_parent: whether labels stay with the data set that the samples are from.
    """

    run_dir: Path
    root: Path
    shard: int
    numbered_samples: tuple[IndexedSample, ...]
    seed: int
    device: str
    certification: Certification
    has_parent: bool


def fit_plain_transfer(
    real: Dataset, method: ParameterFreeMethod, run_dir: Path, *, overwrite: bool
) -> None:
    """Fit a transfer without a network to captures and writes it into a run folder.

    Raises:
        InputError: fewer than ``MIN_REAL_IMAGES`` captures, or one that cannot be read.
        OutputError: the folder is not empty.
    """
    if len(real.samples) < MIN_REAL_IMAGES:
        raise InputError(
            real.root, f"{len(real.samples)} captures; a transfer needs at least {MIN_REAL_IMAGES}."
        )
    if not overwrite and run_dir.is_dir() and not is_empty(run_dir):
        raise OutputError(run_dir, "is not empty. Add --overwrite to start anew.")
    transfer = TRANSFER_TYPES[method].fit(images.read_rgb(sample.rgb) for sample in real.samples)
    if overwrite:  # only now, as a capture may have been refused
        clear_run_folder(run_dir)
    save_transfer(transfer, run_dir)


def check_training(
    sim: Dataset,
    real: Dataset,
    training: TranslationConfig,
    run_dir: Path,
    verifiers: VerifierFiles,
    *,
    paired: bool,
    device: str,
) -> tuple[str, ...]:
    """Return what is odd about the pictures (``find_data_warnings``) and the judges, and refuses what ``train_network``
    would; a picture that is mended after that would be another training's.

    Raises:
        InputError: no renders, fewer than ``MIN_REAL_IMAGES`` captures or, of ``paired`` ones, pairs, or a
            picture that cannot be read.
        OutputError: the run's folder holds the pictures.
        CheckpointError: a judge's weights are missing or broken.
        UsageError: the judges are not independent of one another.
        BackendError: what LPIPS takes is missing, or torch cannot compile here, where the training asks for it.
    """
    check_image_counts(sim, real)
    check_verifiers(verifiers)
    folders = {sample.rgb.parent.resolve() for sample in (*sim.samples, *real.samples)}
    if run_dir.resolve() in folders:
        raise OutputError(run_dir, "holds pictures that are learned from. Choose another --out.")
    named = match_by_name(sim, real) if paired else (sim, real)
    if paired and len(named[1].samples) < MIN_REAL_IMAGES:
        raise InputError(
            real.root,
            f"{len(named[1].samples)} captures have the names of renders, but a translator needs at least "
            f"{MIN_REAL_IMAGES} pairs. Add some, or train without --paired.",
        )
    check_optional_dependencies(training, device)
    odd = find_data_warnings(sim, real, paired=paired)
    choosing = [f"--{name}" for name in dict(verifiers)]
    if not choosing:
        return odd
    config = training if isinstance(training, TranslatorConfig) else training[1]
    # of pairs at most these; which are refused is known once they are registered
    why = split_training_images(
        *named, config, verifier_count=len(verifiers), is_paired=paired
    ).reason
    if why is None:
        return odd
    return (*odd, f"{', '.join(choosing)}: no weights are chosen, the last ones ship, as {why}.")


@explain_out_of_memory()
def train_network(
    sim: Dataset,
    real: Dataset,
    training: TranslationConfig,
    run_dir: Path,
    *,
    certification: Certification,
    resume: bool,
    device: str,
    progress: Callable[[TranslatorProgress], None] | None,
    paired: bool = False,
    perception: PerceptionModel | None = None,
) -> TrainingOutcome:
    """Train the default translator, or a published one, into a run folder, and returns how it ended.

    Weights are chosen by the certification of renders that are kept aside. Only the default one learns
    from ``paired`` captures and ``perception``, as ``train_translator`` takes them.

    Raises:
        InputError: fewer than ``MIN_REAL_IMAGES`` captures, or an image that cannot be read.
        OutputError: the folder is not empty.
        CheckpointError: it holds another training, or a judge's weights are broken.
        UsageError: the judges are not independent of one another.
        BackendError: as ``check_training``.
    """
    if (
        is_main_process() and (run_dir / "transfer.json").exists()
    ):  # it may have removed one just now
        raise OutputError(
            run_dir, "holds a transfer without a network. Add --overwrite, or choose another --out."
        )
    check_verifiers(certification.verifiers)
    jury = replace(
        build_verification(certification, select_local_device(device)), perception=perception
    )
    how: dict[str, Any] = {"resume": resume, "device": device, "progress": progress}
    if isinstance(training, TranslatorConfig):
        if training.compile:
            check_torch_compile(find_device(device))
        if training.lpips_weight:
            lpips = make_lpips_distance(training.lpips_network, select_local_device(device))
            jury = replace(jury, lpips=lpips)
        train_translator(sim, real, training, run_dir, paired=paired, verification=jury, **how)
    else:
        method, config = training
        train_reference(method, sim, real, config, run_dir, verification=jury, **how)
    return read_training_outcome(run_dir)


def check_optional_dependencies(training: TranslationConfig | None, device: str) -> None:
    """Refuse a training for which something is missing that few have; of none, nothing is.

    Raises:
        BackendError: the package or the weights of LPIPS are missing, or torch cannot compile here.
    """
    if not isinstance(training, TranslatorConfig):
        return
    if training.lpips_weight:
        check_lpips(training.lpips_network)
    if training.compile:
        check_torch_compile(find_device(device))


@explain_out_of_memory()
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
) -> DatasetCertificate:
    """Make or completes the translated data set in ``root``, and returns its certificate.

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
    _check_output_folder(sim, root)
    transfer = load_transfer(run_dir, device=device)
    check_verifiers(certification.verifiers)
    needed = transfer.buffers if isinstance(transfer, Translator) else ()
    for sample in sim.samples:  # before anything is made of others
        check_buffers(sample, needed)
        images.read_rgb(sample.rgb)
    has_parent = (sim.root / HEADER).is_file()
    if not has_parent:
        for sample in sim.samples:
            _read_channels(sample)  # can be read, before an earlier set is removed
    for first in sim.samples[:1]:  # can be translated, before an earlier set is removed
        transfer.apply(read_frame(first), derive_rng(seed, "adapt"))
    digests = _digest_verifiers(certification)
    header = {
        "format": FORMAT_VERSION,
        "origin": "adapted",
        **(_describe_parent(sim, root) if has_parent else {"labels_digest": _digest_labels(sim)}),
        "parent_digest": _digest_dataset(sim),
        "transfer_digest": _digest_transfer(run_dir),
        "certification": {"limits": certification.limits, "verifiers": digests},
        "seed": seed,
        "categories": sim.categories,
        "samples_per_shard": SAMPLES_PER_SHARD,
    }
    with lock_folder(root):
        prepare_folder(root, header, resume=resume, overwrite=overwrite)
        total = len(sim.samples)
        write_environment(root, collect_environment(None, workers), expected_samples=total)
        units = [
            TranslationUnit(run_dir, root, shard, pictures, seed, device, certification, has_parent)
            for shard, pictures in _split_shards(sim)
            if not _is_finished(root, shard, len(pictures))
        ]
        done = total - sum(len(unit.numbered_samples) for unit in units)
        for finished in map_units(translate_shard, units, workers, stall_s=STALL_S):
            done += finished
            progress(done, total)
        certificate = DatasetCertificate(certification.limits, digests, _read_certificates(root))
        write_json(root / CERTIFICATE, certificate.to_json())
        if certificate.accepted_count:
            write_card(build_card(read_dataset(root)), root)
    return certificate


def _is_finished(root: Path, shard: int, count: int) -> bool:
    content = read_shard_content(root, shard)
    return content is not None and content.is_complete(count)


def read_certificate(root: Path) -> DatasetCertificate:
    """Return the certificate of a translated data set.

    Raises:
        InputError: it has none, or a broken one.
    """
    path = root / CERTIFICATE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(path, f"no certificate ({error}). Run adapt apply.") from error
    return dataset_certificate_from_json(path, content)


def list_image_pairs(root: Path, sim: Dataset) -> dict[str, tuple[Path, Path]]:
    """Return the files of each picture before and after, rejected ones too, by its name.

    Args:
        root: the translated data set.
        sim: what it was made from.
    """
    parents = {compute_sample_digest(sample): sample.rgb for sample in sim.samples}
    lines = [*read_sample_records(root), *read_sample_records(root, REJECTED)]
    return {
        raw.fields["name"]: (
            parents[raw.fields["parent"]],
            raw.shard / next(iter(raw.fields["files"])),
        )
        for raw in lines
        if raw.fields["parent"] in parents
    }


@explain_out_of_memory()
def translate_shard(unit: TranslationUnit) -> int:
    """Make one shard and returns its number of samples, with rejected ones."""
    use_threads(1)  # the same bytes from any number of workers
    found: list[dict[str, Any]] = []
    write_shard(unit.root, unit.shard, _translate_samples(unit, found), certificates=found)
    return len(unit.numbered_samples)


def _translate_samples(
    unit: TranslationUnit, certificates: list[dict[str, Any]]
) -> Iterator[NewSample]:
    transfer = _load_cached_transfer(unit.run_dir, _digest_transfer(unit.run_dir), unit.device)
    jury = build_verification(unit.certification, unit.device)
    made = translate_samples(transfer, unit.numbered_samples, unit.seed, "adapt", jury)
    for picture, translated in zip(unit.numbered_samples, made, strict=True):
        send_heartbeat()
        certificates.append(asdict(translated.certificate))
        sample = picture.sample
        yield NewSample(
            index=picture.sample_index,
            image_bytes=translated.encoded_image,
            width=sample.width,
            height=sample.height,
            origin="adapted",
            objects=None if unit.has_parent else sample.objects,
            channels={} if unit.has_parent else _read_channels(sample),
            metadata={
                "parent": compute_sample_digest(sample),
                "scene_index": sample.scene_index,
                **({} if unit.has_parent else _collect_unparented_facts(picture)),
            },
            is_rejected=bool(translated.certificate.failed_measures),
        )


def _read_channels(sample: Sample) -> dict[ChannelName, NDArray[Any]]:
    """Return every channel of a sample.

    Raises:
        InputError: one cannot be read, or is of another size than the picture.
    """
    shape = sample.height, sample.width
    found = {name: read_buffer(sample, name, shape) for name in sample.channels}
    return {name: values for name, values in found.items() if values is not None}


def _collect_unparented_facts(numbered_sample: IndexedSample) -> dict[str, Any]:
    """Return what is recorded of a picture whose labels stay with no parent."""
    film = (
        {}
        if numbered_sample.sample.frame_info is None
        else {"sequence": numbered_sample.sequence_index}
    )
    return {
        **_copy_carried_fields(numbered_sample.sample),
        **film,
        "source": numbered_sample.sample.rgb.name,
    }


def _copy_carried_fields(sample: Sample) -> dict[str, Any]:
    """Return what is known of the fields of ``INHERITED_FIELDS``."""
    found = {name: getattr(sample, name) for name in INHERITED_FIELDS}
    return {name: value for name, value in found.items() if value is not None}


def build_verification(certification: Certification, device: str) -> Verification:
    """Return what translations are judged by.

    Raises:
        InputError, CheckpointError: a judge's weights are missing or broken.
    """
    judges = load_verifiers(certification.verifiers, device)
    return Verification(certification.limits, judges, _digest_verifiers(certification))


def _digest_verifiers(certification: Certification) -> dict[str, str]:
    return {name: _digest_file(path) for name, path in certification.verifiers}


@functools.lru_cache(maxsize=1)
def _load_cached_transfer(run_dir: Path, digest: str, device: str) -> Transfer:
    del digest  # tells it from one that was in the folder before
    return load_transfer(run_dir, device=device)


def _split_shards(sim: Dataset) -> Iterator[tuple[int, tuple[IndexedSample, ...]]]:
    """Yield the number of each shard and its pictures with theirs."""
    pictures = index_samples(sim.samples)
    for first in range(0, len(pictures), SAMPLES_PER_SHARD):
        yield first // SAMPLES_PER_SHARD, pictures[first : first + SAMPLES_PER_SHARD]


def _read_certificates(root: Path) -> tuple[ImageCertificate, ...]:
    return tuple(
        image_certificate_from_json(raw.shard / "certificates.jsonl", raw.fields)
        for raw in read_sample_records(root, "certificates")
    )


def _check_output_folder(sim: Dataset, root: Path) -> None:
    """Refuse a folder that holds what is translated, or its labels, which would be removed first."""
    folders = [folder for source in sim.list_sources() for folder in list_lineage(source.root)]
    folders += dict.fromkeys(sample.rgb.parent for sample in sim.samples)
    if any(folder.resolve().is_relative_to(root.resolve()) for folder in folders):
        raise OutputError(
            root, "holds what is to be translated, or its labels. Choose another --out."
        )


def _describe_parent(sim: Dataset, root: Path) -> dict[str, str]:
    return {"parent": os.path.relpath(sim.root.resolve(), root.resolve())}


def _digest_dataset(sim: Dataset) -> str:
    whole = "".join(compute_sample_digest(sample) for sample in sim.samples)
    return hashlib.sha256(whole.encode()).hexdigest()


def _digest_labels(sim: Dataset) -> str:
    """Return the SHA-256 over what is written anew of samples whose labels stay with no parent."""
    whole = hashlib.sha256()
    for sample in sim.samples:
        facts = {
            "scene_index": sample.scene_index,
            "objects": sample.objects,
            **_copy_carried_fields(sample),
        }
        facts |= {name: images.compute_digest(path) for name, path in sample.channels.items()}
        whole.update(json.dumps(to_json_value(facts), sort_keys=True).encode())
    return whole.hexdigest()


def _digest_transfer(run_dir: Path) -> str:
    names: Sequence[str] = ("transfer.json", "weights.safetensors")
    found = next(run_dir / name for name in names if (run_dir / name).is_file())
    return _digest_file(found)


def _digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
