"""Evaluation metrics and their confidence intervals."""
