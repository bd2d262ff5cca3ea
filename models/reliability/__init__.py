"""Calibration of confidences and out-of-distribution detection."""
