"""Training infrastructure: checkpoints, run folders, devices, distribution and weight files."""
