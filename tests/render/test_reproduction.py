"""Equal bytes from every process, with any number of the driver's and of OpenCV's threads."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from sim2cam.geometry.lens import KannalaBrandt

PROGRAM = """
import hashlib, json, sys
import cv2
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.renderer import Stage, get_renderer
from sim2cam.scene.scene import Scene

cv2.setNumThreads(int(sys.argv[1]))
stage = Stage(Scene.from_json(sys.stdin.read()), get_renderer().rasterizer)
scene = stage.scene
pinhole = scene.cameras[0]
lens = pinhole.lens
view = PinholeView(pinhole.pose, pinhole.width, pinhole.height, lens.fx_px, lens.cx_px, lens.cy_px)
drawn = stage.render(view, stage.rasterizer.channels)
made = {name: values.tobytes() for name, values in drawn.items()}
for camera in scene.cameras:
    frame = stage.shoot(camera, ("depth", "ids"))
    made[f"{camera.lens.kind} jpeg"] = frame.image
    made[f"{camera.lens.kind} depth"] = frame.channels["depth"].tobytes()
print(json.dumps({name: hashlib.sha256(data).hexdigest() for name, data in made.items()}))
"""


@functools.cache
def digests(scene, backend, threads):
    """Hashes of everything that a fresh process draws of a scene, by name."""
    chosen = {"SIM2CAM_BACKEND": backend, "LP_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    surroundings = {k: v for k, v in os.environ.items() if k != "PYOPENGL_PLATFORM"} | chosen
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, threads],
        input=scene.to_json(), capture_output=True, text=True, check=False, env=surroundings,
    )  # fmt: skip
    if "no OpenGL through OSMesa" in done.stderr:
        pytest.skip("OSMesa is not installed (apt-get install libosmesa6)")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def thrown(make):
    """Dice in the air before a pinhole and a fisheye."""
    straight = make.camera(width=160, height=120, focal_px=200.0, cx_px=79.5, cy_px=59.5)
    bent = replace(straight, lens=KannalaBrandt(80.0, 80.0, 79.5, 59.5, 0.05))
    return replace(make.thrown(), cameras=(straight, bent))


@pytest.mark.parametrize(("backend", "threads"), [("egl", "012"), ("tiny", "12")])
def test_processes_and_threads_make_no_difference(request, thrown, backend, threads):
    drawing = request.getfixturevalue(backend)
    first, *others = [digests(thrown, backend, count) for count in threads]
    assert first.keys() > drawing.channels | {"brown_conrady jpeg", "kannala_brandt jpeg"}
    assert all(other == first for other in others)


@pytest.mark.usefixtures("egl")
def test_mesa_without_a_device_draws_what_it_draws_with_one(thrown):
    found = digests(thrown, "osmesa", "1")
    assert found == digests(thrown, "egl", "1")
