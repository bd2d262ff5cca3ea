"""Reference translators as published: CycleGAN, CUT and FastCUT."""
