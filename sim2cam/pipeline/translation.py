"""Training and application of translators from rendered datasets to adapted ones."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.card import compute_sample_digest
from sim2cam.adapt.certificate.certificate import (
    DatasetCertificate,
    ImageCertificate,
    certificate_from_json,
)
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.training import train_reference
from sim2cam.adapt.store import TRANSFER_TYPES, ParameterFreeMethod, load_transfer, save_transfer
from sim2cam.adapt.training.adversarial import (
    MIN_REAL_IMAGES,
    check_image_counts,
)
from sim2cam.adapt.training.checkpoint_selection import (
    TrainingOutcome,
    read_training_outcome,
    split_held_out,
)
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
from sim2cam.learn.trainer import NO_CALLBACKS, Callbacks
from sim2cam.models.losses.lpips import check_lpips, make_lpips_distance
from sim2cam.pipeline.verifiers import VerifierFiles, check_verifiers, load_verifiers
from sim2cam.progress import Progress, ignore_progress
from sim2cam.seeds import derive_rng

TranslationConfig = TranslatorConfig | tuple[ReferenceMethod, ReferenceConfig]
"""Training settings of the default translator, or method and settings of a published one."""


@dataclass(frozen=True)
class Certification:
    """Limits and verifiers that every translation must pass.

    Attributes:
        verifiers: weights files of verifier detectors, by names of ``VERIFIERS``.
    """

    limits: CertificateLimits
    verifiers: tuple[tuple[str, Path], ...] = ()


@dataclass(frozen=True)
class TranslationUnit:
    """A shard to translate.

    Attributes:
        numbered_samples: samples with their numbers in the dataset.
        has_parent: whether labels stay in the parent dataset.
    """

    run_dir: Path
    root: Path
    shard: int
    numbered_samples: tuple[IndexedSample, ...]
    seed: int
    device: str
    certification: Certification
    has_parent: bool


def fit_parameter_free_transfer(
    real: Dataset, method: ParameterFreeMethod, run_dir: Path, *, overwrite: bool
) -> None:
    """Fit a parameter-free transfer to real images and save it in a run folder.

    Raises:
        InputError: if there are fewer than ``MIN_REAL_IMAGES`` images, or one cannot be read.
        OutputError: if the folder is not empty.
    """
    if len(real.samples) < MIN_REAL_IMAGES:
        raise InputError(
            real.root,
            f"{len(real.samples)} real images; a transfer needs at least {MIN_REAL_IMAGES}.",
        )
    if not overwrite and run_dir.is_dir() and not is_empty(run_dir):
        raise OutputError(run_dir, "is not empty. Add --overwrite to start over.")
    transfer = TRANSFER_TYPES[method].fit(images.read_rgb(sample.rgb) for sample in real.samples)
    if overwrite:  # after fit, which may refuse an image
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
    """Check the inputs of ``train_network`` and return data warnings.

    Also warns if no checkpoint can be selected. Images that are fixed after a warning change the
    training.

    Raises:
        InputError: if there are no renders, too few real images or pairs, or an image cannot be read.
        OutputError: if the run folder contains training images.
        CheckpointError: if verifier weights are missing or broken.
        UsageError: if the verifiers are not independent of each other.
        BackendError: if LPIPS or torch.compile is required but not available.
    """
    check_image_counts(sim, real)
    check_verifiers(verifiers)
    folders = {sample.rgb.parent.resolve() for sample in (*sim.samples, *real.samples)}
    if run_dir.resolve() in folders:
        raise OutputError(run_dir, "contains training images. Choose another --out.")
    matched = match_by_name(sim, real) if paired else (sim, real)
    if paired and len(matched[1].samples) < MIN_REAL_IMAGES:
        raise InputError(
            real.root,
            f"{len(matched[1].samples)} real images have the name of a render; a translator needs at least "
            f"{MIN_REAL_IMAGES} pairs. Add pairs, or train without --paired.",
        )
    check_optional_dependencies(training, device)
    warnings = find_data_warnings(sim, real, paired=paired)
    if not verifiers:
        return warnings
    config = training if isinstance(training, TranslatorConfig) else training[1]
    # registration may later refuse some of the matched pairs
    reason = split_held_out(*matched, config.steps, is_paired=paired).reason
    if reason is None:
        return warnings
    options = ", ".join(f"--{name}" for name in dict(verifiers))
    return (
        *warnings,
        f"{options} cannot select a checkpoint, so the last one is used: {reason}.",
    )


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
    callbacks: Callbacks = NO_CALLBACKS,
    paired: bool = False,
    perception: PerceptionModel | None = None,
) -> TrainingOutcome:
    """Train a default or a published translator in a run folder and return the outcome.

    The checkpoint is selected by the certification of held-out renders. Only the default translator
    uses ``paired`` images and ``perception``; see ``train_translator``.

    Args:
        paired: whether renders and real images of the same name are pairs.
        perception: detector of the perceptual consistency loss; None without.

    Raises:
        InputError: if there are fewer than ``MIN_REAL_IMAGES`` real images, or an image cannot be
            read.
        OutputError: if the folder is not empty.
        CheckpointError: if the folder has another training, or verifier weights are broken.
        UsageError: if the verifiers are not independent of each other.
        BackendError: as ``check_training``.
    """
    if (
        is_main_process() and (run_dir / "transfer.json").exists()
    ):  # only in the main process, as another may have removed the file
        raise OutputError(
            run_dir, "holds a parameter-free transfer. Add --overwrite, or choose another --out."
        )
    check_verifiers(certification.verifiers)
    verification = replace(
        build_verification(certification, select_local_device(device)), perception=perception
    )
    options: dict[str, Any] = {"resume": resume, "device": device, "callbacks": callbacks}
    if isinstance(training, TranslatorConfig):
        if training.compile:
            check_torch_compile(find_device(device))
        if training.lpips_weight:
            distance = make_lpips_distance(training.lpips_network, select_local_device(device))
            verification = replace(verification, lpips=distance)
        train_translator(
            sim, real, training, run_dir, paired=paired, verification=verification, **options
        )
    else:
        method, config = training
        train_reference(method, sim, real, config, run_dir, verification=verification, **options)
    return read_training_outcome(run_dir)


def check_optional_dependencies(training: TranslationConfig | None, device: str) -> None:
    """Refuse a training whose optional dependencies are missing.

    Raises:
        BackendError: if the package or weights of LPIPS are missing, or torch.compile does not
            work.
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
    workers: int = 1,
    device: str = "cpu",
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = ignore_progress,
) -> DatasetCertificate:
    """Make or complete an adapted dataset and return its certificate.

    Translations that exceed a limit are not samples of the dataset: they are stored in their shards
    as rejected, and the numbers of the other samples stay. Labels and channels stay in a parent
    dataset of sim2cam; of other datasets they are copied.

    Raises:
        InputError: if the run folder has no transfer, or an image or channel cannot be read.
        CheckpointError: if verifier weights are broken.
        UsageError: if the verifiers are not independent of each other.
        BackendError: if GPU or main memory is exhausted.
        OutputError: if the folder has other content, such as the renders, or cannot be written.
    """
    _check_output_folder(sim, root)
    transfer = load_transfer(run_dir, device=device)
    check_verifiers(certification.verifiers)
    needed = transfer.buffers if isinstance(transfer, Translator) else ()
    for sample in sim.samples:  # fail before the first translation
        check_buffers(sample, needed)
        images.read_rgb(sample.rgb)
    has_parent = (sim.root / HEADER).is_file()
    if not has_parent:
        for sample in sim.samples:
            _read_channels(sample)  # fail before an existing dataset is removed
    for first in sim.samples[:1]:  # fail before an existing dataset is removed
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
            TranslationUnit(run_dir, root, shard, samples, seed, device, certification, has_parent)
            for shard, samples in _split_shards(sim)
            if not _is_finished(root, shard, len(samples))
        ]
        done = total - sum(len(unit.numbered_samples) for unit in units)

        def report(unfinished: int) -> None:
            progress(done + unfinished, total)

        for finished in map_units(
            translate_shard, units, workers, stall_s=STALL_S, on_items=report
        ):
            done += finished
        certificate = DatasetCertificate(certification.limits, digests, _read_certificates(root))
        write_json(root / CERTIFICATE, certificate.to_json())
        if certificate.accepted_count:
            write_card(build_card(read_dataset(root)), root)
    return certificate


def _is_finished(root: Path, shard: int, count: int) -> bool:
    content = read_shard_content(root, shard)
    return content is not None and content.is_complete(count)


def read_certificate(root: Path) -> DatasetCertificate:
    """Return the certificate of an adapted dataset.

    Raises:
        InputError: if the certificate is missing or broken.
    """
    path = root / CERTIFICATE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(path, f"no certificate ({error}). Run adapt apply.") from error
    return certificate_from_json(path, content, DatasetCertificate)


def list_image_pairs(root: Path, sim: Dataset) -> dict[str, tuple[Path, Path]]:
    """Return the files of each image before and after translation, by name.

    Includes rejected images.
    """
    parents = {compute_sample_digest(sample): sample.rgb for sample in sim.samples}
    records = [*read_sample_records(root), *read_sample_records(root, REJECTED)]
    return {
        record.fields["name"]: (
            parents[record.fields["parent"]],
            record.shard / next(iter(record.fields["files"])),
        )
        for record in records
        if record.fields["parent"] in parents
    }


@explain_out_of_memory()
def translate_shard(unit: TranslationUnit) -> int:
    """Translate one shard and return its number of samples, including rejected ones."""
    use_threads(1)  # equal bytes with any number of workers
    certificates: list[dict[str, Any]] = []
    samples = _translate_samples(unit, certificates)
    write_shard(unit.root, unit.shard, samples, certificates=certificates)
    return len(unit.numbered_samples)


def _translate_samples(
    unit: TranslationUnit, certificates: list[dict[str, Any]]
) -> Iterator[NewSample]:
    transfer = _load_cached_transfer(unit.run_dir, _digest_transfer(unit.run_dir), unit.device)
    verification = build_verification(unit.certification, unit.device)
    translations = translate_samples(
        transfer, unit.numbered_samples, unit.seed, "adapt", verification
    )
    for finished, (numbered_sample, translated) in enumerate(
        zip(unit.numbered_samples, translations, strict=True)
    ):
        send_heartbeat(finished)
        certificates.append(asdict(translated.certificate))
        sample = numbered_sample.sample
        yield NewSample(
            index=numbered_sample.sample_index,
            image_bytes=translated.encoded_image,
            width=sample.width,
            height=sample.height,
            origin="adapted",
            objects=None if unit.has_parent else sample.objects,
            channels={} if unit.has_parent else _read_channels(sample),
            metadata={
                "parent": compute_sample_digest(sample),
                "scene_index": sample.scene_index,
                **({} if unit.has_parent else _collect_unparented_facts(numbered_sample)),
            },
            is_rejected=bool(translated.certificate.failed_measures),
        )


def _read_channels(sample: Sample) -> dict[ChannelName, NDArray[Any]]:
    """Read every channel of a sample.

    Raises:
        InputError: if a channel cannot be read, or has another size than the image.
    """
    shape = sample.height, sample.width
    channels = {name: read_buffer(sample, name, shape) for name in sample.channels}
    return {name: values for name, values in channels.items() if values is not None}


def _collect_unparented_facts(numbered_sample: IndexedSample) -> dict[str, Any]:
    """Return the record fields of a sample whose labels are copied."""
    sequence = (
        {}
        if numbered_sample.sample.frame_info is None
        else {"sequence": numbered_sample.sequence_index}
    )
    return {
        **_copy_carried_fields(numbered_sample.sample),
        **sequence,
        "source": numbered_sample.sample.rgb.name,
    }


def _copy_carried_fields(sample: Sample) -> dict[str, Any]:
    """Return the set fields among ``INHERITED_FIELDS``."""
    fields = {name: getattr(sample, name) for name in INHERITED_FIELDS}
    return {name: value for name, value in fields.items() if value is not None}


def build_verification(certification: Certification, device: str) -> Verification:
    """Return the limits and loaded verifiers of a certification.

    Raises:
        InputError, CheckpointError: if verifier weights are missing or broken.
    """
    verifiers = load_verifiers(certification.verifiers, device)
    return Verification(certification.limits, verifiers, _digest_verifiers(certification))


def _digest_verifiers(certification: Certification) -> dict[str, str]:
    return {name: _digest_file(path) for name, path in certification.verifiers}


@functools.lru_cache(maxsize=1)
def _load_cached_transfer(run_dir: Path, digest: str, device: str) -> Transfer:
    del digest  # part of the cache key only
    return load_transfer(run_dir, device=device)


def _split_shards(sim: Dataset) -> Iterator[tuple[int, tuple[IndexedSample, ...]]]:
    """Yield the number of each shard and its numbered samples."""
    samples = index_samples(sim.samples)
    for first in range(0, len(samples), SAMPLES_PER_SHARD):
        yield first // SAMPLES_PER_SHARD, samples[first : first + SAMPLES_PER_SHARD]


def _read_certificates(root: Path) -> tuple[ImageCertificate, ...]:
    return tuple(
        certificate_from_json(record.shard / "certificates.jsonl", record.fields, ImageCertificate)
        for record in read_sample_records(root, "certificates")
    )


def _check_output_folder(sim: Dataset, root: Path) -> None:
    """Refuse an output folder that contains the renders or their labels."""
    folders = [folder for source in sim.list_sources() for folder in list_lineage(source.root)]
    folders += dict.fromkeys(sample.rgb.parent for sample in sim.samples)
    if any(folder.resolve().is_relative_to(root.resolve()) for folder in folders):
        raise OutputError(root, "contains the input images or their labels. Choose another --out.")


def _describe_parent(sim: Dataset, root: Path) -> dict[str, str]:
    return {"parent": os.path.relpath(sim.root.resolve(), root.resolve())}


def _digest_dataset(sim: Dataset) -> str:
    digests = "".join(compute_sample_digest(sample) for sample in sim.samples)
    return hashlib.sha256(digests.encode()).hexdigest()


def _digest_labels(sim: Dataset) -> str:
    """Return the SHA-256 of the labels that an adapted dataset copies."""
    digest = hashlib.sha256()
    for sample in sim.samples:
        labels = {
            "scene_index": sample.scene_index,
            "objects": sample.objects,
            **_copy_carried_fields(sample),
        }
        labels |= {name: images.compute_digest(path) for name, path in sample.channels.items()}
        digest.update(json.dumps(to_json_value(labels), sort_keys=True).encode())
    return digest.hexdigest()


def _digest_transfer(run_dir: Path) -> str:
    names: Sequence[str] = ("transfer.json", "weights.safetensors")
    path = next(run_dir / name for name in names if (run_dir / name).is_file())
    return _digest_file(path)


def _digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
