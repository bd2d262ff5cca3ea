"""How much memory a training takes at its peak, told before it starts."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import (
    TorchDispatchMode,
)  # its hooks for users miss what is not saved
from torch.utils._pytree import tree_leaves

from sim2cam.adapt.training.adversarial import AdversarialModel

META = torch.device("meta")
"""Where tensors have sizes and nothing else: a step on it takes neither memory nor much time."""

_USUAL_BYTES = 440_000_000  # of Python and torch, where the system does not say
_COPIES = 4  # of the state: the one that is kept, and three while it is written


@dataclass(frozen=True)
class MemoryEstimate:
    """What a training takes at its peak.

    Attributes:
        step_bytes: networks, what trains them and what a step has in single precision; on the device.
        state_bytes: what of that is kept from step to step, of which there is a copy on the device too.
        images_bytes: decoded images, in the memory of the machine.
        base_bytes: Python, torch and what else this process holds.
    """

    step_bytes: int
    state_bytes: int
    images_bytes: int
    base_bytes: int

    @property
    def cpu_training_bytes(self) -> int:
        """The memory of the machine, where that is the device."""
        return self.base_bytes + self.step_bytes + _COPIES * self.state_bytes + self.images_bytes

    @property
    def host_bytes(self) -> int:
        """The memory of the machine, where a GPU is the device."""
        return self.base_bytes + _COPIES * self.state_bytes + self.images_bytes

    @property
    def gpu_bytes(self) -> int:
        """The memory of the GPU, as far as it is single precision: half of it takes less."""
        return self.step_bytes + self.state_bytes


def estimate_memory(model: AdversarialModel, images_bytes: int) -> MemoryEstimate:
    """Return what a training takes, less what a detector takes that is looked through or that judges, and the
    translations of renders of more than some megapixels.

    Two steps are played, since before the second there are neither gradients nor moments, and since torch
    loads what it needs. What single operations take for a moment is not known; what a step gives back stays
    with the process.

    Args:
        model: at step 0, on the device ``META``.
        images_bytes: of all images that are held decoded.
    """
    with _Living() as living:
        for step in range(2):
            model.train_step(step)
    state = sum(value.nbytes for named in model.get_state().values() for value in named.values())
    return MemoryEstimate(living.most, state, images_bytes, _resident_bytes())


class _Living(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that operations within it return, while they live.

    Attributes:
        most: bytes that lived at once.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._living: dict[int, int] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what the operation does."""
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self._add(tensor.untyped_storage())
        return found

    def _add(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._living:
            self._living[key] = storage.nbytes()
            self.most = max(self.most, sum(self._living.values()))
            weakref.finalize(storage, self._living.pop, key)


def _resident_bytes() -> int:
    """Return what this process holds now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:  # not Linux
        return _USUAL_BYTES
