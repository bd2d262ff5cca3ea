"""Recipes: sample and render scenes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim2cam.api.dataset import Dataset
from sim2cam.api.frame import Frame

if TYPE_CHECKING:
    from sim2cam.pipeline import recipe
    from sim2cam.pipeline.scene_sampling import SettledScene
    from sim2cam.randomize.sampling_context import Value
    from sim2cam.render.physics.simulation import PhysicsCertificate


class Recipe:
    """Configuration of scenes, rendering, adaptation and training.

    Args:
        source: Shipped name, .toml file, or tables as in a file: ``{"base": "dice", "render": {"width": 320}}``.

    Attributes:
        values: Validated settings: ``values.domain``, ``values.render``, ``values.adapt``, ``values.train``.

    Raises:
        UsageError: If there is no such recipe.
        RecipeError: If a key, type or value is wrong.
    """

    def __init__(self, source: str | Path | Mapping[str, Any]) -> None:
        from sim2cam.pipeline.recipe import load_recipe, parse_recipe

        if isinstance(source, Mapping):
            self._tables, self.values = dict(source), parse_recipe(source)
        else:
            self._tables, self.values = {"base": str(source)}, load_recipe(str(source))

    @property
    def name(self) -> str:
        """Name of the recipe."""
        return self.values.name

    @property
    def categories(self) -> tuple[str, ...]:
        """Categories of its objects."""
        return self.values.categories

    def __repr__(self) -> str:
        return f"Recipe({self.name!r}, categories={list(self.categories)})"

    def replace(self, **tables: Any) -> Recipe:
        """Return the recipe with changed keys: ``replace(name="small", render={"width": 320})``.

        Tables are merged key by key; distributions are replaced as a whole.
        """
        from sim2cam.pipeline.recipe import merge_tables

        return Recipe(merge_tables(self._tables, tables))

    def sample(
        self,
        *,
        seed: int = 0,
        index: int = 0,
        resample: Sequence[str] = (),
        settings: Mapping[str, Value] | None = None,
    ) -> Scene:
        """Return a sampled scene after simulation to rest.

        Args:
            seed: Random seed.
            index: Scene index.
            resample: Groups to sample again, such as ``light``; all other values stay the same.
            settings: Values of factors, such as ``{"light/warmth": 0.5}``.

        Raises:
            SceneError: If no valid scene is found.
            UsageError: If a group, factor or value does not exist.
        """
        from sim2cam.pipeline.scene_sampling import simulate_scene
        from sim2cam.randomize.counterfactual import Intervention

        change = Intervention(dict.fromkeys(resample, 1), dict(settings or {}))
        return Scene(self.values, simulate_scene(self.values, seed, index, change))

    def render(self, out: str | Path, *, count: int, **options: Any) -> Dataset:
        """Render a labelled dataset.

        Args:
            out: Folder of the dataset.
            count: Number of images.
            options: Options of ``sim2cam.commands.render``, such as ``seed``, ``workers`` and ``resume``.

        Raises:
            OutputError: If the folder is not empty without ``resume`` or ``overwrite``.
            SceneError: If no scene is valid.
        """
        from sim2cam.commands.data import Render
        from sim2cam.commands.results import build_command

        build_command(Render, self.name, out=out, count=count, **options).run(self.values)
        return Dataset(out)


@dataclass(frozen=True, eq=False)
class Scene:
    """Sampled scene at rest.

    Attributes:
        recipe: Settings of its recipe.
        settled: Bodies, lights and cameras (``settled.scene``) and their history.
    """

    recipe: recipe.Recipe
    settled: SettledScene

    @property
    def sampled_values(self) -> Mapping[str, Value]:
        """Sampled value of each factor by path, such as ``light/warmth``."""
        return self.settled.sampled_values.values

    @property
    def certificate(self) -> PhysicsCertificate:
        """Record of the physics simulation."""
        return self.settled.certificate

    def render(self, view: int = 0) -> Frame:
        """Render the image and ground truth of one camera.

        Args:
            view: Camera number, below ``views`` of the recipe.

        Raises:
            BackendError: If no renderer works on this machine.
        """
        from sim2cam.images import decode_image
        from sim2cam.pipeline.generation import render_view

        frame = render_view(self.recipe, self.settled, view)
        channels = {name: partial(np.asarray, pixels) for name, pixels in frame.channels.items()}
        read_image = partial(decode_image, frame.image)
        name = f"{self.recipe.name}-{self.settled.index}-{view}"
        lens = self.settled.scene.cameras[view].lens
        return Frame(name, frame.objects, self.recipe.categories, channels, read_image, lens)

    def _repr_html_(self) -> str:
        return self.render()._repr_html_()
