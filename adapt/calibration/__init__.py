"""Camera calibration from photos: lens and sensor parameters with uncertainty."""
