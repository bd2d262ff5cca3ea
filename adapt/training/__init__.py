"""Adversarial training, shared by all translators: loop, checkpoint selection, diagnostics."""
