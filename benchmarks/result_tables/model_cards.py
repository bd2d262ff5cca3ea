"""Tables of model cards, from the cards of the shipped weights."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from safetensors import safe_open

from result_tables.cells import Results, format_table

WEIGHTS = Path(__file__).parents[2] / "models" / "weights"
ORIGINS = {
    "sim": "renders",
    "adapted": "renders with colours moved toward photos",
    "pseudo-labelled": "photos with pseudo-labels",
    "real": "photos with labels",
}
"""Origin of images in a card, with the name that tables print."""


def tabulate_card(name: str, card: Results) -> str:
    """Return the facts of a model card."""
    if not card:
        return format_table(("property", "value"), [])
    path = WEIGHTS / f"{name}.safetensors"
    tasks = {"roi_classifier": "RoI classifier", "poses": "6D poses", "amodal": "amodal boxes"}
    config = card["config"]
    outputs = [text for key, text in tasks.items() if config.get(key)]
    sizes = [f"{size:.0f}" for size in card["box_size_range_px"]]
    rows = {
        "architecture": f"`{card['architecture']}`" + "".join(f", {text}" for text in outputs),
        "parameters, with batch-norm statistics": f"{count_parameters(path) / 1e6:.2f} M",
        "file": f"{path.stat().st_size / 1e6:.1f} MB, {card['stored_as']}",
        "categories": ", ".join(f"`{category}`" for category in card["categories"]),
        "object sizes in training": f"{' to '.join(sizes)} px (longer side, 5th to 95th percentile) at the input scale",
        "input scale": f"{card['input_scale']:g}",
        "box padding": f"{100 * card['box_padding']:.2f} % of the image's longer side",
        "steps of the last training": f"{card['steps']:,}, batches of {config['batch']} crops of {config['crop_px']} px",
        "labelled photos in training": count_origin(card, "real"),
        "licence": card["licence"],
    }
    return format_table(("property", "value"), rows.items())


def tabulate_training_data(card: Results) -> str:
    """Return the datasets of a card: the last training first, then earlier trainings, then backgrounds."""
    columns = ("training", "dataset", "images", "kind")
    if not card:
        return format_table(columns, ())
    rows = list(_list_datasets(card))
    if backgrounds := card.get("background_images"):
        content = "photographs" if "real" in backgrounds["origins"] else "renders"
        licences = ", ".join(backgrounds["licences"])
        kind = f"{content} as backgrounds{f' ({licences})' if licences else ''}"
        rows.append(("all", backgrounds["name"], f"{backgrounds['images']:,}", kind))
    return format_table(columns, rows)


def count_parameters(path: Path) -> int:
    """Return the number of parameters in a safetensors file, with the statistics of batch normalization."""
    with safe_open(path, framework="numpy") as tensors:
        names = tensors.keys()
        return sum(prod(tensors.get_slice(name).get_shape()) for name in names)


def count_origin(card: dict[str, Any], origin: str) -> int:
    """Return the number of images of an origin in all trainings of a card."""
    return sum(
        dataset["origins"].get(origin, 0)
        for _, datasets in _list_trainings(card)
        for dataset in datasets
    )


def _list_trainings(card: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    yield "last", card["data"]
    yield "earlier", card.get("initial_weights", {}).get("data", [])


def _list_datasets(card: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for training, datasets in _list_trainings(card):
        for digest in dict.fromkeys(dataset["digest"] for dataset in datasets):
            dataset = next(entry for entry in datasets if entry["digest"] == digest)
            is_start = training == "last" and dataset["weight"] == 0
            kinds = ", ".join(ORIGINS[origin] for origin in dataset["origins"])
            yield (
                "start of the last" if is_start else training,
                dataset["name"],
                f"{dataset['images']:,}",
                kinds,
            )
