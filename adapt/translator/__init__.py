"""Residual translator: unpaired, initially the identity, and bounded so that geometry stays."""
