"""Readers of articulated models: URDF, SDF, MJCF."""
