"""Inputs and outputs of a block: types, symbols, results, final frees."""

from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch.utils._sympy.symbol import SymT, symbol_is_type

from wrapperir.frontend.inductor.layouts import layout_type, scalar_type, tensor_type
from wrapperir.frontend.inductor.operands import lower_operand
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.inductor.symbol_lines import define_symbol
from wrapperir.ir import Expr, OpaqueType, TensorType, ValueType
from wrapperir.ir import line as wir
from wrapperir.symbolic import lower_sympy


def input_type(value: Any, offset: Expr = 0) -> ValueType:
    """Return the type of a graph input, which begins at ``offset`` in its storage."""
    if isinstance(value, ir.TensorBox):
        return layout_type(value.get_layout(), offset=offset)
    if isinstance(value, sympy.Basic | int | float):
        return scalar_type(value)
    return OpaqueType("none" if value is None else type(value).__name__)


def constant_type(tensor: torch.Tensor) -> TensorType:
    """Return the type of a constant."""
    return tensor_type(tensor.dtype, tensor.size(), tensor.stride(), tensor.device)


def input_symbols(scope: Scope, inputs: dict[str, Any]) -> list[wir.SymbolDefinitionLine]:
    """Return the symbols that inputs give values to, numbers first.

    A symbol that guards have replaced by another is defined as that other: checks that
    run later may name it still.
    """
    replaced: dict[Any, list[Any]] = {}
    for old, new in scope.graph.sizevars.shape_env.replacements.items():
        if not symbol_is_type(old, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)):
            replaced.setdefault(new, []).append(old)
    found: list[wir.SymbolDefinitionLine] = []

    def bind(symbol: Any, source: wir.SymbolSource) -> None:
        if not isinstance(symbol, sympy.Symbol) or symbol.name in scope.symbols:
            return
        found.append(define_symbol(scope, symbol, source))
        for old in replaced.get(symbol, ()):
            if old.name not in scope.symbols:
                found.append(define_symbol(scope, old, lower_sympy(symbol)))

    for name, value in inputs.items():
        bind(value, wir.ValueOf(name))
    for name, value in inputs.items():
        if isinstance(value, ir.TensorBox):
            for dim, size in enumerate(value.get_size()):
                bind(size, wir.SizeOf(name, dim))
            for dim, stride in enumerate(value.get_stride()):
                bind(stride, wir.StrideOf(name, dim))
    return found


def lower_outputs(scope: Scope, nodes: list[Any]) -> tuple[wir.Argument, ...]:
    """Return the outputs of a program; a repeated output becomes a view."""
    outputs: list[wir.Argument] = []
    seen: set[str] = set()
    for node in nodes:
        output = lower_operand(scope, node, [], None)
        if isinstance(output, wir.BufferRef):
            if output.name in seen:
                same = scope.tensor(output.name)
                output = wir.BufferRef(scope.view(output.name, same, None))
            seen.add(output.name)
        outputs.append(output)
    return tuple(outputs)


def free_rest(scope: Scope, outputs: tuple[wir.Argument, ...]) -> None:
    """Free what Inductor leaves to the end of the Python function."""
    kept = {output.name for output in outputs if isinstance(output, wir.BufferRef)}
    for name in [name for name in scope.live if name not in kept]:
        scope.free(name)
