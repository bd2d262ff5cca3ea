"""Rendering benchmark: statistics, tables and export of the scene to other renderers."""

from __future__ import annotations

import importlib.util
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from peers import cycles, measure
from rendering import floor
from rendering.candidates import (
    RENDERERS,
    Renderer,
    benchmark_renderer,
    compute_agreement,
    get_channel_costs,
)
from rendering.memory import compute_growth
from rendering.sheet import make_contact_sheet
from rendering.spread import Clock, compute_spread
from rendering.tabletop import export_tabletop, make_tabletop, unmirror_texture
from result_tables import speed

from sim2cam.pipeline.recipe import load_recipe
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.renderer import get_renderer

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / f"benchmarks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


render = load("render")


def timing(what, cpu_ms, wall_ms=None):
    entry = {"value": cpu_ms, "p10": cpu_ms - 1, "p90": cpu_ms + 1, "mean": cpu_ms, "n": 3}
    wall = dict(entry, value=wall_ms or cpu_ms)
    return {"what": what, "cpu_ms": entry, "wall_ms": wall}


def ran(name, **cpu_ms):
    timings = [timing(what, ms) for what, ms in cpu_ms.items()]
    facts = {"name": name, "state": "ran", "timings": timings}
    return facts | {"memory_mb": {"peak": 120.4}, "agrees": {"ids": 0.9951, "depth_mm": 0.1}}


def results():
    ours = ran(
        "sim2cam",
        **{"RGB, depth": 50.0, "all channels, one hard light": 80.0, "channel: normals": 2.5},
    )
    ours["timings"].append(timing("all channels, 4 samples, one hard light", 160.0))
    ours.pop("agrees")
    renderers = [
        ours,
        ran("pyrender", **{"RGB, depth": 400.0, "RGB, depth, ids": 420.0}),
        ran("pybullet TinyRenderer", **{"RGB, depth, ids": 100.0}),
        {"name": "MuJoCo", "state": "not installed", "cure": "pip install mujoco"},
        ran("Blender Cycles, 16 samples", **{"RGB, depth, ids": 12000.0}),
    ]
    tabletop = {
        "name": "ten", "objects": 10, "triangles": 15262, "renderers": renderers,
        "channels_cpu_ms": get_channel_costs(ours),
    }  # fmt: skip
    steps = [{"step": "physics", **timing("", 20.0)}, {"step": "sensor", **timing("", 30.0)}]
    pace = {"value": 4.0}
    run = {"images_per_s": pace, "cpu_ms": timing("", 250.0)["cpu_ms"], "peak_mb": 900.0}
    found = {
        "tabletops": [tabletop, tabletop],
        "steps": {"steps": steps},
        "floor": [{"step": "copy", **timing("", 8.0)}, {"step": "write", **timing("", 2.0)}],
        "end_to_end": {"workers": {"1": run, "2": run}, "full": run},
    }
    return found | {"aims": render.list_aims(found)}


def test_the_spread_of_repeated_measurements():
    found = compute_spread([5.0, 1.0, 3.0, 2.0, 9.0])
    assert (found.value, found.mean, found.n) == (3.0, 4.0, 5)
    assert (found.p10, found.p90) == (1.4, 7.4)
    with pytest.raises(ValueError, match="no measurements"):
        compute_spread([])


def test_a_clock_keeps_an_entry_each_time_a_step_is_taken():
    clock = Clock()
    for _ in range(2):
        with clock("add"):
            sum(range(100_000))
    assert len(clock.cpu_ms["add"]) == len(clock.wall_ms["add"]) == 2
    assert min(clock.cpu_ms["add"]) > 0


def test_frames_that_warm_up_are_drawn_and_not_counted(tmp_path):
    drawn = []
    asked = measure.Arguments(tmp_path, tmp_path, frames=3, warm=2)
    found = measure.time_frames("nothing", drawn.append, asked)
    assert drawn == [0, 1, 2, 3, 4]
    assert len(found.cpu_ms) == len(found.wall_ms) == 3


def test_memory_is_that_of_this_process():
    assert 10 < measure.resident_mb() <= measure.resident_mb(at_most=True)


def test_shadow_maps_and_channels_have_costs():
    ours = ran(
        "sim2cam",
        **{"RGB, depth": 50.0, "all channels, one hard light": 80.0, "channel: normals": 2.5},
    )
    ours["timings"].append(timing("shadow maps", 40.0))
    costs = {name: cost["value"] for name, cost in get_channel_costs(ours).items()}
    assert costs == {"shadow maps": 40.0, "normals": 2.5}
    assert get_channel_costs({"state": "failed"}) == {}


def test_the_floor_has_what_every_picture_takes(monkeypatch):
    if not get_renderer().name.startswith("egl"):
        pytest.skip("the floor is that of a renderer in OpenGL")
    monkeypatch.setattr(floor, "_REPEATS", 1)
    encoding = {"step": floor.ENCODINGS[0], **timing("", 3.0)}
    other = {"step": "sensor", **timing("", 5.0)}
    found = floor.measure_floor(load_recipe(str(render.RECIPE)), [encoding, other])
    assert [part["step"] for part in found[-2:]] == ["noise of the sensor", floor.ENCODINGS[0]]
    assert all(part["cpu_ms"]["value"] > 0 for part in found)
    assert len(found) == 6


def test_aims_stand_beside_what_was_measured():
    measured = {row["what"]: (row["aim"], row["measured"]) for row in render.list_aims(results())}
    assert list(measured.values()) == [
        ("at most 90", "80"),
        ("at most 180", "160"),
        ("at least 4", "5.0"),
        ("at least 100", "150.0; 75.0"),
        ("at least 8", "4.0"),
        ("at least 2.5", "4.0"),
        ("at least 1.9", "1.00"),
    ]
    without = results()
    without["tabletops"][-1]["renderers"][1] = {"name": "pyrender", "state": "failed"}
    assert render.list_aims(without)[2]["measured"] == "not run"


def test_the_tables_have_a_row_for_each_set_of_channels():
    lines = speed.tabulate_renderers(results()).splitlines()
    head = "10 objects, 15,262 triangles"
    assert lines[0] == (
        f"| renderer, 512x512 | CPU-ms: {head} | CPU-ms: {head} | ms, 50 objects | memory, MB | equal ids |"
    )
    cell = "50 (49–51)"
    assert f"| sim2cam: RGB, depth | {cell} | {cell} | {cell} | 120 | — |" in lines
    assert not any("channel:" in line for line in lines)
    cell = "12,000 (11,999–12,001)"
    assert (
        f"| Blender Cycles, 16 samples: RGB, depth, ids | {cell} | {cell} | {cell} | 120 | 99.51 % |"
        in lines
    )
    assert "| MuJoCo | not installed: `pip install mujoco` | | | | |" in lines


@pytest.mark.parametrize(
    ("tabulate", "row"),
    [
        (speed.tabulate_render_targets, "| speedup with 2 workers | at least 1.9 | 1.00 |"),
        (speed.tabulate_render_stages, "| all stages | 50.0 | |"),
        (
            speed.tabulate_render_throughput,
            "| all channels, 2 workers | 4.00 | 250 (249–251) | 900 |",
        ),
        (speed.tabulate_channels, "| normals | 2.5 (1.5–3.5) | 2.5 (1.5–3.5) |"),
    ],
)
def test_costs_have_their_rows(tabulate, row):
    assert row in tabulate(results()).splitlines()


def test_limits_are_those_of_the_renderers_that_ran():
    lines = speed.tabulate_renderer_limits(results()).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| sim2cam", "| pyrender", "| pybullet TinyRenderer", "| Blender Cycles, 16 samples",
    ]  # fmt: skip


def test_without_results_no_renderer_was_run():
    assert speed.tabulate_renderers(None).count("not run") == len(RENDERERS)
    assert tuple(renderer.name for renderer in RENDERERS) == speed.RENDERERS


def test_a_renderer_whose_package_is_missing_is_reported_with_the_cure(tmp_path, monkeypatch):
    monkeypatch.setattr("rendering.commands.FOLDER", tmp_path)
    programs = tmp_path / "peers"
    programs.mkdir()
    line = "import sys; print('pip install absent', file=sys.stderr); raise SystemExit(3)"
    (programs / "absent.py").write_text(line)
    (programs / "broken.py").write_text("raise ValueError('no light')")
    found = [
        benchmark_renderer(
            Renderer(name, name), sys.executable, tmp_path, tmp_path, frames=1, warm=0
        )
        for name in ("absent", "broken")
    ]
    assert (found[0]["state"], found[0]["cure"]) == ("not installed", "pip install absent")
    assert (found[1]["state"], found[1]["error"]) == ("failed", "ValueError: no light")


def test_a_missing_module_ends_a_peer_with_its_cure(capsys):
    with pytest.raises(SystemExit) as ended:
        measure.require_module("no_such_renderer", "pip install no-such-renderer")
    assert ended.value.code == measure.NOT_INSTALLED
    assert capsys.readouterr().err.startswith("pip install no-such-renderer\n")


def test_peers_read_the_scene_that_sim2cam_draws(tmp_path):
    tabletop = make_tabletop("four", 4, 1)
    export_tabletop(tabletop, tmp_path)
    read = measure.read_tabletop(tmp_path)
    scene = tabletop.frames[0]
    assert len(read.bodies) == len(scene.bodies) == tabletop.objects() + 1
    for number, (body, ours) in enumerate(zip(read.bodies, scene.bodies, strict=True)):
        mesh = build_mesh(ours.asset)
        assert np.array_equal(body.vertices_m, mesh.vertices_m)
        assert np.array_equal(body.normals, mesh.normals)
        assert np.array_equal(body.faces, mesh.faces)
        assert body.uvs.min() >= 0
        assert np.allclose(read.pose(0, number), ours.pose.matrix())
        assert body.texture.is_file()
    assert sum(len(body.faces) for body in read.bodies) == tabletop.triangles()
    assert np.allclose(read.camera, scene.cameras[0].pose.matrix())
    assert np.array_equal(read.pose(1, 2), read.pose(0, 2))


def texel(uvs, picture):
    """The row and the column (n,) of a picture without end at uvs (n, 2)."""
    height, width = picture.shape[:2]
    return np.floor(uvs[:, 1] * height).astype(int), np.floor(uvs[:, 0] * width).astype(int)


def mirrored(index, n):
    return np.where(index // n % 2 == 1, n - 1 - index % n, index % n)


def test_a_picture_that_repeats_mirrored_looks_the_same_repeated_plainly():
    rng = np.random.default_rng(0)
    colors = rng.integers(0, 256, (5, 7, 3), np.uint8)
    uvs = rng.uniform(-3, 3, (500, 2))
    wide, moved = unmirror_texture(colors, uvs)
    assert moved.min() >= 0
    row, column = texel(uvs, colors)
    expected = colors[mirrored(row, 5), mirrored(column, 7)]
    row, column = texel(moved, wide)
    assert np.array_equal(wide[row % 10, column % 14], expected)
    inside = rng.random((20, 2))
    assert unmirror_texture(colors, inside)[0] is colors


def test_an_object_file_names_every_corner(tmp_path):
    export_tabletop(make_tabletop("one", 1, 1), tmp_path)
    body = measure.read_tabletop(tmp_path).bodies[0]
    measure.write_obj(tmp_path / "table.obj", body)
    lines = (tmp_path / "table.obj").read_text().splitlines()
    assert lines[-1] == "f 1/1/1 3/3/3 4/4/4"
    assert [sum(line.startswith(f"{k} ") for line in lines) for k in ("v", "vt", "vn", "f")] == [
        4, 4, 4, 2,
    ]  # fmt: skip


def test_ids_and_depth_of_two_pictures_are_compared(tmp_path):
    bodies = np.array([[1, 1], [1, 2]])
    depth = np.array([[1.0, 1.0], [1.0, 0.8]], np.float32)
    for name, ids, far in (("a", bodies, depth), ("b", bodies.T[::-1], depth + 0.001)):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "image.npz", bodies=ids, depth_m=far)
    (tmp_path / "c").mkdir()
    np.savez(tmp_path / "c" / "image.npz", rgb=bodies)
    found = compute_agreement(tmp_path / "a", tmp_path / "b")
    assert found["ids"] == 0.5
    assert found["depth_mm"] == pytest.approx(1.0, rel=1e-3)
    assert compute_agreement(tmp_path / "a", tmp_path / "c") is None


def test_channels_of_an_exr_file_are_read(tmp_path):
    def attribute(name, kind, value):
        return b"%s\0%s\0%s%s" % (name, kind, struct.pack("<i", len(value)), value)

    def channel(name):
        return name + b"\0" + struct.pack("<iB3xii", 2, 0, 1, 1)

    planes = np.arange(12, dtype=np.float32).reshape(2, 2, 3)  # rows, channels, columns
    data = struct.pack("<ii", 20000630, 2)
    data += attribute(
        b"channels", b"chlist", channel(b"L.Depth.Z") + channel(b"L.IndexOB.X") + b"\0"
    )
    data += attribute(b"dataWindow", b"box2i", struct.pack("<4i", 0, 0, 2, 1)) + b"\0"
    data += struct.pack("<2q", 0, 0)
    for row, plane in enumerate(planes):
        data += struct.pack("<2i", row, plane.nbytes) + plane.tobytes()
    (tmp_path / "a.exr").write_bytes(data)
    found = cycles.read_exr(tmp_path / "a.exr")
    assert np.array_equal(found["L.Depth.Z"], planes[:, 0])
    assert np.array_equal(found["L.IndexOB.X"], planes[:, 1])


def test_growth_is_taken_from_the_second_half():
    curve = [(100, 50.0), (200, 90.0), (300, 100.0), (400, 101.0)]
    assert compute_growth(curve) == pytest.approx(
        {"mb_per_1000_frames": 10.0, "end_mb": 101.0, "frames": 400}
    )


def test_a_contact_sheet_fills_rows_of_three():
    tile = np.zeros((40, 60, 3), np.uint8)
    sheet = make_contact_sheet([(str(i), tile) for i in range(4)])
    assert sheet.shape[1] == 180
    assert sheet.shape[0] % 2 == 0
    assert (sheet[-40:, :60] == 0).all()
    assert (sheet[-40:, 60:] == 255).all()
    with pytest.raises(ValueError, match="one size"):
        make_contact_sheet([("a", tile), ("b", tile[1:])])
