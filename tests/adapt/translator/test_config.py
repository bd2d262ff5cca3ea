import re
from dataclasses import replace

import pytest

from sim2cam.adapt.translator.config import PRESETS, TranslatorConfig
from sim2cam.errors import UsageError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch_px": 30}, "patch_px must be a multiple of 4 and at least 32, not 30"),
        (
            {"patch_px": 64, "discriminator_scales": 4},
            "discriminator_scales must leave at least 16 px of a patch of 64 px; 4 is too many",
        ),
        ({"discriminator_scales": 0}, "discriminator_scales must be 1 or more, not 0"),
        ({"patch_px": 28}, "patch_px must be a multiple of 4 and at least 32, not 28"),
        ({"width": 5}, "width must be even and 2 or more, not 5"),
        ({"steps": 0}, "steps must be 1 or more, not 0"),
        ({"batch": 0}, "batch must be 1 or more, not 0"),
        ({"accumulation_steps": 3}, "accumulation_steps must divide the batch of 4, not 3"),
        ({"accumulation_steps": 0}, "accumulation_steps must be 1 or more, not 0"),
        ({"local_bound": 0.5}, "local_bound must be above 0 and at most 0.3, not 0.5"),
        ({"colour_bound": 0.0}, "colour_bound must be above 0 and at most 0.3, not 0.0"),
        ({"seed": -1}, "seed must be 0 or more, not -1"),
        ({"adversarial_weight": -1.0}, "adversarial_weight must be 0 or more, not -1.0"),
        ({"identity_weight": -1.0}, "identity_weight must be 0 or more, not -1.0"),
        ({"structure_weight": -1.0}, "structure_weight must be 0 or more, not -1.0"),
        ({"range_weight": float("nan")}, "range_weight must be 0 or more, not nan"),
        ({"paired_weight": -1.0}, "paired_weight must be 0 or more, not -1.0"),
        ({"lpips_weight": -1.0}, "lpips_weight must be 0 or more, not -1.0"),
        ({"gradient_penalty": -1.0}, "gradient_penalty must be 0 or more, not -1.0"),
        ({"gradient_penalty_every": 0}, "gradient_penalty_every must be 1 or more, not 0"),
        ({"cache_bytes": -1}, "cache_bytes must be 0 or more, not -1"),
        ({"learning_rate_generator": 0.0}, "learning_rate_generator must be above 0, not 0.0"),
        (
            {"learning_rate_discriminator": -1e-4},
            "learning_rate_discriminator must be above 0, not -0.0001",
        ),
        ({"ema_decay": 1.0}, "ema_decay must be 0 or more and below 1, not 1.0"),
    ],
)
def test_impossible_values_are_refused(changes, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        replace(TranslatorConfig(), **changes)


def test_presets_differ_in_what_they_cost():
    usual = TranslatorConfig(bfloat16=True)
    assert replace(PRESETS["small"], steps=3000) == usual
    assert replace(PRESETS["demo"], steps=3000, batch=4, local_bound=0.2) == usual
    assert PRESETS["demo"].steps < PRESETS["small"].steps
    assert PRESETS["large"].patch_px == 512
