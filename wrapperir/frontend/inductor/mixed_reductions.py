"""Last step of a reduction over rows that is fused with a reduction over columns.

The kernel leaves one partial result of each block of rows in a workspace.  Inductor writes
their reduction as text: ``buf1 = workspace_0[0 * (264) * (768) : ...].view(264,
768).sum(dim=0)``.  A program has a view of the workspace, an operator call, and a copy if
the result is not ``float32``.
"""

import re

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.values import buffer_type
from wrapperir.passes.simplify_expressions import fold_constants

_TEXT = re.compile(
    r"(\w+) = (\w+)\[(\d+) \* .* : .*\]\.view\(.*\)\.(sum|prod)\(dim=0\)"
    r"(?:\.view\(\[[^]]*\]\))?(?:\.to\([\w.]+\))?"
)
_OPERATORS: dict[str, tuple[str, wir.Argument]] = {
    "sum": ("aten.sum.IntList_out", (0,)),
    "prod": ("aten.prod.int_out", 0),
}


def parse_last_step(text: str) -> tuple[str, str, int, str] | None:
    """Return the result, the workspace, the result's index there, and the operator.

    ``None``: the text is not a last step.
    """
    found = _TEXT.fullmatch(text)
    return None if found is None else (found[1], found[2], int(found[3]), found[4])


def lower_last_step(
    scope: BlockScope, result: str, workspace: str, index: int, operator: str
) -> None:
    """Lower the reduction of a kernel's partial results.

    Raises:
        DiagnosticError: WIR650, the result is not contiguous.
    """
    buffer = scope.graph.get_buffer(result)
    scope.enter(buffer)
    name, type = scope.name(result), buffer_type(buffer)
    if type.stride != wir.contiguous_stride(type.size):
        raise Code.INDUCTOR_TEXT.error(
            f"{result}, which a mix-order reduction computes, is not contiguous",
            hint="set torch._inductor.config.triton.mix_order_reduction to False",
        )
    columns = wir.product(type.size)
    size = _row_blocks(scope), columns
    partial = evolve(
        scope.tensor(scope.name(workspace)),
        size=size,
        stride=(columns, 1),
        offset=wir.mul(index, wir.mul(*size)),
    )
    source = scope.view(scope.name(workspace), partial)
    if name not in scope.live:
        _allocate(scope, name, type)
    total = name
    if type.dtype is not partial.dtype:
        total = scope.session.temporary("total")
        _allocate(scope, total, evolve(type, dtype=partial.dtype))
        scope.temporaries.append(total)
    row = evolve(type, size=(columns,), stride=(1,), dtype=partial.dtype)
    flat = total if type.size == row.size else scope.view(total, row)
    reduction, dimension = _OPERATORS[operator]
    _call(scope, reduction, source, dimension, out=flat)
    if total != name:
        scope.write(total)
        _call(scope, "aten.copy_.default", name, wir.BufferRef(total))
    scope.write(name)


def _row_blocks(scope: BlockScope) -> wir.Expr:
    """Return the number of blocks of rows of the last kernel call: its programs."""
    call = next(
        line for line in reversed(scope.lines) if isinstance(line, wir.KernelCallLine)
    )
    kernel = scope.session.definitions[call.kernel]
    assert isinstance(kernel, wir.KernelDefinitionLine)
    assert kernel.grid is not None
    known: dict[str, wir.Expr] = {
        parameter.name: argument
        for parameter, argument in zip(
            wir.runtime_parameters(kernel.parameters), call.arguments, strict=True
        )
        if not isinstance(argument, wir.BufferRef)
    }
    # All configs have the same size of a block.
    known |= {name: n for name, n in kernel.configs[0].values if isinstance(n, int)}
    return fold_constants(wir.substitute(kernel.grid[0], known))


def _allocate(scope: BlockScope, name: str, type: wir.TensorType) -> None:
    scope.append(wir.AllocateLine(result=name, type=type, provenance=scope.at))
    scope.define(name, type)


def _call(
    scope: BlockScope,
    operator: str,
    first: str,
    second: wir.Argument,
    out: str | None = None,
) -> None:
    """Append a call that writes to ``out``, or to its first argument."""
    scope.append(
        wir.ExternKernelLine(
            operator=operator,
            arguments=(wir.BufferRef(first), second),
            keywords=() if out is None else (("out", wir.BufferRef(out)),),
            writes=(first if out is None else out,),
            device=scope.tensor(first).device,
            stream=scope.stream,
            provenance=scope.at,
        )
    )
