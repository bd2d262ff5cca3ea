"""Adaptation of datasets to real images, and training of models."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim2cam import commands
from sim2cam.api.dataset import Dataset
from sim2cam.api.model import Model, load
from sim2cam.api.recipe import Recipe
from sim2cam.commands.adapt import AdaptApply, AdaptTrain
from sim2cam.commands.results import build_command
from sim2cam.commands.train import Train
from sim2cam.errors import Sim2CamError

if TYPE_CHECKING:
    from sim2cam.data import sample
    from sim2cam.pipeline import recipe as pipeline_recipe

    Data = str | Path | Dataset


def adapt(
    sim: str | Path | Dataset,
    *,
    real: str | Path | Dataset,
    out: str | Path,
    recipe: str | Path | Recipe = "dice",
    translator: str | Path | None = None,
    **options: Any,
) -> Dataset:
    """Translate renders toward the look of real images; labels stay as they are.

    Args:
        sim: Renders: a dataset, its path, or an image folder.
        real: Real images: a dataset, a COCO file, or a photo folder. Their labels are not used.
        out: Folder of the translated dataset.
        recipe: Recipe whose [adapt] section sets the method, its training and the limits of the certificate.
        translator: Run folder of the training; default: OUT-translator.
        options: Options of ``sim2cam.commands.adapt_train``, such as ``method`` and ``steps``. Those that
            ``sim2cam.commands.adapt_apply`` has apply to both, except ``limit``.

    Returns:
        The images that pass the certificate.

    Raises:
        Sim2CamError: If a step fails, or all images are rejected.
    """
    run = Path(f"{out}-translator" if translator is None else translator)
    name, values = _split_recipe(recipe)
    shared = signature(commands.adapt_apply).parameters.keys() - {"limit"}
    application = build_command(
        AdaptApply,
        run,
        data=_get_path(sim),
        out=out,
        recipe=name,
        **{option: value for option, value in options.items() if option in shared},
    )
    training = build_command(
        AdaptTrain, _get_path(sim), real=_get_path(real), out=run, recipe=name, **options
    )
    training.run(values, _get_values(sim), _get_values(real))
    result = application.run(values, _get_values(sim))
    if result.failure:
        raise Sim2CamError(result.failure)
    return Dataset(out)


def train(
    data: str | Path | Dataset | Sequence[str | Path | Dataset],
    *,
    out: str | Path,
    recipe: str | Path | Recipe = "dice",
    **options: Any,
) -> Model:
    """Train a detector on one or several labelled datasets.

    Args:
        data: One or several datasets or their paths: rendered, translated or real.
        out: Folder of the run: weights, card and metrics.
        recipe: Recipe whose [train] section configures the training.
        options: Options of ``sim2cam.commands.train``, such as ``steps``, ``mix`` and ``validation``.

    Raises:
        Sim2CamError: If an option, a dataset or the training fails.
    """
    parts = [data] if isinstance(data, (str, Path, Dataset)) else list(data)
    name, values = _split_recipe(recipe)
    command = build_command(Train, name, data=[_get_path(p) for p in parts], out=out, **options)
    datasets = [_get_values(part) or command.read_data(_get_path(part)) for part in parts]
    return load(command.run(values, datasets).weights, device=command.device)


def _split_recipe(recipe: str | Path | Recipe) -> tuple[str, pipeline_recipe.Recipe | None]:
    """Return the name or path of a recipe, and its values if it is in memory."""
    return (recipe.name, recipe.values) if isinstance(recipe, Recipe) else (str(recipe), None)


def _get_path(data: Data) -> Path:
    return data.root if isinstance(data, Dataset) else Path(data)


def _get_values(data: Data) -> sample.Dataset | None:
    return data.values if isinstance(data, Dataset) else None
