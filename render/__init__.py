"""Scenes to frames: assets, textures, physics, rasterizers, optics, sensor, labels."""
