"""Lowering of operations that Inductor writes as text: copies, asserts, mutations."""

from typing import Any

from torch._inductor import ir

from wrapperir.frontend.inductor.extern_lines import call
from wrapperir.frontend.inductor.operands import lower_argument, lower_operand
from wrapperir.frontend.inductor.records import NodeLine
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.provenance import origins_provenance
from wrapperir.ir import line as wir
from wrapperir.symbolic import lower_sympy


def lower_node(scope: Scope, line: NodeLine) -> None:
    """Lower an operation from its node."""
    node = line.node
    if isinstance(node, ir.AssertScalar):
        # Not simplified: what it asserts counts as known from here on.
        condition = scope.resolve(lower_sympy(node.scalar))
        scope.append(wir.AssertScalarLine(condition=condition, message=node.msg))
    elif isinstance(node, ir.DeviceCopy):
        _lower_copy(scope, node, node.output_view or node, node.inputs[0])
    elif isinstance(node, ir.InplaceCopyFallback):
        _lower_copy(scope, node, node.inputs[0], node.inputs[1])
    else:
        _lower_mutation(scope, node)


def _lower_copy(scope: Scope, node: Any, target: Any, source: Any) -> None:
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    arguments = [
        lower_operand(scope, target, temporaries, at),
        lower_operand(scope, source, temporaries, at),
    ]
    layout = node.layout
    # The host may read pinned memory as soon as the call returns.
    blocking = isinstance(layout, ir.Layout) and layout.is_pinned
    arguments.append(bool(node.constant_args[0]) and not blocking)
    call(scope, node, "aten.copy_.default", arguments, {}, temporaries, at)


def _lower_mutation(scope: Scope, node: Any) -> None:
    at = origins_provenance(node.origins, scope.session.facts)
    temporaries: list[str] = []
    arguments = [
        lower_argument(scope, value, temporaries, at)
        for value in (*node.inputs, *node.constant_args)
    ]
    operator = (
        "inductor.resize_storage_bytes_.default"
        if isinstance(node, ir.ResizeStorageBytes)
        else str(node.op_overload)
    )
    call(scope, node, operator, arguments, {}, temporaries, at)
