"""Operations per second of reading and printing, beside xDSL and torch.export, in one run.

Ours: the lines a frontend makes of a matmul and a fused kernel (allocate, extern_kernel,
reuse, kernel_call, free), each line with types and provenance objects of its own; also
without provenance, which is closer to what the others write.  xDSL: as many operations
with as many operands on memrefs, in its generic syntax and in its custom one, without
locations.  torch.export: ``serialize`` and ``deserialize`` of an exported chain.

    python -m bench.compile.text [most lines]
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from io import StringIO

from wrapperir.ir import Device, Program, TensorType, tensor
from wrapperir.ir.builder import ProgramBuilder
from wrapperir.text import format_json, format_program, parse_json, parse_program

PEER_OPERATIONS = 10_000
EXPORT_OPERATIONS = 500
REPEATS = 5


def program_of(lines: int, *, provenance: bool) -> Program:
    """Return a program of ``lines`` lines, a multiple of 5."""
    b = ProgramBuilder()
    device = Device("cuda", 0)

    def matrix() -> TensorType:
        return tensor("f32", (64, 64), device=device)

    x = b.input(matrix(), name="x")
    weight = b.constant(matrix(), "weight")
    for i in range(lines // 5):
        if provenance:
            stack = [("model.py", i, "forward")]
            b.at(b.origin(f"mm_{i}", operator="aten.mm.default", stack=stack))
        buffer = b.allocate(matrix())
        b.extern_out("aten.mm.out", x, weight, out=buffer, device=device)
        reused = b.reuse(buffer, tensor("f32", (4096,), device=device))
        b.call("fused", reused, reused, 4096, device=device)
        b.free(reused)
    return b.build()


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median time of ``work``."""
    times: list[float] = []
    for _ in range(repeats):
        gc.collect()
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure_ours(lines: int, *, provenance: bool) -> dict[str, float]:
    """Return lines a second."""
    program = program_of(lines, provenance=provenance)
    text, json = format_program(program), format_json(program)
    assert parse_program(text) == program
    assert parse_json(json) == program
    repeats = REPEATS if lines <= 10**5 else 1
    return {
        "parse": lines / seconds(lambda: parse_program(text), repeats),
        "print": lines / seconds(lambda: format_program(program), repeats),
        "json": lines / seconds(lambda: (format_json(program), parse_json(json)), repeats),
    }


XDSL_GENERIC = """\
%a{i} = "memref.alloc"() <{{"operandSegmentSizes" = array<i32: 0, 0>}}> : () -> memref<64x64xf32>
"test.op"(%x, %w, %a{i}) {{"operator" = "aten.mm.out"}} : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
%b{i} = "test.op"(%a{i}) {{"operator" = "reuse"}} : (memref<64x64xf32>) -> memref<4096xf32>
"func.call"(%b{i}, %b{i}, %n) <{{"callee" = @fused}}> : (memref<4096xf32>, memref<4096xf32>, index) -> ()
"memref.dealloc"(%b{i}) : (memref<4096xf32>) -> ()
"""  # noqa: E501
XDSL_CUSTOM = """\
%a{i} = memref.alloc() : memref<64x64xf32>
func.call @mm(%x, %w, %a{i}) : (memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()
%b{i} = "memref.cast"(%a{i}) : (memref<64x64xf32>) -> memref<64x64xf32>
func.call @fused(%b{i}, %b{i}, %n) : (memref<64x64xf32>, memref<64x64xf32>, index) -> ()
memref.dealloc %b{i} : memref<64x64xf32>
"""  # noqa: E501
XDSL_HEAD = """\
builtin.module {
func.func @main(%x: memref<64x64xf32>, %w: memref<64x64xf32>, %n: index) {
"""


def measure_xdsl(operations: int) -> dict[str, float]:
    """Return operations a second, the better of the two syntaxes for each of its rates."""
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin, ModuleOp
    from xdsl.dialects.func import Func
    from xdsl.dialects.memref import MemRef
    from xdsl.dialects.test import Test
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    def context() -> Context:
        found = Context()
        for dialect in (Builtin, Func, MemRef, Test):
            found.load_dialect(dialect)
        return found

    rates: dict[str, float] = {"parse": 0, "print": 0}
    for generic, template in ((True, XDSL_GENERIC), (False, XDSL_CUSTOM)):
        body = "".join(template.format(i=i) for i in range(operations // 5))
        text = XDSL_HEAD + body + "func.return\n}\n}\n"
        module = Parser(context(), text).parse_module()

        def read(text: str = text) -> object:
            return Parser(context(), text).parse_module()

        def write(module: ModuleOp = module, generic: bool = generic) -> None:
            Printer(StringIO(), print_generic_format=generic).print_op(module)

        rates["parse"] = max(rates["parse"], operations / seconds(read, 3))
        rates["print"] = max(rates["print"], operations / seconds(write, 3))
    return rates


def measure_export(operations: int) -> float:
    """Return nodes a second of serialising and deserialising."""
    import torch
    from torch._export.serde.serialize import deserialize, serialize

    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(operations // 2):
                x = torch.relu(x + 1)
            return x

    exported = torch.export.export(Chain(), (torch.ones(8),))
    nodes = len(exported.graph.nodes)
    return nodes / seconds(lambda: deserialize(serialize(exported)), 3)


def main() -> None:
    """Print the rates, the ratios and how time grows."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 10**6
    xdsl = measure_xdsl(PEER_OPERATIONS)
    export = measure_export(EXPORT_OPERATIONS)
    peers = {"parse": xdsl["parse"], "print": xdsl["print"], "json": export}
    names = {"parse": "xDSL", "print": "xDSL", "json": "torch.export"}
    for provenance in (False, True):
        ours = measure_ours(PEER_OPERATIONS, provenance=provenance)
        print(f"{'with' if provenance else 'without'} provenance")
        print(f"  {'':<8}{'ours/s':>12}{'peer/s':>12}{'ratio':>8}  peer")
        for key, rate in ours.items():
            print(
                f"  {key:<8}{rate:>12,.0f}{peers[key]:>12,.0f}"
                f"{rate / peers[key]:>8.1f}  {names[key]}"
            )
    print(f"{'lines':>9}{'parse µs':>10}{'print µs':>10}{'json µs':>10}  a line")
    lines = 10**3
    while lines <= most:
        rates = measure_ours(lines, provenance=True)
        print(f"{lines:>9}" + "".join(f"{1e6 / rate:>10.2f}" for rate in rates.values()))
        lines *= 10


if __name__ == "__main__":
    main()
