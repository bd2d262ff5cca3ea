"""Sequences: small ones pass all checks, and planted errors are reported."""

import itertools
import json
import math
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from sim2cam import images
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.adapt.store import save_transfer
from sim2cam.adapt.transfers.style_randomization import StyleRandomization
from sim2cam.adapt.translation import NO_VERIFIERS, index_samples, translate_samples
from sim2cam.data import tracks
from sim2cam.data.card import build_card
from sim2cam.data.catalog import run_query
from sim2cam.data.channels import CHANNELS, read_channel
from sim2cam.data.checks.dataset import check_dataset
from sim2cam.data.formats.export import export_dataset
from sim2cam.data.reader import read_dataset, read_sample_records
from sim2cam.data.real_images import read_real_images
from sim2cam.data.writer import compute_digest
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RenderOptions, SequenceOptions, load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.pipeline.translation import Certification, apply_transfer
from sim2cam.randomize.distributions import Constant
from sim2cam.scene.scene import Scene

FRAMES, VIEWS, INTERVAL_S = 4, 2, 0.11
NO_LIMITS = CertificateLimits(object_shift_px=9, structure_correlation=-1, image_correlation=-1, edge_recall=0, colour_shift=9, added_structure_levels=255, lost_structure_levels=255, grid_artefact_levels=255, seam_step_levels=255, clipped_fraction=1, warping_error_levels=255)  # fmt: skip
CHOSEN = ("depth", "ids", "coverage", "flow_forward", "flow_backward")


@pytest.fixture(scope="module")
def recipe():
    dice = load_recipe("dice")
    names = ("right_m_s", "down_m_s", "forward_m_s", "pitch_rad_s", "yaw_rad_s", "roll_rad_s")
    motion = dict(zip(names, map(Constant, (0.05, 0.0, 0.0, 0.0, 0.0, 0.2)), strict=True))
    shutter = {"exposure_s": Constant(0.004), "readout_s": Constant(0.004)}
    domain = dice.domain.replace_groups({"shutter": shutter, "motion": motion}).replace_factors(
        {
            "layout/die_count": Constant(6),
            "layout/distractor_count": Constant(0),
            "view/die_px": Constant(40.0),
        }
    )
    film = SequenceOptions(FRAMES, INTERVAL_S, track_count=8)
    render = RenderOptions(96, 80, VIEWS, CHOSEN, film)
    return replace(dice, domain=domain, render=render)


def make(recipe, root, count):
    return generate(recipe, root, count=count, seed=2)


@pytest.fixture(scope="module")
def film(recipe, tmp_path_factory):
    return make(recipe, tmp_path_factory.mktemp("film") / "d", FRAMES * VIEWS)


def test_dataset_passes_its_checks(film):
    report = check_dataset(film.root)
    assert report.problems == ()
    assert report.samples == FRAMES * VIEWS
    assert report.objects > 20


def test_frames_of_each_camera_are_consecutive(film):
    for index, (sample, raw) in enumerate(
        zip(film.samples, read_sample_records(film.root), strict=True)
    ):
        view, frame = divmod(index, FRAMES)
        assert raw.fields["view"] == view
        assert sample.scene_index == 0
        assert sample.frame_info.frame_index == frame
        assert set(sample.channels) == {
            *CHOSEN[:3],
            *(["flow_forward"] if frame < FRAMES - 1 else []),
            *(["flow_backward"] if frame > 0 else []),
        }
        later = sample.frame_info.first_row_s - film.samples[view * FRAMES].frame_info.first_row_s
        assert later == pytest.approx(frame * INTERVAL_S)
        assert sample.frame_info.exposure_s == 0.004
        assert sample.frame_info.row_s == pytest.approx(0.004 / 80)
        assert sample.frame_info.twist.velocity_m_s == pytest.approx((0.05, 0.0, 0.0), abs=0.02)


def test_last_frame_equals_the_still(recipe, film):
    settled = simulate_scene(recipe, 2, 0)
    still = simulate_scene(
        replace(recipe, render=replace(recipe.render, channels=(), sequence=None)), 2, 0
    )
    assert settled.scene == still.scene
    assert settled.sequence[-1].scene == still.scene
    assert still.sequence[-1].seconds == settled.sequence[-1].seconds == settled.certificate.seconds
    assert len(still.sequence) == 1
    (line,) = (film.root / "shards/000000/scenes.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert Scene.from_json(json.dumps(record["scene"])) == settled.scene
    assert [entry["seconds"] for entry in record["sequence"]] == [
        i.seconds for i in settled.sequence
    ]
    first = record["sequence"][0]["bodies"]["die/0"]
    assert first["pose"]["position_m"] == list(settled.sequence[0].scene.bodies[-6].pose.position_m)


def test_tracks_follow_the_same_points(film):
    for view in range(VIEWS):
        found = [
            tracks.read_tracks(s.tracks) for s in film.samples[view * FRAMES : (view + 1) * FRAMES]
        ]
        assert all(np.array_equal(t.point_m, found[0].point_m) for t in found)
        assert all(np.array_equal(t.instance_id, np.repeat(range(1, 7), 8)) for t in found)
    moved = np.linalg.norm(found[-1].pixel - found[0].pixel, axis=1)
    assert np.nanmax(moved) > 2


def test_each_frame_has_its_own_noise(recipe, tmp_path):
    """Check a static camera and static dice, in both stereo images and in sensor depth."""
    depth_camera = {"kind": "time_of_flight", "noise_seed": 7, "min_range_m": 0.05}
    domain = recipe.domain.replace_groups(
        {
            "shutter": None, "motion": None, "stereo": {"baseline_m": Constant(0.02)},
            "depth_camera": {name: Constant(value) for name, value in depth_camera.items()},
        }
    ).replace_factors({"sensor/full_well_e": Constant(300.0), "sensor/denoise": Constant(0.0)})  # fmt: skip
    channels = ("depth", "ids", "sensor_depth", "right")
    still = RenderOptions(96, 80, 1, channels, SequenceOptions(FRAMES, 0.0001))
    data = make(replace(recipe, domain=domain, render=still), tmp_path / "d", FRAMES)
    for read_one, least in (
        (lambda s: images.read_rgb(s.rgb), 2.0),
        (lambda s: images.read_rgb(s.right_rgb), 2.0),
        (lambda s: read_channel("sensor_depth", s.channels["sensor_depth"]), 0.5),
    ):
        taken = [read_one(sample).astype(float) for sample in data.samples]
        apart = [np.std(one - other) for one, other in itertools.combinations(taken, 2)]
        assert least < min(apart)
        assert max(apart) < 1.2 * min(apart)


def test_gains_restart_with_each_camera(recipe, film, tmp_path):
    lag = recipe.domain.replace_groups({"automatics": {"exposure_lag_s": Constant(5.0)}})
    lagging = make(replace(recipe, domain=lag), tmp_path / "d", FRAMES * VIEWS)
    for number, (one, other) in enumerate(zip(film.samples, lagging.samples, strict=True)):
        is_first = number % FRAMES == 0
        assert (one.rgb.read_bytes() == other.rgb.read_bytes()) == is_first
        assert one.objects == other.objects
        assert (one.gains == other.gains) == is_first
    shorter = make(replace(recipe, domain=lag), tmp_path / "e", FRAMES + 2)
    assert [s.digest for s in shorter.samples] == [s.digest for s in lagging.samples[: FRAMES + 2]]


def test_gains_follow_light_with_sampled_lag(recipe, film, tmp_path):
    lag_s = 0.25
    automatics = {"exposure_lag_s": Constant(lag_s), "white_balance": Constant(1.0)}
    lag = recipe.domain.replace_groups({"automatics": automatics})
    lagging = make(replace(recipe, domain=lag), tmp_path / "d", FRAMES * VIEWS)
    share = math.exp(-INTERVAL_S / lag_s)
    for view in range(VIEWS):
        wanted, followed = (
            [s.gains for s in d.samples[view * FRAMES : (view + 1) * FRAMES]]
            for d in (film, lagging)
        )
        level = wanted[0].exposure
        for now, then in zip(wanted, followed, strict=True):
            level = now.exposure * (level / now.exposure) ** share
            assert then.exposure == pytest.approx(level, rel=1e-9)
            assert (now.red, now.blue) == (1, 1)
            assert (then.red, then.blue) != (1, 1)
    card = build_card(lagging)
    exposures = [s.gains.exposure for s in lagging.samples]
    assert (card.gains["exposure"].low, card.gains["exposure"].high) == (
        min(exposures),
        max(exposures),
    )
    assert "Gains of sequences" in card.to_markdown()
    answer = run_query(
        lagging, "SELECT frame_index, exposure_gain, red_gain FROM samples ORDER BY name"
    )
    assert answer.rows == tuple(
        (s.frame_info.frame_index, s.gains.exposure, s.gains.red) for s in lagging.samples
    )


def test_stills_have_no_gains(recipe, tmp_path):
    still = replace(recipe, render=RenderOptions(96, 80, 1, ("ids",)))
    dataset = make(still, tmp_path / "d", 1)
    assert dataset.samples[0].gains is None
    assert "gains" not in read_sample_records(dataset.root)[0].fields
    assert build_card(dataset).gains == {}


def test_shorter_dataset_has_same_bytes(recipe, film, tmp_path):
    shorter = make(recipe, tmp_path / "d", 3)
    assert [s.digest for s in shorter.samples] == [s.digest for s in film.samples[:3]]
    assert check_dataset(shorter.root).problems == ()


def plant(root, name, change):
    """Replace a channel by another one."""
    path = root / "shards/000000/samples.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for line in lines:
        if line["name"] == name:
            change(line)
            line["digest"] = compute_digest(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def copied(film, tmp_path):
    shutil.copytree(film.root, tmp_path / "d")
    return tmp_path / "d"


def test_flow_of_another_image_fails_the_check(copied):
    def other_flow(line):
        files = line["files"]
        there = "flow_forward/000001.png"
        files[there] = files.pop("flow_forward/000000.png")
        files[there] = next(
            raw.fields["files"][there]
            for raw in read_sample_records(copied)
            if there in raw.fields["files"]
        )

    plant(copied, "000000", other_flow)
    whats = [p.message for p in check_dataset(copied).problems if p.sample == "000000"]
    assert any(re.search(r"flow_forward( is up to|: \d+ of)", what) for what in whats), whats


def test_tracks_of_another_image_fail_the_check(copied):
    path = copied / "shards/000000/tracks/000000.json"
    path.write_bytes(path.with_name("000004.json").read_bytes())
    whats = [p.message for p in check_dataset(copied).problems if p.sample == "000000"]
    assert any("its tracks are up to" in what for what in whats), whats


def test_broken_tracks_are_reported(copied):
    path = copied / "shards/000000/tracks/000000.json"
    path.write_text("{}")
    whats = [p.message for p in check_dataset(copied).problems if p.sample == "000000"]
    assert f"{path}: instance_id is missing. Generate the dataset again." in whats


def test_coverage_is_full_without_motion(film):
    found = [read_channel("coverage", sample.channels["coverage"]) for sample in film.samples]
    assert min(values.min() for values in found) < 1
    assert all(values.max() == 1 for values in found)
    assert set(CHOSEN) <= set(CHANNELS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": 3}, "views x sequence.frames must divide 16, not 2 x 3"),
        ({"frames": 0}, "views x sequence.frames must divide 16, not 2 x 0"),
        ({"interval_s": 0.0}, "interval_s must be 0.0001 to 10, not 0.0"),
        ({"track_count": -1}, "track_count must be 0 to 4096, not -1"),
    ],
)
def test_bad_sequence_options_are_refused(options, message):
    given = {"frames": 4, "interval_s": 0.1} | options
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        RenderOptions(views=2, sequence=SequenceOptions(**given))


def test_flow_needs_a_sequence():
    with pytest.raises(ValueError, match=r"^channel 'flow_forward' needs a \[render\.sequence\]"):
        RenderOptions(channels=("ids", "flow_forward"))


def test_recipe_without_sequence_keeps_its_digest(recipe):
    dice = load_recipe("dice")
    facts = dice.collect_rendering_settings()
    assert "sequence" not in facts["render"]
    assert not {"shutter", "motion"} & facts["domain"].keys()
    assert recipe.digest() != dice.digest()


class Tinted:
    """A transfer that samples one colour per sequence."""

    def apply(self, frame, rng):
        return (0.8 * frame.rgb + rng.uniform(0, 50, 3)).astype(np.uint8)


class Restless:
    """A transfer that changes every frame."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def apply(self, frame, _rng):
        return Tinted().apply(frame, self.rng)


def test_translated_sequence_is_checked_with_flow(film):
    pictures = index_samples(film.samples)
    assert [one.sequence_index for one in pictures] == [0] * FRAMES + [FRAMES] * FRAMES
    worst = {}
    for transfer in (Tinted(), Restless()):
        made = list(translate_samples(transfer, pictures, 0, "adapt", NO_VERIFIERS))
        found = [one.certificate.checks["warping_error_levels"] for one in made]
        assert [one.value is None for one in found] == [n % FRAMES == 0 for n in range(len(found))]
        worst[type(transfer)] = max(one.value for one in found if one.value is not None)
    assert worst[Tinted] < 2 < CertificateLimits().warping_error_levels < 10 < worst[Restless]


def test_sequences_in_tar_files_stay_separate(film, tmp_path):
    export_dataset({"train": film}, tmp_path / "tar", "webdataset")
    parent = read_real_images(tmp_path / "tar")
    save_transfer(StyleRandomization(np.zeros((2, 3)), np.ones((2, 3))), tmp_path / "style")
    certificate = apply_transfer(
        tmp_path / "style", parent, tmp_path / "set", certification=Certification(NO_LIMITS), seed=0
    )
    report = check_dataset(tmp_path / "set")
    assert (report.samples, report.problems) == (FRAMES * VIEWS, ())
    measured = [picture.checks["warping_error_levels"].value for picture in certificate.images]
    assert [value is None for value in measured] == [n % FRAMES == 0 for n in range(len(measured))]
    for sample, origin in zip(read_dataset(tmp_path / "set").samples, film.samples, strict=True):
        assert (sample.frame_info, sample.gains) == (origin.frame_info, origin.gains)
        assert sample.channels.keys() == origin.channels.keys()
