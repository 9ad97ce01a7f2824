"""Programs on another device than they were written for."""

from typing import Any

import attrs

from wrapperir.ir import CPU, Device, Program

GPU = Device("cuda", 0)


def on_gpu(program: Program) -> Program:
    """Return a program with all that it has on the CPU on a GPU."""
    moved = _moved(program)
    assert isinstance(moved, Program)
    return moved


def _moved(value: Any) -> Any:
    if value == CPU:
        return GPU
    if isinstance(value, tuple):
        return tuple(map(_moved, value))
    if attrs.has(type(value)) and not isinstance(value, Device):
        names = [field.name for field in attrs.fields(type(value))]
        fields = {name: _moved(getattr(value, name)) for name in names}
        if fields.get("operator") == "aten.full.default":
            fields["keywords"] += (("device", GPU),)
        return attrs.evolve(value, **fields)
    return value
