"""Stands in for the accelerator's driver: memory and launches, on the CPU."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass
class Account:
    """Requests to the driver since the last reset; sizes are in bytes."""

    launches: int = 0
    live: int = 0
    peak: int = 0


account = Account()


def reset() -> None:
    """Forget all counts."""
    account.launches = account.live = account.peak = 0


def allocate(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """Return uninitialised memory of the accelerator."""
    buffer = torch.empty_strided(size, stride, dtype=dtype)
    count = buffer.untyped_storage().nbytes()
    account.live += count
    account.peak = max(account.peak, account.live)
    # The storage, not this tensor: a view or another name may outlive it.
    weakref.finalize(buffer.untyped_storage(), _release, count)
    return buffer


def _release(count: int) -> None:
    account.live -= count


def launch(kernel: Callable[..., object], *arguments: object) -> None:
    """Run a kernel on the accelerator."""
    account.launches += 1
    kernel(*arguments)
