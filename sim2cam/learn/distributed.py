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
from sim2cam.learn.launch import is_first, number_here, process_count, processes_here

_PATIENCE = timedelta(hours=1)  # for the first process, which alone judges candidates and writes


@contextmanager
def joined(device: str) -> Iterator[torch.device]:
    """Yields the device of this process, which within shares its steps with those started with it.

    All of them come in together; what the first did before is done.

    Args:
        device: ``cpu``, ``cuda`` or, of one process, ``cuda:i``; of several, each takes a GPU of its own.

    Raises:
        UsageError, BackendError: there is no such device, or fewer than processes.
    """
    place = find_device(own_device(device))
    if process_count() == 1:
        yield place
        return
    if place.type == "cuda":
        torch.cuda.set_device(place)
    backend = "nccl" if place.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=_PATIENCE)
    wait_for_all()  # the first may still be removing an earlier run
    try:
        yield place
    finally:
        distributed.destroy_process_group()


def own_device(device: str) -> str:
    """Returns the device of this process; of several on one machine, each takes a GPU of its own.

    Args:
        device: as for ``joined``.

    Raises:
        UsageError: a certain GPU for several processes.
        BackendError: fewer GPUs than processes.
    """
    if process_count() == 1:
        return device
    if device.startswith("cuda:"):
        raise UsageError(
            f"--device {device}: of {process_count()} processes, each takes a GPU of its own. Give "
            "--device cuda."
        )
    if device != "cuda":
        return device
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found < processes_here():
        raise BackendError(
            f"torchrun has started {processes_here()} processes on this machine, which shows {found} CUDA "
            "devices. Give --nproc-per-node as many as there are, or --device cpu."
        )
    return f"cuda:{number_here()}"


def sharing() -> int:
    """Returns how many processes share their steps now."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


def share_of(batch: int) -> slice:
    """Returns which items of a batch are this process's.

    Raises:
        UsageError: the batch cannot be divided evenly.
    """
    count = sharing()
    if batch % count:
        raise UsageError(
            f"a batch of {batch} cannot be divided among {count} processes. Set batch to a multiple of "
            f"{count} in the recipe, or give torchrun another --nproc-per-node."
        )
    number = distributed.get_rank() if count > 1 else 0
    return slice(number * (batch // count), (number + 1) * (batch // count))


def divisor(total: Tensor, least: float = 1) -> Tensor:
    """Returns what a sum over this process's part of a batch is divided by to become a loss.

    The mean of that over the processes is the sum over the whole batch, divided by ``total`` over the
    whole batch or, if that is less, by ``least``.

    Args:
        total: over this process's part.
        least: of the whole batch.
    """
    if sharing() == 1:
        return total.clamp(min=least)
    whole = total.detach().to(torch.float32)
    distributed.all_reduce(whole)
    return whole.clamp(min=least) / sharing()


def over_all(part: Tensor) -> Tensor:
    """Returns the sum over all processes, through which gradients go back to all of them."""
    if sharing() == 1:
        return part
    summed: Tensor = _Sum.apply(part)  # type: ignore[no-untyped-call]
    return summed


def average_gradients(optimiser: torch.optim.Optimizer) -> None:
    """Gives what an optimiser trains the mean of the gradients that the processes found."""
    if sharing() == 1:
        return
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    means = torch.split(flat / sharing(), [gradient.numel() for gradient in gradients])
    for gradient, mean in zip(gradients, means, strict=True):
        gradient.copy_(mean.view(gradient.shape))


def mean_over_all(scalars: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Returns the means over the processes of scalars that all of them measured."""
    if sharing() == 1:
        return scalars
    values = torch.stack([value.float() for value in scalars.values()])
    distributed.all_reduce(values)
    return dict(zip(scalars, values / sharing(), strict=True))


def gathered(part: Tensor) -> Tensor:
    """Returns the parts (n, ...) of all processes as one batch; no gradient goes through it."""
    if sharing() == 1:
        return part
    parts = [
        torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(sharing())
    ]
    distributed.all_gather(parts, part.detach().contiguous())
    return torch.cat(parts)


def as_first_finds(find: Callable[[], float], device: torch.device) -> float:
    """Returns what the first process finds, so that all decide alike; the others do not look."""
    if sharing() == 1:
        return find()
    value = torch.tensor(find() if is_first() else 0.0, dtype=torch.float64, device=device)
    distributed.broadcast(value, 0)
    return float(value)


def wait_for_all() -> None:
    """Goes on once all processes have come here."""
    if sharing() > 1:
        distributed.barrier()


def share_norms(network: nn.Module) -> None:
    """Lets a network normalize by batches over all processes; names and values of its state stay."""
    if sharing() == 1:
        return
    for module in list(network.modules()):
        for name, child in module.named_children():
            if type(child) is nn.BatchNorm2d:
                setattr(module, name, _shared(child))


class SharedBatchNorm2d(nn.BatchNorm2d):
    """Batch normalization in training by mean and variance over the parts of all processes.

    torch's own (``SyncBatchNorm``) runs on GPUs alone.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Returns the normalized features (n, c, h, w)."""
        if not self.training:
            return super().forward(features)
        values = features.float()
        total = values.numel() // values.shape[1] * sharing()
        mean = over_all(values.sum((0, 2, 3))) / total
        centred = values - mean[:, None, None]
        variance = over_all(centred.square().sum((0, 2, 3))) / total
        self._follow(mean.detach(), variance.detach() * total / max(total - 1, 1))
        scale = self.weight * (variance + self.eps).rsqrt()
        normalized = centred * scale[:, None, None] + self.bias[:, None, None]
        return normalized.to(features.dtype)

    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        """Takes a batch's statistics into the running ones, as torch does."""
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


class _Sum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        """Returns the sum."""
        whole = part.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Returns the gradient of each process's part."""
        whole = gradients[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(whole)
        return whole


def _shared(norm: nn.BatchNorm2d) -> SharedBatchNorm2d:
    shared = SharedBatchNorm2d(norm.num_features, norm.eps, norm.momentum)
    shared.load_state_dict(norm.state_dict())
    return shared
