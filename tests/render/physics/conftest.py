"""Recordings of simulated motion."""

import math

import pytest

from sim2cam.render.physics import simulation
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.physics.trajectory import STEP_S, MotionRecording
from sim2cam.scene.scene import Scene


@pytest.fixture
def filmed(make, monkeypatch):
    """A function that returns the bodies after each step of a simulated time, at rest or not."""

    def film(seconds, *bodies):
        monkeypatch.setattr(simulation, "_MAX_CHECKS", math.ceil(seconds / STEP_S / 24))
        monkeypatch.setattr(simulation, "_REST_CHECKS", 10**6)
        scene = Scene(bodies, make.sky, ())
        recording = MotionRecording(scene)
        simulate(scene, recording)
        steps = range(1, round(seconds / STEP_S) + 1)
        return [recording.get_scene(step * STEP_S).bodies for step in steps]

    return film
