"""The probe: it must tell translations that keep what objects look like from such that do not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open

from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.training.adversarial import LOG_INTERVAL_STEPS, read_metrics, train_adversarial
from sim2cam.adapt.training.candidates import CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import split_held_out
from sim2cam.adapt.training.linear_probe import (
    BACKGROUND,
    LinearProbe,
    check_probe_labels,
    classify_by_ridge,
    compute_balanced_accuracy,
    compute_labelled_digest,
    extract_crops,
)
from sim2cam.adapt.translation import Verification
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import CheckpointError, InputError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png, read_rgb
from sim2cam.learn.run_folder import CHECKPOINT

COLOURS = {"warm": (150, 100, 70), "cool": (70, 100, 150)}
LIGHT = 45  # that captures have more than renders


def pictures(root, count, seed, *, light, labelled=True):
    """Squares of two categories on textured ground, which differ in colour alone."""
    rng = np.random.default_rng(seed)
    samples = []
    for index in range(count):
        name = ("warm", "cool")[index % 2]
        ids = np.zeros((96, 104), np.uint16)
        x, y = (int(n) for n in rng.integers(8, 60, 2))
        ids[y : y + 28, x : x + 28] = 1
        coarse = np.kron(rng.normal(0, 10, (24, 26, 1)), np.ones((4, 4, 1)))
        rgb = np.where(ids[..., None] > 0, COLOURS[name], (90, 92, 88)) + coarse + light
        paths = root / f"rgb{index}.png", root / f"ids{index}.png"
        write_bytes(paths[0], encode_png(rgb.clip(0, 255).astype(np.uint8)))
        write_bytes(paths[1], encode_png(ids))
        label = ObjectLabel(name, (x, y, x + 28.0, y + 28.0), 784.0, instance_id=1)
        sample = Sample(f"{index}", paths[0], 104, 96, (label,) if labelled else None, "real")
        if not light:
            sample = replace(sample, origin="sim", channels={"ids": paths[1]}, scene_index=index,
                             digest=f"{index:064x}")  # fmt: skip
        samples.append(sample)
    return Dataset(root, tuple(COLOURS), tuple(samples))


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Renders, captures, and labelled captures."""
    roots = [tmp_path_factory.mktemp(name) for name in ("sim", "real", "dev")]
    return (
        pictures(roots[0], 40, 0, light=0),
        pictures(roots[1], 40, 1, light=LIGHT, labelled=False),
        pictures(roots[2], 12, 2, light=LIGHT),
    )


STEPS = 400


class Script:
    """A game that brings light to the renders; what it does with objects, the script says of each step."""

    chance_loss = ("discriminator", 2.0)

    def __init__(self, script):
        self.script, self.step = script, 0

    def train_step(self, step):
        self.step = step + 1
        return {"mean_change": torch.tensor(0.1), "discriminator": torch.tensor(1.2)}

    def get_state(self):
        return {}

    def load_state(self, groups):
        assert groups == {}

    def get_weights(self):
        return {"step": torch.tensor(float(self.step))}

    def build_transfer(self):
        return self

    def apply(self, frame, _rng):
        light, is_swapped = self.script[self.step]
        rgb = frame.rgb.astype(np.float64) + light
        if is_swapped:
            rgb = np.where(frame.ids[..., None] > 0, rgb[..., ::-1], rgb)
        return rgb.round().clip(0, 255).astype(np.uint8)

    def score_realness(self, rgb):
        return float(rgb.std())


SCRIPT = {100: (0, False), 200: (34, False), 300: (45, True), 400: (10, True)}
"""The third is the nearest and turns colours of objects round, the second next to it and does not."""

BLIND = CertificateLimits(rejected_fraction=1.0)  # which let all pass


@pytest.fixture(scope="module")
def parts(sides):
    return split_held_out(
        *sides[:2],
        steps=STEPS,
        pixels=65536,
        log_interval_steps=LOG_INTERVAL_STEPS,
        verifier_count=0,
    )


def played(run, parts, dev, *, resume=False, progress=None):
    return train_adversarial(
        Script(SCRIPT), {"game": 1}, {}, STEPS, run, CheckpointSelector(parts, Verification(BLIND, dev=dev), 0),
        hint="Do", resume=resume, progress=progress, checkpoint_s=1e9,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(sides, parts, tmp_path_factory):
    """The folder of a training that labels decide, and what came of it."""
    run = tmp_path_factory.mktemp("whole")
    return run, played(run, parts, sides[2])


def test_labels_decide_between_candidates_that_captures_do_not_tell_apart(sides, whole):
    run, ended = whole
    selection = ended.outcome.selection
    assert (selection.step, float(ended.weights["step"])) == (200, 200)
    near = [c.distance for c in selection.candidates]
    assert near[2] < near[1] < near[3] < near[0]
    probes = [c.probe_accuracy for c in selection.candidates]
    assert probes[1] == 1.0
    assert max(probes[2:]) < 0.5
    assert selection.reason == (
        "of 4 candidates, 4 kept to the limits; of these, 2 cannot be told from the nearest by the captures "
        "that were kept aside, and of them this one's translations teach most of the labelled captures "
        "(balanced accuracy 1.00)"
    )
    assert selection.dev is not None
    assert (selection.dev.name, selection.dev.images) == (sides[2].root.name, 12)
    assert {candidate.resampled for candidate in selection.candidates} == {()}
    told = {x.step: x.scalars.get("held_out_probe_accuracy") for x in read_metrics(run)}
    assert {step: told[step] for step in SCRIPT} == dict(zip(SCRIPT, probes, strict=True))


def test_without_labels_the_nearest_ships_as_before(parts, tmp_path):
    selection = played(tmp_path, parts, None).outcome.selection
    assert selection.step == 300
    assert selection.reason.endswith("this one is the nearest to the captures that were kept aside")
    assert selection.dev is None
    assert {candidate.probe_accuracy for candidate in selection.candidates} == {None}
    assert all("held_out_probe_accuracy" not in line.scalars for line in read_metrics(tmp_path))


class KilledError(Exception):
    pass


def test_killed_and_resumed_the_labels_decide_the_same(sides, parts, whole, tmp_path, monkeypatch):
    """After the third, two may still ship: both are in the checkpoint."""

    def kill(line):
        if line.step == 310:
            raise KilledError

    monkeypatch.setattr("sim2cam.learn.checkpoint._SNAPSHOT_INTERVAL_S", 0.0)
    with pytest.raises(KilledError):
        played(tmp_path / "cut", parts, sides[2], progress=kill)
    with pytest.raises(CheckpointError, match=r"dev was '[0-9a-f]{64}' and is now None"):
        played(tmp_path / "cut", parts, None, resume=True)
    renamed = replace(sides[2].samples[0].objects[0], category="cool")
    other = (replace(sides[2].samples[0], objects=(renamed,)), *sides[2].samples[1:])
    with pytest.raises(CheckpointError, match="dev was"):
        played(tmp_path / "cut", parts, replace(sides[2], samples=other), resume=True)
    with safe_open(tmp_path / "cut" / CHECKPOINT, framework="pt") as file:
        assert {"selected:step", "candidate 300:step"} <= set(file.keys())
    resumed = played(tmp_path / "cut", parts, sides[2], resume=True)
    assert resumed.outcome == whole[1].outcome
    assert float(resumed.weights["step"]) == 200


def test_the_probe_tells_what_was_learned(sides):
    sim, _, dev = sides
    renders = [(read_rgb(sample.rgb), sample.objects) for sample in sim.samples[:12]]
    probe = LinearProbe(dev, 0)
    lit = [(np.clip(rgb + LIGHT, 0, 255).astype(np.uint8), objects) for rgb, objects in renders]
    assert probe.score(lit) == probe.score(lit) == 1.0
    assert probe.score(renders) < 0.5
    other = {"warm": "cool", "cool": "warm"}
    wrong = [(rgb, [replace(o, category=other[o.category]) for o in labels]) for rgb, labels in lit]
    assert probe.score(wrong) == pytest.approx(1 / 3, abs=0.01)  # background alone is right
    one = [(rgb, labels) for rgb, labels in lit if labels[0].category == "warm"]
    assert probe.score(one) == 1.0  # of categories that it never saw nothing is asked
    assert probe.score([(lit[0][0], ())]) == 0.0


def test_crops_show_an_object_or_none():
    rgb = np.zeros((100, 120, 3), np.uint8)
    rgb[20:40, 30:50] = 250
    rgb[70:, 100:] = 120
    labels = [
        ObjectLabel("bright", (30, 20, 50, 40), 400.0),
        ObjectLabel("group", (100, 70, 120, 100), 600.0, is_crowd=True),
        ObjectLabel("speck", (3, 3, 8, 8), 25.0),
    ]
    found = [list(extract_crops(rgb, labels, np.random.default_rng(seed))) for seed in range(20)]
    for crops in found:
        assert [name for name, _ in crops] == ["bright", BACKGROUND]
        assert {crop.shape for _, crop in crops} == {(64, 64, 3)}
        assert 0.6 < (crops[0][1] > 200).mean() < 0.8  # 20 of 24 pixels, squared
        assert crops[1][1].max() == 0
    whole = ObjectLabel("all", (0, 0, 120, 100), 12000.0)
    (only,) = extract_crops(rgb, [whole], np.random.default_rng(0))
    assert only[0] == "all"


def test_rare_categories_weigh_as_much_as_frequent_ones():
    rng = np.random.default_rng(0)
    names = np.array(["many"] * 190 + ["few"] * 10)
    features = rng.normal(0, 1, (200, 3)) + 2.0 * (names == "few")[:, None]
    asked = np.array([[0.6] * 3, [1.4] * 3])
    assert classify_by_ridge(features, names, asked).tolist() == ["many", "few"]
    assert compute_balanced_accuracy(names, np.full(200, "many")) == 0.5


def test_captures_that_tell_nothing_are_refused(sides):
    sim, real, dev = sides
    check_probe_labels(sim, dev)
    for renders, captures, message in (
        (sim, real, f"{real.root}: pictures of --validation have no labels, so nothing can be asked of them. Label "
         "them, or leave out --validation."),
        (real, dev, f"{real.root}: pictures of --sim have no labels, so nothing can be asked of them. Label "
         "them, or leave out --validation."),
        (replace(sim, samples=tuple(replace(s, objects=()) for s in sim.samples)), dev,
         f"{dev.root}: none of its categories (cool, warm) is of the renders (none). Name them alike."),
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            check_probe_labels(renders, captures)
        assert str(caught.value) == message


def test_specks_and_groups_are_no_labels_to_ask(sides):
    sim, _, dev = sides
    for change in ({"is_crowd": True}, {"box_xyxy": (0.0, 0.0, 7.0, 5.0)}):
        changed = tuple(
            replace(s, objects=tuple(replace(o, **change) for o in s.objects)) for s in dev.samples
        )
        with pytest.raises(InputError, match=r"none of its categories \(none\) is of the renders"):
            check_probe_labels(sim, replace(dev, samples=changed))


def test_labels_belong_to_what_is_asked(sides):
    dev = sides[2]
    assert compute_labelled_digest(dev) == compute_labelled_digest(
        replace(dev, root=dev.root / "elsewhere")
    )
    assert compute_labelled_digest(dev) != compute_labelled_digest(dev.take(11))
