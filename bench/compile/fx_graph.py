"""Time of building a program's graph beside that of creating its nodes alone.

The baseline creates the nodes of the finished graph again, each by one call of
``Graph.create_node`` with the same operation, target, arguments and, if the program gives
one, name.  All of these are ready before.  Ours starts with a program of about 1,000 lines
and gives each node its fake tensor, its line and its provenance.  The two take turns in one
process with the garbage collector off, since its runs depend on unrelated objects.
Processor times are compared.

    A  matrix products, each into memory that is allocated before and freed after it
    D  the same with a dynamic number of rows
    M  Inductor's program of matrix products
    X  Inductor's program of matrix products and fused pointwise kernels

    python -m bench.compile.fx_graph [rounds]
"""

import gc
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config
from torch.fx import Graph, Node

from bench.host.chains import example_inputs, mm_add_relu, mms
from bench.machine import describe_machine
from wrapperir.frontend.inductor import capture
from wrapperir.ir import (
    AllocateLine,
    BodyLine,
    BufferRef,
    Expr,
    ExternKernelLine,
    FreeLine,
    Input,
    Program,
    SizeOf,
    Symbol,
    SymbolDefinitionLine,
    tensor,
)
from wrapperir.ir.line_effects import definitions
from wrapperir_fx.graph_builder import build_graph

LINES = 1000


def captured(kind: str) -> Program:
    """Return a chain's program as Inductor has it, of about ``LINES`` lines."""
    chain = mms(LINES // 3) if kind == "M" else mm_add_relu(LINES // 5)
    torch._dynamo.reset()
    with torch.no_grad():
        (lowered,) = capture(chain, example_inputs(chain))
    return lowered.program


def written(rows: Expr) -> Program:
    """Return matrix products into memory that is allocated before and freed after each."""
    type = tensor("f32", (rows, 8))
    square = tensor("f32", (8, 8))
    lines: list[BodyLine] = []
    source = "x"
    for number in range(LINES // 3):
        result = f"buf{number}"
        out = (("out", BufferRef(result)),)
        arguments = (BufferRef(source), BufferRef("w"))
        lines += [
            AllocateLine(result=result, type=type),
            ExternKernelLine(
                operator="aten.mm.out", arguments=arguments, keywords=out, writes=(result,)
            ),
            FreeLine(buffer=source),
        ]
        source = result
    symbol = SymbolDefinitionLine(symbol="s0", lower=2, source=SizeOf("x", 0))
    return Program(
        inputs=(Input(name="x", type=type), Input(name="w", type=square)),
        symbols=(symbol,) if isinstance(rows, Symbol) else (),
        lines=tuple(lines),
        outputs=(BufferRef(source),),
    )


def given_names(program: Program) -> set[str]:
    """Return the names that a program gives values."""
    names = {item.name for item in program.inputs}
    names.update(item.name for item in program.constants)
    names.update(symbol.symbol for symbol in program.symbols)
    return names.union(name for line in program.lines for name, _ in definitions(line))


def replay(program: Program, graph: Graph) -> Callable[[], Graph]:
    """Return a function that creates the nodes of ``graph`` again."""
    kept: list[object] = []
    names = given_names(program)
    text = ["def create():", "    graph = Graph(); create = graph.create_node"]

    def argument(value: object) -> str:
        if isinstance(value, Node):
            return f"n_{value.name}"
        if isinstance(value, tuple):
            return f"({''.join(f'{argument(item)}, ' for item in value)})"
        if isinstance(value, list):
            return f"[{', '.join(map(argument, value))}]"
        if isinstance(value, dict):
            items = (f"{key!r}: {argument(item)}" for key, item in value.items())
            return f"{{{', '.join(items)}}}"
        if value is None or type(value) in (int, bool, str):
            return repr(value)
        kept.append(value)
        return f"kept[{len(kept) - 1}]"

    for node in graph.nodes:
        # FX numbers what has the name of a node before it: s0, s0_1.
        stem = re.sub(r"_\d+$", "", node.name)
        name = next((name for name in (node.name, stem) if name in names), None)
        given = (node.op, node.target, tuple(node.args), dict(node.kwargs), name)
        call = ", ".join(map(argument, given))
        text.append(f"    n_{node.name} = create({call})")
    text.append("    return graph")
    known: dict[str, Any] = {"Graph": Graph, "kept": kept}
    exec("\n".join(text), known)
    create: Callable[[], Graph] = known["create"]
    return create


def milliseconds(make: Callable[[], object]) -> float:
    """Return the time of one call, without that of dropping its result."""
    gc.collect()
    gc.disable()
    start = time.thread_time()
    made = make()
    taken = time.thread_time() - start
    gc.enable()
    del made
    return taken * 1000


def compare(name: str, program: Program, rounds: int) -> None:
    """Print both times of one program."""
    graph = build_graph(program).graph
    create = replay(program, graph)
    expected, found = str(graph), str(create())
    assert found == expected, name
    calls: dict[str, Callable[[], object]] = {
        "wrapperir, build_graph": lambda: build_graph(program),
        "Graph.create_node": create,
    }
    times: dict[str, list[float]] = {kind: [] for kind in calls}
    for number in range(rounds):
        for kind in list(calls) if number % 2 else list(calls)[::-1]:
            times[kind].append(milliseconds(calls[kind]))
    count = len(graph.nodes)
    print(f"\n{name}  {len(program.lines)} lines, {count} nodes")
    base = times["Graph.create_node"]
    for kind, taken in times.items():
        least, middle = min(taken), statistics.median(taken)
        ratios = least / min(base), middle / statistics.median(base)
        each = least / count * 1000
        print(
            f"  {kind:24} {least:6.1f} ms {ratios[0]:6.2f} {middle:8.1f} ms"
            f" {ratios[1]:6.2f} {each:8.1f} us a node"
        )


def main() -> None:
    """Print the times of all programs."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    torch.set_num_threads(1)
    print(describe_machine())
    print(f"\n{'':26} {'least':>9} {'ratio':>6} {'median':>11} {'ratio':>6}")
    with (
        config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        programs = {
            "A": written(8),
            "D": written(Symbol("s0")),
            "M": captured("M"),
            "X": captured("X"),
        }
    for name, program in programs.items():
        compare(name, program, rounds)


if __name__ == "__main__":
    main()
