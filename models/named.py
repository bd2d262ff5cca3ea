"""Models of torchvision by their names: made, fed as ``DetectionSet`` feeds them, and scored as any detector.

Their trainings are their users' own: they have losses, draws of chance and checkpoints that are not ours
(docs/decisions/0043-runs-compared.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.errors import BackendError, UsageError, did_you_mean
from sim2cam.geometry.masks import RunLengths
from sim2cam.images import read_rgb
from sim2cam.measure.detection import Detection
from sim2cam.models.compat import detection, get_model, has_operators, list_models, segmentation

_KEYPOINTS = "keypoint"  # in the names of models that find those of people


def named_model(name: str, categories: Sequence[str], generator: torch.Generator) -> nn.Module:
    """Returns a model of torchvision for detection, masks or segmentation, ready to be trained.

    It takes pictures from 0 to 1 and, but for segmentation, targets, as ``DetectionSet`` gives both;
    class 0 is the background.

    Args:
        name: as torchvision has it: ``fasterrcnn_mobilenet_v3_large_320_fpn``, ``ssdlite320_mobilenet_v3_large``,
            ``lraspp_mobilenet_v3_large`` and so on.
        categories: names, class 1 first.
        generator: source of its weights, on the CPU; its state stays as it is.

    Raises:
        UsageError: there is no such model.
        BackendError: the compiled operators that it needs do not load.
    """
    found = {n for n in list_models(module=detection) if not n.startswith(_KEYPOINTS)}
    pixels = set(list_models(module=segmentation))
    if name not in found | pixels:
        raise UsageError(f"model '{name}' is not known. {did_you_mean(name, found | pixels)}")
    if name in found and not has_operators():
        raise BackendError(
            f"{name} needs torchvision's compiled operators, which do not load beside torch "
            f"{torch.__version__}. Take both from one index, in a new environment: make setup TORCH_INDEX=URL"
        )
    with torch.random.fork_rng(devices=[]):  # torchvision draws weights from the global generator
        torch.set_rng_state(generator.get_state())
        model: nn.Module = get_model(
            name, weights=None, weights_backbone=None, num_classes=1 + len(categories)
        )
    return model


def find_objects(
    model: nn.Module, categories: Sequence[str], dataset: Dataset
) -> dict[str, tuple[Detection, ...]]:
    """Returns what a model for detection or masks finds, by the image's name, for ``score_predictions``.

    Args:
        model: of ``named_model``.
        categories: that it was made with.
        dataset: labels are not looked at.

    Raises:
        InputError: an image cannot be read.
    """
    return {
        sample.name: _detections(model([picture])[0], categories)
        for sample, picture in _pictures(model, dataset)
    }


def find_pixels(
    model: nn.Module, categories: Sequence[str], dataset: Dataset
) -> dict[str, dict[str, RunLengths]]:
    """Returns the pixels of each category that a model for segmentation finds, by the image's name, for
    ``evaluate_segments``; takes and raises what ``find_objects`` does.
    """
    found = {}
    for sample, picture in _pictures(model, dataset):
        classes = model(picture[None])["out"][0].argmax(0).cpu().numpy()  # (h, w)
        found[sample.name] = {
            name: RunLengths.of(classes == number) for number, name in enumerate(categories, 1)
        }
    return found


def _pictures(model: nn.Module, dataset: Dataset) -> Iterator[tuple[Sample, Tensor]]:
    """Yields samples with their pictures (3, h, w), 0 to 1, where the model is."""
    place = next(model.parameters()).device
    model.eval()
    with torch.inference_mode():
        for sample in dataset.samples:
            rgb = torch.tensor(read_rgb(sample.rgb), device=place).permute(2, 0, 1)
            yield sample, rgb.float() / 255


def _detections(said: dict[str, Tensor], categories: Sequence[str]) -> tuple[Detection, ...]:
    masks: list[RunLengths | None] = [None] * len(said["boxes"])
    if "masks" in said:
        masks = [RunLengths.of(m) for m in (said["masks"][:, 0] >= 0.5).cpu().numpy()]
    return tuple(
        Detection(categories[label - 1], (x0, y0, x1, y1), score, mask=mask)
        for (x0, y0, x1, y1), label, score, mask in zip(
            said["boxes"].tolist(),
            said["labels"].tolist(),
            said["scores"].tolist(),
            masks,
            strict=True,
        )
    )
