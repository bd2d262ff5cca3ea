"""Pictures at the ends: one scene, with one factor at the ends of its range and all else equal."""

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
from sim2cam.render.frame import shoot
from sim2cam.render.optics.views import find_blind_corner
from sim2cam.render.physics.simulation import simulate
from sim2cam.render.rasterizer import get_rasterizer

WIDTH_PX = 160
_MAX_CHOICES = 6
_MIN_HEIGHT_PX = 16
_CHANNELS: tuple[OutputName, ...] = ("ids",)


@dataclass(frozen=True, eq=False)
class FactorImage:
    """A scene with one factor at one end of its range.

    Attributes:
        group, factor: which.
        value: what it is set to, in all instances of the group.
        rgb: (h, w, 3).
    """

    group: str
    factor: str
    value: Value
    rgb: NDArray[np.uint8]


def render_factor_extremes(
    recipe: Recipe, seed: int, factors: Sequence[FactorHistogram], *, index: int = 0
) -> Iterator[FactorImage | None]:
    """Yield a picture for each end of each factor; None where a lens has a blind spot there.

    Args:
        recipe: what is drawn.
        seed: of the data set.
        factors: whose ends are shown; those that are fixed have none.
        index: of the scene.

    Raises:
        SceneError: the scene does not settle.
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
    """Return the least and the greatest number of a factor, or its first few words."""
    if factor.is_fixed:
        return ()
    if factor.options:
        return tuple(dict.fromkeys(factor.extremes))[:_MAX_CHOICES]
    numbers = [value for value in factor.extremes if not isinstance(value, str)]
    return min(numbers), max(numbers)


def _render_scene(
    recipe: Recipe, seed: int, index: int, attempt: int, change: Intervention
) -> NDArray[np.uint8] | None:
    """Return the picture, also of bodies that physics would reject: a look, not a sample."""
    drawn = sample_factors(
        recipe.domain, seed, index, views=1, attempt=attempt, intervention=change
    )
    draft = recipe.compose_scene(drawn)
    if find_blind_corner(draft) is not None:
        return None
    scene, _ = simulate(draft)
    drawing = get_rasterizer()
    drawing.load(scene)
    return images.decode_image(shoot(scene, scene.cameras[0], drawing, _CHANNELS).image)
