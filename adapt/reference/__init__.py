"""CycleGAN, CUT and FastCUT as published: what the default translator is compared with."""
