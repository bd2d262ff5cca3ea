"""Scenes with known answers, and the rasterizers that can run here."""

from render_fixtures import drawing, egl, make, pathtraced, tiny  # noqa: F401
