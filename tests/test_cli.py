"""The command line as a user meets it: words, exit codes, streams."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from sim2cam import cli
from sim2cam.cli import main
from sim2cam.errors import RepairWarning
from tests.support.small_recipes import TWO_DICE_TOML


@pytest.fixture(scope="module")
def rendered(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "small.toml").write_text(TWO_DICE_TOML)
    assert (
        main(["render", str(folder / "small.toml"), "--out", str(folder / "d"), "--count", "4"])
        == 0
    )
    return folder / "d"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sim2cam", *arguments]
    buffered = {key: text for key, text in os.environ.items() if key != "PYTHONUNBUFFERED"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=buffered)


def test_help_needs_no_heavy_library():
    code = (
        "import sys, sim2cam.cli as m\n"
        "m.main(['--help'])\n"
        "heavy = {'torch', 'pybullet', 'pyrender', 'OpenGL', 'cv2', 'scipy', 'albumentations', 'rich'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("render", "RECIPE"),
        ("check", "DATASET"),
        ("inspect", "DATA"),
        ("export", "DATA"),
        ("catalog", "DATA"),
        ("adapt apply", "TRANSLATOR"),
        ("train", "RECIPE"),
        ("bench", "WEIGHTS|DETECTIONS|POSES"),
        ("compare", "FIRST"),
        ("predict", "WEIGHTS"),
        ("report", "RUN"),
        ("domain show", "RECIPE"),
        ("domain fit", "RECIPE"),
        ("scenes add", "DATASET/SAMPLE"),
        ("scenes run", "DIR"),
        ("fetch", "NAME"),
    ],
)
def test_help_names_what_is_given(command, name, capsys):
    assert main([*command.split(), "--help"]) == 0
    assert name in capsys.readouterr().out.splitlines()[0].split()


def test_a_crash_of_a_library_says_where():
    crash = "import os; from sim2cam.cli import main; main(['--version']); os.kill(os.getpid(), 11)"
    found = subprocess.run(
        [sys.executable, "-c", crash], capture_output=True, text=True, check=False
    )
    assert found.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in found.stderr


def test_version():
    assert run("--version").stdout.startswith("sim2cam 0.")


def test_flaws_of_files_are_told_without_lines_of_source(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    main(["--version"])
    flaw = RepairWarning("a.obj: has no normals. They are made from its faces.")
    assert warnings.formatwarning(flaw, RepairWarning, "repair.py", 68) == f"sim2cam: {flaw}\n"
    assert "repair.py:68" in warnings.formatwarning("x", UserWarning, "repair.py", 68)


def test_stdout_holds_the_result_and_nothing_else(tmp_path):
    (tmp_path / "r.toml").write_text(TWO_DICE_TOML)
    done = run(
        "render", str(tmp_path / "r.toml"), "--out", str(tmp_path / "d"), "--count", "2", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["images"] == 2
    assert "renderer: " in done.stderr


def test_quiet_says_nothing(tmp_path):
    (tmp_path / "r.toml").write_text(TWO_DICE_TOML)
    done = run(
        "render", str(tmp_path / "r.toml"), "--out", str(tmp_path / "d"), "--count", "1", "-q"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_dry_run_leaves_nothing(tmp_path, capsys):
    (tmp_path / "r.toml").write_text(TWO_DICE_TOML)
    arguments = ["render", str(tmp_path / "r.toml"), "--out", str(tmp_path / "d"), "--count", "64"]
    assert main([*arguments, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shards"] == 4
    assert not (tmp_path / "d").exists()


def test_a_full_folder_is_refused_without_a_word_of_what_to_do(rendered, capsys):
    recipe = rendered.parent / "small.toml"
    assert main(["render", str(recipe), "--out", str(rendered), "--count", "4"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"sim2cam: {rendered}: is not empty. Add --resume to continue or --overwrite to start again."
    )


RENAMED = [
    # (arguments as of earlier releases, what is said)
    ("ladder dice", "The command ladder is now ablate."),
    ("ladder dice --arms core --pictures=4", "The command ladder is now ablate. --arms is now --variants. --pictures is now --count."),
    ("label dice photos --score 0.3", "The command label is now pseudo-label. --score is now --min-score."),
    ("ablate dice --arms core", "--arms is now --variants."),
    ("ablate dice --pictures 4", "--pictures is now --count."),
    ("ablate dice --ignore", "--ignore is now --ignore-unmatched."),
    ("adapt train --judge x", "--judge is now --verifier."),
    ("adapt apply run --judge x", "--judge is now --verifier."),
    ("bench dice --ignore", "--ignore is now --ignore-unmatched."),
    ("calibrate photos --run dice", "--run is now --monitor."),
    ("domain show dice --pictures all", "--pictures is now --images."),
    ("drift camera.json photos --run dice", "--run is now --monitor."),
    ("predict dice photos --score 0.3", "--score is now --min-score."),
    ("pseudo-label dice photos --score 0.3", "--score is now --min-score."),
    ("render dice --no-images", "--no-images is now --skip-render."),
    ("render dice --no-pictures", "--no-pictures is now --skip-render."),
    ("render dice --redraw light", "--redraw is now --resample."),
    ("scenes run kept --renew", "--renew is now --update."),
    ("train dice --backdrops hall", "--backdrops is now --backgrounds."),
    ("train dice --dev x", "--dev is now --validation."),
    ("train dice --first_weights 1", "--first-weights is now --initial-mix."),
    ("train dice --ignore", "--ignore is now --ignore-unmatched."),
    ("train dice --weights 1 2", "--weights is now --mix."),
    ("tune dice photos --ignore", "--ignore is now --ignore-unmatched."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), RENAMED)
def test_an_old_name_is_answered_with_the_new_one(arguments, message, capsys):
    assert main(arguments.split()) == 2
    assert message in capsys.readouterr().err


def test_every_renamed_command_and_flag_is_tested():
    def is_tested(old):
        command, _, flag = old.partition(" --")
        return any(a.startswith(command) and flag in a.replace("_", "-") for a, _ in RENAMED)

    assert all(map(is_tested, cli._RENAMED))


def test_a_flag_that_another_command_renamed_keeps_its_meaning(tmp_path, capsys):
    command = ["domain", "fit", "dice", "--captures", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*command, "--weights", "none.safetensors"]) == 1
    assert "is now" not in capsys.readouterr().err


USAGE = [
    # (arguments, end of the message), all with exit code 2
    (["render", "dcie", "--out", "x", "--count", "1"], "Did you mean 'dice'?"),
    (["render", "dice", "--out", "x", "--count", "0"], "--count must be 1 to 16000000, not 0"),
    (["render", "dice", "--out", "x", "--count", "9" * 30], "--count must be 1 to 16000000, not 9"),
    (["render", "dice", "--out", "x", "--count", "1", "--seed=-1"], "--seed must be 0 or more, not -1"),
    (["render", "dice", "--out", "x", "--count", "1", "--size", "big"], "give WIDTHxHEIGHT"),
    (["render", "dice", "--out", "x", "--count", "1", "--channels", "rbg"], "unknown channel"),
    (
        ["render", "dice", "--out", "x", "--count", "1", "--channels", "right"],
        "channel 'right' needs a [domain.stereo]",
    ),
    (
        ["render", "dice", "--out", "x", "--count", "1", "--resample", "light,ligth"],
        "unknown group 'ligth'. Did you mean 'light'? Allowed: ",
    ),
    (
        ["render", "dice", "--out", "x", "--count", "1", "--set", "layout/surface=floor"],
        "'layout/surface' cannot be 'floor'. Allowed: bin, field, mat, shelf, table, tray",
    ),
    (
        ["render", "dice", "--out", "x", "--count", "1", "--set", "light/warmth"],
        "--set light/warmth: give FACTOR=VALUE, such as light/warmth=0.5.",
    ),
    ([], "give a command. See sim2cam --help."),
    (["rendr"], "unknown command 'rendr'. Did you mean 'render'?\n"),
    (["adapt"], "give a command of adapt: adapt train, adapt apply."),
    (["render", "dice", "--cuont", "3"], "unknown option --cuont. Did you mean --count?"),
    (["inspect", "sim", "more"], "unknown argument more. See sim2cam inspect --help."),
    (
        ["render", "dice", "--count", "x"],
        "argument --count: must be a whole number, not 'x'. See sim2cam render --help.",
    ),
    (["train", "dice"], "the following arguments are required: --data, --out. See "),
    (["adapt", "train", "--method", "none"], "argument --method: invalid choice: 'none' "),
    (["train", "dice", "--data", "a", "b", "--mix", "1", "--out", "x"], "Give one per dataset"),
    (
        ["train", "dice", "--data", "a", "--data", "b", "--out", "x"],
        "--data is given twice. Give it once with all its values.",
    ),
    (
        ["bench", "w.safetensors", "--captures", "c", "--out", "found.txt"],
        "--out found.txt must end in .json.",
    ),
    (
        ["bench", "w.safetensors", "--captures", "c", "--map=a=b", "--map", "c=d"],
        "--map is given twice. Give it once with all its values.",
    ),
    (
        ["train", "dice", "--data", "a", "--out", "x", "--mix-steps", "3", "--mix_steps", "4"],
        "--mix-steps is given twice. Give it once with all its values.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=[m for _, m in USAGE])
def test_wrong_usage_exits_with_2(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_counterfactuals_pair_with_what_was_rendered(rendered, tmp_path):
    render = ["render", str(rendered.parent / "small.toml"), "--count", "4", "--out"]
    out = tmp_path / "d"
    changes = ["--resample", "light,table", "--set", "die/mirrored=true", "sensor/blur_px=1"]
    assert main([*render, str(out), *changes, "-q"]) == 0
    header = json.loads((out / "dataset.json").read_text())
    assert header["change"] == {
        "resamples": {"light": 1, "table": 1},
        "settings": {"die/mirrored": True, "sensor/blur_px": 1},
    }
    for path in sorted(rendered.glob("shards/*/depth/*.png")):
        assert (out / path.relative_to(rendered)).read_bytes() == path.read_bytes()


def test_check_finds_a_changed_picture(rendered, tmp_path, capsys):
    import shutil

    copy = tmp_path / "d"
    shutil.copytree(rendered, copy)
    assert main(["check", str(copy)]) == 0
    picture = sorted(copy.rglob("*.jpg"))[0]
    picture.write_bytes(picture.read_bytes() + b"\0")
    assert main(["check", str(copy)]) == 1
    assert picture.stem in capsys.readouterr().err


def test_export_and_inspect(rendered, tmp_path):
    assert main(["export", str(rendered), "--out", str(tmp_path / "coco")]) == 0
    facts = json.loads((tmp_path / "coco" / "train.json").read_text())
    assert len(facts["images"]) == 4
    page = tmp_path / "page.html"
    assert main(["inspect", str(rendered), "--out", str(page)]) == 0
    assert "<html" in page.read_text()


@pytest.fixture
def interrupts_heard():
    """Undoes what a shell does to what it starts in the background, these tests perhaps among it."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("interrupts_heard")
def test_ctrl_c_leaves_a_folder_that_can_be_resumed(tmp_path, workers):
    (tmp_path / "r.toml").write_text(TWO_DICE_TOML)
    render = ["render", str(tmp_path / "r.toml"), "--out", str(tmp_path / "d"), "--count", "32"]
    render += ["--size", "320x240"]  # which takes long enough to be interrupted in
    command = [sys.executable, "-m", "sim2cam", *render, "--workers", workers]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list((tmp_path / "d").glob("shards/*")) and child.poll() is None:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGINT)  # a terminal tells workers too
    _, told = child.communicate(timeout=120)
    assert child.returncode == 130, told
    hint = "sim2cam: interrupted. Run the same command with --resume to continue."
    assert told.splitlines()[1:] == ["", hint]
    assert main(["check", str(tmp_path / "d")]) == 1
    assert main([*render, "--workers", "1", "--resume", "-q"]) == 0
    assert main(["check", str(tmp_path / "d")]) == 0


@pytest.mark.usefixtures("interrupts_heard")
def test_an_interrupt_that_ctypes_makes_an_error_of_its_own_is_one(monkeypatch, capsys):
    class Interrupted:
        @classmethod
        def from_param(cls, _):
            os.kill(os.getpid(), signal.SIGINT)

    absolute = ctypes.CDLL(None).abs
    absolute.argtypes = [Interrupted]
    monkeypatch.setattr("sim2cam.cli.Doctor.run", lambda _: absolute(1))
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "\nsim2cam: interrupted. \n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.setattr("sim2cam.cli.Doctor.run", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["doctor"])


@pytest.mark.usefixtures("interrupts_heard")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_terminate_is_an_interrupt(monkeypatch, capsys, how):
    monkeypatch.setattr("sim2cam.cli.Doctor.run", lambda _: os.kill(os.getpid(), how))
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "\nsim2cam: interrupted. \n"
    assert signal.getsignal(how) is signal.SIG_DFL


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-u", "-m", "sim2cam", "render", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 1


SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "sim2cam.cli":
            print("importing", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
from sim2cam.__main__ import main
raise SystemExit(main())
"""


@pytest.mark.usefixtures("interrupts_heard")
def test_an_interrupt_amid_the_imports_prints_no_traceback():
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "importing\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[1] == "\nsim2cam: interrupted.\n"
    assert child.returncode == 130
