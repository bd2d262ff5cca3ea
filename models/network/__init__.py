"""Network architectures, their targets and the decoding of their outputs."""
