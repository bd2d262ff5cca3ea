"""The only import of torchvision.

Beside a CPU build of torch the compiled operators of a CUDA build of torchvision cannot load, and
then ``import torchvision`` itself fails, because it describes ``nms`` to the compiler whether or
not the operator exists. Naming them is enough to import it; what needs them asks `named.check_operators`.
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
_libraries: list[torch.library.Library] = []  # an operator lives as long as its library


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
                "Install the pair that constraints.txt names."
            ) from error
        for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        _define_operators()
        importlib.import_module("torchvision")


def _define_operators() -> None:
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for schema in _OPERATOR_SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]
    _libraries.append(library)


_import_torchvision()

from torchvision.models import detection, get_model, get_weight, list_models, segmentation  # noqa: E402, TID251
from torchvision.models.detection import roi_heads  # noqa: E402, TID251
from torchvision.models.detection.transform import GeneralizedRCNNTransform  # noqa: E402, TID251
from torchvision.models.resnet import BasicBlock, ResNet  # noqa: E402, TID251

__all__ = [
    "BasicBlock",
    "GeneralizedRCNNTransform",
    "ResNet",
    "detection",
    "get_model",
    "get_weight",
    "has_operators",
    "list_models",
    "roi_heads",
    "segmentation",
]


def has_operators() -> bool:
    """Return whether torchvision's compiled operators load, which its detection models need."""
    return bool(sys.modules["torchvision"].extension._has_ops())
