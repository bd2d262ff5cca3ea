"""Rendering of scenes to frames: assets, physics, rasterizers, optics, sensor, labels."""
