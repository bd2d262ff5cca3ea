"""BOP, the benchmark for 6D object pose estimation (Hodan et al. 2018)."""
