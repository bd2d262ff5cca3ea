"""The rendered data set and its COCO export of the pipeline's tests."""

from tests.pipeline.conftest import coco, few_resamples, sim

__all__ = ["coco", "few_resamples", "sim"]
