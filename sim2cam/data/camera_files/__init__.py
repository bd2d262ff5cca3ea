"""Readers and writers of camera calibration files."""
