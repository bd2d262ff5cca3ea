"""Lens and shutter effects."""
