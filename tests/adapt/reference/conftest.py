import pytest

from sim2cam.adapt.reference.config import ReferenceConfig


@pytest.fixture
def tiny() -> ReferenceConfig:
    return ReferenceConfig(steps=20, patch_px=32, width=2, blocks=5)
