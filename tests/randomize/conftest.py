"""A domain that is as small as one can be, and the one that ships."""

import pytest

from sim2cam.pipeline.recipe import load_recipe


@pytest.fixture(scope="session")
def domain():
    """The domain of the recipe ``dice``."""
    return load_recipe("dice").domain
