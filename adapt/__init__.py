"""Frames to camera-like frames: transfers and a learned translator."""
