"""Renders of one scene with one factor at the ends of its range and all others equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.channels import OutputName
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.counterfactual import Intervention
from sim2cam.randomize.domain_survey import FactorHistogram
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.sampling_context import Value
from sim2cam.render.optics.views import find_unprojectable_corner
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.renderer import get_renderer

WIDTH_PX = 160
_MAX_CHOICES = 6
_MIN_HEIGHT_PX = 16
_CHANNELS: tuple[OutputName, ...] = ("ids",)


@dataclass(frozen=True, eq=False)
class FactorImage:
    """Render of a scene with one factor at one end of its range."""

    group: str
    factor: str
    value: Value
    rgb: NDArray[np.uint8]


def render_factor_extremes(
    recipe: Recipe, seed: int, factors: Sequence[FactorHistogram], *, index: int = 0
) -> Iterator[FactorImage | None]:
    """Yield an image for each end of each factor; None where the lens has a blind corner.

    Args:
        factors: factors to show; fixed factors have no images.

    Raises:
        SceneError: if the scene does not come to rest.
    """
    height = max(_MIN_HEIGHT_PX, WIDTH_PX * recipe.render.height // recipe.render.width)
    size = replace(
        recipe.render, width=WIDTH_PX, height=height, views=1, channels=_CHANNELS, sequence=None
    )
    small = replace(recipe, render=size)
    attempt = simulate_scene(recipe.to_stills(), seed, index).attempt
    for factor in factors:
        for value in list_extremes(factor):
            change = Intervention(settings={f"{factor.group}/{factor.factor}": value})
            rgb = _render_scene(small, seed, index, attempt, change)
            yield None if rgb is None else FactorImage(factor.group, factor.factor, value, rgb)


def list_extremes(factor: FactorHistogram) -> tuple[Value, ...]:
    """Return the smallest and the largest number of a factor, or its first options."""
    if factor.is_fixed:
        return ()
    if factor.options:
        return tuple(dict.fromkeys(factor.extremes))[:_MAX_CHOICES]
    numbers = [value for value in factor.extremes if not isinstance(value, str)]
    return min(numbers), max(numbers)


def _render_scene(
    recipe: Recipe, seed: int, index: int, attempt: int, change: Intervention
) -> NDArray[np.uint8] | None:
    """Render the scene, even if the physics checks would reject it."""
    values = sample_factors(
        recipe.domain, seed, index, views=1, attempt=attempt, intervention=change
    )
    composed = recipe.compose_scene(values)
    if find_unprojectable_corner(composed) is not None:
        return None
    scene, _ = simulate(composed)
    with get_renderer().open(scene) as stage:
        return images.decode_image(stage.shoot(scene.cameras[0], _CHANNELS).image)
