"""Public data sets, brought to where recipes and benchmarks look for them."""
