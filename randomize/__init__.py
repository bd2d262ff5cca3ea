"""Chance to scenes: distributions, groups of factors, domains, layouts."""
