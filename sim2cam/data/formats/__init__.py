"""Formats of other tools: one module writes and reads each."""
