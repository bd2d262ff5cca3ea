"""The only import of torchvision.

The compiled operators of a CUDA build of torchvision do not load with a CPU build of torch. Then
``import torchvision`` fails because it registers a meta kernel of ``nms`` in any case. Defining the operators'
schemas makes the import work; ``check_operators`` refuses models that call them.
"""

from __future__ import annotations

import importlib
import sys

import torch

from sim2cam.errors import BackendError

_OPERATOR_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_libraries: list[torch.library.Library] = []  # operators exist as long as their library object


def _import_torchvision() -> None:
    try:
        importlib.import_module("torchvision")
    except ImportError as error:
        raise BackendError(
            "torchvision is missing. Run: pip install -c constraints.txt ."
        ) from error
    except RuntimeError as error:
        if "does not exist" not in str(error):
            raise BackendError(
                f"torchvision does not fit torch {torch.__version__} ({error}). "
                "Install the versions in constraints.txt."
            ) from error
        for name in [module for module in sys.modules if module.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        _define_operators()
        importlib.import_module("torchvision")


def _define_operators() -> None:
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for schema in _OPERATOR_SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]
    _libraries.append(library)


_import_torchvision()

from torchvision.models import (  # noqa: E402, TID251
    detection,
    get_model,
    get_model_weights,
    get_weight,
    list_models,
    segmentation,
)
from torchvision.models.detection import roi_heads  # noqa: E402, TID251
from torchvision.models.detection.transform import GeneralizedRCNNTransform  # noqa: E402, TID251
from torchvision.models.resnet import BasicBlock, ResNet  # noqa: E402, TID251

__all__ = [
    "BasicBlock",
    "GeneralizedRCNNTransform",
    "ResNet",
    "detection",
    "get_model",
    "get_model_weights",
    "get_weight",
    "has_operators",
    "list_models",
    "roi_heads",
    "segmentation",
]


def has_operators() -> bool:
    """Return whether torchvision's compiled operators load; its detection models need them."""
    return bool(sys.modules["torchvision"].extension._has_ops())
