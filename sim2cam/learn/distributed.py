"""Data-parallel training in several processes, started by torchrun.

DistributedDataParallel averages gradients; batch-norm statistics and loss divisors are computed over the
whole batch. A step thus equals that of one process with the whole batch, up to rounding. In a single
process all functions are no-ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, distributed, nn

from sim2cam.errors import BackendError, UsageError
from sim2cam.learn.device import find_device
from sim2cam.learn.launch import (
    get_local_rank,
    get_local_world_size,
    get_world_size,
    is_main_process,
)

P = ParamSpec("P")
T = TypeVar("T")

_TIMEOUT = timedelta(hours=1)  # while only the main process evaluates and writes


@contextmanager
def join_process_group(device: str) -> Iterator[torch.device]:
    """Join the process group, wait for all processes, and yield the device of this process.

    Args:
        device: ``cpu``, ``cuda`` or, for a single process, ``cuda:i``. Each process uses its own GPU.

    Raises:
        UsageError: If the device is invalid.
        BackendError: If the device does not exist, or there are fewer GPUs than processes.
    """
    local_device = find_device(select_local_device(device))
    if get_world_size() == 1:
        yield local_device
        return
    if local_device.type == "cuda":
        torch.cuda.set_device(local_device)
    backend = "nccl" if local_device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=_TIMEOUT)
    wait_for_all()  # the main process may still remove an earlier run
    try:
        yield local_device
    finally:
        distributed.destroy_process_group()


def select_local_device(device: str) -> str:
    """Return the device name of this process; each local process uses its own GPU.

    Raises:
        UsageError: If one GPU is given for several processes.
        BackendError: If there are fewer GPUs than local processes.
    """
    if get_world_size() == 1:
        return device
    if device.startswith("cuda:"):
        raise UsageError(
            f"--device {device}: each of {get_world_size()} processes uses its own GPU. Use --device cuda."
        )
    if device != "cuda":
        return device
    gpu_count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpu_count < get_local_world_size():
        raise BackendError(
            f"torchrun started {get_local_world_size()} processes on this machine, which has {gpu_count} CUDA "
            "devices. Set --nproc-per-node to their number, or use --device cpu."
        )
    return f"cuda:{get_local_rank()}"


def get_group_size() -> int:
    """Return the size of the process group; 1 without a group."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


def slice_batch(batch_size: int) -> slice:
    """Return the slice of a batch for this process.

    Raises:
        UsageError: If the batch size is not a multiple of the number of processes.
    """
    count = get_group_size()
    if batch_size % count:
        raise UsageError(
            f"batch {batch_size} cannot be divided among {count} processes. Set batch in the recipe to a "
            f"multiple of {count}, or change --nproc-per-node of torchrun."
        )
    rank = distributed.get_rank() if count > 1 else 0
    return slice(rank * (batch_size // count), (rank + 1) * (batch_size // count))


def reduce_divisor(local_total: Tensor, minimum: float = 1) -> Tensor:
    """Return the loss divisor of this process.

    With it, the mean over processes of (local sum / divisor) equals the sum over the whole batch divided
    by the total over the whole batch, or by ``minimum`` if that is larger.

    Args:
        local_total: Total of this process.
        minimum: Minimum of the total over the whole batch.
    """
    if get_group_size() == 1:
        return local_total.clamp(min=minimum)
    total = local_total.detach().to(torch.float32)
    distributed.all_reduce(total)
    return total.clamp(min=minimum) / get_group_size()


def all_reduce_sum(local: Tensor) -> Tensor:
    """Return the differentiable sum over all processes."""
    if get_group_size() == 1:
        return local
    summed: Tensor = _AllReduceSum.apply(local)  # type: ignore[no-untyped-call]
    return summed


def distribute(compute_losses: Callable[P, T], *networks: nn.Module) -> Callable[P, T]:
    """Return a function whose result has gradients that ``backward`` averages over all processes.

    DistributedDataParallel needs to see the forward pass, so the function becomes that of a module.

    Args:
        compute_losses: Returns losses, also nested in dictionaries, tuples or dataclasses.
        networks: Networks whose gradients are averaged, with the parameters to train unfrozen.
    """
    if get_group_size() == 1:
        return compute_losses
    module = _LossModule(compute_losses, networks)
    # an image without objects leaves parameters unused in one process
    return nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)


class _LossModule(nn.Module):
    def __init__(self, compute_losses: Callable[..., Any], networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self._compute_losses = compute_losses
        self._networks = nn.ModuleList(networks)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self._compute_losses(*inputs, **options)


def all_reduce_mean(scalars: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the mean of each scalar over all processes."""
    if get_group_size() == 1:
        return scalars
    values = torch.stack([value.float() for value in scalars.values()])
    distributed.all_reduce(values)
    return dict(zip(scalars, values / get_group_size(), strict=True))


def all_gather(local: Tensor) -> Tensor:
    """Concatenate the tensors (n, ...) of all processes, without gradients."""
    if get_group_size() == 1:
        return local
    parts = [
        torch.empty_like(local, memory_format=torch.contiguous_format)
        for _ in range(get_group_size())
    ]
    distributed.all_gather(parts, local.detach().contiguous())
    return torch.cat(parts)


def broadcast_from_main(compute: Callable[[], float], device: torch.device) -> float:
    """Compute a value in the main process only and return it in all processes."""
    if get_group_size() == 1:
        return compute()
    value = torch.tensor(
        compute() if is_main_process() else 0.0, dtype=torch.float64, device=device
    )
    distributed.broadcast(value, 0)
    return float(value)


def wait_for_all() -> None:
    """Wait until all processes have reached this call."""
    if get_group_size() > 1:
        distributed.barrier()


def synchronize_batch_norms(network: nn.Module) -> None:
    """Replace batch norms by synchronized ones, with the same state."""
    if get_group_size() == 1:
        return
    for module in list(network.modules()):
        for name, child in module.named_children():
            if type(child) is nn.BatchNorm2d:
                setattr(module, name, _make_synchronized_norm(child))


class SynchronizedBatchNorm2d(nn.BatchNorm2d):
    """Batch normalization with training statistics over all processes, also on CPU.

    ``torch.nn.SyncBatchNorm`` supports GPUs only.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Normalize features (N, C, H, W)."""
        if not self.training:
            return super().forward(features)
        values = features.float()
        total = values.numel() // values.shape[1] * get_group_size()
        mean = all_reduce_sum(values.sum((0, 2, 3))) / total
        centred = values - mean[:, None, None]
        variance = all_reduce_sum(centred.square().sum((0, 2, 3))) / total
        self._update_running_stats(mean.detach(), variance.detach() * total / max(total - 1, 1))
        scale = self.weight * (variance + self.eps).rsqrt()
        normalized = centred * scale[:, None, None] + self.bias[:, None, None]
        return normalized.to(features.dtype)

    def _update_running_stats(self, mean: Tensor, variance: Tensor) -> None:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        momentum = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance, momentum)


class _AllReduceSum(torch.autograd.Function):
    """Sum over all processes, whose gradient is the sum of their gradients."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        """Return the sum over all processes."""
        total = local.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Return the gradient of the local tensor."""
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total


def _make_synchronized_norm(norm: nn.BatchNorm2d) -> SynchronizedBatchNorm2d:
    synchronized = SynchronizedBatchNorm2d(norm.num_features, norm.eps, norm.momentum)
    synchronized.load_state_dict(norm.state_dict())
    return synchronized
