"""Regression scenes: equal bytes, detected deviations, refused broken files."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import trimesh

from sim2cam import images
from sim2cam.cli import main
from sim2cam.data.reader import read_dataset
from sim2cam.errors import Sim2CamError
from sim2cam.experiments.regression_scenes import add_case, read_case, run_cases
from sim2cam.files import write_bytes
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RenderOptions, SequenceOptions, load_recipe
from sim2cam.randomize.counterfactual import Intervention
from sim2cam.randomize.distributions import Constant

RENDER = RenderOptions(width=128, height=96, views=2)


def made(root, recipe="dice", count=4, render=RENDER, **options):
    recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
    generate(
        replace(recipe, render=render), root, count=count, seed=2, workers=1,
        resume=False, overwrite=False, progress=lambda *_: None, **options,
    )  # fmt: skip
    return root


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    return made(tmp_path_factory.mktemp("regression") / "sim")


@pytest.fixture(scope="module")
def kept(sim):
    add_case(sim / "000003", sim.parent / "kept", note="a note")
    return sim.parent / "kept"


@pytest.fixture
def case(kept, tmp_path):
    """Return a case that a test may modify."""
    shutil.copytree(kept, tmp_path / "kept")
    return tmp_path / "kept/sim-000003.json"


def run_one(path):
    (outcome,) = run_cases(path.parent)
    return outcome


def changed(path, change):
    tables = json.loads(path.read_text())
    change(tables)
    path.write_text(json.dumps(tables))
    return path


def test_scene_file_renders_same_bytes(sim, kept):
    outcome = run_one(kept / "sim-000003.json")
    assert (outcome.deviations, outcome.is_same_file, outcome.note) == ((), True, "a note")
    assert outcome.mean_difference == 0
    (sample,) = read_dataset(sim).select_by_name(["000003"]).samples
    case = read_case(kept / "sim-000003.json")
    assert (kept / "sim-000003.jpg").read_bytes() == sample.rgb.read_bytes()
    assert case.objects == sample.objects
    assert case.view == 1


def test_lossless_image_stays_lossless(tmp_path):
    recipe = load_recipe("dice")
    domain = recipe.domain.replace_factors({"sensor/file_format": Constant("png")})
    data = made(tmp_path / "d", replace(recipe, domain=domain), count=1)
    add_case(data / "000000", tmp_path / "kept", name="plain")
    assert images.read_size(tmp_path / "kept/plain.png") == (128, 96)
    assert run_one(tmp_path / "kept/plain.json").is_same_file


def test_counterfactuals_and_labelled_scenes_can_be_added(tmp_path):
    render = replace(RENDER, channels=("amodal_masks", "keypoints"), views=1)
    data = made(tmp_path / "d", count=1, render=render, change=Intervention({"light": 1}))
    add_case(data / "000000", tmp_path / "kept", name="lit")
    outcome = run_one(tmp_path / "kept/lit.json")
    assert (outcome.name, outcome.deviations, outcome.is_same_file) == ("lit", (), True)


def first(tables):
    return tables["objects"][0]


MOVES = [
    # (change of the case file, expected deviation)
    (lambda t: first(t).update(category="0"), r"object \d+: category 0 is now \d"),
    (lambda t: first(t)["box_xyxy"].__setitem__(2, first(t)["box_xyxy"][2] + 3), r"object \d+: box by 3 px \(1 allowed\)"),
    (lambda t: first(t)["box_amodal_xyxy"].__setitem__(0, -9.0), r"object \d+: amodal box by \d+ px \(1 allowed\)"),
    (lambda t: first(t).update(visible_fraction=0.1), r"object \d+: visible fraction by 0\.\d+ \(0.02 allowed\)"),
    (lambda t: first(t)["pose"]["position_m"].__setitem__(1, 1.0), r"object \d+: position by \S+ m \(1e-05 allowed\)"),
    (lambda t: first(t)["pose"].update(rotation_wxyz=[1, 0, 0, 0]), r"object \d+: rotation by \S+ rad \(0.0001 allowed\)"),
    (lambda t: first(t).update(instance_id=77), r"object 77 is missing"),
    (lambda t: t["objects"].pop(0), r"object \d+ is new"),
    (lambda t: t["scene"]["environment"].update(zenith=[4.0, 0.1, 0.1], horizon=[4.0, 0.1, 0.1]), r"mean difference \d+\.\d+ of 255 \(0.5 allowed\)"),
    (lambda t: t["scene"]["cameras"][1]["pose"]["position_m"].__setitem__(0, 0.02), r"object \d+: position by"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), MOVES, ids=[told for _, told in MOVES])
def test_deviations_are_reported(case, change, told):
    outcome = run_one(changed(case, change))
    assert any(re.match(told, what) for what in outcome.deviations), outcome.deviations


def test_deviation_within_tolerance_is_accepted(case):
    def shift(tables):
        first(tables)["box_xyxy"][2] += 3
        tables["tolerances"]["box_px"] = 3.5

    assert run_one(changed(case, shift)).deviations == ()


def test_few_changed_pixels_are_reported(case):
    picture = case.with_suffix(".jpg")
    rgb = images.read_rgb(picture).copy()
    rgb[:8, :8] = 255 - rgb[:8, :8]
    picture.write_bytes(images.encode_jpeg(rgb, 100))
    (what,) = [w for w in run_one(case).deviations if "pixels" in w]
    assert re.fullmatch(r"0\.\d\d % changed pixels \(0\.2 % allowed\)", what)


def test_renew_replaces_the_case(case):
    changed(case, lambda t: first(t).update(category="0"))
    (outcome,) = run_cases(case.parent, renew=True)
    assert outcome.deviations
    assert run_one(case).deviations == ()
    assert read_case(case).note == "a note"


def test_commands_print_table_and_page(sim, kept, tmp_path, capsys, cli):
    folder = tmp_path / "cases"
    keep = ["scenes", "add", str(sim / "000000"), "--to", str(folder), "--note", "<i>why</i>"]
    assert main(keep) == 0
    assert cli("scenes", "run", folder).out == "ok       sim-000000  same file\n"
    changed(folder / "sim-000000.json", lambda t: first(t).update(category="0"))
    told = json.loads(cli("scenes", "run", folder, "--json", code=1).out)
    assert told["scenes"] == 1
    assert list(told["changed"]) == ["sim-000000"]
    page = (tmp_path / "cases-changed.html").read_text()
    assert page.count("data:image/jpeg") == 3
    assert "&lt;i&gt;why" in page
    assert "<i>why" not in page
    (folder / "broken.json").write_text("{")
    capsys.readouterr()
    told = cli("scenes", "run", folder, "--overwrite", code=1)
    assert "fails    broken  " in told.out
    assert "changed  sim-000000  " in told.out
    assert f"page: {tmp_path / 'cases-changed.html'}" in told.err
    assert (
        f"{folder}: 1 of 2 scenes cannot be rendered. 1 of 2 scenes changed. If this is intended, add "
        "--update.\n"
    ) in told.err
    assert main(["scenes", "run", str(folder), "--update", "-q", "--overwrite"]) == 1
    (folder / "broken.json").unlink()
    assert main(["scenes", "run", str(folder), "--overwrite"]) == 0


def film(folder):
    render = replace(RENDER, views=1, sequence=SequenceOptions(2, 0.05))
    return made(folder / "film", count=2, render=render)


def test_every_frame_of_a_sequence_can_be_added(tmp_path):
    data = film(tmp_path)
    for name in ("000000", "000001"):
        add_case(data / name, tmp_path / "kept")
    first, last = run_cases(tmp_path / "kept")
    assert (first.deviations, first.is_same_file) == ((), True)
    assert (last.deviations, last.is_same_file) == ((), True)
    poses = [
        [body.pose for body in read_case(tmp_path / f"kept/film-{name}.json").scene.bodies]
        for name in ("000000", "000001")
    ]
    assert poses[0] != poses[1]


def test_frame_keeps_gains_of_earlier_frames(tmp_path):
    recipe = load_recipe("dice")
    lag = {"exposure_lag_s": 3.0, "white_balance": 1.0, "white_lag_s": 3.0}
    automatics = {name: Constant(value) for name, value in lag.items()}
    slow = replace(recipe, domain=recipe.domain.replace_groups({"automatics": automatics}))
    render = replace(RENDER, views=1, sequence=SequenceOptions(2, 0.3))
    data = made(tmp_path / "slow", slow, count=2, render=render)
    cases = [add_case(data / name, tmp_path / "kept") for name in ("000000", "000001")]
    assert all(o.is_same_file and not o.deviations for o in run_cases(tmp_path / "kept"))
    assert read_case(cases[0]).gains is None
    chosen = read_dataset(data).samples[1].gains
    assert read_case(cases[1]).gains == chosen
    changed(cases[1], lambda t: t["gains"].update(exposure=2 * chosen.exposure))
    assert any(
        "mean difference" in what for what in list(run_cases(tmp_path / "kept"))[1].deviations
    )


def test_incomplete_sequence_is_refused(tmp_path):
    data = film(tmp_path)
    path = data / "shards/000000/scenes.jsonl"
    (record,) = map(json.loads, path.read_text().splitlines())
    record["sequence"] = record["sequence"][:1]
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(Sim2CamError) as caught:
        add_case(data / "000001", tmp_path / "kept")
    problem = "scene 0: broken sequence (IndexError('tuple index out of range'))."
    assert str(caught.value) == f"{path}: {problem}"


THINGS = """base = "objects"
name = "things"
[assets]
folder = "objects"
unit = "mm"
[skies]
folder = "skies"
[render]
width = 96
height = 80
views = 1
[domain.layout]
object_count = 2
distractor_count = 0
surface = "table"
[domain.sky]
turn_rad = 0.5
level = 1.0
"""
MTL = "newmtl red\nKd 1 1 1\nmap_Kd wood.png\n"


@pytest.fixture(scope="module")
def things(tmp_path_factory, opengl):
    """Return a recipe of a textured block and a cup under an environment map, and its dataset."""
    root = tmp_path_factory.mktemp("things")
    (root / "objects").mkdir()
    trimesh.creation.annulus(20, 25, 60).export(root / "objects/cup.stl")
    block = trimesh.creation.box((50, 40, 30))
    corners = "".join(
        f"v {x} {y} {z}\nvt {x / 60 + 0.5} {y / 60 + 0.5}\n" for x, y, z in block.vertices
    )
    faces = "".join(f"f {a}/{a} {b}/{b} {c}/{c}\n" for a, b, c in block.faces + 1)
    (root / "objects/block.obj").write_text(f"mtllib block.mtl\nusemtl red\n{corners}{faces}")
    (root / "objects/block.mtl").write_text(MTL)
    wood = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    write_bytes(root / "objects/wood.png", images.encode_png(wood))
    write_bytes(root / "skies/grey.png", images.encode_png(np.full((64, 128, 3), 120, np.uint8)))
    (root / "things.toml").write_text(THINGS)
    recipe = load_recipe(str(root / "things.toml"))
    made(root / "d", recipe, count=2, render=recipe.render)
    return root


def test_scene_files_are_copied(things, tmp_path):
    shutil.copytree(things, tmp_path / "things")
    root, kept = tmp_path / "things", tmp_path / "kept"
    for name in ("000000", "000001"):
        keep = ["scenes", "add", str(root / "d" / name), "--to", str(kept), "-q"]
        assert main([*keep, "--recipe", str(root / "things.toml")]) == 0
    shutil.rmtree(root)
    copied = {path.name for path in (kept / "files").rglob("*") if path.is_file()}
    assert {"block.obj", "block.mtl", "wood.png", "grey.png"} <= copied <= {
        "block.obj", "block.mtl", "wood.png", "grey.png", "cup.stl",
    }  # fmt: skip
    shutil.move(kept, tmp_path / "elsewhere")
    assert [(o.deviations, o.is_same_file) for o in run_cases(tmp_path / "elsewhere")] == [
        ((), True)
    ] * 2
    shutil.copytree(tmp_path / "elsewhere", tmp_path / "changed")  # meshes are cached by path
    (wood,) = (tmp_path / "changed").rglob("wood.png")
    wood.write_bytes(images.encode_png(np.zeros((16, 16, 3), np.uint8)))
    assert any(outcome.deviations for outcome in run_cases(tmp_path / "changed"))


def test_scenes_with_files_need_their_recipe(things, tmp_path):
    sample, kept = things / "d/000000", tmp_path / "kept"
    with pytest.raises(Sim2CamError) as caught:
        add_case(sample, kept)
    made_of = re.escape(f"{sample}: uses files such as '")
    assert re.fullmatch(made_of + r"\w+\.\w+'\. Add --recipe\.", str(caught.value))
    other = tmp_path / "other"
    shutil.copytree(things, other, ignore=shutil.ignore_patterns("d"))
    write_bytes(other / "skies/grey.png", images.encode_png(np.full((64, 128, 3), 90, np.uint8)))
    with pytest.raises(Sim2CamError) as caught:
        add_case(sample, kept, recipe=load_recipe(str(other / "things.toml")))
    problem = (
        "'skies/grey.png' changed since the scene was rendered with recipe 'things'. Restore the file, or "
        "render the scene again."
    )
    assert str(caught.value) == f"{sample}: {problem}"
    with pytest.raises(Sim2CamError) as caught:
        add_case(sample, kept, recipe=load_recipe("dice"))
    unknown = r"uses '.*', which recipe 'dice' does not have\. Give the recipe of its dataset\."
    assert re.search(unknown, str(caught.value))
    assert not kept.exists()


def test_bad_samples_are_refused(sim, kept, tmp_path):
    for sample, options, message in (
        (sim / "000009", {}, "no sample '000009'. Did you mean '000003'? Allowed: 000000, "),
        (tmp_path / "000000", {}, "not a dataset: it has no dataset.json."),
        (sim / "000000", {"name": "../x"}, "--name ../x: must be a plain name without folders."),
        (sim / "000003", {}, "sim-000003.json: already exists. Choose another --name."),
    ):
        with pytest.raises(Sim2CamError) as caught:
            add_case(sample, kept, **options)
        assert message in str(caught.value)
    assert [path.name for path in sorted(kept.iterdir())] == ["sim-000003.jpg", "sim-000003.json"]


BROKEN = [
    (lambda p: p.write_text("{"), "sim-000003.json: not a case: "),
    (lambda p: p.write_text("[" * 100_000), "sim-000003.json: not a case: "),
    (lambda p: p.write_text("[]"), "sim-000003.json: not a case: "),
    (lambda p: changed(p, lambda t: t.update(view=2)), "sim-000003.json: view 2, but the scene has 2 cameras."),
    (lambda p: changed(p, lambda t: t.update(view=-1)), "sim-000003.json: view -1, but the scene has 2 cameras."),
    (lambda p: changed(p, lambda t: t["scene"]["cameras"][1].update(width=10**6)), "sim-000003.json: image of 1000000x96 pixels; at most 4096 are allowed."),
    (lambda p: changed(p, lambda t: t["scene"]["bodies"][0].pop("asset")), "sim-000003.json: not a case: scene.bodies[0].asset is missing."),
    (lambda p: changed(p, lambda t: t["scene"]["cameras"][1].update(width=64)), "sim-000003.jpg: has 128x96 pixels, but its camera has 64x96. Add the case again."),
    (lambda p: changed(p, lambda t: t["scene"]["bodies"][0].update(asset={"kind": "mesh", "path": "/etc/passwd", "category": "6"})), "sim-000003.json: 'passwd' must be in files/ next to the case."),
    (lambda p: changed(p, lambda t: t["scene"]["bodies"][0].update(asset={"kind": "mesh", "path": "files/../../x.ply", "category": "6"})), "sim-000003.json: 'x.ply' must be in files/ next to the case."),
    (lambda p: p.with_suffix(".jpg").unlink(), "sim-000003.jpg: no such image."),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_case_is_reported_and_others_run(case, spoil, message):
    for suffix in (".json", ".jpg"):
        shutil.copy(case.with_suffix(suffix), case.with_name(f"whole{suffix}"))
    spoil(case)
    broken, whole = run_cases(case.parent)
    assert broken.name == "sim-000003"
    assert message in broken.problem
    assert (whole.name, whole.deviations) == ("whole", ())


def test_folder_without_cases_is_refused(tmp_path):
    with pytest.raises(
        Sim2CamError, match=r"has no regression scenes. Add one with sim2cam scenes add\."
    ):
        list(run_cases(tmp_path))


def test_large_case_is_not_read(case, monkeypatch):
    monkeypatch.setattr("sim2cam.experiments.regression_scenes.MAX_BYTES", 1000)
    with pytest.raises(Sim2CamError, match=r"larger than 0 MB, so not a case"):
        read_case(case)
