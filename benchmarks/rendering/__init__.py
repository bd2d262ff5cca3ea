"""Parts of ``benchmarks/render.py``."""
