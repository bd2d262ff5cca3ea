"""Samples and captures on disk: one value for what is read, one writer for what is made."""
