"""Labels and ground truth of a rendered frame."""
