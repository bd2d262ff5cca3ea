"""Readers and writers of dataset formats of other tools."""
