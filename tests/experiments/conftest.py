"""Fixtures of the pipeline tests: a rendered dataset and its COCO export; and commands."""

import pytest

from tests.pipeline.conftest import coco, few_resamples, sim
from tests.support.evaluation import Cli

__all__ = ["coco", "few_resamples", "sim"]


@pytest.fixture
def cli(capsys):
    return Cli(capsys)
