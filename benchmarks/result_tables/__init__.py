"""Markdown tables of committed benchmark results, for README.md and docs."""
