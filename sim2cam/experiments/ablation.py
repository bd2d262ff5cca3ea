"""Ablation study: equal trainings on growing parts of the pipeline, scored on the same real images.

All variants train the same detector for the same number of steps, except the points of a learning curve
over steps; only the data and their treatment differ. Each job, a pair of variant and seed, leaves one file
of predictions. All scores are computed from these files, so jobs can run at different times and on several
machines.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from sim2cam import images
from sim2cam.adapt.card import build_image_set_record, compute_image_digests
from sim2cam.adapt.reference.config import ReferenceMethod
from sim2cam.adapt.store import TRANSFER_TYPES, ParameterFreeMethod
from sim2cam.adapt.transfers.selection import TransferSelection
from sim2cam.data.formats.predictions import (
    DETECTION_ROWS,
    DIGESTS,
    LABEL_MAPPING,
    check_digests,
    compute_file_digests,
    label_mapping_to_json,
)
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import RealImageSplits
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.engines.process_pool import map_units
from sim2cam.errors import InputError, OutputError, Sim2CamError, UsageError
from sim2cam.experiments.best_transfer import read_transfer_choice, select_best_transfer
from sim2cam.files import is_empty, prepare_folder
from sim2cam.learn.device import use_threads
from sim2cam.metrics.detection import Detection
from sim2cam.models.inference.detector import AnyDetector, detect_dataset
from sim2cam.models.reliability.measurement import calibrate_detector
from sim2cam.models.training.config import AdaptationConfig, AdaptationMethod, TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets, compute_dataset_digest
from sim2cam.models.training.pseudo_labels import pseudo_label
from sim2cam.models.training.setup import NO_AUXILIARY_DATA, AuxiliaryData, make_training_setup
from sim2cam.models.training.training import WEIGHTS, train_detector
from sim2cam.models.training.tuning import tune_detector
from sim2cam.pipeline.camera_recipes import write_camera_recipe
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import AdaptOptions, load_recipe
from sim2cam.pipeline.translation import (
    Certification,
    TranslationConfig,
    apply_transfer,
    check_optional_dependencies,
    fit_parameter_free_transfer,
    read_certificate,
    train_network,
)

# Names of datasets. A number after a name counts images (``real-25``, ``randomized-300``) or training
# steps (``cyclegan-500``).
REAL = "real"  # labelled real images
TRANSLATED = "translated"  # renders, translated by the default network
RETRANSLATED = "translated-1"  # the same, trained with the next seed
PUBLISHED = get_args(ReferenceMethod)
BEST_TRANSFER = "best-transfer"  # renders, by the parameter-free transfer nearest to real images
FIXED = "fixed"  # renders without randomization
RANDOMIZED = "randomized"
PSEUDO_LABELLED = "pseudo-labelled"  # style photos, labelled by the detector of the first phase
CAMERA = "camera"  # randomized renders, cameras sampled around the one fitted to the style photos
CAMERA_TRANSLATED = "camera-translated"  # these, translated by a default network trained on them
PREDICTIONS_FOLDER = "predictions"
_PREDICTIONS_SUFFIX = ".json.gz"
RESULT_FILE, PAGE_FILE = "ablation.json", "ablation.html"
CHOICE_FILE = "best-transfer.json"  # the selected transfer and its scores

FINE_TUNING_SHARE = 0.25
"""Share of the training steps that fine-tune, for variants with fine-tuning."""

MAX_DETECTIONS = 100
"""Detections kept per image, by score; COCO counts as many."""

CALIBRATION_RENDERS = 100
"""Renders that calibrate confidences if there are no development photos."""

_PLAN_FILE = "plan.json"
_RUNS_FOLDER, _TRANSFERS_FOLDER, _CAMERA_FIT_FOLDER = "runs", "transfers", "camera-fit"
_TUNED_SUFFIX = "-tuned"  # of the run folder of a second training phase
_TRANSLATIONS = {TRANSLATED, RETRANSLATED, CAMERA_TRANSLATED, *TRANSFER_TYPES, *PUBLISHED}
_OUTPUT_NAMES = {
    FIXED, RANDOMIZED, CAMERA, *_TRANSLATIONS, _RUNS_FOLDER, _TRANSFERS_FOLDER, _CAMERA_FIT_FOLDER, PREDICTIONS_FOLDER, _PLAN_FILE,
    RESULT_FILE, PAGE_FILE, CHOICE_FILE,
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A variant of the ablation study.

    Attributes:
        data: names of the training datasets, all with the same weight.
        fine_tuning_data: names of the datasets of the fine-tuning phase, which may include
            ``PSEUDO_LABELLED``; empty without fine-tuning.
        steps: training steps, with a learning-rate schedule of this length; None for those of the study.
        from_scratch: start from random weights, even if the study starts from pretrained ones.
    """

    name: str
    data: tuple[str, ...]
    fine_tuning_data: tuple[str, ...] = ()
    alignment: AdaptationMethod | None = None
    steps: int | None = None
    from_scratch: bool = False

    @property
    def all_data(self) -> tuple[str, ...]:
        """Names of all training datasets."""
        return (*self.data, *self.fine_tuning_data)

    @property
    def is_curve_point(self) -> bool:
        """Whether it only differs in the number of renders or steps; it is no planned comparison."""
        return self.steps is not None or any(map(is_render_subset, self.data))

    def count_photos(self, total: int) -> int:
        """Return the number of labelled real images in the training data."""
        counts = [name.partition("-")[2] for name in self.all_data if name.startswith(REAL)]
        return int(counts[0] or total) if counts else 0


@dataclass(frozen=True)
class AblationPlan:
    """Settings that all variants share.

    Attributes:
        recipe: name or path of the rendered recipe; its [adapt] section configures translations.
    """

    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    config: TrainConfig
    image_count: int
    data_seed: int
    recipe: str
    fixed_recipe: str | None


@dataclass(frozen=True)
class TrainingJob:
    """One training of a variant with one seed, and the locations of its data and predictions."""

    variant: Variant
    seed: int
    config: TrainConfig
    work_dir: Path
    captures: RealImageSplits
    result_path: Path
    threads: int
    device: str

    @property
    def name(self) -> str:
        """Name of the training and of its predictions."""
        return self.result_path.name.removesuffix(_PREDICTIONS_SUFFIX)


def open_ablation(
    plan: AblationPlan, captures: RealImageSplits, root: Path, *, resume: bool, overwrite: bool
) -> None:
    """Prepare the folder of an ablation study.

    A resumed study may have more variants and seeds, but no other budget or real images.

    Raises:
        InputError: if a real image cannot be read.
        OutputError: if the folder is not empty, holds other files, or holds a study with another
            budget or other real images.
    """
    settings = {k: v for k, v in asdict(plan).items() if k not in ("variants", "seeds")}
    settings |= {"config": plan.config.to_json(), "captures": _digest_captures(captures)}
    budget = json.loads(json.dumps(settings))
    is_new = overwrite or not root.is_dir() or is_empty(root)
    prepare_folder(root, _OUTPUT_NAMES, "an ablation study", resume=resume, overwrite=overwrite)
    if not is_new:
        _check_budget(budget, root / _PLAN_FILE)
    write_json(root / _PLAN_FILE, budget)


def prepare_data(
    plan: AblationPlan,
    captures: RealImageSplits,
    work_dir: Path,
    *,
    workers: int,
    device: str = "cpu",
) -> dict[str, str]:
    """Make or complete the datasets of all variants and return the reasons for empty ones by name.

    Raises:
        Sim2CamError: if a dataset cannot be made.
    """
    names = {name for variant in plan.variants for name in variant.data}
    methods = {name: name for name in filter(_is_translation, names)}
    for name in methods:  # fail before rendering
        check_optional_dependencies(_select_training(name, load_recipe(plan.recipe).adapt), device)
    renders = set(map(_get_source_renders, names))
    if FIXED in renders and plan.fixed_recipe is not None:
        _render(plan, plan.fixed_recipe, work_dir / FIXED, workers)
    if RANDOMIZED in renders:
        _render(plan, plan.recipe, work_dir / RANDOMIZED, workers)
    if CAMERA in renders:
        camera_recipe = write_camera_recipe(
            plan.recipe, captures.style, work_dir / _CAMERA_FIT_FOLDER, plan.data_seed
        )
        _render(plan, camera_recipe, work_dir / CAMERA, workers)
    reasons = {}
    if BEST_TRANSFER in names:
        choice = _choose_best_transfer(plan, captures, work_dir)
        if choice.method is None:
            reasons[BEST_TRANSFER] = choice.describe()
        else:
            methods[BEST_TRANSFER] = choice.method
    kept_counts = {
        method: _translate(plan, method, captures, work_dir, workers, device)
        for method in sorted(set(methods.values()))
    }
    return reasons | {
        name: f"the certificate rejected all {plan.image_count} translations"
        for name, method in methods.items()
        if not kept_counts[method]
    }


def run_job(job: TrainingJob) -> Path:
    """Train one variant with one seed and write its predictions on the test split.

    The detector is tuned on the development images that the variant does not train on.

    Raises:
        Sim2CamError: if the training fails.
    """
    use_threads(job.threads)
    detector = _tune_detector(_train_job(job), job)
    detections = detect_dataset(detector, job.captures.test)
    initial_weights = detector.card.initial_weights
    initial_data = initial_weights.data if initial_weights else ()
    result = {
        "variant": job.variant.name,
        "seed": job.seed,
        "config": job.config.to_json(),
        "data": [asdict(record) for record in (*initial_data, *detector.card.data)],
        "rejected": _count_rejected(job),
        "input_scale": detector.card.input_scale,
        "box_padding": detector.card.box_padding,
        DIGESTS: compute_file_digests(job.captures.test),
        LABEL_MAPPING: label_mapping_to_json(job.captures.label_mapping),
        DETECTION_ROWS: {
            image: [_serialize_detection(d) for d in image_detections[:MAX_DETECTIONS]]
            for image, image_detections in detections.items()
        },
    }
    write_json(job.result_path, result, indented=False)
    return job.result_path


def _is_translation(name: str) -> bool:
    return name in _TRANSLATIONS or is_published(name)


def is_published(name: str) -> bool:
    """Return whether a published translator makes a dataset, whose rejected images are kept."""
    return name.partition("-")[0] in PUBLISHED


def _get_source_renders(name: str) -> str:
    """Return the name of the renders that a dataset is made from (its own name for renders)."""
    if name == CAMERA_TRANSLATED:
        return CAMERA
    is_randomized = name == BEST_TRANSFER or _is_translation(name) or is_render_subset(name)
    return RANDOMIZED if is_randomized else name


def is_render_subset(name: str) -> bool:
    """Return whether a dataset is a part of the randomized renders, which differs between seeds."""
    return name.startswith(f"{RANDOMIZED}-")


def _count_rejected(job: TrainingJob) -> dict[str, int]:
    """Return the number of rejected images of each translated dataset."""
    names = [_resolve_folder(name, job) for name in job.variant.data]
    return {
        name: len(read_certificate(job.work_dir / name).rejected_images)
        for name in filter(_is_translation, names)
    }


def _train_job(job: TrainingJob) -> AnyDetector:
    """Train the detector of a job; variants without ``steps`` take the same number of steps."""
    variant, run_dir = job.variant, job.work_dir / _RUNS_FOLDER / job.name
    adapt = None if variant.alignment is None else AdaptationConfig(variant.alignment)
    steps = job.config.steps if variant.steps is None else variant.steps
    config = replace(job.config, seed=job.seed, steps=steps, fine_tuning=None, adapt=adapt)
    if variant.from_scratch:
        config = replace(config, pretrained="", backbone=None)
    tuning_data, tuning_steps = variant.fine_tuning_data, 0
    if tuning_data:
        tuning_steps = max(1, round(FINE_TUNING_SHARE * config.steps))
    if tuning_data and PSEUDO_LABELLED not in tuning_data:
        # refuses unusable fine-tuning data before the first phase
        make_training_setup(_load_datasets(tuning_data, job), config, NO_AUXILIARY_DATA)
    auxiliary_data = (
        NO_AUXILIARY_DATA if adapt is None else AuxiliaryData(target_images=job.captures.style)
    )
    detector = train_detector(
        _load_datasets(variant.data, job),
        replace(config, steps=max(1, config.steps - tuning_steps)),
        run_dir, auxiliary_data=auxiliary_data, resume=True, device=job.device,
    )  # fmt: skip
    if not tuning_data:
        return detector
    return train_detector(
        _load_datasets(tuning_data, job, detector),
        replace(config, steps=tuning_steps, fine_tuning=job.config.fine_tuning),
        run_dir.with_name(f"{run_dir.name}{_TUNED_SUFFIX}"),
        auxiliary_data=AuxiliaryData(initial_weights=run_dir / WEIGHTS),
        resume=True, device=job.device,
    )  # fmt: skip


def list_pending_jobs(
    plan: AblationPlan,
    captures: RealImageSplits,
    work_dir: Path,
    results_dir: Path,
    *,
    threads: int,
    device: str = "cpu",
) -> list[TrainingJob]:
    """Return the jobs without predictions, all variants of one seed before the next seed."""
    jobs = [
        TrainingJob(
            variant, seed, plan.config, work_dir, captures,
            locate_result(results_dir, variant, seed), threads, device,
        )
        for seed in plan.seeds
        for variant in plan.variants
    ]  # fmt: skip
    return [job for job in jobs if not job.result_path.is_file()]


def run_jobs(
    plan: AblationPlan,
    captures: RealImageSplits,
    work_dir: Path,
    results_dir: Path,
    *,
    workers: int,
    minutes: float,
    device: str = "cpu",
    on_failure: Callable[[Variant, Sim2CamError], None] | None = None,
) -> Iterator[Path]:
    """Run all pending jobs and yield the file of predictions of each.

    Args:
        plan: settings of the study; its datasets are complete.
        minutes: time limit; no training starts after it.
        on_failure: called with a variant and its error if the settings or data do not allow the
            variant; its remaining jobs are skipped. Without it the first error is raised.

    Raises:
        Sim2CamError: if a training fails.
    """
    start = time.monotonic()
    while time.monotonic() - start < 60 * minutes:
        pending = list_pending_jobs(plan, captures, work_dir, results_dir, threads=1, device=device)
        if not pending:
            break
        for job, error in map_units(_try_job, pending[:workers], workers):
            if error is None:
                yield job.result_path
                continue
            if on_failure is None:
                raise error
            on_failure(job.variant, error)
            plan = replace(plan, variants=tuple(v for v in plan.variants if v != job.variant))


def _try_job(job: TrainingJob) -> tuple[TrainingJob, Sim2CamError | None]:
    """Run a job; return it with the error if its settings or data do not allow it."""
    try:
        run_job(job)
    except OutputError:  # a failure of the disk, not of the variant
        raise
    except (UsageError, InputError) as error:
        return job, error
    return job, None


def select_images(dataset: Dataset, count: int, seed: int) -> Dataset:
    """Select images by the hashes of seed and file content.

    Smaller selections are subsets of larger ones.

    Raises:
        InputError: if an image cannot be read.
    """
    keys = {
        sample.name: hashlib.sha256(f"{seed} {images.compute_digest(sample.rgb)}".encode()).digest()
        for sample in dataset.samples
    }
    return dataset.select_by_name(sorted(keys, key=lambda name: (keys[name], name))[:count])


def locate_result(results_dir: Path, variant: Variant, seed: int) -> Path:
    """Return the path of the predictions of a job."""
    slug = "-".join("".join(c if c.isalnum() else " " for c in variant.name).split()).lower()
    return results_dir / f"{slug}-{seed}{_PREDICTIONS_SUFFIX}"


def locate_weights(root: Path, variant: Variant, seed: int) -> Path:
    """Return the path of the weights of a job in the folder of the study."""
    name = locate_result(root, variant, seed).name.removesuffix(_PREDICTIONS_SUFFIX)
    suffix = _TUNED_SUFFIX if variant.fine_tuning_data else ""
    return root / _RUNS_FOLDER / f"{name}{suffix}" / WEIGHTS


def read_job_result(
    path: Path, variant: Variant, plan: AblationPlan, test: Dataset
) -> dict[str, Any] | None:
    """Return the predictions of a job; None before it has run.

    Raises:
        InputError: if the file is damaged, or was made with another budget, other data or other
            images.
    """
    if not path.is_file():
        return None
    try:
        result: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(
            path, f"is damaged ({error}). Remove the file to run the job again."
        ) from error
    expected = {"variant": variant.name, "config": json.loads(json.dumps(plan.config.to_json()))}
    defaults = json.loads(json.dumps(TrainConfig().to_json()))  # older files lack new settings
    actual = result | {"config": defaults | result.get("config", {})}
    for key, value in expected.items():
        if actual.get(key) != value:
            raise InputError(
                path,
                f"{key} is {actual.get(key)}, not {value}. Remove the file to run the job again.",
            )
    if DIGESTS in result:  # older files have none
        check_digests(path, result[DIGESTS], test)
    return result


def _digest_captures(captures: RealImageSplits) -> dict[str, str]:
    """Return a digest of each split; labels count only where a training reads them."""
    labelled = {"dev": captures.dev, "train": captures.train}
    unlabelled = {"style": captures.style, "test": captures.test}
    digests = {
        name: build_image_set_record(split, compute_image_digests(split)).digest
        for name, split in unlabelled.items()
    }
    return digests | {n: compute_dataset_digest(s) for n, s in labelled.items() if s is not None}


def _check_budget(budget: dict[str, Any], path: Path) -> None:
    """Refuse to resume a study with another budget or other real images."""
    try:
        old_budget: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise OutputError(
            path, f"no ablation study to resume ({error}). Add --overwrite to start over."
        ) from error
    for key, value in budget.items():
        if old_budget.get(key) == value:
            continue
        problem = f"{key} was {old_budget.get(key)}, not {value}"
        if key == "captures":
            old_digests = old_budget.get(key, {})
            changed = (n for n in (*value, *old_digests) if old_digests.get(n) != value.get(n))
            problem = f"the real images changed (split {next(changed)})"
        raise OutputError(path, f"{problem}. Add --overwrite to start over.")


def _render(plan: AblationPlan, recipe: str, root: Path, workers: int) -> None:
    generate(
        load_recipe(recipe), root, count=plan.image_count, seed=plan.data_seed, workers=workers,
        resume=True, overwrite=False,
    )  # fmt: skip


def _choose_best_transfer(
    plan: AblationPlan, captures: RealImageSplits, work_dir: Path
) -> TransferSelection:
    return select_best_transfer(
        work_dir / CHOICE_FILE,
        work_dir / _TRANSFERS_FOLDER,
        read_dataset(work_dir / RANDOMIZED),
        captures,
        certification=Certification(load_recipe(plan.recipe).adapt.certificate),
        seed=plan.data_seed,
    )


def _translate(
    plan: AblationPlan,
    name: str,
    captures: RealImageSplits,
    work_dir: Path,
    workers: int,
    device: str,
) -> int:
    """Translate renders and return the number of training images.

    All translations of a published translator are training images; of other methods, the accepted
    ones.
    """
    run_dir = work_dir / _TRANSFERS_FOLDER / name
    sim = read_dataset(work_dir / _get_source_renders(name))
    options = load_recipe(plan.recipe).adapt
    certification = Certification(options.certificate)
    training = _select_training(name, options)
    if training is not None:
        train_network(
            sim, captures.style, training, run_dir, certification=certification,
            resume=True, device=device,
        )  # fmt: skip
    elif not run_dir.is_dir():
        fit_parameter_free_transfer(
            captures.style, cast(ParameterFreeMethod, name), run_dir, overwrite=False
        )
    certificate = apply_transfer(
        run_dir, sim, work_dir / name, certification=certification, seed=plan.data_seed,
        workers=workers, device=device, resume=True, overwrite=False,
    )  # fmt: skip
    return len(certificate.images) if is_published(name) else certificate.accepted_count


def _select_training(name: str, options: AdaptOptions) -> TranslationConfig | None:
    """Return the training settings of a translation network; None without training."""
    method, _, steps = name.partition("-")
    if method in PUBLISHED:
        reference = options.reference
        config = replace(reference, steps=int(steps)) if steps else reference
        return cast(ReferenceMethod, method), config
    translator = options.translator
    if name == RETRANSLATED:
        return replace(translator, seed=translator.seed + 1)
    return translator if name in (TRANSLATED, CAMERA_TRANSLATED) else None


def _tune_detector(detector: AnyDetector, job: TrainingJob) -> AnyDetector:
    """Tune a detector on held-out development images, if there are any."""
    dev = _select_held_out(job)
    return tune_detector(detector, dev) if dev is not None else detector


def _select_held_out(job: TrainingJob) -> Dataset | None:
    """Return the development images that a variant does not train on; None without objects."""
    dev = job.captures.dev
    if dev is None:
        return None
    photos = [_load_dataset(n, job) for n in job.variant.all_data if n.startswith(REAL)]
    trained = {images.compute_digest(sample.rgb) for part in photos for sample in part.samples}
    held_out = dev.select_by_name(
        [s.name for s in dev.samples if images.compute_digest(s.rgb) not in trained]
    )
    return held_out if any(sample.objects for sample in held_out.samples) else None


def _calibrate_confidence(detector: AnyDetector, job: TrainingJob) -> AnyDetector:
    """Calibrate confidences on development images, or else on renders, which overestimate them."""
    if job.captures.dev is not None:
        return calibrate_detector(detector, job.captures.dev, "validation images")
    renders = _load_dataset(job.variant.data[0], job).take(CALIBRATION_RENDERS)
    return calibrate_detector(detector, renders, "held-out images")


def _resolve_folder(name: str, job: TrainingJob) -> str:
    """Return the folder name of a dataset."""
    choice_path = job.work_dir / CHOICE_FILE
    return str(read_transfer_choice(choice_path).method) if name == BEST_TRANSFER else name


def _load_datasets(
    names: tuple[str, ...], job: TrainingJob, detector: AnyDetector | None = None
) -> WeightedDatasets:
    return tuple((_load_dataset(name, job, detector), 1.0) for name in names)


def _load_dataset(name: str, job: TrainingJob, detector: AnyDetector | None = None) -> Dataset:
    """Load a dataset by name; a detector is needed for ``PSEUDO_LABELLED``."""
    if name == PSEUDO_LABELLED:
        assert detector is not None  # only fine-tuning uses it
        return pseudo_label(
            _calibrate_confidence(_tune_detector(detector, job), job), job.captures.style
        )
    if is_render_subset(name):
        renders = read_dataset(job.work_dir / RANDOMIZED)
        return select_images(renders, int(name.removeprefix(f"{RANDOMIZED}-")), job.seed)
    if not name.startswith(REAL):
        folder = job.work_dir / _resolve_folder(name, job)
        return read_dataset(folder, with_rejected=is_published(name))
    train = job.captures.train
    assert train is not None  # list_variants skips the variant otherwise
    if name == REAL:
        return train
    return select_images(train, job.variant.count_photos(len(train.samples)), job.seed)


def _serialize_detection(detection: Detection) -> list[Any]:
    box = [round(side, 2) for side in detection.box_xyxy]
    return [detection.category, *box, round(detection.score, 4)]
