"""Sampling of scenes: distributions, factor groups, domains and layouts."""
