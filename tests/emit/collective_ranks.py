"""Runs emitted collectives on two ranks, beside the interpreter.

``python -m tests.emit.collective_ranks cpu|cuda EMITTER...``; a rank of the CPU is a fork
of this process, with all that it imported.
"""

import os
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import distributed, multiprocessing

from tests.cpp_emitter.moved import on_gpu
from tests.torch_release import BEFORE_2_13
from wrapperir import ir as wir
from wrapperir.analysis.machines import CPU
from wrapperir.emit import compile_program, drop_recordings
from wrapperir.interp import interpret_ranks
from wrapperir.passes import MEMORY_PASSES, insert_frees, merge_lines
from wrapperir.pipelines import run_passes
from wrapperir.text import parse_program

ALL = """wrapperir 1

program @main(%x: mutated f32[4], %z: mutated f32[4, 2]) {
  group "0" size 2

  %y = allocate f32[8]
  %w0 = collective all_gather "0" reads(%x) writes(%y)
  wait_collective %w0 reads(%x) writes(%y)
  %w1 = collective all_reduce(sum) "0" reads(%x) writes(%x)
  %t = allocate f32[4, 2]
  %w2 = collective all_to_all "0" reads(%z) writes(%t)
  wait_collective %w1 reads(%x) writes(%x)
  wait_collective %w2 reads(%z) writes(%t)
  %a = extern_kernel aten.add.Tensor(%x, %x) : f32[4]
  %b = extern_kernel aten.mul.Tensor(%x, 3) : f32[4]
  %w3 = collective all_reduce(max) "0" reads(%a, %b) writes(%a, %b)
  wait_collective %w3 reads(%a, %b) writes(%a, %b)
  %s = allocate f32[2]
  %w4 = collective reduce_scatter(sum) "0" reads(%b) writes(%s)
  wait_collective %w4 reads(%b) writes(%s)
  %w5 = collective broadcast "0" peer(1) reads(%s) writes(%s)
  wait_collective %w5 reads(%s) writes(%s)
  return %y, %x, %t, %a, %b, %s
}
"""
"""All ranks run this."""

SENDING = """wrapperir 1

program @main(%x: mutated f32[4], %z: mutated f32[4, 2]) {
  group "0" size 2 rank 0

  %z2 = allocate f32[3, 2]
  %w = collective send "0" peer(1) reads(%x)
  %v = collective all_to_all "0" reads(%z) writes(%z2) read_splits(1, 3) write_splits(1, 2)
  wait_collective %w reads(%x)
  wait_collective %v reads(%z) writes(%z2)
  return %x, %z2
}
"""
RECEIVING = (
    SENDING.replace("send", "receive")
    .replace("peer(1) reads(%x)", "peer(0) writes(%x)")
    .replace("%w reads(%x)", "%w writes(%x)")
    .replace("rank 0", "rank 1")
    .replace("f32[3, 2]", "f32[5, 2]")
    .replace("read_splits(1, 3) write_splits(1, 2)", "read_splits(2, 2) write_splits(3, 2)")
)


SMALL = """wrapperir 1

program @main(%x: mutated f32[4], %z: mutated f32[4, 2]) {
  group "0" size 2

  %p = allocate f32[8]
  %u = collective all_gather "0" reads(%x) writes(%p)
  %q = allocate f32[2, 4, 2]
  %v = collective all_gather "0" reads(%z) writes(%q)
  wait_collective %u reads(%x) writes(%p)
  wait_collective %v reads(%z) writes(%q)
  %s = allocate f32[4]
  %w = collective reduce_scatter(sum) "0" reads(%p) writes(%s)
  %t = allocate f32[8, 1]
  %k = collective reduce_scatter(sum) "0" reads(%q) writes(%t)
  wait_collective %w reads(%p) writes(%s)
  wait_collective %k reads(%q) writes(%t)
  return %p, %q, %s, %t
}
"""
MERGED = merge_lines(insert_frees(parse_program(SMALL)), CPU, limit=8.0)
"""Two collectives where there were four."""
assert [each.count for each in MERGED.collectives] == [2, 2]

RANKS = [[parse_program(ALL)] * 2, [MERGED.program] * 2]
"""Programs that run together, one a rank."""
if not BEFORE_2_13:  # which has no operators to send and receive
    RANKS.append([parse_program(SENDING), parse_program(RECEIVING)])


REPLAYED = (
    "insert_frees, use_out_variants,"
    ' capture_graphs(devices = "{}", least_gain = -1000000.0, collectives = true),'
    " plan_memory, reuse_buffers"
)
"""The passes of programs whose collectives are in graph regions, of a kind of device."""


KEPT: list[Any] = []
"""Programs that live longer than the process group."""


def inputs(rank: int, seed: int = 0) -> list[Any]:
    """Return the inputs of a rank."""
    torch.manual_seed(2 * seed + rank)
    return [torch.randn(4), torch.randn(4, 2)]


def check(rank: int, kind: str, emitters: list[str], meeting: str) -> None:
    """Compare what emitted programs of a rank return with the interpreter's.

    ``kind`` is "cpu", or "cuda", with a GPU for each rank.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    distributed.init_process_group(
        {"cpu": "gloo", "cuda": "nccl"}[kind],
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=2,
    )
    try:
        for programs in RANKS:
            wanted = interpret_ranks(programs, [inputs(0), inputs(1)], [{}, {}])[rank]
            program = on_gpu(programs[rank]) if kind == "cuda" else programs[rank]
            for emitter in emitters:
                # C++ takes a compiler run for each program.
                pipelines = ((), MEMORY_PASSES) if emitter != "cpp" else (MEMORY_PASSES,)
                for passes in pipelines:
                    call = compile_program(program, emitter=emitter, passes=passes)
                    compare(call, inputs(rank), kind, wanted)
                if emitter != "fx":
                    check_replays(rank, kind, emitter, programs)
    finally:
        drop_recordings()  # NCCL's groups wait for those that have their collectives
        distributed.destroy_process_group()


def compare(call: Any, given: list[Any], kind: str, wanted: Any) -> None:
    """Compare what a call returns with what the interpreter did."""
    found = call([value.to(kind) for value in given])
    tensors = [x.cpu() for x in found if isinstance(x, torch.Tensor)]
    torch.testing.assert_close(tensors, [*wanted], rtol=0, atol=0)


def check_replays(rank: int, kind: str, emitter: str, programs: list[wir.Program]) -> None:
    """Compare calls of a program whose collectives are in graph regions.

    A GPU records the second one, and replays later ones.  On a CPU all run the block.
    """
    captured = run_passes(programs[rank], REPLAYED.format("cpu"))
    regions = [x for x in captured.lines if isinstance(x, wir.GraphRegionLine)]
    lines = [line for region in regions for line in region.body.lines]
    assert any(isinstance(line, wir.CollectiveLine) for line in lines)
    program = on_gpu(captured, is_there=True) if kind == "cuda" else captured
    call = compile_program(program, emitter=emitter, passes=())
    KEPT.append(call)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # not replayed as a graph
        for seed in range(5 if kind == "cuda" else 1):
            given = [inputs(each, seed) for each in range(2)]
            wanted = interpret_ranks(programs, [*given], [{}, {}])[rank]
            compare(call, inputs(rank, seed), kind, wanted)


if __name__ == "__main__":
    kind, *emitters = sys.argv[1:]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        start: Any = vars(multiprocessing)["start_processes"]
        way = "spawn" if kind == "cuda" else "fork"
        start(check, (kind, emitters, meeting), nprocs=2, start_method=way)
    print("same")
