"""Programs on another device than they were written for."""

from typing import Any

import attrs

from wrapperir.ir import CPU, Device, Program

GPU = Device("cuda", 0)


def on_gpu(program: Program, *, is_there: bool = False) -> Program:
    """Return a program with all that it has on the CPU on a GPU.

    Operators also make their tensors there if the GPU ``is_there`` and not made up.
    """
    moved = _moved(program, is_there)
    assert isinstance(moved, Program)
    return moved


def _moved(value: Any, is_there: bool) -> Any:
    if value == CPU:
        return GPU
    if isinstance(value, tuple):
        return tuple(_moved(part, is_there) for part in value)
    if attrs.has(type(value)) and not isinstance(value, Device):
        names = [field.name for field in attrs.fields(type(value))]
        fields = {name: _moved(getattr(value, name), is_there) for name in names}
        if is_there and fields.get("operator") == "aten.full.default":
            fields["keywords"] += (("device", GPU),)
        return attrs.evolve(value, **fields)
    return value
