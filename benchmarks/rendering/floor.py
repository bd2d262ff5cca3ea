"""Lower bound of the rendering time of a software renderer, independent of the content.

A trivial shader writes every pixel once, with the sizes, formats and sample counts of the real passes.
The result is copied to memory, sensor noise is sampled and files are encoded.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rendering.spread import Clock, compute_spread
from rendering.steps import simulate_scene
from sim2cam.pipeline.recipe import Recipe
from sim2cam.render.backends.opengl.context import GLProgram, open_context
from sim2cam.render.backends.opengl.framebuffers import Attachment, RenderTargets
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.optics.views import build_optics
from sim2cam.render.optics.warp import LABEL_OVERSAMPLING
from sim2cam.scene.camera import Camera

ENCODINGS = ("encode RGB (JPEG)", "encode depth (PNG)", "encode ids (PNG)")
"""Encoding steps, which are part of the lower bound."""

_REPEATS = 10
_COLOR_SAMPLES = 4
_COLOR = "layout(location = 0) out vec4 color; void main() { color = vec4(0.5); }"
_LABELS = """layout(location = 0) out float depth; layout(location = 1) out uvec2 ids;
layout(location = 2) out uint cover; void main() { depth = 0.5; ids = uvec2(1u); cover = 1u; }"""


def measure_floor(recipe: Recipe, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return CPU milliseconds of each part of the lower bound, over repeats and views of a scene.

    Args:
        recipe: recipe of the images.
        steps: measured steps of an image, which include encoding.
    """
    clock, screen = Clock(), _Screen()
    rng = np.random.default_rng(0)
    for camera in simulate_scene(recipe, 0, Clock()).cameras:
        color, labels = _make_view(camera, 1), _make_view(camera, LABEL_OVERSAMPLING)
        screen.color(color, Clock())  # allocates the framebuffers
        screen.labels(labels, Clock())
        for _ in range(_REPEATS):
            screen.color(color, clock)
            screen.labels(labels, clock)
            with clock("noise of the sensor"):
                rng.standard_normal((camera.height, camera.width, 3), dtype=np.float32)
    parts = [
        {"step": step, "cpu_ms": asdict(compute_spread(ms))} for step, ms in clock.cpu_ms.items()
    ]
    return parts + [
        {"step": s["step"], "cpu_ms": s["cpu_ms"]} for s in steps if s["step"] in ENCODINGS
    ]


def _make_view(camera: Camera, density: int) -> PinholeView:
    optics = build_optics(camera)
    return optics.pinhole or optics.patches[0].make_view(density, 0)[0]


class _Screen:
    """A full-view triangle and the framebuffers of the rasterizer's passes."""

    def __init__(self) -> None:
        self._gl = gl = open_context("egl").gl
        self._targets = RenderTargets(gl)
        self._corners = gl.glGenVertexArrays(1)
        self._color, self._labels = _make_program(gl, _COLOR), _make_program(gl, _LABELS)
        self._radiance = Attachment(0, gl.GL_RGBA32F, (gl.GL_RGBA, gl.GL_FLOAT), np.float32, 4)
        self._truth = (
            Attachment(0, gl.GL_R32F, (gl.GL_RED, gl.GL_FLOAT), np.float32, 1),
            Attachment(1, gl.GL_RG32UI, (gl.GL_RG_INTEGER, gl.GL_UNSIGNED_INT), np.uint32, 2),
            Attachment(2, gl.GL_R32UI, (gl.GL_RED_INTEGER, gl.GL_UNSIGNED_INT), np.uint32, 1),
        )

    def color(self, view: PinholeView, clock: Clock) -> None:
        """Write the samples of all pixels, and copy as many pixels with one sample."""
        with clock("write colour, 4 samples"):
            self._write(self._color, (self._radiance,), _COLOR_SAMPLES, view)
        self._write(self._color, (self._radiance,), 1, view)
        with clock("copy colour"):
            self._targets.read(self._radiance, view.width, view.height)

    def labels(self, view: PinholeView, clock: Clock) -> None:
        """Write and copy depth, ids and cover."""
        with clock("write depth, ids, cover"):
            self._write(self._labels, self._truth, 1, view)
        with clock("copy depth, ids, cover"):
            for output in self._truth:
                self._targets.read(output, view.width, view.height)

    def _write(
        self, program: GLProgram, outputs: tuple[Attachment, ...], samples: int, view: PinholeView
    ) -> None:
        gl = self._gl
        self._targets.bind(outputs, samples, view.width, view.height)
        gl.glDisable(gl.GL_DEPTH_TEST)
        program.use()
        gl.glBindVertexArray(self._corners)
        gl.glDrawArrays(gl.GL_TRIANGLES, 0, 3)
        gl.glFinish()


def _make_program(gl: Any, shader: str) -> GLProgram:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "floor.frag"
        path.write_text(f"#version 410 core\n{shader}\n", encoding="utf-8")
        return GLProgram(gl, "screen.vert", str(path))
