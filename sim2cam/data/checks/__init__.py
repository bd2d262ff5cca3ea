"""Consistency checks of datasets."""
