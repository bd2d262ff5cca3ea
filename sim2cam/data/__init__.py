"""Datasets and real images on disk."""
