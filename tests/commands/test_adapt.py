"""`adapt train` and `adapt apply` on plain folders of pictures."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.adapt.training.adversarial import TranslatorProgress
from sim2cam.adapt.translator.config import PRESETS, TranslatorConfig
from sim2cam.cli import main
from sim2cam.commands.console import Console
from sim2cam.commands.runs import make_callbacks
from sim2cam.errors import BackendError, RepairWarning, Sim2CamError
from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg, encode_png, read_rgb
from sim2cam.learn.run_folder import CHECKPOINT, METRICS, SAMPLES_PAGE, WEIGHTS, MetricsLog
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.progress import ignore_progress


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(20):
        rgb = (rng.normal(120, 30, (12, 16, 3)) + number).clip(0, 255).astype(np.uint8)
        write_bytes(
            root / f"IMG_{number:02d}.png", encode_png(np.kron(rgb, np.ones((4, 4, 1), np.uint8)))
        )
    return root


TINY = "batch = 1\npatch_px = 32\nwidth = 2\n"


def train(sim, out, *flags, real=None, config=None):
    """Run ``adapt train``, optionally with a translator configuration over the recipe ``dice``."""
    command = ["adapt", "train", "--sim", sim, "--real", real or sim, "--out", out, "--workers", 1]
    if config is not None:
        recipe = out.with_suffix(".toml")
        recipe.write_text(f'base = "dice"\n{config}')
        command += ["--recipe", recipe]
    return main([*map(str, command), *map(str, flags)])


def train_tiny(photos, out, steps, *flags, config=""):
    config = f"[adapt.translator]\nsteps = {steps}\n{TINY}{config}"
    return train(photos, out, *flags, config=config)


def apply(run, photos, out, *flags):
    command = ["adapt", "apply", run, "--data", photos, "--out", out, "--limit", 3, "--workers", 1]
    return main([*map(str, command), *flags])


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "mkl"
    assert train(photos, out, "--method", "mkl", "-q") == 0
    return out


def test_a_folder_is_translated_and_says_that_no_label_was_seen(run, photos, tmp_path, capsys):
    assert apply(run, photos, tmp_path / "out", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "images": 3,
        "rejected": 0,
        "decision": "appearance only",
    }
    assert f"page: {tmp_path / 'out' / 'certificate.html'}" in printed.err
    page = (tmp_path / "out" / "certificate.html").read_text()
    assert "Certificate: appearance only" in page
    assert "3 of 3 images pass." in page
    assert str(tmp_path) not in page  # equal datasets have equal pages
    assert "000001 (IMG_01.png)" in page
    (made,) = (tmp_path / "out").glob("shards/*/samples.jsonl")
    sources = [json.loads(line)["source"] for line in made.read_text().splitlines()]
    assert sources == ["IMG_00.png", "IMG_01.png", "IMG_02.png"]
    assert json.loads((tmp_path / "out" / "certificate.json").read_text())["rejected"] == 0


def test_pictures_of_formats_that_are_not_read_are_told(run, photos, tmp_path):
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    write_bytes(folder / "b.HEIC", b"heic")
    told = f"{folder}: images in unsupported formats are left out: 1 (first: b.HEIC). Convert"
    with pytest.warns(RepairWarning, match=re.escape(told)):
        assert apply(run, folder, tmp_path / "set") == 0
    with pytest.warns(RepairWarning, match=re.escape(told)):
        assert train(photos, tmp_path / "run", "--method", "mkl", real=folder) == 0


@pytest.mark.parametrize(("flags", "workers"), [([], 7), (["--device", "cuda"], 1), (["--device", "cuda:1"], 1), (["--device", "cuda", "--workers", "3"], 3)])  # fmt: skip
def test_on_a_gpu_one_process_translates_unless_more_are_asked_for(
    run, photos, tmp_path, monkeypatch, flags, workers
):
    given = {}

    def apply_transfer(*_, **flags):
        given.update(flags)
        raise Sim2CamError("enough is known")

    monkeypatch.setattr("os.cpu_count", lambda: 7)
    monkeypatch.setattr("sim2cam.pipeline.translation.apply_transfer", apply_transfer)
    arguments = ["adapt", "apply", run, "--data", photos, "--out", tmp_path / "out", *flags]
    assert main(list(map(str, arguments))) == 1
    assert given["workers"] == workers


def test_limits_come_from_the_recipe_and_a_set_without_pictures_is_a_failure(
    run, photos, tmp_path, capsys
):
    recipe = tmp_path / "strict.toml"
    recipe.write_text('base = "dice"\n[adapt.certificate]\nadded_structure_levels = 0\n')
    assert apply(run, photos, tmp_path / "out", "--recipe", str(recipe)) == 1
    said = capsys.readouterr().err
    assert "0 of 3 images, 3 rejected; failed" in said
    assert "all 3 translations were rejected. See certificate.html for the reasons." in said
    assert (tmp_path / "out" / "certificate.html").is_file()


def test_pictures_that_cannot_be_read_are_told_before_an_earlier_set_is_removed(
    run, photos, tmp_path, capsys
):
    own = tmp_path / "own"
    shutil.copytree(photos, own)
    assert apply(run, own, tmp_path / "out") == 0
    kept = (tmp_path / "out" / "certificate.json").read_bytes()
    (own / "IMG_02.png").write_bytes((own / "IMG_02.png").read_bytes()[:90])
    assert apply(run, own, tmp_path / "out", "--overwrite") == 1
    assert "IMG_02.png" in capsys.readouterr().err
    assert (tmp_path / "out" / "certificate.json").read_bytes() == kept


def test_pictures_are_read_before_anything_is_learned(photos, tmp_path, capsys):
    own, out = tmp_path / "own", tmp_path / "run"
    shutil.copytree(photos, own)
    whole = (own / "IMG_13.png").read_bytes()
    (own / "IMG_13.png").write_bytes(whole[:90])
    assert train(photos, out, "--steps", 10, real=own) == 1
    assert "IMG_13.png" in capsys.readouterr().err
    assert not out.exists()
    (own / "IMG_13.png").write_bytes(whole)
    assert train(photos, own, "--steps", 10, real=own) == 1
    assert "own: contains training images. Choose another --out." in capsys.readouterr().err


def test_pictures_are_decoded_once_before_anything_is_learned(photos, tmp_path, monkeypatch):
    own, seen = tmp_path / "own", Counter()
    shutil.copytree(photos, own)

    def reading(path):
        seen[path] += 1
        return read_rgb(path)

    class BegunError(Exception):
        pass

    def begun(*_given, **_flags):
        raise BegunError

    monkeypatch.setattr("sim2cam.images.read_rgb", reading)
    monkeypatch.setattr("sim2cam.pipeline.translation.train_network", begun)
    with pytest.raises(BegunError):
        train(photos, tmp_path / "run", real=own)
    assert seen == dict.fromkeys([*photos.iterdir(), *own.iterdir()], 1)


def test_a_fit_refuses_what_it_would_not_use(photos, tmp_path, capsys):
    assert train(tmp_path / "none", tmp_path / "run", "--method", "mkl", real=photos) == 1
    assert "none" in capsys.readouterr().err


REFUSED = [
    (["--method=mkl", "--steps=5"], "--steps does not apply to mkl, which is not trained. Omit it."),
    (["--method=mkl", "--verifier=dice.safetensors"], "--verifier does not apply to mkl, which has no checkpoints to select. Use it with adapt apply."),
    (["--method=mkl", "--tensorboard"], "--tensorboard does not apply to mkl, which is not trained. Omit it."),
    (["--method=cut", "--preset=small"], "--preset applies only to the learned translator, not to cut. Omit it, or use --method"),
    (["--method=cut", "--paired"], "--paired applies only to the learned translator, not to cut. Omit it, or use --method"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "message"), REFUSED)
def test_flags_that_do_not_apply_to_a_method_are_refused(photos, tmp_path, capsys, flags, message):
    assert train(photos, tmp_path / "run", *flags) == 2
    assert message in capsys.readouterr().err


def test_the_method_comes_from_the_recipe(photos, tmp_path):
    assert train(photos, tmp_path / "run", config='[adapt]\nmethod = "sliced"\n') == 0
    assert json.loads((tmp_path / "run" / "transfer.json").read_text())["method"] == "sliced"


def test_a_published_translator_is_trained_resumed_and_applied(photos, tmp_path):
    config = '[adapt]\nmethod = "fastcut"\n[adapt.reference]\nsteps = 1\nblocks = 5\npatch_px = 32\nwidth = 2\n'
    out = tmp_path / "run"
    assert train(photos, out, config=config) == 0
    assert train(photos, out, "--resume", config=config) == 0
    card = json.loads((out / "weights.json").read_text())
    assert (card["method"], card["steps"]) == ("fastcut", 1)
    apply(out, photos, tmp_path / "adapted", "-q")  # one step makes noise, which may be rejected
    assert len(json.loads((tmp_path / "adapted" / "certificate.json").read_text())["images"]) == 3


def test_a_training_says_which_weights_ship_and_what_went_wrong(photos, tmp_path, capsys):
    """Photos that are renders and captures at once leave nothing to be learned."""
    out = tmp_path / "run"
    assert train_tiny(photos, out, 10, "--json", config="adversarial_weight = 0\n") == 0
    told = capsys.readouterr()
    why = "the last weights, as nothing is held out: 20 renders are fewer than 30"
    warning = "the translator hardly changes images: 0."
    assert f"translator: {out}; selected weights: step 10 ({why})" in told.err
    assert f"warning: {warning}" in told.err
    result = json.loads(told.out)
    assert (result["method"], result["step"]) == ("translator", 10)
    assert [text.startswith(warning) for text in result["warnings"]] == [True]
    card = json.loads((out / "weights.json").read_text())
    assert card["outcome"]["selection"]["reason"] == why
    assert card["outcome"]["warnings"] == result["warnings"]
    assert not (out / "samples.html").exists()  # too short to show anything on the way


def test_a_training_leaves_a_page_of_samples_however_short(photos, tmp_path):
    out = tmp_path / "run"
    assert train_tiny(photos, out, 20) == 0
    names = [path.name for path in sorted(out.glob("samples*"))]
    assert names == [f"samples-0000{step}.jpg" for step in ("00", "10", "20")] + ["samples.html"]
    page = (out / "samples.html").read_text()
    assert page.count("data:image/jpeg") == 4
    assert "step 20" in page
    assert "discriminator_accuracy" in page
    assert (
        "The weights of step 20 were selected: the last weights, as nothing is held out: 20 renders are "
        "fewer than 30."
    ) in page
    assert train(photos, out, "--method", "mkl", "--overwrite") == 0
    assert [path.name for path in out.iterdir()] == ["transfer.json"]


def test_a_training_that_was_cut_leaves_the_same_page_and_record(photos, tmp_path, monkeypatch):
    """Also where it was cut amid the steps of one line of the record."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert train_tiny(photos, whole, 20) == 0
    add, added = MetricsLog.add, []

    def interrupt(self, scalars, *waits):
        if len(added) == 15:
            raise KeyboardInterrupt
        added.append(scalars)
        add(self, scalars, *waits)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsLog, "add", interrupt)
        assert train_tiny(photos, cut, 20) == 130
    assert train_tiny(photos, cut, 20, "--resume") == 0
    for name in (SAMPLES_PAGE, "weights.json", WEIGHTS, CHECKPOINT):
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name
    records = [re.sub(r'"step_s": [^,}]*', "", (run / METRICS).read_text()) for run in (whole, cut)]
    assert records[0] == records[1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[adapt]\nmethod = 'reinhart'", "adapt.method"),
        (
            "[adapt.translator]\npreset = 'smal'",
            "'adapt.translator.preset': no preset 'smal'. Did you mean 'small'? Allowed: demo, large, small",
        ),
        ("[adapt.reference]\nblocks = 3", "'adapt.reference': blocks must be 5 or more, not 3"),
        ("[adapt]\nsteps = 3", "unknown key 'adapt.steps'"),
        ("[adapt.certificate]\nclipped = 1", "unknown key 'adapt.certificate.clipped'"),
        ("[adapt.certificate]\nclipped_fraction = 2", "clipped_fraction must be 0 to 1, not 2"),
    ],
)  # fmt: skip
def test_bad_recipes_are_told(photos, run, tmp_path, capsys, lines, message):
    recipe = tmp_path / "bad.toml"
    recipe.write_text(f'base = "dice"\n{lines}\n')
    assert apply(run, photos, tmp_path / "out", "--recipe", str(recipe)) == 1
    assert message in capsys.readouterr().err


def test_a_preset_and_single_settings_over_it(photos, tmp_path):
    out = tmp_path / "run"
    assert train(photos, out, "--preset", "demo", "--steps", 1) == 0
    config = json.loads((out / "weights.json").read_text())["config"]
    assert TranslatorConfig(**config) == replace(PRESETS["demo"], steps=1)
    recipe = tmp_path / "mine.toml"
    recipe.write_text('base = "dice-demo"\n[adapt.translator]\npreset = "large"\nsteps = 7\n')
    assert load_recipe(str(recipe)).adapt.translator == replace(PRESETS["large"], steps=7)
    assert load_recipe("dice-demo").adapt.translator == PRESETS["demo"]


def test_judges_that_will_choose_nothing_among_pairs_are_told_before_the_start(
    photos, tmp_path, capsys
):
    brighter, out = tmp_path / "brighter", tmp_path / "run"
    for path in photos.iterdir():
        rgb = read_rgb(path).astype(np.float64) * 1.05
        write_bytes(brighter / path.name, encode_png(rgb.clip(0, 255).astype(np.uint8)))
    flags = ["--paired", "--verifier", "dice-verifier", "--preset", "demo", "--steps", 1]
    assert train(photos, out, *flags, real=brighter) == 0
    warning = "warning: --verifier cannot select a checkpoint, so the last one is used: 20 renders are fewer than 30."
    assert warning in capsys.readouterr().err


def test_a_network_trained_on_photos_is_learned_from_and_missing_ones_are_told_first(
    photos, tmp_path, monkeypatch, capsys
):
    """The squared distance stands for LPIPS; what it takes is looked for before an earlier run is removed."""
    config = 'blocks = 1\nlpips_weight = 2.0\nlpips_network = "squeeze"\n'
    out, asked = tmp_path / "run", []

    def distances(network, device):
        asked.append((network, device))
        return lambda one, other: (one - other).square().mean(dim=(1, 2, 3)) + 1.0

    monkeypatch.setattr("sim2cam.pipeline.translation.check_lpips", lambda network: None)
    monkeypatch.setattr("sim2cam.pipeline.translation.make_lpips_distance", distances)
    assert train_tiny(photos, out, 2, config=config) == 0
    assert asked == [("squeeze", "cpu")]
    lines = (out / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["scalars"]["lpips"] >= 1.0
    assert json.loads((out / "weights.json").read_text())["config"]["lpips_weight"] == 2.0

    def missing(network):
        raise BackendError(f"no {network}")

    before = sorted(path.name for path in out.iterdir())
    monkeypatch.setattr("sim2cam.pipeline.translation.check_lpips", missing)
    assert train_tiny(photos, out, 2, "--overwrite", config=config) == 1
    assert "no squeeze" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == before


def test_photos_of_their_own_renders_are_pairs(photos, tmp_path):
    out = tmp_path / "run"
    assert train_tiny(photos, out, 1, "--paired") == 0
    assert json.loads((out / "weights.json").read_text())["pairs"] == {
        "pairs": 20, "rejected": 0, "unmatched": 0, "registered_fraction": 1.0,
    }  # fmt: skip


@pytest.fixture
def trained(tmp_path):
    """The run folder of a training."""
    out = tmp_path / "run"
    for name in ("weights.safetensors", "weights.json", "metrics.jsonl"):
        write_bytes(out / name, b"of hours")
    return out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--limit", "19"], "19 real images, but a translator needs at least 20."),
        (["--method", "cut", "--limit", "3"], "3 real images, but a translator needs at least 20."),
        (["--method", "mkl", "--limit", "3"], "3 real images; a transfer needs at least 20."),
        (["--verifier", "none.safetensors"], "none.safetensors"),
        (["--task=dice", "--verifier=dice"], "Independent verifiers need different architectures."),
        (["--paired", "--sim", "others"], "19 real images have the name of a render; a translator"),
        (["--method", "mkl", "--real", "broken"], "b.jpg: damaged image"),
    ],
)
def test_what_cannot_be_trained_leaves_the_old_run(
    photos, trained, tmp_path, capsys, monkeypatch, flags, message
):
    monkeypatch.chdir(tmp_path)
    first, *rest = sorted(photos.iterdir())
    for path in rest:
        write_bytes(tmp_path / "others" / path.name, path.read_bytes())
        write_bytes(tmp_path / "broken" / path.name, path.read_bytes())
    write_bytes(tmp_path / "others" / "IMG_99.png", first.read_bytes())
    write_bytes(tmp_path / "broken" / "b.jpg", encode_jpeg(read_rgb(first), 90)[:-200])
    given = {"--sim": str(photos), "--real": str(photos), "--out": str(trained), "--workers": "1"}
    words = [word for flag, value in given.items() if flag not in flags for word in (flag, value)]
    assert main(["adapt", "train", *words, *flags, "--overwrite"]) in (1, 2)
    assert message in capsys.readouterr().err
    assert {path.read_bytes() for path in trained.iterdir()} == {b"of hours"}
    assert len(list(trained.iterdir())) == 3


def test_curves_go_to_a_board_and_odd_captures_are_told(photos, tmp_path, capsys, monkeypatch):
    told = []

    class Board:
        def __init__(self, run_dir):
            assert run_dir == tmp_path / "run"

        def log(self, line):
            told.append(line.step)

    monkeypatch.setattr("sim2cam.learn.tensorboard.TensorBoardLogger", Board)
    assert train_tiny(photos, tmp_path / "run", 2, "--tensorboard") == 0
    assert told == [2]
    assert (
        "warning: 20 of 20 real images are copies of images of --sim, so the translator learns nothing from "
        "them. Check --real."
    ) in capsys.readouterr().err


def test_a_root_of_train_a_and_train_b_is_both_sides(photos, tmp_path, capsys):
    for side in ("trainA", "trainB"):
        (tmp_path / "root" / side).mkdir(parents=True)
    for number, photo in enumerate(sorted(photos.iterdir())):
        side = ("trainA", "trainB")[number % 2]
        shutil.copy(photo, tmp_path / "root" / side / photo.name)
    root = tmp_path / "root"
    assert train(root, tmp_path / "run", "--method", "mkl") == 1
    message = f"{root}/trainB: 10 real images; a transfer needs at least 20."
    assert message in capsys.readouterr().err


def test_plain_transfers_are_warned_of_captures_that_are_renders(photos, tmp_path, capsys):
    assert train(photos, tmp_path / "run", "--method", "mkl") == 0
    assert "warning: 20 of 20 real images are copies of images of --sim" in capsys.readouterr().err


def test_warnings_are_told_when_they_begin(capsys):
    tell = make_callbacks(Console(0), "training", None, ignore_progress).log
    won = ("it has won.",)
    for step, warnings in ((10, ()), (20, won), (30, won), (40, ()), (50, ("again.",))):
        tell(TranslatorProgress(step, 60, {}, 0.1, warnings))
    said = capsys.readouterr().err
    assert said.count("warning, at step ") == 2
    assert "warning, at step 20: it has won." in said
    assert "warning, at step 50: again." in said


def test_a_judge_that_does_not_ship_is_told(run, photos, tmp_path, capsys):
    assert apply(run, photos, tmp_path / "out", "--verifier", "dise") == 2
    assert "no file or shipped weights 'dise'. Did you mean 'dice'?" in (capsys.readouterr().err)
