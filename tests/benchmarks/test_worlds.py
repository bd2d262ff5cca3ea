"""Physics benchmark: floating bodies, coverage and export to another engine."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
import trimesh
from peers import mujoco_rest
from scipy.spatial.transform import Rotation
from settled import rest
from settled.recipes import compute_coverage

from sim2cam.objects.bolt import Bolt
from sim2cam.objects.nut import Nut
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.domain_survey import FactorHistogram, sample_factor_histograms
from sim2cam.randomize.sampling import sample_factors
from sim2cam.render.meshes.mesh import build_mesh

SETTLED = simulate_scene(load_recipe("cubes"), 5, 0)


def factor(name, drawn, asked):
    edges = tuple(range(len(drawn) + 1))
    return FactorHistogram("die", name, "", (0, 1), sum(drawn), drawn, asked, edges)


def test_what_was_asked_is_covered():
    domain = load_recipe("dice").domain
    found = compute_coverage(sample_factor_histograms(domain, 0, count=200, views=1))
    assert found["empty"] == 0
    assert found["bins"] > 500
    assert found["bent"]["total_variation"] < 0.25


def test_a_hole_and_a_bend_are_found():
    even, bent = factor("even", (50, 50), (50.0, 50.0)), factor("bent", (100, 0), (50.0, 50.0))
    unknown = replace(even, expected=None)
    assert compute_coverage((even, bent, unknown)) == {
        "bins": 4,
        "empty": 1,
        "bent": {"factor": "die/bent", "total_variation": 0.5},
    }


def test_what_rests_on_nothing_floats():
    assert rest.list_floating(SETTLED) == ()
    moving = next(body.name for body in SETTLED.scene.bodies if not body.is_fixed)
    kept = [c for c in SETTLED.certificate.contacts if moving not in (c.first, c.second)]
    certificate = replace(SETTLED.certificate, contacts=tuple(kept))
    assert moving in rest.list_floating(replace(SETTLED, certificate=certificate))


def test_the_other_engine_is_given_the_same_bodies():
    bodies = json.loads(json.dumps(rest._export_bodies(SETTLED.scene)))
    root = Xml.fromstring(mujoco_rest._make_model(bodies, 1e-3))
    frames = root.findall("worldbody/body")
    assert len(frames) == len(SETTLED.scene.bodies)
    for body, frame in zip(SETTLED.scene.bodies, frames, strict=True):
        place = [float(v) for v in frame.get("pos").split()]
        assert place == pytest.approx(body.pose.position_m, rel=1e-8)
        assert (frame.find("freejoint") is None) == body.is_fixed
        mass = sum(float(geom.get("mass", 0)) for geom in frame.findall("geom"))
        assert mass == pytest.approx(0 if body.is_fixed else body.mass_kg, rel=1e-8)
        assert frame.find("inertial") is None


def test_the_other_engine_is_told_where_masses_lie():
    recipe = load_recipe("fasteners")
    scene = recipe.compose_scene(sample_factors(recipe.domain, 5, 0, views=1))
    bodies = json.loads(json.dumps(rest._export_bodies(scene)))
    frames = Xml.fromstring(mujoco_rest._make_model(bodies, 1e-3)).findall("worldbody/body")
    uneven = 0
    for body, frame in zip(scene.bodies, frames, strict=True):
        told = frame.find("inertial")
        if told is None:
            assert not isinstance(body.asset, Bolt | Nut)
            continue
        uneven += 1
        numbers = {key: np.array(text.split(), float) for key, text in told.attrib.items()}
        mesh = build_mesh(body.asset)
        solid = trimesh.Trimesh(mesh.vertices_m, mesh.faces)  # which knows masses by itself
        solid.density = body.mass_kg / solid.volume
        w, x, y, z = numbers["quat"]
        axes = Rotation.from_quat([x, y, z, w]).as_matrix()
        assert numbers["mass"] == pytest.approx(body.mass_kg)
        assert numbers["pos"] == pytest.approx(solid.center_mass, abs=1e-6)
        inertia = axes @ np.diag(numbers["diaginertia"]) @ axes.T
        assert inertia == pytest.approx(solid.moment_inertia, rel=1e-3, abs=1e-4 * inertia.max())
    assert uneven > 2


def test_blocks_are_summed_up(tmp_path):
    lying = {"index": 0, "bodies": 3, "rejections": ["leans"], "floating": [], "moved_m": 1e-5}
    files = []
    for number, moved_m in enumerate((1e-5, 3e-3)):
        files.append(tmp_path / f"{number}.json")
        scene = lying | {"moved_m": moved_m, "overlap_m": 2e-3 * number}
        files[-1].write_text(json.dumps({"starved": 1, "scenes": [scene]}))
    found = rest.summarize(files)
    assert (found["scenes"], found["starved"], found["bodies"]) == (2, 2, 6)
    assert (found["moved_over_2_mm"], found["overlap_over_1_mm"]) == (1, 1)
    assert found["rejected_share"] == 0.5
    assert found["moved_mm"]["max"] == pytest.approx(3)


def test_what_was_measured_is_kept(tmp_path):
    block = rest.Block("no such recipe", 0, 0, "python", tmp_path)
    block.result.write_text("{}")
    assert rest.measure_block(block) == block.result
