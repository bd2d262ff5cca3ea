"""Pictures at the ends: one scene, with one factor at the ends of its range and all else equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.channels import Wanted
from sim2cam.pipeline.recipe import Recipe
from sim2cam.pipeline.scene_sampling import settled_scene
from sim2cam.randomize.counterfactual import Change
from sim2cam.randomize.domain_survey import FactorSurvey
from sim2cam.randomize.sampling import draw
from sim2cam.randomize.sampling_context import Value
from sim2cam.render.frame import shoot
from sim2cam.render.optics.views import blind_spot
from sim2cam.render.physics.simulation import settle
from sim2cam.render.rasterizer import rasterizer

SIDE_PX = 160
_MOST_WORDS = 6
_LEAST_PX = 16
_BESIDE: tuple[Wanted, ...] = ("ids",)


@dataclass(frozen=True, eq=False)
class EndPicture:
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


def pictures_at_ends(
    recipe: Recipe, seed: int, factors: Sequence[FactorSurvey], *, index: int = 0
) -> Iterator[EndPicture | None]:
    """Yields a picture for each end of each factor; None where a lens has a blind spot there.

    Args:
        recipe: what is drawn.
        seed: of the data set.
        factors: whose ends are shown; those that are fixed have none.
        index: of the scene.

    Raises:
        SceneError: the scene does not settle.
    """
    height = max(_LEAST_PX, SIDE_PX * recipe.render.height // recipe.render.width)
    size = replace(
        recipe.render, width=SIDE_PX, height=height, views=1, channels=_BESIDE, film=None
    )
    small = replace(recipe, render=size)
    attempt = settled_scene(recipe.of_stills(), seed, index).attempt
    for factor in factors:
        for value in ends_of(factor):
            change = Change(settings={f"{factor.group}/{factor.factor}": value})
            rgb = _picture(small, seed, index, attempt, change)
            yield None if rgb is None else EndPicture(factor.group, factor.factor, value, rgb)


def ends_of(factor: FactorSurvey) -> tuple[Value, ...]:
    """Returns the least and the greatest number of a factor, or its first few words."""
    if factor.is_fixed:
        return ()
    if factor.words:
        return tuple(dict.fromkeys(factor.extremes))[:_MOST_WORDS]
    numbers = [value for value in factor.extremes if not isinstance(value, str)]
    return min(numbers), max(numbers)


def _picture(
    recipe: Recipe, seed: int, index: int, attempt: int, change: Change
) -> NDArray[np.uint8] | None:
    """Returns the picture, also of bodies that physics would reject: a look, not a sample."""
    drawn = draw(recipe.domain, seed, index, views=1, attempt=attempt, change=change)
    draft = recipe.composed(drawn)
    if blind_spot(draft) is not None:
        return None
    scene, _ = settle(draft)
    drawing = rasterizer()
    drawing.load(scene)
    return images.decode_picture(shoot(scene, scene.cameras[0], drawing, _BESIDE).picture)
