"""Models that are damaged, huge or malicious: each gives an error, and harms nobody."""

import os
import subprocess
import sys

import numpy as np
import pytest
import trimesh

from sim2cam.assets.folder import list_assets
from sim2cam.assets.importer import import_assets

USABLE = {"sound.urdf", "chain.urdf", "massless.urdf", "massless.sdf", "massless.mjcf"}
MESH = '<mesh filename="part.stl"/>'
BALL = '<sphere radius="0.1"/>'


def robot(*inside):
    return f"<robot name='r'>{''.join(inside)}</robot>".encode()


def link(name="a", solid=BALL, more=""):
    return f'<link name="{name}"><visual><geometry>{solid}</geometry></visual>{more}</link>'


def joint(parent, child, kind="continuous", more=""):
    return f'<joint name="{parent}{child}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{more}</joint>'


def laughs(tag):
    """A thousand million laughs in a few lines."""
    steps = "".join(
        f'<!ENTITY l{n} "{"".join(f"&l{n - 1};" for _ in range(10))}">' for n in range(1, 10)
    )
    return (
        f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY l0 "ha">{steps}]><{tag}>&l9;</{tag}>'.encode()
    )


def outside(tag):
    """An entity that is a file of the system."""
    return f'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><{tag}>&x;</{tag}>'.encode()


def corpus(outside_name):
    """The files by their names, all of them of no use, but for those in ``USABLE``."""
    sound = robot(link(solid=MESH), link("b"), joint("a", "b"))
    found = {"sound.urdf": sound}
    for kind, tag in (("urdf", "robot"), ("sdf", "sdf"), ("mjcf", "mujoco"), ("dae", "COLLADA")):
        found[f"laughs.{kind}"] = laughs(tag)
        found[f"outside.{kind}"] = outside(tag)
        found[f"empty.{kind}"] = b""
        found[f"null.{kind}"] = bytes(5000)
        found[f"noise.{kind}"] = np.random.default_rng(2).bytes(5000)
        found[f"page.{kind}"] = b"<html><body>404 Not Found</body></html>"
        found[f"deep.{kind}"] = (f"<{tag}>" + "<a>" * 200_000).encode()
        found[f"wide.{kind}"] = (f"<{tag}>" + "<a/>" * 400_000 + f"</{tag}>").encode()
        found[f"large.{kind}"] = f"<{tag}>{'x' * 5_000_000}</{tag}>".encode()
    for tenth in range(1, 10):
        found[f"short{tenth}.urdf"] = sound[: len(sound) * tenth // 10]
    ways = (f"../{outside_name}", "/etc/passwd", "file:///etc/passwd", "package://../../etc/passwd",
            "http://127.0.0.1:9/x.stl", "pipe.stl", "link.stl", "/dev/zero", ".", "x" * 5000, "self.urdf",
            "part.stl\\0", "model://x/../../../etc/passwd", "none.stl", "folder.stl")  # fmt: skip
    for number, way in enumerate(ways):
        found[f"way{number}.urdf"] = robot(link(solid=f'<mesh filename="{way}"/>'))
        uri = f"<geometry><mesh><uri>{way}</uri></mesh></geometry>"
        found[f"way{number}.sdf"] = (
            f'<sdf><model><link name="a"><visual>{uri}</visual></link></model></sdf>'.encode()
        )
        found[f"way{number}.mjcf"] = (
            f'<mujoco><asset><mesh name="m" file="{way}"/></asset><worldbody><geom type="mesh" mesh="m"/>'
            "</worldbody></mujoco>"
        ).encode()
    found["self.urdf"] = robot(link(solid='<mesh filename="self.urdf"/>'))
    found["cycle.urdf"] = robot(link("a"), link("b"), link("c"), joint("b", "c"), joint("c", "b"))
    found["itself.urdf"] = robot(link("a"), joint("a", "a"))
    found["mimics.urdf"] = robot(link("a"), link("b"), joint("a", "b", more='<mimic joint="ab"/>'))
    for bad in ("nan", "inf", "1e999", "-1", "x", ""):
        inertial = f'<inertial><mass value="{bad}"/></inertial>'
        found[f"mass-{bad or 'none'}.urdf"] = robot(link(more=inertial))
        found[f"inertia-{bad or 'none'}.urdf"] = robot(
            link(
                more=f'<inertial><mass value="1"/><inertia ixx="{"nan" if bad == "-1" else bad}"/></inertial>'
            )
        )
        found[f"radius-{bad or 'none'}.urdf"] = robot(link(solid=f'<sphere radius="{bad}"/>'))
        scale = "0" if bad == "-1" else bad
        found[f"scale-{bad or 'none'}.urdf"] = robot(
            link(solid=f'<mesh filename="part.stl" scale="{scale or "?"} 1 1"/>')
        )
    found["massless.urdf"] = robot(link(more='<inertial><mass value="0"/></inertial>'))
    ball = "<visual><geometry><sphere><radius>0.1</radius></sphere></geometry></visual>"
    found["massless.sdf"] = (
        f'<sdf><model><link name="a"><inertial><mass>0</mass></inertial>{ball}</link></model></sdf>'
    ).encode()
    found["massless.mjcf"] = b'<mujoco><worldbody><geom size="0.1" mass="0"/></worldbody></mujoco>'
    found["giant.urdf"] = robot(link(solid='<box size="1e300 1 1"/>'))
    found["speck.urdf"] = robot(link(solid='<box size="1e-300 1e-300 1e-300"/>'))
    found["far.urdf"] = robot(link(), link("b"), joint("a", "b", more='<origin xyz="1e200 0 0"/>'))
    found["crowd.urdf"] = robot(*(link(f"l{n}") for n in range(5000)))
    found["shapes.urdf"] = robot(
        link(more='<visual><geometry><mesh filename="part.stl"/></geometry></visual>' * 5000)
    )
    found["faces.urdf"] = robot(
        link(more='<visual><geometry><mesh filename="many.stl"/></geometry></visual>' * 1000)
    )
    found["chain.urdf"] = robot(
        *(link(f"l{n}") for n in range(50)), *(joint(f"l{n}", f"l{n + 1}") for n in range(49))
    )
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile-models")
    folder = root / "assets"
    (folder / "folder.stl").mkdir(parents=True)
    os.mkfifo(root / "outside.stl")  # whoever opens it waits for ever
    os.mkfifo(folder / "pipe.stl")
    (folder / "link.stl").symlink_to(root / "outside.stl")
    trimesh.creation.box((0.1, 0.2, 0.3)).export(folder / "part.stl")
    trimesh.creation.icosphere(5, 0.1).export(folder / "many.stl")
    for name, data in corpus("outside.stl").items():
        (folder / name).write_bytes(data)
    return folder


def test_audit_hook_sees_opened_files(tmp_path, opened_beyond):
    for name in ("in/a.txt", "out/b.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    (tmp_path / "in/link.txt").symlink_to(tmp_path / "out/b.txt")
    code = f"import os; os.chdir({str(tmp_path / 'in')!r}); open('a.txt'); open('link.txt')"
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=path, check=True)
    assert opened_beyond(tmp_path / "in") == {(tmp_path / "out/b.txt").resolve()}


def test_hostile_models_do_not_stop_import(folder, opened_beyond):
    names = list_assets(folder)
    assert len(names) >= 100
    found = {one.name: one for one in import_assets(folder, names)}
    assert list(found) == list(names)
    assert opened_beyond(folder) == set()
    assert {name for name, one in found.items() if one.info} == USABLE
    for name, one in found.items():
        said = any("mass of 0 kg" in words for words in one.repairs)
        assert said is name.startswith("massless"), one
        assert not one.info or np.isfinite(one.info.mass_kg.high), one
        if one.error:
            assert one.error.startswith(str(folder / name).rpartition(".")[0]), one
            assert "root:" not in one.error, one
            # what is wrong with a file's XML is found with or without that package
            assert "needs pycollada" not in one.error or name == "large.dae", one
            for words in ("Traceback", "the process ended", "takes more than"):
                assert words not in one.error, one
