"""The facts that decide which choice of a call is fastest, from which cache keys are made.

Ahead-of-time tuning takes them from the types of a call, and emitted Python, which carries
a copy of this file, from the tensors of its first call.  Both use :func:`call_facts`, so
that each finds the times that the other has measured.  The facts are::

    {"timing": TIMING, "kernels": [[digest, positions], ...], "arguments": [fact, ...],
     "emitter": name, "machine": {...}}

``digest`` is :func:`wrapperir.emit.runnable_kernels.kernel_digest` of a choice's kernel,
``positions`` are the positions of the call's arguments that the kernel takes.  The facts of
arguments are :func:`tensor_fact` of tensors and :func:`number_fact` of numbers.
``emitter`` names the emitter that builds and launches the kernels, which changes times.
The version of the C++ compiler is not included, since finding it takes a process; after
exchanging the compiler, use another cache or none.

Numbers are the values that a kernel is given: an argument that is a size of 7 is ``7``.
In JSON (:func:`wrapperir.caching.private_cache.digest_of`) equal facts are equal text.

The file stands alone: it imports torch and the standard library only.
"""

import importlib.metadata
import math
import platform
import re
from collections.abc import Sequence
from typing import TypeAlias

import torch

ChoiceFact: TypeAlias = "int | str | list[ChoiceFact] | dict[str, ChoiceFact]"
"""Data that JSON can write in one way only."""

TIMING = 2
"""The version of launching and timing; raised when a change of these changes times."""

ALIGNMENT = 64
"""Bytes.  PyTorch's memory begins at multiples of it; more alignment gains nothing."""


def call_facts(
    kernels: Sequence[tuple[str, Sequence[int]]],
    arguments: Sequence[ChoiceFact],
    device: torch.device,
    emitter: str,
) -> dict[str, ChoiceFact]:
    """Return the facts of a call; ``arguments`` are the arguments of the multi-kernel."""
    return {
        "timing": TIMING,
        "kernels": [[digest, list(positions)] for digest, positions in kernels],
        "arguments": list(arguments),
        "emitter": emitter,
        "machine": dict(machine_facts(device)),
    }


def tensor_fact(
    dtype: torch.dtype, size: Sequence[int], stride: Sequence[int], address: int
) -> ChoiceFact:
    """Return the fact of a tensor argument; strides of sizes up to 1 are ignored.

    ``address`` is the byte address of the first element, or, before memory is allocated,
    its byte offset from the memory's beginning.  The fact has the largest power of two that
    divides it, up to :data:`ALIGNMENT`.
    """
    steps = [step if extent > 1 else 0 for extent, step in zip(size, stride, strict=True)]
    is_empty = any(extent == 0 for extent in size)
    aligned = ALIGNMENT if is_empty else math.gcd(int(address), ALIGNMENT)
    extents: list[ChoiceFact] = [int(extent) for extent in size]
    return [str(dtype), extents, [int(step) for step in steps], aligned]


def number_fact(value: int | float) -> ChoiceFact:
    """Return the fact of a number; ``True``, ``1`` and ``1.0`` have the same fact."""
    if isinstance(value, float) and not value.is_integer():
        return repr(value)  # nan and inf are no JSON, and no other text is a number's
    return int(value)


def machine_facts(device: torch.device) -> dict[str, str]:
    """Return the facts of the device and of the software that launches on it.

    Raises:
        RuntimeError: PyTorch has no such device here.
    """
    facts = {"torch": str(torch.__version__), "triton": _triton_version()}
    if device.type == "cpu":
        facts["device"] = _processor()
        facts["capability"] = torch.backends.cpu.get_cpu_capability()
        facts["threads"] = str(torch.get_num_threads())
        return facts
    module = torch.get_device_module(device)
    for fact, function in (
        ("device", "get_device_name"),
        ("capability", "get_device_capability"),
    ):
        told = getattr(module, function, None)
        facts[fact] = str(told(device)) if callable(told) else device.type
    return facts


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    name = found[1].strip() if found else platform.processor()
    return name or platform.machine()


def _triton_version() -> str:
    for name in ("triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "none"
