"""Devices and element types in PyTorch, and whether a device is here."""

import torch

from wrapperir.emit.torch_dtypes import torch_device
from wrapperir.ir.types import Device
from wrapperir.tuning.choice_facts import machine_facts


def missing_device(device: Device) -> str | None:
    """Return why kernels cannot be timed on a device; ``None`` where they can."""
    if device.kind == "cpu":
        return None
    try:
        module = torch.get_device_module(torch_device(device))
        count = int(module.device_count()) if module.is_available() else 0
    except (RuntimeError, ValueError, AttributeError):
        return f"PyTorch has no device {device} here"
    wanted = device.index or 0
    return None if wanted < count else f"there is no device {device} here"


def device_name(device: Device) -> str:
    """Return what a record says of where its times were taken.

    Raises:
        RuntimeError: PyTorch has no such device here.
    """
    facts = machine_facts(torch_device(device))
    name = facts["device"]
    if "threads" in facts:
        threads = facts["threads"]
        name += f", {threads} thread{'' if threads == '1' else 's'}"
    return f"{name}, torch {facts['torch']}"
