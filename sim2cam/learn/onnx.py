"""Export of networks to ONNX, verified with ONNX Runtime."""

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
"""Maximum difference between torch and onnxruntime, relative to max(1, largest output)."""

Inputs = Mapping[str, Tensor]
Outputs = Mapping[str, NDArray[Any]]
CompareOutputs = Callable[[Outputs, Outputs], str]


def compare_outputs(expected: Outputs, actual: Outputs) -> str:
    """Return a description of the first output that differs by more than ``TOLERANCE``, else ``""``."""
    for name, values in expected.items():
        largest = max(1.0, float(np.abs(values).max(initial=0.0)))
        error = float(np.abs(values.astype(np.float64) - actual[name]).max(initial=0.0))
        difference = error / largest
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
    """Export a network to ONNX, if ONNX Runtime and PyTorch agree.

    Args:
        path: Output file.
        network: Network in evaluation mode on the CPU, with positional inputs.
        inputs: Example inputs by name, in order.
        check_inputs: Further example inputs of other sizes.
        dynamic_sizes: Dynamic axes of each input as ``torch.export.Dim``.
        output_names: Names of the outputs.
        metadata: Metadata of the file as JSON values.
        compare: Describes the difference of the outputs of PyTorch and ONNX Runtime; empty if equal.

    Raises:
        UsageError: If the extra ``export`` is not installed.
        Sim2CamError: If the outputs differ.
        OutputError: If the folder cannot be written.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f'ONNX export requires {error.name}. Run: pip install "sim2cam[export]".'
        ) from error
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version warnings of torch and onnxscript
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
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for example in (inputs, check_inputs):
        if difference := compare(*_run_both(session, network, example, output_names)):
            raise Sim2CamError(
                f"ONNX Runtime and PyTorch disagree: {difference}. "
                "Nothing is written. Try another version of onnxruntime."
            )
    write_atomic(path, content)


@torch.inference_mode()
def _run_both(
    session: Any, network: nn.Module, inputs: Inputs, output_names: Sequence[str]
) -> tuple[Outputs, Outputs]:
    """Return the outputs of PyTorch and of ONNX Runtime."""
    onnx_outputs = session.run(
        list(output_names), {name: value.numpy() for name, value in inputs.items()}
    )
    torch_outputs = network(*inputs.values())
    torch_outputs = (torch_outputs,) if isinstance(torch_outputs, Tensor) else torch_outputs
    expected = {
        name: value.numpy() for name, value in zip(output_names, torch_outputs, strict=True)
    }
    return expected, dict(zip(output_names, onnx_outputs, strict=True))
