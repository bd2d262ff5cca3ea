"""Image sensor: exposure, mosaic, noise, tone, quantization."""
