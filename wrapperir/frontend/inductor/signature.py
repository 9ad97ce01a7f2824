# fx says little of its types.
"""Signatures of exported programs: held tensors, fixed inputs, returned constants."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from attrs import define, evolve, field
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from wrapperir import ir as wir
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.signature import (
    HELD,
    MUTATIONS,
    RETURNED,
    held_name,
    held_tensor,
    inputs_by_target,
    unsupported,
)
from wrapperir.frontend.aten.values import NO_VALUE, lower_type
from wrapperir.ir.blocks import walk_lines
from wrapperir.ir.line_effects import value_names
from wrapperir.ir.mentions import source_buffer
from wrapperir.ir.renaming import rename_program
from wrapperir.ir.rewriting import rewrite_expressions

_TRACED = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
_FIXED = (bool, int, float, str, type(None))


@define
class ExportedSignature:
    """Inputs and outputs in order, and the tensors that the module holds.

    Attributes:
        placeholders: names of the graph's inputs, held tensors included.
        keys: key of each held tensor, by the name of its input.
        tensors: held tensors by key.
        inputs: name and example of each input of the exported module.
        own_names: names in the exported module of inputs that are named otherwise, as
            Inductor may use these.
        outputs: a fixed value, or ``...`` for one that the graph computes.
    """

    placeholders: list[str] = field(factory=list[str])
    keys: dict[str, str] = field(factory=dict[str, str])
    tensors: dict[str, torch.Tensor] = field(factory=dict[str, torch.Tensor])
    inputs: list[tuple[str, Any]] = field(factory=list[tuple[str, Any]])
    own_names: dict[str, str] = field(factory=dict[str, str])
    outputs: list[Any] = field(factory=list[Any])

    def complete(self, lowered: Lowered) -> Lowered:
        """Return the program of the graph with the inputs and outputs of the signature.

        Raises:
            DiagnosticError: WIR605, the offset of a held tensor is not fixed.
        """
        own, tensors = _beside(lowered, self.tensors)
        program = bind_constants(own, self.keys)
        inputs = {input.name: input for input in program.inputs}
        symbols, checks = list(program.symbols), list[wir.BodyLine]()
        for name, value in self.inputs:
            if name in inputs:
                continue
            type = NO_VALUE if isinstance(value, str) else lower_type(value)
            inputs[name] = wir.Input(name=name, type=type)
            symbol, source = f"{name}_value", wir.ValueOf(name)
            if isinstance(value, float):
                kind = wir.SymbolKind.FLOAT
                line = wir.SymbolDefinitionLine(symbol=symbol, kind=kind, source=source)
                symbols.append(line)
                condition = wir.compare(wir.ExprOp.EQ, wir.Symbol(symbol), value)
                message = f"compiled for {value} as %{name}"
                checks.append(wir.AssertScalarLine(condition=condition, message=message))
            elif isinstance(value, int):
                fixed = int(value)
                symbols.append(
                    wir.SymbolDefinitionLine(
                        symbol=symbol, lower=fixed, upper=fixed, source=source
                    )
                )
        returned = iter(program.outputs)
        outputs = [next(returned) if value is ... else value for value in self.outputs]
        program = evolve(
            program,
            inputs=tuple(inputs[name] for name, _ in self.inputs),
            symbols=tuple(symbols),
            lines=(*checks, *program.lines),
            outputs=cast(tuple[wir.Argument, ...], tuple(outputs)),
        )
        return Lowered(_with_own_names(program, self.keys, self.own_names), tensors)


def _with_own_names(
    program: wir.Program, keys: Mapping[str, str], own: Mapping[str, str]
) -> wir.Program:
    """Return the program with its own names of inputs where these are free.

    Held tensors are named after their keys, where these are.
    """
    taken = {*value_names(program), *_symbols_of(program)}
    names = {name: given for name, given in own.items() if given not in taken}
    taken.update(names.values())
    for constant in program.constants:
        names[constant.name] = held_name(keys.get(constant.name, ""), constant.name, taken)
        taken.add(names[constant.name])
    return rename_program(program, lambda name: names.get(name, name))


def _symbols_of(program: wir.Program) -> Iterator[str]:
    for line in (*program.symbols, *walk_lines(program.lines)):
        if isinstance(line, wir.SymbolDefinitionLine):
            yield line.symbol


def _beside(
    lowered: Lowered, held: dict[str, torch.Tensor]
) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return the program with keys of its own constants that ``held`` does not have."""
    tensors, constants = dict(held), list[Any]()
    for constant in lowered.program.constants:
        key = constant.key
        while key in tensors:
            key += "_"
        tensors[key] = lowered.constants[constant.key]
        constants.append(evolve(constant, key=key))
    return evolve(lowered.program, constants=tuple(constants)), tensors


def plain_graph(
    exported: ExportedProgram,
) -> tuple[torch.fx.GraphModule, ExportedSignature]:
    """Return the graph with held tensors as inputs, and the signature of its program.

    The graph neither takes nor returns values that it was specialised for, and it writes
    the new values of inputs itself.

    Raises:
        DiagnosticError: WIR605, the signature has a part that a program cannot have.
    """
    signature = ExportedSignature()
    graph = torch.fx.Graph()
    values: dict[torch.fx.Node, Any] = {}
    held: dict[Any, torch.fx.Node] = {}
    specs = iter(exported.graph_signature.input_specs)
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            spec = next(specs)
            if spec.kind in HELD:
                tensor = held_tensor(exported, node, spec).detach()
                known = held.get(_place(tensor))
                if known is None:
                    known = graph.node_copy(node)
                    name = _new_name(node.name, signature)
                    signature.placeholders.append(name)
                    signature.keys[name] = str(spec.target)
                    signature.tensors[str(spec.target)] = tensor
                    held[_place(tensor)] = known
                values[node] = known
            else:
                values[node] = _take(graph, node, spec, signature)
        elif node.op != "output":
            values[node] = graph.node_copy(node, lambda used: values[used])
        else:
            graph.output(tuple(_returned(graph, node, values, exported, signature)))
    return torch.fx.GraphModule(exported.graph_module, graph), signature


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return a key that tensors with the same memory share, such as tied weights."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return (id(tensor),)
    return (tensor.data_ptr(), tensor.dtype, tensor.size(), tensor.stride(), tensor.device)


def _take(
    graph: torch.fx.Graph, node: torch.fx.Node, spec: Any, signature: ExportedSignature
) -> Any:
    value = node.meta.get("val")
    if spec.kind is not InputKind.USER_INPUT or not isinstance(value, _TRACED + _FIXED):
        raise unsupported(f"input {node.name} is a {spec.kind.name}")
    name = _new_name(node.name, signature)
    signature.inputs.append((name, value))
    if name != node.name:
        signature.own_names[name] = node.name
    if isinstance(value, _FIXED):
        return value
    signature.placeholders.append(name)
    return graph.node_copy(node)


def _new_name(name: str, signature: ExportedSignature) -> str:
    """Return a name that no input has and that Inductor does not use.

    Inductor's names have numbers, except that exported names of held tensors have
    prefixes such as ``p_``.
    """
    taken = {*signature.placeholders, *(given for given, _ in signature.inputs)}
    if re.search(r"\d|^_", name) and not re.match(r"[pbc]_|(kw)?args_", name):
        name = f"{name}_"
    while name in taken:
        name = f"{name}_"
    return name


def _returned(
    graph: torch.fx.Graph,
    output: torch.fx.Node,
    values: dict[torch.fx.Node, Any],
    exported: ExportedProgram,
    signature: ExportedSignature,
) -> list[Any]:
    inputs = inputs_by_target(exported)
    returned: list[Any] = []
    results: Any = output.args[0]
    for result, spec in zip(results, exported.graph_signature.output_specs, strict=True):
        value = values[result] if isinstance(result, torch.fx.Node) else result
        if spec.kind in MUTATIONS:
            written = values[inputs[str(spec.target)]]
            graph.call_function(torch.ops.aten.copy_.default, (written, value))
        elif spec.kind not in RETURNED or isinstance(value, str):
            what = "a string" if isinstance(value, str) else f"a {spec.kind.name}"
            raise unsupported(f"an output is {what}")
        elif isinstance(value, torch.fx.Node):
            signature.outputs.append(...)
            returned.append(value)
        else:
            signature.outputs.append(value)
    return returned


_FOR_INPUTS = (wir.FreeLine, wir.AssertSizeStrideLine)


def bind_constants(program: wir.Program, keys: Mapping[str, str]) -> wir.Program:
    """Return the program with inputs as constants; ``keys`` has the key of each.

    They come first among the constants, in the order of ``keys``.  A mutated input becomes
    a mutated constant.  Lines that free them or check their size and stride are removed:
    constants are checked where they are loaded.

    Raises:
        DiagnosticError: WIR605, a size or offset of such an input is not fixed.
    """
    inputs = {input.name: input for input in program.inputs}
    fixed = {
        line.symbol: _fixed(line)
        for line in program.symbols
        if source_buffer(line.source) in keys
    }

    def put_in(expr: wir.Symbol | wir.Operation) -> wir.Expr:
        return wir.substitute(expr, fixed)

    bound = evolve(
        program,
        inputs=tuple(input for input in program.inputs if input.name not in keys),
        symbols=tuple(line for line in program.symbols if line.symbol not in fixed),
        constants=(
            *(_constant(inputs[name], key) for name, key in keys.items()),
            *program.constants,
        ),
        lines=tuple(
            line
            for line in program.lines
            if not (isinstance(line, _FOR_INPUTS) and line.buffer in keys)
        ),
    )
    return rewrite_expressions(bound, put_in) if fixed else bound


def _constant(input: wir.Input, key: str) -> wir.ConstantInput:
    if not isinstance(input.type, wir.TensorType):
        raise _not_fixed(f"%{input.name} is not a tensor")
    return wir.ConstantInput(
        name=input.name, type=input.type, key=key, mutated=input.mutated
    )


def _fixed(line: wir.SymbolDefinitionLine) -> int:
    if line.lower is None or line.lower != line.upper:
        raise _not_fixed(f"{line.symbol} is not the same in each call")
    return line.lower


def _not_fixed(what: str) -> DiagnosticError:
    return Code.UNSUPPORTED_SIGNATURE.error(
        f"{what}, so a tensor kept outside the program cannot be bound to it"
    )
