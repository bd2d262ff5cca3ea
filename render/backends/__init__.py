"""Rendering backends: OpenGL, TinyRenderer, Mitsuba."""
