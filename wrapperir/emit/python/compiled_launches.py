"""Triton kernels in Python that are compiled before the run and launched by the driver."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import wrapperir
from wrapperir import ir as wir
from wrapperir.emit.number_kinds import NumberKinds, as_parameter
from wrapperir.emit.python.expressions import PythonExpressions, format_int, format_string
from wrapperir.emit.python.kernels import format_grid, format_kernel_file, launcher
from wrapperir.emit.python.module_text import ModuleText
from wrapperir.emit.source_text import Fragment, joined
from wrapperir.emit.triton_signature import (
    KERNEL_FACTS,
    MOST_CHECKED,
    ArgumentFacts,
    compilation_facts,
    format_facts,
    passed_parameters,
)

_CORE = Path(wrapperir.__file__).parent
CACHE = _CORE / "caching" / "private_cache.py"
"""The user's caches, for emitted modules that keep times or compiled files."""
EMITTED = _CORE / "kernels" / "emitted"
"""The folder of the files that are copied beside emitted modules."""
_FILES = (
    *("launches.cpp", "arguments.h", "driver_functions.h", "tensors.h", "native_module.py"),
    *("descriptors.h", "descriptor_parts.h", "special_launches.h"),
    *(_CORE / "kernels" / "triton_worker.py", CACHE),
)

_LAUNCHES = ("launches",)


def reason_against(
    line: wir.KernelDefinitionLine, facts: Sequence[ArgumentFacts]
) -> str | None:
    """Return why Triton has to launch a kernel, ``None`` if the driver can.

    ``facts`` are about its runtime parameters.
    """
    passed = {name for name, _ in passed_parameters(line)}
    for parameter, fact in zip(wir.runtime_parameters(line.parameters), facts, strict=True):
        spelled = parameter.dtype.triton_name
        is_number = isinstance(parameter, wir.ScalarParameter)
        if spelled is None or (is_number and spelled.startswith("fp8")):
            return f"{parameter.name} is of {parameter.dtype.value}"
        if parameter.name not in passed and fact.value is None:
            return f"{parameter.name} is a constant that each call gives"
    return None


def emit_compiled_kernel(
    module: ModuleText,
    line: wir.KernelDefinitionLine,
    facts: Sequence[ArgumentFacts],
    *,
    is_choice: bool = False,
    is_lazy: bool = False,
) -> None:
    """Append ``add = launches.kernel('kernels/add.triton.json')``, and add its files.

    A kernel that ``is_choice`` may fail to compile: another is then picked.  One that
    ``is_lazy`` is compiled when it is launched, also for what numbers are multiples of.
    """
    source, path = f"kernels/{line.name}.py", f"kernels/{line.name}{KERNEL_FACTS}"
    module.files[source] = format_kernel_file(line)
    found = compilation_facts(line, source, facts)
    numbers = [
        position
        for position, (_, parameter) in enumerate(passed_parameters(line)[:MOST_CHECKED])
        if is_lazy
        and isinstance(parameter, wir.ScalarParameter)
        and parameter.dtype.is_integer
        and parameter.dtype is not wir.DType.BOOL
    ]
    blocks = {
        name: list(parameter.block)
        for name, parameter in passed_parameters(line)
        if isinstance(parameter, wir.DescriptorParameter)
    }
    own = {"blocks": blocks, "numbers": numbers, "is_choice": is_choice, "is_lazy": is_lazy}
    module.files[path] = format_facts({**found, **own})
    if _LAUNCHES not in module.made:
        module.made[_LAUNCHES] = module.import_file(
            "launches", EMITTED, *_FILES, writer=module.definitions
        )
    name = module.kernels[line.name]
    module.made["compiled", line.name] = name
    module.definitions.emit_line("{} = launches.kernel({})", name, format_string(path))


def emit_compilation(module: ModuleText) -> None:
    """Append the compilation of all kernels, several at a time, if there are any."""
    if _LAUNCHES in module.made:
        module.operators.emit_line("launches.build()")


def is_compiled(module: ModuleText, name: str) -> bool:
    """Return whether a kernel is one that calls launch with a grid of their own."""
    return ("compiled", name) in module.made


def format_launch_arguments(
    line: wir.KernelDefinitionLine,
    arguments: Sequence[wir.KernelArgument],
    formatted: Sequence[Fragment],
    expressions: PythonExpressions,
    kinds: NumberKinds,
) -> Fragment:
    """Return the grid and the arguments of a launch: ``4, 1, 1, buf0, buf1, 64``.

    ``arguments`` are the kernel's runtime parameters' at the call, ``formatted`` in Python.
    """
    values: dict[str, wir.Expr] = {}
    runtime = wir.runtime_parameters(line.parameters)
    for parameter, argument in zip(runtime, arguments, strict=True):
        if isinstance(parameter, wir.ScalarParameter):
            assert not isinstance(argument, wir.BufferRef)  # verified
            values[parameter.name] = as_parameter(argument, parameter, kinds)
    by_name = {p.name: text for p, text in zip(runtime, formatted, strict=True)}
    return _format_launch(line, by_name.__getitem__, values, expressions)


def emit_launcher(module: ModuleText, line: wir.KernelDefinitionLine) -> Fragment:
    """Return a function that takes a kernel's arguments in the order of its parameters.

    That of a compiled kernel computes the grid, and is appended once.
    """
    kernel = module.kernels[line.name]
    if not is_compiled(module, line.name):
        return kernel
    key = "launcher", line.name
    if key not in module.made:
        made = module.made[key] = module.names.claim(f"launch_{line.name[:240]}")
        with launcher(module, line, made, kernel) as (names, expressions):
            given = _format_launch(line, names.__getitem__, {}, expressions)
            module.launchers.emit_line("{}({})", kernel, given)
    return module.made[key]


def _format_launch(
    line: wir.KernelDefinitionLine,
    text_of: Callable[[str], Fragment],
    values: Mapping[str, wir.Expr],
    expressions: PythonExpressions,
) -> Fragment:
    grid = [*format_grid(line, values, expressions), *map(format_int, (1, 1))]
    passed = [text_of(name) for name, _ in passed_parameters(line)]
    return joined(", ", [*grid[:3], *passed])
