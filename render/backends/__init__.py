"""Machines that draw: OpenGL, TinyRenderer, a path tracer."""
