"""Experiments on datasets and models: benchmark, ablation study, domain fit, domain gap."""
