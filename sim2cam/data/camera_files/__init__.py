"""Cameras in the files of calibration tools."""
