"""Readers of camera calibration files."""
