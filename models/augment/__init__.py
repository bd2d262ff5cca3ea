"""Augmentation of training crops."""
