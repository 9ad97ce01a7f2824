"""Lowering of operator calls: their arguments are taken from the node, not its text."""

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from attrs import evolve
from torch._inductor import ir
from torch._inductor.codegen import wrapper as inductor

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.aten.values import is_quantized, lower_device
from wrapperir.frontend.inductor import versions
from wrapperir.frontend.inductor.object_methods import calls_method, method_operator
from wrapperir.frontend.inductor.scope import BlockScope
from wrapperir.frontend.inductor.symbol_lines import element_type
from wrapperir.frontend.inductor.values import layout_type, lower_argument, scalar_type
from wrapperir.ir.mentions import buffers_in
from wrapperir.ir.storage_operators import reads_elements
from wrapperir.operators import find_schema, given_arguments, schema_of
from wrapperir.symbolic import lower_sympy

# Kernels that Inductor names without an operator, and the operators that do the same.
_OPERATORS_BY_NAME = {
    "extern_kernels.bias_addmm": "aten.addmm.out",
    "extern_kernels._mm_plus_mm": "inductor._mm_plus_mm.default",
    "inductor_ops.resize_storage_bytes_": "inductor.resize_storage_bytes_.default",
    "aten.copy_": "aten.copy_.default",
}


def lower_extern_out(scope: BlockScope, line: inductor.ExternKernelOutLine) -> None:
    """Lower a call that writes to a buffer that is there already."""
    node: Any = line.node
    keywords = {**node.kwargs, "out": node.output_view or node}
    _lower_call(scope, node, _operator(node), _values(node), keywords)


def lower_extern_alloc(scope: BlockScope, line: inductor.ExternKernelAllocLine) -> None:
    """Lower a call that returns its result.

    An operator that returns one tensor defines the name of that tensor, so the call and
    Inductor's line that takes the result out of it become one.
    """
    node: Any = line.node
    values, keywords = _values(node), node.kwargs
    if hasattr(node, "unflatten_args"):
        values, more = node.unflatten_args(node.inputs, node.constant_args)
        keywords = {**keywords, **more}
    result, type = _result(scope, node)
    if calls_method(node):
        value, method, *given = values
        operator = method_operator(value.get_real_obj(), method)
        kept = [_copy_kept(scope, node, argument) for argument in given]
        _lower_call(scope, node, operator, (value, *kept), keywords, result, type)
        return
    _lower_call(scope, node, _operator(node), values, keywords, result, type)


def _copy_kept(scope: BlockScope, node: Any, value: Any) -> wir.Argument:
    """Return an argument of a method; a tensor of the program's is copied.

    The object may keep it, and the program's memory has other uses later.
    """
    if isinstance(value, list | tuple):
        items: Sequence[Any] = value
        return tuple([_copy_kept(scope, node, item) for item in items])
    operand = lower_argument(scope, value)
    if (
        not isinstance(operand, wir.BufferRef)
        or scope.is_object(operand.name)
        or scope.is_view_of_borrowed(operand.name)
    ):
        return operand
    scope.enter(node)
    name, type = scope.session.temporary("kept"), scope.tensor(operand.name)
    stride = type.stride if wir.is_dense(type) else wir.contiguous_stride(type.size)
    copied = evolve(type, stride=stride, offset=0)
    scope.append(
        wir.ExternKernelLine(
            result=name,
            type=copied,
            operator="aten.clone.default",
            arguments=(operand,),
            keywords=(("memory_format", _format_of(type)),),
            device=type.device,
            stream=scope.stream_on(type.device),
            provenance=scope.at,
        )
    )
    scope.define(name, copied)
    scope.temporaries.append(name)
    return wir.BufferRef(name)


def _format_of(type: wir.TensorType) -> wir.TorchEnum:
    """Return the memory format with which a copy has the strides of ``_copy_kept``."""
    name = "preserve_format" if wir.is_dense(type) else "contiguous_format"
    return wir.TorchEnum("memory_format", name)


def lower_extern_multi_out(scope: BlockScope, line: Any) -> None:
    """Lower a call that writes to several buffers that are there already."""
    node: Any = line.node
    values, keywords = node.unflatten_args(node.inputs, node.constant_args)
    outs = dict(zip(node.out_arg_names, node.out_variant_output_nodes, strict=True))
    keywords = {**node.kwargs, **keywords, **outs}
    _lower_call(scope, node, _operator(node), values, keywords)


def lower_index_put(scope: BlockScope, line: inductor.IndexPutFallbackLine) -> None:
    """Lower an ``index_put_``."""
    node: Any = line.node
    values = (node.inputs[0], line.indices, node.inputs[1], *node.constant_args)
    _lower_call(scope, node, str(node.op_overload), values)


def lower_scatter(scope: BlockScope, line: inductor.ScatterFallbackLine) -> None:
    """Lower a ``scatter_`` or ``scatter_reduce_``."""
    node: Any = line.node
    source = node.inputs[2] if node.src_is_tensor else node.constant_args[1]
    values = (node.inputs[0], node.constant_args[0], node.inputs[1], source)
    accepted = {parameter.name for parameter in schema_of(node.op_overload).parameters}
    keywords = {
        key: value
        for key, value in node.kwargs.items()
        if key in accepted and not (key == "reduce" and value is None)
    }
    _lower_call(scope, node, str(node.op_overload), values, keywords)


def lower_multi_output(scope: BlockScope, line: inductor.MultiOutputLine) -> None:
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


def lower_node(scope: BlockScope, node: Any) -> None:
    """Lower an operation that Inductor writes as text: a copy, an assert, a mutation."""
    if isinstance(node, ir.AssertScalar):
        # Not simplified: the asserted condition is known to hold from here on.
        condition = scope.resolve(lower_sympy(node.scalar))
        scope.append(wir.AssertScalarLine(condition=condition, message=node.msg))
    elif isinstance(node, ir.DeviceCopy | ir.InplaceCopyFallback):
        targets: list[Any] = []
        if isinstance(node, ir.DeviceCopy):
            targets.append(node.output_view or node)
        # The host may read pinned memory as soon as the call returns.
        blocking = isinstance(node.layout, ir.Layout) and node.layout.is_pinned
        in_background = bool(node.constant_args[0]) and not blocking
        values = (*targets, *node.inputs, in_background)
        _lower_call(scope, node, "aten.copy_.default", values)
    elif isinstance(node, ir.ResizeStorageBytes):
        operator = "inductor.resize_storage_bytes_.default"
        _lower_call(scope, node, operator, _values(node))
    else:
        _lower_call(scope, node, str(node.op_overload), _values(node))


def _values(node: Any) -> tuple[Any, ...]:
    return (*node.inputs, *node.constant_args)


def _lower_call(
    scope: BlockScope,
    node: Any,
    operator: str,
    values: Sequence[Any],
    keywords: Mapping[str, Any] | None = None,
    result: str | None = None,
    type: wir.ValueType | None = None,
) -> None:
    """Append an operator call and note what it writes."""
    scope.enter(node)
    arguments = tuple(lower_argument(scope, value) for value in values)
    named = {k: lower_argument(scope, value) for k, value in (keywords or {}).items()}
    given = given_arguments(find_schema(operator), arguments, named)
    writes = tuple(value for parameter, value in given if parameter.is_written)
    if reads_elements(operator):
        read = tuple(value for parameter, value in given if not parameter.is_written)
        scope.fill_unwritten(buffers_in(read))
    names: list[str] = []
    if result is not None:
        names = list(buffers_in(tuple(value for p, value in given if p.is_shared)))
        # Where the schema says nothing, Inductor may.
        names = names or [scope.name(name) for name in node.get_inputs_that_alias_output()]
    device = _device_of(scope, node, [*arguments, *named.values()])
    line = wir.ExternKernelLine(
        result=result,
        type=type,
        operator=operator,
        arguments=arguments,
        keywords=tuple(named.items()),
        writes=tuple(dict.fromkeys(buffers_in(writes))),
        aliases=tuple(dict.fromkeys(names)),
        device=device,
        stream=scope.stream_on(device),
        provenance=scope.at,
    )
    scope.append(line)
    for name in line.writes:
        scope.write(name)
    if result is not None and type is not None:
        scope.define(result, type)
        scope.written.add(result)


def _device_of(
    scope: BlockScope, node: Any, arguments: Sequence[wir.Argument]
) -> wir.Device:
    """Return the device that does a node's work.

    A copy to the CPU on a side stream is work of that stream.
    """
    device = lower_device(node.get_device())
    if device.kind == "cpu" and scope.stream:
        for name in buffers_in(tuple(arguments)):
            type = scope.types[name]
            if isinstance(type, wir.TensorType) and type.device.kind != "cpu":
                return type.device
    return device


def _operator(node: Any) -> str:
    """Return the dispatcher's name of a node's operator.

    Raises:
        DiagnosticError: WIR652, it has none.
    """
    if isinstance(node.op_overload, torch._ops.OpOverload):
        return str(node.op_overload)
    name = _OPERATORS_BY_NAME.get(node.python_kernel_name or "")
    if name is None:
        shown = node.python_kernel_name or node.op_overload or type(node).__name__
        raise Code.INDUCTOR_OPERATOR.error(
            f"{shown} is not an operator of PyTorch's dispatcher",
            hint="register it with torch.library, or choose another implementation",
        )
    return name


def _result(scope: BlockScope, node: Any) -> tuple[str | None, wir.ValueType | None]:
    name = scope.name(node.get_name())
    if isinstance(node.layout, ir.NoneLayout):
        return None, None
    if not isinstance(node.layout, ir.MultiOutputLayout):
        return name, layout_type(node.layout)
    outputs = node.outputs
    type = wir.OpaqueType("object") if _is_quantized(node) else None
    if len(outputs) == 1:
        only = outputs[0]
        if isinstance(only, ir.MultiOutput) and not only.indices:
            name = scope.name(only.get_name())
            scope.merged.add(node.get_name())
            scope.names[node.get_name()] = name
            return name, type or _output_type(only)
        if not isinstance(only, ir.MultiOutput) and not isinstance(only, list | tuple):
            return name, type or _output_type(only)
    return name, type or _output_type(outputs)


def _is_quantized(node: Any) -> bool:
    """Say whether a node returns a quantized tensor.

    PyTorch's fake tensors do not know it: theirs have the dtype of the input.
    """
    given = (*node.constant_args, *node.kwargs.values())
    return any(isinstance(x, torch.dtype) and is_quantized(x) for x in given)


def _output_type(output: Any) -> wir.ValueType:
    if isinstance(output, list | tuple):
        return wir.TupleType(tuple(_output_type(item) for item in output))
    if output is None:
        return wir.OpaqueType("none")
    if isinstance(output, versions.OPAQUE_OUTPUT):
        return wir.OpaqueType("object")
    if isinstance(output, ir.MultiOutput):
        return layout_type(output.get_layout())
    if isinstance(output, bool | int | float | sympy.Basic):
        return scalar_type(output)
    raise Code.INDUCTOR_VALUE.error(
        f"a result of type {type(output).__name__} has no form in a program"
    )
