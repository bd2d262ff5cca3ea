"""The ladder: equal trainings on ever more of the pipeline, scored on the same real captures.

Every arm trains the same detector for the same number of steps; only the data and what is done with them
differ. Pieces are (arm, seed) pairs: each leaves one file of predictions, from which all scores are computed, so that
a ladder can be run in pieces and on several machines.
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
    fit_plain_transfer,
    read_certificate,
    train_network,
)

REAL = "real"  # the labelled captures, among the names of data sets; ``real-25``: so many of them
TRANSLATED = "translated"  # by the default network; others have the names of their methods:
# ``cyclegan`` as the recipe has it, ``cyclegan-500`` trained for so many steps
RETRANSLATED = "translated-1"  # by the default network, trained with the next seed
PUBLISHED = get_args(ReferenceMethod)
BEST_TRANSFER = (
    "best-transfer"  # by the plain transfer that comes nearest, whose pictures these are
)
FIXED = "fixed"  # renders without randomization
RANDOMIZED = "randomized"
PSEUDO_LABELLED = "pseudo-labelled"  # the style photos, labelled by what an arm learned until then
CAMERA = "camera"  # the same with cameras drawn around the one that took the style photos
CAMERA_TRANSLATED = "camera-translated"  # these by the default network, which learned from them
PREDICTIONS_FOLDER = "predictions"  # folder of a run's results
_PREDICTIONS_SUFFIX = ".json.gz"
RESULT_FILE, PAGE_FILE = "ablation.json", "ablation.html"
CHOICE_FILE = "best-transfer.json"  # which one that is, and why

FINE_TUNING_SHARE = 0.25
"""Of the steps of an arm that is fine-tuned: those that fine-tune it."""

MAX_DETECTIONS = 100
"""Detections of a picture that predictions hold, the surest: as many as COCO counts."""

CALIBRATION_RENDERS = 100
"""Renders that tell how sure an arm is, where there are no development photos."""

_PLAN_FILE = "plan.json"
_RUNS_FOLDER, _TRANSFERS_FOLDER, _CAMERA_FIT_FOLDER = "runs", "transfers", "camera-fit"
_TRANSLATIONS = {TRANSLATED, RETRANSLATED, CAMERA_TRANSLATED, *TRANSFER_TYPES, *PUBLISHED}
_OUTPUT_NAMES = {
    FIXED, RANDOMIZED, CAMERA, *_TRANSLATIONS, _RUNS_FOLDER, _TRANSFERS_FOLDER, _CAMERA_FIT_FOLDER, PREDICTIONS_FOLDER, _PLAN_FILE,
    RESULT_FILE, PAGE_FILE, CHOICE_FILE,
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One rung.

    Attributes:
        name: as tables show it.
        data: names of the data sets of its training, all with the same weight.
        fine_tuning_data: names of those that its last steps fine-tune it on; empty where none do. ``PSEUDO_LABELLED`` may
            be among them.
        alignment: how it is brought to the style photos; None where it is not.
    """

    name: str
    data: tuple[str, ...]
    fine_tuning_data: tuple[str, ...] = ()
    alignment: AdaptationMethod | None = None

    @property
    def all_data(self) -> tuple[str, ...]:
        """Names of all data sets that are trained on."""
        return (*self.data, *self.fine_tuning_data)

    def count_photos(self, total: int) -> int:
        """Return how many labelled captures are trained on; 0 for none."""
        counts = [name.partition("-")[2] for name in self.all_data if name.startswith(REAL)]
        return int(counts[0] or total) if counts else 0


@dataclass(frozen=True)
class AblationPlan:
    """What is equal for all arms.

    Attributes:
        variants: the rungs.
        seeds: of the trainings.
        config: of every training, but for its seed.
        image_count: size of each rendered data set.
        data_seed: of rendering and translating.
        recipe: name or path of the one that is rendered; its [adapt] configures translations.
        fixed_recipe: of the one without randomization; None without it.
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
    """One training to be done; where its data lie and where its predictions go."""

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
        """The name of its training and of its predictions."""
        return self.result_path.name.removesuffix(_PREDICTIONS_SUFFIX)


def open_ablation(
    plan: AblationPlan, captures: RealImageSplits, root: Path, *, resume: bool, overwrite: bool
) -> None:
    """Prepare the folder of a ladder; arms and seeds may be added to one that is resumed.

    Raises:
        InputError: a capture cannot be read.
        OutputError: it is not empty, holds something else, or a ladder with another budget or of
            other captures.
    """
    facts = {k: v for k, v in asdict(plan).items() if k not in ("variants", "seeds")}
    facts |= {"config": plan.config.to_json(), "captures": _digest_captures(captures)}
    budget = json.loads(json.dumps(facts))
    is_new = overwrite or not root.is_dir() or is_empty(root)
    prepare_folder(root, _OUTPUT_NAMES, "a ladder", resume=resume, overwrite=overwrite)
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
    """Make, or completes, the data sets of all arms below ``work_dir``; returns why some stayed empty.

    Args:
        plan: the ladder.
        captures: the splits.
        work_dir: folder of data sets and trainings.
        workers: pictures side by side.
        device: where translators are trained and run.

    Raises:
        Sim2CamError: a data set cannot be made.
    """
    names = {name for arm in plan.variants for name in arm.data}
    methods = {name: name for name in filter(_is_translation, names)}
    for name in methods:  # before anything is rendered for it
        check_optional_dependencies(_select_training(name, load_recipe(plan.recipe).adapt), device)
    renders = set(map(_get_source_renders, names))
    if FIXED in renders and plan.fixed_recipe is not None:
        _render(plan, plan.fixed_recipe, work_dir / FIXED, workers)
    if RANDOMIZED in renders:
        _render(plan, plan.recipe, work_dir / RANDOMIZED, workers)
    if CAMERA in renders:
        around = write_camera_recipe(
            plan.recipe, captures.style, work_dir / _CAMERA_FIT_FOLDER, plan.data_seed
        )
        _render(plan, around, work_dir / CAMERA, workers)
    lacks = {}
    if BEST_TRANSFER in names:
        choice = _choose_best_transfer(plan, captures, work_dir)
        if choice.method is None:
            lacks[BEST_TRANSFER] = choice.describe()
        else:
            methods[BEST_TRANSFER] = choice.method
    kept = {
        method: _translate(plan, method, captures, work_dir, workers, device)
        for method in sorted(set(methods.values()))
    }
    return lacks | {
        name: f"the certificate rejected all {plan.image_count} translations"
        for name, method in methods.items()
        if not kept[method]
    }


def run_job(job: TrainingJob) -> Path:
    """Train one arm with one seed and writes its predictions on the test split.

    Every arm is tuned on what of the development split it does not train on.

    Raises:
        Sim2CamError: the training failed.
    """
    use_threads(job.threads)
    detector = _tune_detector(_train_job(job), job)
    found = detect_dataset(detector, job.captures.test)
    before = detector.card.initial_weights.data if detector.card.initial_weights else ()
    facts = {
        "variant": job.variant.name,
        "seed": job.seed,
        "config": job.config.to_json(),
        "data": [asdict(record) for record in (*before, *detector.card.data)],
        "rejected": _count_rejected(job),
        "input_scale": detector.card.input_scale,
        "box_expansion": detector.card.box_expansion,
        DIGESTS: compute_file_digests(job.captures.test),
        LABEL_MAPPING: label_mapping_to_json(job.captures.label_mapping),
        DETECTION_ROWS: {
            image: [_serialize_detection(d) for d in each[:MAX_DETECTIONS]]
            for image, each in found.items()
        },
    }
    write_json(job.result_path, facts, indented=False)
    return job.result_path


def _is_translation(name: str) -> bool:
    return name in _TRANSLATIONS or is_published(name)


def is_published(name: str) -> bool:
    """Return whether translations are those of a published translator, which nothing keeps any out of."""
    return name.partition("-")[0] in PUBLISHED


def _get_source_renders(name: str) -> str:
    """Return the name of the renders that a data set is made of, which may be its own."""
    if name == CAMERA_TRANSLATED:
        return CAMERA
    return RANDOMIZED if name == BEST_TRANSFER or _is_translation(name) else name


def _count_rejected(job: TrainingJob) -> dict[str, int]:
    """Return how many pictures of each translated data set the certificate rejected."""
    names = [_resolve_folder(name, job) for name in job.variant.data]
    return {
        name: len(read_certificate(job.work_dir / name).rejected_images)
        for name in filter(_is_translation, names)
    }


def _train_job(job: TrainingJob) -> AnyDetector:
    """Return the detector of a piece; all arms have the same number of steps."""
    arm, run = job.variant, job.work_dir / _RUNS_FOLDER / job.name
    adapt = None if arm.alignment is None else AdaptationConfig(arm.alignment)
    whole = replace(job.config, seed=job.seed, fine_tuning=None, adapt=adapt)
    later = max(1, round(FINE_TUNING_SHARE * whole.steps)) if arm.fine_tuning_data else 0
    parts, config = _load_datasets(arm.data, job), replace(whole, steps=max(1, whole.steps - later))
    if arm.fine_tuning_data and PSEUDO_LABELLED not in arm.fine_tuning_data:
        make_training_setup(
            _load_datasets(arm.fine_tuning_data, job), whole, NO_AUXILIARY_DATA
        )  # what cannot be learned is refused before
    aids = NO_AUXILIARY_DATA if adapt is None else AuxiliaryData(target_images=job.captures.style)
    detector = train_detector(
        parts, config, run, auxiliary_data=aids, resume=True, device=job.device
    )
    if not arm.fine_tuning_data:
        return detector
    config = replace(whole, steps=later, fine_tuning=job.config.fine_tuning)
    return train_detector(
        tuple((_load_dataset(name, job, detector), 1.0) for name in arm.fine_tuning_data),
        config,
        run.with_name(f"{run.name}-tuned"),
        auxiliary_data=AuxiliaryData(initial_weights=run / WEIGHTS),
        resume=True,
        device=job.device,
    )


def list_pending_jobs(
    plan: AblationPlan,
    captures: RealImageSplits,
    work_dir: Path,
    results_dir: Path,
    *,
    threads: int,
    device: str = "cpu",
) -> list[TrainingJob]:
    """Return the pieces that have no predictions yet, all arms of one seed before the next."""
    planned = [
        TrainingJob(
            arm,
            seed,
            plan.config,
            work_dir,
            captures,
            locate_result(results_dir, arm, seed),
            threads,
            device,
        )
        for seed in plan.seeds
        for arm in plan.variants
    ]
    return [piece for piece in planned if not piece.result_path.is_file()]


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
    """Yield the predictions of each piece that was missing, as it is done.

    Args:
        plan: the ladder, whose data sets are there.
        captures: the splits.
        work_dir: folder of data sets and trainings.
        results_dir: folder of the predictions.
        workers: trainings side by side, one thread each.
        minutes: after which no training is started.
        device: of all of them.
        on_failure: is told of an arm that the settings or the data do not allow, of which no other piece is
            run; without it, that ends all.

    Raises:
        Sim2CamError: a training failed.
    """
    start, left = time.monotonic(), plan
    while time.monotonic() - start < 60 * minutes:
        missing = list_pending_jobs(left, captures, work_dir, results_dir, threads=1, device=device)
        if not missing:
            break
        for piece, error in map_units(_try_job, missing[:workers], workers):
            if error is None:
                yield piece.result_path
                continue
            if on_failure is None:
                raise error
            on_failure(piece.variant, error)
            left = replace(
                left, variants=tuple(arm for arm in left.variants if arm != piece.variant)
            )


def _try_job(job: TrainingJob) -> tuple[TrainingJob, Sim2CamError | None]:
    """Run a piece; returns it with why it cannot be run, if it cannot."""
    try:
        run_job(job)
    except OutputError:  # which is of the disk, not of the arm
        raise
    except (UsageError, InputError) as error:
        return job, error
    return job, None


def select_photos(photos: Dataset, count: int, seed: int) -> Dataset:
    """Return ``count`` of the photos, chosen by the hashes of seed and bytes; more hold all of fewer.

    Raises:
        InputError: a photo cannot be read.
    """
    keys = {
        sample.name: hashlib.sha256(f"{seed} {images.compute_digest(sample.rgb)}".encode()).digest()
        for sample in photos.samples
    }
    return photos.select_by_name(sorted(keys, key=lambda name: (keys[name], name))[:count])


def locate_result(results_dir: Path, variant: Variant, seed: int) -> Path:
    """Return where the predictions of a piece are."""
    slug = "-".join("".join(c if c.isalnum() else " " for c in variant.name).split()).lower()
    return results_dir / f"{slug}-{seed}{_PREDICTIONS_SUFFIX}"


def read_job_result(
    path: Path, variant: Variant, plan: AblationPlan, test: Dataset
) -> dict[str, Any] | None:
    """Return the predictions of a piece of this very plan; None before it was run.

    Args:
        path: the file.
        variant: whose predictions they are.
        plan: of the ladder.
        test: the pictures that they are of.

    Raises:
        InputError: they come from another budget or other data, are of other pictures, or are damaged.
    """
    if not path.is_file():
        return None
    try:
        facts: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(path, f"is damaged ({error}). Remove it to run it again.") from error
    wanted = {"variant": variant.name, "config": json.loads(json.dumps(plan.config.to_json()))}
    before = json.loads(json.dumps(TrainConfig().to_json()))  # of settings that came later
    found = facts | {"config": before | facts.get("config", {})}
    for key, value in wanted.items():
        if found.get(key) != value:
            raise InputError(
                path, f"{key} is {found.get(key)}, not {value}. Remove it to run it again."
            )
    if DIGESTS in facts:  # files of before have none
        check_digests(path, facts[DIGESTS], test)
    return facts


def _digest_captures(captures: RealImageSplits) -> dict[str, str]:
    """Return a digest of each split; of those whose labels no training reads, over the pictures alone."""
    labelled = {"dev": captures.dev, "train": captures.train}
    pictures = {"style": captures.style, "test": captures.test}
    return {
        **{
            name: build_image_set_record(part, compute_image_digests(part)).digest
            for name, part in pictures.items()
        },
        **{
            name: compute_dataset_digest(part)
            for name, part in labelled.items()
            if part is not None
        },
    }


def _check_budget(budget: dict[str, Any], path: Path) -> None:
    """Refuse to go on with a ladder that is not held equal to this one."""
    try:
        before: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise OutputError(path, f"no ladder to go on with ({error}). Add --overwrite.") from error
    for key, value in budget.items():
        if before.get(key) == value:
            continue
        problem = f"{key} was {before.get(key)}, not {value}"
        if key == "captures":
            known = before.get(key, {})
            changed = [name for name in (*value, *known) if known.get(name) != value.get(name)]
            problem = f"the captures changed since (part {changed[0]})"
        raise OutputError(path, f"{problem}. Add --overwrite to start anew.")


def _render(plan: AblationPlan, recipe: str, root: Path, workers: int) -> None:
    generate(
        load_recipe(recipe),
        root,
        count=plan.image_count,
        seed=plan.data_seed,
        workers=workers,
        resume=True,
        overwrite=False,
        progress=lambda _done, _total: None,
    )


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
    """Return how many translations are learned from: all of a published translator, of others what the
    certificate kept.
    """
    run, sim = (
        work_dir / _TRANSFERS_FOLDER / name,
        read_dataset(work_dir / _get_source_renders(name)),
    )
    options = load_recipe(plan.recipe).adapt
    certification = Certification(options.certificate)
    training = _select_training(name, options)
    if training is not None:
        train_network(
            sim, captures.style, training, run, certification=certification,
            resume=True, device=device, progress=None,
        )  # fmt: skip
    elif not run.is_dir():
        fit_plain_transfer(captures.style, cast(ParameterFreeMethod, name), run, overwrite=False)
    certificate = apply_transfer(
        run,
        sim,
        work_dir / name,
        certification=certification,
        seed=plan.data_seed,
        workers=workers,
        device=device,
        resume=True,
        overwrite=False,
        progress=lambda _done, _total: None,
    )
    return len(certificate.images) if is_published(name) else certificate.accepted_count


def _select_training(name: str, options: AdaptOptions) -> TranslationConfig | None:
    """Return the training of the network that makes a translation; None where it has none."""
    method, _, steps = name.partition("-")
    if method in PUBLISHED:
        reference = options.reference
        config = replace(reference, steps=int(steps)) if steps else reference
        return cast(ReferenceMethod, method), config
    translator = options.translator
    trainings = {
        TRANSLATED: translator,
        CAMERA_TRANSLATED: translator,
        RETRANSLATED: replace(translator, seed=translator.seed + 1),
    }
    return trainings.get(name)


def _tune_detector(detector: AnyDetector, job: TrainingJob) -> AnyDetector:
    """Return a detector tuned on what of the development split its arm does not train on, where that is any."""
    dev = _select_held_out(job)
    return tune_detector(detector, dev) if dev is not None else detector


def _select_held_out(job: TrainingJob) -> Dataset | None:
    """Return the development photos that an arm does not train on; None where these show nothing."""
    dev = job.captures.dev
    if dev is None:
        return None
    photos = [_load_dataset(n, job) for n in job.variant.all_data if n.startswith(REAL)]
    learned = {images.compute_digest(sample.rgb) for part in photos for sample in part.samples}
    unseen = dev.select_by_name(
        [s.name for s in dev.samples if images.compute_digest(s.rgb) not in learned]
    )
    return unseen if any(sample.objects for sample in unseen.samples) else None


def _calibrate_confidence(detector: AnyDetector, job: TrainingJob) -> AnyDetector:
    """Return a detector whose confidences the development split told; or where there is none, renders
    that it knows, which make it too sure.
    """
    if job.captures.dev is not None:
        return calibrate_detector(detector, job.captures.dev, "validation images")
    renders = _load_dataset(job.variant.data[0], job).take(CALIBRATION_RENDERS)
    return calibrate_detector(detector, renders, "held-out images")


def _resolve_folder(name: str, job: TrainingJob) -> str:
    """Return the name of the folder of a data set."""
    return (
        str(read_transfer_choice(job.work_dir / CHOICE_FILE).method)
        if name == BEST_TRANSFER
        else name
    )


def _load_datasets(names: tuple[str, ...], job: TrainingJob) -> WeightedDatasets:
    return tuple((_load_dataset(name, job), 1.0) for name in names)


def _load_dataset(name: str, job: TrainingJob, detector: AnyDetector | None = None) -> Dataset:
    """Return a data set by its name; ``PSEUDO_LABELLED`` by a detector."""
    if name == PSEUDO_LABELLED:
        assert detector is not None  # nothing begins with it
        return pseudo_label(
            _calibrate_confidence(_tune_detector(detector, job), job), job.captures.style
        )
    if not name.startswith(REAL):
        folder = job.work_dir / _resolve_folder(name, job)
        return read_dataset(folder, with_rejected=is_published(name))
    train = job.captures.train
    assert train is not None  # arms are planned for captures that have them
    if name == REAL:
        return train
    return select_photos(train, job.variant.count_photos(len(train.samples)), job.seed)


def _serialize_detection(detection: Detection) -> list[Any]:
    box = [round(side, 2) for side in detection.box_xyxy]
    return [detection.category, *box, round(detection.score, 4)]
