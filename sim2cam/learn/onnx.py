"""Networks as ONNX files, for whatever runs those; written only when they compute the same."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sim2cam.errors import Sim2CamError, UsageError
from sim2cam.files import write_atomic

TOLERANCE = 2e-3
"""Largest difference of an output between torch and onnxruntime, over 1 and its largest value."""

Inputs = Mapping[str, Tensor]
Outputs = Mapping[str, NDArray[Any]]
CompareOutputs = Callable[[Outputs, Outputs], str]


def compare_outputs(expected: Outputs, actual: Outputs) -> str:
    """Return how outputs differ by more than ``TOLERANCE``, in words; empty where none does."""
    for name, one in expected.items():
        largest = max(1.0, float(np.abs(one).max(initial=0.0)))
        difference = float(np.abs(one.astype(np.float64) - actual[name]).max(initial=0.0)) / largest
        if not difference <= TOLERANCE:
            return f"{name} by {difference:.2g}"
    return ""


def write_onnx(
    path: Path,
    network: nn.Module,
    inputs: Inputs,
    check_inputs: Inputs,
    dynamic_sizes: Mapping[str, Mapping[int, Any]],
    output_names: Sequence[str],
    metadata: Mapping[str, Any],
    *,
    compare: CompareOutputs = compare_outputs,
) -> None:
    """Write a network, after onnxruntime has run it and found the same.

    Args:
        path: the file.
        network: in evaluation mode, on the CPU; takes the inputs in their order.
        inputs: an example of each input, by its name.
        check_inputs: another, of other sizes.
        dynamic_sizes: which axes of each input may have other sizes, as ``torch.export.Dim``.
        output_names: names of what it returns.
        metadata: JSON values that become the file's metadata.
        compare: tells, of the network's outputs and of onnxruntime's, how these differ, in words; empty
            where they are the same.

    Raises:
        UsageError: the extra ``export`` is not installed.
        Sim2CamError: what was written computes something else.
        OutputError: the folder cannot be written.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f'ONNX files need {error.name}. Run: pip install "sim2cam[export]".'
        ) from error
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about how torch and onnxscript get along
        program = torch.onnx.export(
            network,
            tuple(inputs.values()),
            dynamo=True,
            input_names=list(inputs),
            output_names=list(output_names),
            dynamic_shapes=tuple(dynamic_sizes.get(name) for name in inputs),
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    onnx.helper.set_model_props(
        model, {name: json.dumps(value) for name, value in metadata.items()}
    )
    content = model.SerializeToString()
    for example in (inputs, check_inputs):
        if difference := compare(*_run_both(content, network, example, output_names)):
            raise Sim2CamError(
                f"the ONNX model computes something else than the network: {difference}. "
                "Nothing was written. Try another version of onnxruntime."
            )
    write_atomic(path, content)


@torch.inference_mode()
def _run_both(
    content: bytes, network: nn.Module, inputs: Inputs, output_names: Sequence[str]
) -> tuple[Outputs, Outputs]:
    """Return what the network makes of inputs, and what onnxruntime does."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = session.run(list(output_names), {name: value.numpy() for name, value in inputs.items()})
    wanted = network(*inputs.values())
    wanted = (wanted,) if isinstance(wanted, Tensor) else wanted
    ours = {name: value.numpy() for name, value in zip(output_names, wanted, strict=True)}
    return ours, dict(zip(output_names, found, strict=True))
