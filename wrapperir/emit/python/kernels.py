"""Triton kernels in Python, with their launchers."""

import ast
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from wrapperir import ir as wir
from wrapperir.emit.number_kinds import NumberKinds, kind_of
from wrapperir.emit.python.expressions import (
    PythonExpressions,
    format_constant,
    format_int,
    format_keyword,
    format_string,
    format_tuple,
)
from wrapperir.emit.python.module_text import RESERVED, ModuleText
from wrapperir.emit.source_text import (
    Fragment,
    Namespace,
    NameTable,
    fragment,
    joined,
)
from wrapperir.emit.triton_signature import bound_values

# Every file has this head: the line where a kernel begins is in Triton's key of it.
_HEAD = """\
# The source of a Triton kernel, as the program gives it:
import triton
import triton.language as tl

"""
# Triton takes a number for a bool or an i32 (or what holds it) unless it is told.
_TOLD_TYPES: Mapping[wir.DType, str] = {
    dtype: dtype.torch_name if dtype.triton_name[0] in "iu" else dtype.triton_name
    for dtype in wir.DType
    if dtype.triton_name is not None
    and not dtype.triton_name.startswith("fp8")
    and dtype not in (wir.DType.BOOL, wir.DType.I32)
}


def emit_triton_kernel(module: ModuleText, line: wir.KernelDefinitionLine) -> Fragment:
    """Append a launcher and add the file that holds the kernel's source.

    Return the name of the function that the launcher launches.
    """
    path = f"kernels/{line.name}.py"
    module.files[path] = format_kernel_file(line)
    function = module.names.claim(f"{line.name[:240]}_jit")
    module.definitions.emit_line(
        "{} = getattr({}({}), {})",
        *(function, module.need("import_file")),
        *(format_string(path), format_string(line.entry)),
    )
    with launcher(module, line, module.kernels[line.name], function) as (names, numbers):
        module.launchers.emit_line(
            "{}[{}]({})",
            function,
            format_tuple(format_grid(line, {}, numbers)),
            joined(", ", _launch_arguments(module, line, names)),
        )
    return function


@contextmanager
def launcher(
    module: ModuleText, line: wir.KernelDefinitionLine, name: Fragment, called: Fragment
) -> Generator[tuple[Namespace, PythonExpressions]]:
    """Append a function that takes a kernel's arguments; the ``with`` block is its body.

    Yield the names of the parameters, and the formatter of expressions over them.  The
    body may use the global ``called``.
    """
    names = Namespace(NameTable({*RESERVED, called}))
    runtime = wir.runtime_parameters(line.parameters)
    parameters = joined(", ", [names[parameter.name] for parameter in runtime])
    scalars = [p for p in runtime if isinstance(p, wir.ScalarParameter)]
    kinds = NumberKinds({p.name: kind_of(p.dtype) for p in scalars})
    module.launchers.emit_blank(2)
    module.launchers.emit_line("def {}({}):", name, parameters)
    with module.launchers.indented():
        yield names, PythonExpressions(names, module.need, kinds)


def _launch_arguments(
    module: ModuleText, line: wir.KernelDefinitionLine, names: Namespace
) -> list[Fragment]:
    arguments: list[Fragment] = []
    # By position costs less, but only the source says which parameter is at one.
    order = (argument.arg for argument in _entry_arguments(line))
    by_position = True
    for parameter in line.parameters:
        by_position = by_position and next(order, None) == parameter.name
        if isinstance(parameter, wir.ConstexprParameter):
            by_position = False
            continue
        value = names[parameter.name]
        if isinstance(parameter, wir.DescriptorParameter):
            value = _format_descriptor(module, parameter, value)
        if by_position:
            arguments.append(value)
        else:
            arguments.append(format_keyword(parameter.name, value))
    for key, bound in bound_values(line).items():
        arguments.append(format_keyword(key, format_constant(bound)))
    return arguments


def _format_descriptor(
    module: ModuleText, parameter: wir.DescriptorParameter, value: Fragment
) -> Fragment:
    """Return ``TensorDescriptor.from_tensor(in_desc, [16, 32])``, which checks it."""
    block = joined(", ", [format_int(length) for length in parameter.block])
    name = module.need("TensorDescriptor")
    return fragment("{}.from_tensor({}, [{}])", name, value, block)


def format_grid(
    line: wir.KernelDefinitionLine,
    values: Mapping[str, wir.Expr],
    expressions: PythonExpressions,
) -> list[Fragment]:
    """Return the extents of a launch; ``values`` are those of number parameters."""
    numbers: dict[str, wir.Expr] = {
        key: value
        for key, value in bound_values(line).items()
        if isinstance(value, int | float)
    }
    grid = [wir.substitute(extent, {**numbers, **values}) for extent in line.grid or (1,)]
    return [expressions.format_index(folded(extent)) for extent in grid]


def folded(expr: wir.Expr) -> wir.Expr:
    """Return an extent of a launch grid as a number where it has no symbols."""
    try:
        return wir.evaluate_int(expr, {})
    except wir.EvaluationError:
        return wir.settled_where(expr)


def format_kernel_file(line: wir.KernelDefinitionLine) -> str:
    """Return the file of a kernel's source, from which Triton compiles it."""
    return _HEAD + _typed_source(line).rstrip("\n") + "\n"


def _typed_source(line: wir.KernelDefinitionLine) -> str:
    """Return the source with the types of number parameters written beside them.

    Without, Triton would compute with a size of 64 bits in 32 where its value fits them.
    """
    types = {
        parameter.name: _TOLD_TYPES[parameter.dtype]
        for parameter in line.parameters
        if isinstance(parameter, wir.ScalarParameter) and parameter.dtype in _TOLD_TYPES
    }
    if not types:
        return line.source
    rows = line.source.encode().splitlines(keepends=True)
    # From the end, so that places before stay where they are.
    for argument in reversed(_entry_arguments(line)):
        if argument.arg not in types or argument.annotation is not None:
            continue
        assert argument.end_lineno is not None
        row, column = argument.end_lineno - 1, argument.end_col_offset or 0
        told = f': "{types[argument.arg]}"'.encode()
        rows[row] = rows[row][:column] + told + rows[row][column:]
    return b"".join(rows).decode()


def _entry_arguments(line: wir.KernelDefinitionLine) -> list[ast.arg]:
    """Return the positional parameters of the entry; none where it is not found."""
    try:
        module = ast.parse(line.source)
    except (SyntaxError, ValueError, RecursionError):
        return []  # loading it says what is wrong
    # The last of that name is the one that the module keeps.
    for node in reversed(module.body):
        if isinstance(node, ast.FunctionDef) and node.name == line.entry:
            return [*node.args.posonlyargs, *node.args.args]
    return []
