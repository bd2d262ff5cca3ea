"""A shipped domain that has every group."""

import pytest

from sim2cam.pipeline.recipe import load_recipe


@pytest.fixture(scope="session")
def domain():
    """The domain of the recipe ``dice-full``."""
    return load_recipe("dice-full").domain
