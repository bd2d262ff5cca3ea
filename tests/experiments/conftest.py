"""Fixtures of the pipeline tests: a rendered dataset and its COCO export."""

from tests.pipeline.conftest import coco, few_resamples, sim

__all__ = ["coco", "few_resamples", "sim"]
