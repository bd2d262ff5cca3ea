"""Benchmarks import their parts by the folder in which they lie."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
