from dataclasses import replace

import pytest

from sim2cam.adapt.translator.memory import memory_of


def test_a_step_grows_with_its_pixels_and_images_up_to_their_budget(sim, real, tiny):
    small = memory_of(tiny, sim, real, ("depth",))
    larger = memory_of(replace(tiny, patch_px=64), sim, real, ("depth",))
    twice = memory_of(replace(tiny, batch=4), sim, real, ("depth",))
    weights = (4 * small.step_bytes - larger.step_bytes) / 3
    assert larger.step_bytes > 3 * small.step_bytes
    assert twice.step_bytes - weights == pytest.approx(2 * (small.step_bytes - weights), rel=1e-3)
    renders = sum(s.width * s.height * (3 + 2) for s in sim.samples)
    captures = sum(s.width * s.height * 3 for s in real.samples)
    assert small.images_bytes == renders + captures
    assert memory_of(replace(tiny, cache_bytes=1000), sim, real, ()).images_bytes == 2000
