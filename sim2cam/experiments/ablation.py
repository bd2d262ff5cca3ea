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
from sim2cam.adapt.card import digests_of, images_record
from sim2cam.adapt.reference.config import ReferenceMethod
from sim2cam.adapt.store import METHODS, PlainMethod
from sim2cam.adapt.transfers.selection import Choice
from sim2cam.data.formats.predictions import (
    DIGESTS,
    MATCHING,
    ROWS,
    check_digests,
    file_digests,
    matching_to_json,
)
from sim2cam.data.reader import read_dataset
from sim2cam.data.real_images import CaptureSets
from sim2cam.data.sample import Dataset
from sim2cam.data.writer import write_json
from sim2cam.engines.process_pool import map_units
from sim2cam.errors import InputError, OutputError, Sim2CamError, UsageError
from sim2cam.experiments.best_transfer import best_transfer, read_choice
from sim2cam.files import is_empty, prepare_folder
from sim2cam.learn.device import use_threads
from sim2cam.metrics.detection import Detection
from sim2cam.models.inference.detector import AnyDetector, predict_dataset
from sim2cam.models.reliability.measurement import with_trust
from sim2cam.models.training.config import Adaptation, Alignment, TrainConfig
from sim2cam.models.training.datasets import Parts, labelled_digest
from sim2cam.models.training.pseudo_labels import labelled
from sim2cam.models.training.setup import UNAIDED, Aids, lesson_of
from sim2cam.models.training.training import WEIGHTS, train_detector
from sim2cam.models.training.tuning import tuned
from sim2cam.pipeline.camera_recipes import recipe_around
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import AdaptOptions, load_recipe
from sim2cam.pipeline.translation import (
    Certification,
    Training,
    apply_transfer,
    check_extras,
    fit_plain_transfer,
    read_certificate,
    train_network,
)

REAL = "real"  # the labelled captures, among the names of data sets; ``real-25``: so many of them
TRANSLATED = "translated"  # by the default network; others have the names of their methods:
# ``cyclegan`` as the recipe has it, ``cyclegan-500`` trained for so many steps
RETRANSLATED = "translated-1"  # by the default network, trained with the next seed
PUBLISHED = get_args(ReferenceMethod)
BEST = "best-transfer"  # by the plain transfer that comes nearest, whose pictures these are
FIXED = "fixed"  # renders without randomization
RANDOMIZED = "randomized"
LABELLED = "self-labelled"  # the style photos, labelled by what an arm learned until then
CAMERA = "camera"  # the same with cameras drawn around the one that took the style photos
CAMERA_TRANSLATED = "camera-translated"  # these by the default network, which learned from them
PREDICTIONS = "predictions"  # folder of a run's results
_PREDICTIONS_SUFFIX = ".json.gz"
RESULT, PAGE = "ladder.json", "ladder.html"
CHOICE = "best-transfer.json"  # which one that is, and why

TUNING_SHARE = 0.25
"""Of the steps of an arm that is fine-tuned: those that fine-tune it."""

MOST_FOUND = 100
"""Detections of a picture that predictions hold, the surest: as many as COCO counts."""

CALIBRATING = 100
"""Renders that tell how sure an arm is, where there are no development photos."""

_PLAN = "plan.json"
_RUNS, _TRANSFERS, _CAMERA_FIT = "runs", "transfers", "camera-fit"
_TRANSLATIONS = {TRANSLATED, RETRANSLATED, CAMERA_TRANSLATED, *METHODS, *PUBLISHED}
_PARTS = {
    FIXED, RANDOMIZED, CAMERA, *_TRANSLATIONS, _RUNS, _TRANSFERS, _CAMERA_FIT, PREDICTIONS, _PLAN,
    RESULT, PAGE, CHOICE,
}  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """One rung.

    Attributes:
        name: as tables show it.
        data: names of the data sets of its training, all with the same weight.
        then: names of those that its last steps fine-tune it on; empty where none do. ``LABELLED`` may
            be among them.
        adapt: how it is brought to the style photos; None where it is not.
    """

    name: str
    data: tuple[str, ...]
    then: tuple[str, ...] = ()
    adapt: Alignment | None = None

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of all data sets that are trained on."""
        return (*self.data, *self.then)

    def photos(self, all_of_them: int) -> int:
        """Returns how many labelled captures are trained on; 0 for none."""
        counts = [name.partition("-")[2] for name in self.learned if name.startswith(REAL)]
        return int(counts[0] or all_of_them) if counts else 0


@dataclass(frozen=True)
class Plan:
    """What is equal for all arms.

    Attributes:
        arms: the rungs.
        seeds: of the trainings.
        config: of every training, but for its seed.
        pictures: size of each rendered data set.
        data_seed: of rendering and translating.
        recipe: name or path of the one that is rendered; its [adapt] configures translations.
        fixed: of the one without randomization; None without it.
    """

    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    config: TrainConfig
    pictures: int
    data_seed: int
    recipe: str
    fixed: str | None


@dataclass(frozen=True)
class Piece:
    """One training to be done; where its data lie and where its predictions go."""

    arm: Arm
    seed: int
    config: TrainConfig
    work: Path
    captures: CaptureSets
    result: Path
    threads: int
    device: str

    @property
    def name(self) -> str:
        """The name of its training and of its predictions."""
        return self.result.name.removesuffix(_PREDICTIONS_SUFFIX)


def open_ladder(
    plan: Plan, captures: CaptureSets, root: Path, *, resume: bool, overwrite: bool
) -> None:
    """Prepares the folder of a ladder; arms and seeds may be added to one that is resumed.

    Raises:
        InputError: a capture cannot be read.
        OutputError: it is not empty, holds something else, or a ladder with another budget or of
            other captures.
    """
    facts = {k: v for k, v in asdict(plan).items() if k not in ("arms", "seeds")}
    facts |= {"config": plan.config.to_json(), "captures": _capture_digests(captures)}
    budget = json.loads(json.dumps(facts))
    is_new = overwrite or not root.is_dir() or is_empty(root)
    prepare_folder(root, _PARTS, "a ladder", resume=resume, overwrite=overwrite)
    if not is_new:
        _check_same(budget, root / _PLAN)
    write_json(root / _PLAN, budget)


def prepare_data(
    plan: Plan, captures: CaptureSets, work: Path, *, workers: int, device: str = "cpu"
) -> dict[str, str]:
    """Makes, or completes, the data sets of all arms below ``work``; returns why some stayed empty.

    Args:
        plan: the ladder.
        captures: the splits.
        work: folder of data sets and trainings.
        workers: pictures side by side.
        device: where translators are trained and run.

    Raises:
        Sim2CamError: a data set cannot be made.
    """
    names = {name for arm in plan.arms for name in arm.data}
    methods = {name: name for name in filter(_is_translation, names)}
    for name in methods:  # before anything is rendered for it
        check_extras(_network(name, load_recipe(plan.recipe).adapt), device)
    renders = set(map(_renders_of, names))
    if FIXED in renders and plan.fixed is not None:
        _render(plan, plan.fixed, work / FIXED, workers)
    if RANDOMIZED in renders:
        _render(plan, plan.recipe, work / RANDOMIZED, workers)
    if CAMERA in renders:
        around = recipe_around(plan.recipe, captures.style, work / _CAMERA_FIT, plan.data_seed)
        _render(plan, around, work / CAMERA, workers)
    lacks = {}
    if BEST in names:
        choice = _best(plan, captures, work)
        if choice.method is None:
            lacks[BEST] = choice.words()
        else:
            methods[BEST] = choice.method
    kept = {
        method: _translate(plan, method, captures, work, workers, device)
        for method in sorted(set(methods.values()))
    }
    return lacks | {
        name: f"the certificate rejected all {plan.pictures} translations"
        for name, method in methods.items()
        if not kept[method]
    }


def run_piece(piece: Piece) -> Path:
    """Trains one arm with one seed and writes its predictions on the test split.

    Every arm is tuned on what of the development split it does not train on.

    Raises:
        Sim2CamError: the training failed.
    """
    use_threads(piece.threads)
    detector = _tuned(_trained(piece), piece)
    found = predict_dataset(detector, piece.captures.test)
    before = detector.card.start.data if detector.card.start else ()
    facts = {
        "arm": piece.arm.name,
        "seed": piece.seed,
        "config": piece.config.to_json(),
        "data": [asdict(record) for record in (*before, *detector.card.data)],
        "rejected": _rejected(piece),
        "magnification": detector.card.magnification,
        "box_margin": detector.card.box_margin,
        DIGESTS: file_digests(piece.captures.test),
        MATCHING: matching_to_json(piece.captures.matching),
        ROWS: {image: [_short(d) for d in each[:MOST_FOUND]] for image, each in found.items()},
    }
    write_json(piece.result, facts, in_lines=False)
    return piece.result


def _is_translation(name: str) -> bool:
    return name in _TRANSLATIONS or is_published(name)


def is_published(name: str) -> bool:
    """Returns whether translations are those of a published translator, which nothing keeps any out of."""
    return name.partition("-")[0] in PUBLISHED


def _renders_of(name: str) -> str:
    """Returns the name of the renders that a data set is made of, which may be its own."""
    if name == CAMERA_TRANSLATED:
        return CAMERA
    return RANDOMIZED if name == BEST or _is_translation(name) else name


def _rejected(piece: Piece) -> dict[str, int]:
    """Returns how many pictures of each translated data set the certificate rejected."""
    names = [_folder(name, piece) for name in piece.arm.data]
    return {
        name: len(read_certificate(piece.work / name).rejected)
        for name in filter(_is_translation, names)
    }


def _trained(piece: Piece) -> AnyDetector:
    """Returns the detector of a piece; all arms have the same number of steps."""
    arm, run = piece.arm, piece.work / _RUNS / piece.name
    adapt = None if arm.adapt is None else Adaptation(arm.adapt)
    whole = replace(piece.config, seed=piece.seed, fine_tuning=None, adapt=adapt)
    later = max(1, round(TUNING_SHARE * whole.steps)) if arm.then else 0
    parts, config = _parts(arm.data, piece), replace(whole, steps=max(1, whole.steps - later))
    if arm.then and LABELLED not in arm.then:
        lesson_of(
            _parts(arm.then, piece), whole, UNAIDED
        )  # what cannot be learned is refused before
    aids = UNAIDED if adapt is None else Aids(captures=piece.captures.style)
    detector = train_detector(parts, config, run, aids=aids, resume=True, device=piece.device)
    if not arm.then:
        return detector
    config = replace(whole, steps=later, fine_tuning=piece.config.fine_tuning)
    return train_detector(
        tuple((_data(name, piece, detector), 1.0) for name in arm.then),
        config,
        run.with_name(f"{run.name}-tuned"),
        aids=Aids(start=run / WEIGHTS),
        resume=True,
        device=piece.device,
    )


def pieces(
    plan: Plan,
    captures: CaptureSets,
    work: Path,
    results: Path,
    *,
    threads: int,
    device: str = "cpu",
) -> list[Piece]:
    """Returns the pieces that have no predictions yet, all arms of one seed before the next."""
    planned = [
        Piece(
            arm,
            seed,
            plan.config,
            work,
            captures,
            result_file(results, arm, seed),
            threads,
            device,
        )
        for seed in plan.seeds
        for arm in plan.arms
    ]
    return [piece for piece in planned if not piece.result.is_file()]


def run_pieces(
    plan: Plan,
    captures: CaptureSets,
    work: Path,
    results: Path,
    *,
    workers: int,
    minutes: float,
    device: str = "cpu",
    refused: Callable[[Arm, Sim2CamError], None] | None = None,
) -> Iterator[Path]:
    """Yields the predictions of each piece that was missing, as it is done.

    Args:
        plan: the ladder, whose data sets are there.
        captures: the splits.
        work: folder of data sets and trainings.
        results: folder of the predictions.
        workers: trainings side by side, one thread each.
        minutes: after which no training is started.
        device: of all of them.
        refused: is told of an arm that the settings or the data do not allow, of which no other piece is
            run; without it, that ends all.

    Raises:
        Sim2CamError: a training failed.
    """
    start, left = time.monotonic(), plan
    while time.monotonic() - start < 60 * minutes:
        missing = pieces(left, captures, work, results, threads=1, device=device)
        if not missing:
            break
        for piece, error in map_units(_tried, missing[:workers], workers):
            if error is None:
                yield piece.result
                continue
            if refused is None:
                raise error
            refused(piece.arm, error)
            left = replace(left, arms=tuple(arm for arm in left.arms if arm != piece.arm))


def _tried(piece: Piece) -> tuple[Piece, Sim2CamError | None]:
    """Runs a piece; returns it with why it cannot be run, if it cannot."""
    try:
        run_piece(piece)
    except OutputError:  # which is of the disk, not of the arm
        raise
    except (UsageError, InputError) as error:
        return piece, error
    return piece, None


def photo_subset(photos: Dataset, count: int, seed: int) -> Dataset:
    """Returns ``count`` of the photos, chosen by the hashes of seed and bytes; more hold all of fewer.

    Raises:
        InputError: a photo cannot be read.
    """
    keys = {
        sample.name: hashlib.sha256(f"{seed} {images.digest_of(sample.rgb)}".encode()).digest()
        for sample in photos.samples
    }
    return photos.only(sorted(keys, key=lambda name: (keys[name], name))[:count])


def result_file(results: Path, arm: Arm, seed: int) -> Path:
    """Returns where the predictions of a piece are."""
    slug = "-".join("".join(c if c.isalnum() else " " for c in arm.name).split()).lower()
    return results / f"{slug}-{seed}{_PREDICTIONS_SUFFIX}"


def read_piece(path: Path, arm: Arm, plan: Plan, test: Dataset) -> dict[str, Any] | None:
    """Returns the predictions of a piece of this very plan; None before it was run.

    Args:
        path: the file.
        arm: whose predictions they are.
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
    wanted = {"arm": arm.name, "config": json.loads(json.dumps(plan.config.to_json()))}
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


def _capture_digests(captures: CaptureSets) -> dict[str, str]:
    """Returns a digest of each split; of those whose labels no training reads, over the pictures alone."""
    labelled = {"dev": captures.dev, "train": captures.train}
    pictures = {"style": captures.style, "test": captures.test}
    return {
        **{name: images_record(part, digests_of(part)).digest for name, part in pictures.items()},
        **{name: labelled_digest(part) for name, part in labelled.items() if part is not None},
    }


def _check_same(budget: dict[str, Any], path: Path) -> None:
    """Refuses to go on with a ladder that is not held equal to this one."""
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


def _render(plan: Plan, recipe: str, root: Path, workers: int) -> None:
    generate(
        load_recipe(recipe),
        root,
        count=plan.pictures,
        seed=plan.data_seed,
        workers=workers,
        resume=True,
        overwrite=False,
        progress=lambda _done, _total: None,
    )


def _best(plan: Plan, captures: CaptureSets, work: Path) -> Choice:
    return best_transfer(
        work / CHOICE,
        work / _TRANSFERS,
        read_dataset(work / RANDOMIZED),
        captures,
        certification=Certification(load_recipe(plan.recipe).adapt.certificate),
        seed=plan.data_seed,
    )


def _translate(
    plan: Plan, name: str, captures: CaptureSets, work: Path, workers: int, device: str
) -> int:
    """Returns how many translations are learned from: all of a published translator, of others what the
    certificate kept.
    """
    run, sim = work / _TRANSFERS / name, read_dataset(work / _renders_of(name))
    options = load_recipe(plan.recipe).adapt
    certification = Certification(options.certificate)
    training = _network(name, options)
    if training is not None:
        train_network(
            sim, captures.style, training, run, certification=certification,
            resume=True, device=device, progress=None,
        )  # fmt: skip
    elif not run.is_dir():
        fit_plain_transfer(captures.style, cast(PlainMethod, name), run, overwrite=False)
    certificate = apply_transfer(
        run,
        sim,
        work / name,
        certification=certification,
        seed=plan.data_seed,
        workers=workers,
        device=device,
        resume=True,
        overwrite=False,
        progress=lambda _done, _total: None,
    )
    return len(certificate.pictures) if is_published(name) else certificate.kept


def _network(name: str, options: AdaptOptions) -> Training | None:
    """Returns the training of the network that makes a translation; None where it has none."""
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


def _tuned(detector: AnyDetector, piece: Piece) -> AnyDetector:
    """Returns a detector tuned on what of the development split its arm does not train on, where that is any."""
    dev = _held_out(piece)
    return tuned(detector, dev) if dev is not None else detector


def _held_out(piece: Piece) -> Dataset | None:
    """Returns the development photos that an arm does not train on; None where these show nothing."""
    dev = piece.captures.dev
    if dev is None:
        return None
    photos = [_data(n, piece) for n in piece.arm.learned if n.startswith(REAL)]
    learned = {images.digest_of(sample.rgb) for part in photos for sample in part.samples}
    unseen = dev.only([s.name for s in dev.samples if images.digest_of(s.rgb) not in learned])
    return unseen if any(sample.objects for sample in unseen.samples) else None


def _calibrated(detector: AnyDetector, piece: Piece) -> AnyDetector:
    """Returns a detector whose confidences the development split told; or where there is none, renders
    that it knows, which make it too sure.
    """
    if piece.captures.dev is not None:
        return with_trust(detector, piece.captures.dev, "development captures")
    renders = _data(piece.arm.data[0], piece).take(CALIBRATING)
    return with_trust(detector, renders, "held-out pictures")


def _folder(name: str, piece: Piece) -> str:
    """Returns the name of the folder of a data set."""
    return str(read_choice(piece.work / CHOICE).method) if name == BEST else name


def _parts(names: tuple[str, ...], piece: Piece) -> Parts:
    return tuple((_data(name, piece), 1.0) for name in names)


def _data(name: str, piece: Piece, detector: AnyDetector | None = None) -> Dataset:
    """Returns a data set by its name; ``LABELLED`` by a detector."""
    if name == LABELLED:
        assert detector is not None  # nothing begins with it
        return labelled(_calibrated(_tuned(detector, piece), piece), piece.captures.style)
    if not name.startswith(REAL):
        folder = piece.work / _folder(name, piece)
        return read_dataset(folder, with_rejected=is_published(name))
    train = piece.captures.train
    assert train is not None  # arms are planned for captures that have them
    if name == REAL:
        return train
    return photo_subset(train, piece.arm.photos(len(train.samples)), piece.seed)


def _short(detection: Detection) -> list[Any]:
    box = [round(side, 2) for side in detection.box_xyxy]
    return [detection.category, *box, round(detection.score, 4)]
