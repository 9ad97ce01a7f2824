"""Lowering of operator calls: their arguments are taken from the node, not its text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.wrapper import (
    ExternKernelAllocLine,
    ExternKernelOutLine,
    IndexPutFallbackLine,
    MultiOutputLine,
    ScatterFallbackLine,
)

from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor import versions
from wrapperir.frontend.inductor.layouts import (
    layout_type,
    lower_device,
    scalar_type,
)
from wrapperir.frontend.inductor.operands import lower_argument, lower_operand
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.inductor.symbol_lines import element_type
from wrapperir.frontend.provenance import origins_provenance
from wrapperir.ir import OpaqueType, TupleType, ValueType, is_operator
from wrapperir.ir import line as wir
from wrapperir.ir.mentions import buffers_in
from wrapperir.operators import find_schema, given_arguments, schema_of

# Kernels that Inductor names without an operator, and the operators that do the same.
_OPERATORS_BY_NAME = {
    "extern_kernels.bias_addmm": "aten.addmm.out",
    "extern_kernels._mm_plus_mm": "inductor._mm_plus_mm.default",
    "inductor_ops.resize_storage_bytes_": "inductor.resize_storage_bytes_.default",
    "aten.copy_": "aten.copy_.default",
}


def lower_extern_out(scope: Scope, line: ExternKernelOutLine) -> None:
    """Lower a call that writes to a buffer that is there already."""
    node: Any = line.node
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    arguments = [
        lower_argument(scope, value, temporaries, at)
        for value in (*node.inputs, *node.constant_args)
    ]
    out = lower_operand(scope, node.output_view or node, temporaries, at)
    keywords = {
        key: lower_argument(scope, value, temporaries, at)
        for key, value in node.kwargs.items()
        if key != "out"
    }
    call(scope, node, _operator(node), arguments, {**keywords, "out": out}, temporaries, at)


def lower_extern_alloc(scope: Scope, line: ExternKernelAllocLine) -> None:
    """Lower a call that returns what it computes.

    An operator that returns one tensor defines the name of that tensor, so the call and
    Inductor's line that takes the result out of it become one.
    """
    node: Any = line.node
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    inputs = [lower_operand(scope, value, temporaries, at) for value in node.inputs]
    keywords: Mapping[str, Any] = node.kwargs
    values: Sequence[Any]
    if hasattr(node, "unflatten_args"):
        values, more = node.unflatten_args(inputs, node.constant_args)
        keywords = {**keywords, **more}
    else:
        values = (*inputs, *node.constant_args)
    result, type = _result(scope, node)
    call(
        scope,
        node,
        _operator(node),
        [lower_argument(scope, value, temporaries, at) for value in values],
        {
            key: lower_argument(scope, value, temporaries, at)
            for key, value in keywords.items()
        },
        temporaries,
        at,
        result,
        type,
    )


def lower_extern_multi_out(scope: Scope, line: Any) -> None:
    """Lower a call that writes to several buffers that are there already."""
    node: Any = line.node
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    inputs = [lower_operand(scope, value, temporaries, at) for value in node.inputs]
    values, keywords = node.unflatten_args(inputs, node.constant_args)
    outs = {
        name: wir.BufferRef(scope.name(out.get_name()))
        for name, out in zip(node.out_arg_names, node.out_variant_output_nodes, strict=True)
    }
    call(
        scope,
        node,
        _operator(node),
        [lower_argument(scope, value, temporaries, at) for value in values],
        {
            key: lower_argument(scope, value, temporaries, at)
            for key, value in {**node.kwargs, **keywords, **outs}.items()
        },
        temporaries,
        at,
    )


def lower_index_put(scope: Scope, line: IndexPutFallbackLine) -> None:
    """Lower an ``index_put_``."""
    node: Any = line.node
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    values = (node.inputs[0], line.indices, node.inputs[1], *node.constant_args)
    arguments = [lower_argument(scope, value, temporaries, at) for value in values]
    call(scope, node, str(node.op_overload), arguments, {}, temporaries, at)


def lower_scatter(scope: Scope, line: ScatterFallbackLine) -> None:
    """Lower a ``scatter_`` or ``scatter_reduce_``."""
    node: Any = line.node
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    source = node.inputs[2] if node.src_is_tensor else node.constant_args[1]
    values = (node.inputs[0], node.constant_args[0], node.inputs[1], source)
    accepted = {parameter.name for parameter in schema_of(node.op_overload).parameters}
    keywords = {
        key: lower_argument(scope, value, temporaries, at)
        for key, value in node.kwargs.items()
        if key in accepted and not (key == "reduce" and value is None)
    }
    arguments = [lower_argument(scope, value, temporaries, at) for value in values]
    call(scope, node, str(node.op_overload), arguments, keywords, temporaries, at)


def lower_multi_output(scope: Scope, line: MultiOutputLine) -> None:
    """Lower the naming of one result of several."""
    if line.arg_name in scope.merged or line.arg_name in scope.results:
        return
    source, result = scope.name(line.arg_name), scope.name(line.result_name)
    indices = tuple(int(index) for _, index in line.indices)
    type = element_type(scope.types[source], indices)
    scope.append(
        wir.MultiOutputLine(result=result, source=source, indices=indices, type=type)
    )
    scope.define(result, type)
    scope.written.add(result)


def call(
    scope: Scope,
    node: Any,
    operator: str,
    arguments: Sequence[wir.Argument],
    keywords: Mapping[str, wir.Argument],
    temporaries: list[str],
    at: wir.Provenance | None,
    result: str | None = None,
    type: ValueType | None = None,
) -> None:
    """Append an operator call, note what it writes, and free its temporaries."""
    given = given_arguments(find_schema(operator), arguments, keywords)
    written = [value for parameter, value in given if parameter.is_written]
    writes = tuple(dict.fromkeys(buffers_in(tuple(written))))
    aliases: tuple[str, ...] = ()
    if result is not None:
        # Two arguments may be the same buffer.
        shared = [value for parameter, value in given if parameter.is_shared]
        aliases = tuple(dict.fromkeys(buffers_in(tuple(shared))))
        if not aliases:
            aliases = tuple(dict.fromkeys(_declared_aliases(scope, node)))
    scope.append(
        wir.ExternKernelLine(
            result=result,
            type=type,
            operator=operator,
            arguments=tuple(arguments),
            keywords=tuple(keywords.items()),
            writes=writes,
            aliases=aliases,
            device=lower_device(node.get_device()),
            stream=scope.stream,
            provenance=at,
        )
    )
    for name in writes:
        scope.write(name)
    if result is not None:
        assert type is not None
        scope.define(result, type)
        scope.written.add(result)
    scope.free_all(temporaries)


def _declared_aliases(scope: Scope, node: Any) -> Iterator[str]:
    """Yield what Inductor says the result may alias, where the schema says nothing."""
    for name in node.get_inputs_that_alias_output():
        yield scope.name(name)


def _operator(node: Any) -> str:
    """Return the dispatcher's name of a node's operator.

    Raises:
        DiagnosticError: WIR652, it has none.
    """
    if isinstance(node.op_overload, torch._ops.OpOverload):
        return str(node.op_overload)
    name = _OPERATORS_BY_NAME.get(node.python_kernel_name or "")
    if name is None or not is_operator(name):
        shown = node.python_kernel_name or node.op_overload or type(node).__name__
        raise Code.INDUCTOR_OPERATOR.error(
            f"{shown} is not an operator of PyTorch's dispatcher",
            hint="register it with torch.library, or choose another implementation",
        )
    return name


def _result(scope: Scope, node: Any) -> tuple[str | None, ValueType | None]:
    name = scope.name(node.get_name())
    if isinstance(node.layout, ir.NoneLayout):
        return None, None
    if not isinstance(node.layout, ir.MultiOutputLayout):
        return name, layout_type(node.layout)
    outputs = node.outputs
    if len(outputs) == 1:
        only = outputs[0]
        if isinstance(only, ir.MultiOutput) and not only.indices:
            result = scope.name(only.get_name())
            scope.merged.add(node.get_name())
            scope.rename(node.get_name(), result)
            return result, _output_type(only)
        if not isinstance(only, ir.MultiOutput) and not isinstance(only, list | tuple):
            return name, _output_type(only)
    return name, TupleType(tuple(_output_type(output) for output in outputs))


def _output_type(output: Any) -> ValueType:
    if isinstance(output, list | tuple):
        return TupleType(tuple(_output_type(item) for item in output))
    if output is None:
        return OpaqueType("none")
    if isinstance(output, versions.OPAQUE_OUTPUT):
        return OpaqueType("object")
    if isinstance(output, ir.MultiOutput):
        return layout_type(output.get_layout())
    if isinstance(output, bool | int | float | sympy.Basic):
        return scalar_type(output)
    raise Code.INDUCTOR_VALUE.error(
        f"a result of type {type(output).__name__} has no form in a program"
    )
