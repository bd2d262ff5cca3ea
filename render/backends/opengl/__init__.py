"""Headless OpenGL rendering, on a GPU or in software."""
