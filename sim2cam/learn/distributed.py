"""One training in several processes, each with its part of every batch (data parallelism).

torchrun starts them. Weights are the same in all of them: gradients are averaged, statistics of batch
normalization are those of the whole batch, and what a loss divides by is counted over all of it. So a step
is that of one process with the whole batch, up to rounding. In one process, each of these functions does
what would be done without it, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

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

_TIMEOUT = timedelta(hours=1)  # for the first process, which alone judges candidates and writes


@contextmanager
def join_process_group(device: str) -> Iterator[torch.device]:
    """Yield the device of this process, which within shares its steps with those started with it.

    All of them come in together; what the first did before is done.

    Args:
        device: ``cpu``, ``cuda`` or, of one process, ``cuda:i``; of several, each takes a GPU of its own.

    Raises:
        UsageError, BackendError: there is no such device, or fewer than processes.
    """
    place = find_device(select_local_device(device))
    if get_world_size() == 1:
        yield place
        return
    if place.type == "cuda":
        torch.cuda.set_device(place)
    backend = "nccl" if place.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=_TIMEOUT)
    wait_for_all()  # the first may still be removing an earlier run
    try:
        yield place
    finally:
        distributed.destroy_process_group()


def select_local_device(device: str) -> str:
    """Return the device of this process; of several on one machine, each takes a GPU of its own.

    Args:
        device: as for ``joined``.

    Raises:
        UsageError: a certain GPU for several processes.
        BackendError: fewer GPUs than processes.
    """
    if get_world_size() == 1:
        return device
    if device.startswith("cuda:"):
        raise UsageError(
            f"--device {device}: of {get_world_size()} processes, each takes a GPU of its own. Give "
            "--device cuda."
        )
    if device != "cuda":
        return device
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found < get_local_world_size():
        raise BackendError(
            f"torchrun has started {get_local_world_size()} processes on this machine, which shows {found} CUDA "
            "devices. Give --nproc-per-node as many as there are, or --device cpu."
        )
    return f"cuda:{get_local_rank()}"


def get_group_size() -> int:
    """Return how many processes share their steps now."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


def slice_batch(batch_size: int) -> slice:
    """Return which items of a batch are this process's.

    Raises:
        UsageError: the batch cannot be divided evenly.
    """
    count = get_group_size()
    if batch_size % count:
        raise UsageError(
            f"a batch of {batch_size} cannot be divided among {count} processes. Set batch to a multiple of "
            f"{count} in the recipe, or give torchrun another --nproc-per-node."
        )
    number = distributed.get_rank() if count > 1 else 0
    return slice(number * (batch_size // count), (number + 1) * (batch_size // count))


def reduce_divisor(local_total: Tensor, minimum: float = 1) -> Tensor:
    """Return what a sum over this process's part of a batch is divided by to become a loss.

    The mean of that over the processes is the sum over the whole batch, divided by ``local_total`` over the
    whole batch or, if that is less, by ``minimum``.

    Args:
        local_total: over this process's part.
        minimum: of the whole batch.
    """
    if get_group_size() == 1:
        return local_total.clamp(min=minimum)
    whole = local_total.detach().to(torch.float32)
    distributed.all_reduce(whole)
    return whole.clamp(min=minimum) / get_group_size()


def all_reduce_sum(local: Tensor) -> Tensor:
    """Return the sum over all processes, through which gradients go back to all of them."""
    if get_group_size() == 1:
        return local
    summed: Tensor = _AllReduceSum.apply(local)  # type: ignore[no-untyped-call]
    return summed


def average_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Give what an optimiser trains the mean of the gradients that the processes found."""
    if get_group_size() == 1:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    means = torch.split(flat / get_group_size(), [gradient.numel() for gradient in gradients])
    for gradient, mean in zip(gradients, means, strict=True):
        gradient.copy_(mean.view(gradient.shape))


def all_reduce_mean(scalars: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the means over the processes of scalars that all of them measured."""
    if get_group_size() == 1:
        return scalars
    values = torch.stack([value.float() for value in scalars.values()])
    distributed.all_reduce(values)
    return dict(zip(scalars, values / get_group_size(), strict=True))


def all_gather(local: Tensor) -> Tensor:
    """Return the parts (n, ...) of all processes as one batch; no gradient goes through it."""
    if get_group_size() == 1:
        return local
    parts = [
        torch.empty_like(local, memory_format=torch.contiguous_format)
        for _ in range(get_group_size())
    ]
    distributed.all_gather(parts, local.detach().contiguous())
    return torch.cat(parts)


def broadcast_from_main(compute: Callable[[], float], device: torch.device) -> float:
    """Return what the first process finds, so that all decide alike; the others do not look."""
    if get_group_size() == 1:
        return compute()
    value = torch.tensor(
        compute() if is_main_process() else 0.0, dtype=torch.float64, device=device
    )
    distributed.broadcast(value, 0)
    return float(value)


def wait_for_all() -> None:
    """Go on once all processes have come here."""
    if get_group_size() > 1:
        distributed.barrier()


def synchronize_batch_norms(network: nn.Module) -> None:
    """Let a network normalize by batches over all processes; names and values of its state stay."""
    if get_group_size() == 1:
        return
    for module in list(network.modules()):
        for name, child in module.named_children():
            if type(child) is nn.BatchNorm2d:
                setattr(module, name, _make_synchronized_norm(child))


class SynchronizedBatchNorm2d(nn.BatchNorm2d):
    """Batch normalization in training by mean and variance over the parts of all processes.

    torch's own (``SyncBatchNorm``) runs on GPUs alone.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return the normalized features (n, c, h, w)."""
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
        """Take a batch's statistics into the running ones, as torch does."""
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


class _AllReduceSum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        """Return the sum."""
        whole = local.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Return the gradient of each process's part."""
        whole = gradients[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(whole)
        return whole


def _make_synchronized_norm(norm: nn.BatchNorm2d) -> SynchronizedBatchNorm2d:
    shared = SynchronizedBatchNorm2d(norm.num_features, norm.eps, norm.momentum)
    shared.load_state_dict(norm.state_dict())
    return shared
