import pytest

from sim2cam.adapt.translator.config import TranslatorConfig


@pytest.fixture
def tiny() -> TranslatorConfig:
    return TranslatorConfig(
        steps=20, batch=2, patch_px=32, width=4, blocks=1, gradient_penalty_every=3
    )
