"""Programs of the CPU, moved to the OpenCL device, and their kernels in OpenCL C."""

import re
from typing import Any, cast

from attrs import evolve, fields_dict, has

from wrapperir import ir as wir
from wrapperir_opencl.launches import LANGUAGE

DEVICE = wir.Device("opencl", 0)
_TYPES = {"int64_t": "long", "bool": "uchar", "int32_t": "int"}
_POINTER = re.compile(r"(?:const )?\w+ ?\* ?")


def moved(program: wir.Program) -> wir.Program:
    """Return a program of the CPU with its memory and work on the device."""
    return cast(wir.Program, _moved(program))


def _moved(part: object) -> object:
    if isinstance(part, wir.KernelDefinitionLine):
        return opencl_twin(part)
    if isinstance(part, wir.Device):
        return DEVICE
    if isinstance(part, tuple):
        return tuple([_moved(item) for item in part])
    if not has(type(part)):
        return part
    whole: Any = part
    return evolve(
        whole, **{name: _moved(getattr(part, name)) for name in fields_dict(type(part))}
    )


def opencl_twin(kernel: wir.KernelDefinitionLine) -> wir.KernelDefinitionLine:
    """Return a kernel of the test kit in OpenCL C; other languages stay.

    One work-item does what the function in C++ does.
    """
    if kernel.language is not wir.Language.CPP:
        return kernel
    head, body = kernel.source.split("{", 1)
    taken = head[head.index("(") + 1 : head.rindex(")")].split(",")
    given: list[str] = []
    shifts: list[str] = []
    for text in taken:
        kind, name = text.strip().rsplit(maxsplit=1)
        kind, name = kind + "*" * name.count("*"), name.lstrip("*")
        if "*" in kind:
            given += [f"global {kind} {name}", f"long {name}_begin"]
            shifts.append(f"  {name} += {name}_begin;\n")
        else:
            given.append(f"{kind} {name}")
    signature = f"kernel void {kernel.entry}({', '.join(given)}) {{\n"
    source = signature + "".join(shifts) + body.lstrip("\n")
    for before, after in _TYPES.items():
        source = re.sub(rf"\b{before}\b", after, source)
    source = re.sub(r"\bconst (long|int|double|float) (\w+)([,)])", r"\1 \2\3", source)
    return evolve(
        kernel, language=wir.Language.OPAQUE, metadata=(LANGUAGE,), source=source, grid=()
    )
