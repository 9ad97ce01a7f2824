"""One call of a program as a program: it is valid, and writes what the call writes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
import torch
from attrs import define, evolve, field, fields
from hypothesis import given, settings

from tests.tuning.costs import FAST, SLOW, calling
from wrapperir.diagnostics import Severity
from wrapperir.interp import interpret
from wrapperir.interp.executor import Executor
from wrapperir.ir import (
    BenchmarkChoice,
    BufferRef,
    ItemOf,
    KernelCallLine,
    KernelConfig,
    MultiKernelLine,
    Number,
    Program,
    SizeOf,
    Symbol,
    TensorParameter,
    TensorType,
    ValueOf,
    evaluate,
    evaluate_int,
    runtime_parameters,
    settled_choice,
    storage_extent,
    tensor,
)
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.testing import example_constants, example_inputs, programs
from wrapperir.text import format_program, parse_program
from wrapperir.tuning.calls import Call, call_program, calls_of
from wrapperir.verify import verify


def errors(program: Program) -> list[str]:
    return [d.message for d in verify(program) if d.severity is Severity.ERROR]


@define
class Seen:
    """A call as the interpreter made it: its tensors before and after, and symbols."""

    line: KernelCallLine
    symbols: dict[str, Number]
    before: list[torch.Tensor | Number]
    after: list[torch.Tensor | Number] = field(factory=list[torch.Tensor | Number])


@contextmanager
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Seen]]:
    seen: list[Seen] = []
    run = Executor.visit_kernel_call

    def watched(self: Executor, line: KernelCallLine) -> None:
        def values() -> list[torch.Tensor | Number]:
            return [
                self.frame.tensor(a.name).tensor.clone()
                if isinstance(a, BufferRef)
                else evaluate(a, self.frame.symbols)
                for a in line.arguments
            ]

        found = Seen(line, dict(self.frame.symbols), values())
        run(self, line)
        found.after = values()
        seen.append(found)

    with monkeypatch.context() as patch:
        patch.setattr(Executor, "visit_kernel_call", watched)
        yield seen


def placed(
    type: TensorType, values: Mapping[str, Number], like: torch.Tensor
) -> torch.Tensor:
    """Return a tensor of a type, in memory of its own, with the numbers of another."""
    size, stride = (
        [evaluate_int(e, values) for e in exprs] for exprs in (type.size, type.stride)
    )
    offset = evaluate_int(type.offset, values)
    extent = 0 if 0 in size else evaluate_int(storage_extent(type), values)
    memory = torch.zeros(offset + extent, dtype=like.dtype)
    result = memory.as_strided(size, stride, offset)
    return result.copy_(like)


def call_of(program: Program, seen: Seen) -> Call:
    """Return the call that a line is: what its arguments are agrees."""
    fitting = []
    for call in calls_of(program)[seen.line.kernel]:
        names = {symbol.symbol for symbol in call.symbols}
        agree = names <= seen.symbols.keys() and all(
            [evaluate_int(e, seen.symbols) for e in a.size] == list(value.shape)
            if isinstance(a, TensorType) and isinstance(value, torch.Tensor)
            else not isinstance(a, TensorType) and evaluate(a, seen.symbols) == value
            for a, value in zip(call.arguments, seen.before, strict=True)
        )
        if agree:
            fitting.append(call)
    assert fitting, "no call of the program is like this one"
    return fitting[0]


@settings(max_examples=30)
@given(programs(max_steps=12))
def test_a_call_on_its_own_writes_what_it_writes_in_its_program(program: Program) -> None:
    with watching(pytest.MonkeyPatch()) as all_seen:
        interpret(program, example_inputs(program), example_constants(program))
    definitions = {line.name: line for line in program.definitions}
    for seen in all_seen:
        call = call_of(program, seen)
        definition = definitions[call.kernel]
        choice, workspaces = 0, set[int]()
        if isinstance(definition, MultiKernelLine):
            choice = settled_choice(definition.selection) or 0
            # Choices are equivalent except for what they leave in workspaces.
            needs = (need for item in definition.choices for need in item.workspaces)
            workspaces = {need.parameter for need in needs}
        alone = call_program(program, call, choice)
        assert errors(alone) == []
        # The text does not say which inputs must be zero.
        plain = Program(**{f.name: getattr(alone, f.name) for f in fields(Program)})
        assert parse_program(format_program(alone)) == plain
        numbers = {
            line.source.name: seen.symbols[line.symbol]
            for line in alone.symbols
            if isinstance(line.source, ValueOf)
        }
        tensors = [
            placed(argument, seen.symbols, value)
            for argument, value in zip(call.arguments, seen.before, strict=True)
            if isinstance(argument, TensorType) and isinstance(value, torch.Tensor)
        ]
        given_inputs = [
            *(numbers[i.name] for i in alone.inputs if i.name in numbers),
            *tensors,
        ]
        interpret(alone, given_inputs, {})
        expected = [v for v in seen.after if isinstance(v, torch.Tensor)]
        written = [
            p.access.writes and index not in workspaces
            for index, p in enumerate(runtime_parameters(definition.parameters))
            if isinstance(p, TensorParameter)
        ]
        assert len(written) == len(tensors)
        for is_written, actual, wanted in zip(written, tensors, expected, strict=True):
            if is_written:
                torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)


def test_equal_calls_are_one_and_others_are_not() -> None:
    same = calls_of(calling([16, 16, 32]))["twice"]
    assert [call.arguments[2] for call in same] == [16, 32]
    dynamic = calls_of(calling([Symbol("s0"), Symbol("s1")]))["twice"]
    assert [[s.symbol for s in call.symbols] for call in dynamic] == [["s0"], ["s1"]]


def test_computed_symbols_bring_those_they_come_from() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (Symbol("s0"),)))
    b.symbol("s0", SizeOf(x.name, 0), lower=2, upper=8)
    b.symbol("half", Symbol("s0") // 2)
    b.symbol("unused", Symbol("s0") + 1)
    out = b.allocate(tensor("f32", (Symbol("half"),)))
    view = b.reinterpret(x, tensor("f32", (Symbol("half"),)))
    b.call(b.kernel(FAST), view, out, Symbol("half"))
    b.free(view)
    b.free(x)
    program = b.build(out)
    (call,) = calls_of(program)["fast"]
    assert [line.symbol for line in call.symbols] == ["s0", "half"]
    alone = call_program(program, call)
    assert [line.symbol for line in alone.symbols] == ["half"]
    assert errors(alone) == []


NESTED = """\
wrapperir 1

kernel_definition @add opaque(x: read f32*, out: write f32*, n: i64) {
  entry = add
  source {
    |
  }
}

program @main(%x: f32[s0], %y: f32[8]) {
  symbol s0: int 1..64 = size(%x, 0)
  constant %w: f32[4] = "w"

  subgraph_call @inner (%x) {
    body (%y: f32[s0]) {
      %out = allocate f32[s0]
      kernel_call @add(%y, %out, s0)
      kernel_call @add(%w, %out, 4)
      free %out
      return
    }
  }
  %out = allocate f32[8]
  kernel_call @add(%y, %out, 8)
  free %out
  free %x
  free %y
  return
}
"""


def test_calls_in_blocks_see_the_names_of_their_block() -> None:
    found = calls_of(parse_program(NESTED))["add"]
    sizes = [
        argument.size
        for call in found
        if isinstance(argument := call.arguments[0], TensorType)
    ]
    assert sizes == [(Symbol("s0"),), (4,), (8,)]


def test_each_choice_takes_the_same_inputs() -> None:
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,)), mutated=True)
    scratch = b.input(tensor("f32", (8,)), mutated=True)
    kernels = [b.kernel(SLOW), b.kernel(FAST)]
    either = b.multi_kernel(
        kernels, positions=[(0, 1, 2), (0, 3, 2)], selection=BenchmarkChoice()
    )
    b.call(either, x, x, 8, scratch)
    program = b.build()
    (call,) = calls_of(program)[either.name]
    slow, fast = (call_program(program, call, at) for at in (0, 1))
    assert slow.inputs == fast.inputs
    assert len({item.name for item in slow.inputs}) == 3
    assert [item.mutated for item in slow.inputs] == [False, True, True]
    assert errors(slow) == errors(fast) == []
    for alone, taken in ((slow, (0, 1)), (fast, (0, 2))):
        (line,) = alone.lines
        assert isinstance(line, KernelCallLine)
        names = [alone.inputs[at].name for at in taken]
        assert line.arguments == (*map(BufferRef, names), 8)


def test_assertions_are_left_out_of_what_is_timed() -> None:
    values = (("BLOCK", 64), ("num_warps", 4))
    kernel = evolve(FAST, configs=(KernelConfig((*values, ("debug", True))),))
    b = ProgramBuilder()
    x = b.input(tensor("f32", (8,)), mutated=True)
    b.call(b.kernel(kernel), x, x, 8)
    program = b.build()
    ((call,),) = calls_of(program).values()
    (definition,) = call_program(program, call).definitions
    assert definition == evolve(FAST, configs=(KernelConfig(values),))


def test_symbols_read_from_tensors_are_given_as_numbers() -> None:
    b = ProgramBuilder()
    cell, x = b.input(tensor("i64", ())), b.input(tensor("f32", (64,)))
    b.symbol("u0", ItemOf(cell.name), lower=1, upper=64)
    part = b.reinterpret(x, tensor("f32", (Symbol("u0"),)))
    out = b.allocate(tensor("f32", (Symbol("u0"),)))
    b.call(b.kernel(FAST), part, out, Symbol("u0"))
    for value in (part, x, cell):
        b.free(value)
    program = b.build(out)
    (call,) = calls_of(program)["fast"]
    alone = call_program(program, call)
    (symbol,) = alone.symbols
    assert symbol.source == ValueOf(alone.inputs[0].name)
    assert (symbol.lower, symbol.upper) == (1, 64)
