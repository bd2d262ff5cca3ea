"""Training of detectors: data, batches, loop."""
