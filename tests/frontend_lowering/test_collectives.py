"""Functional collectives become lines, by every frontend."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.distributed import _functional_collectives as functional

from wrapperir.emit import compile_program
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.collectives import lower_collectives
from wrapperir.frontend.export import lower_exported
from wrapperir.frontend.inductor import capture
from wrapperir.frontend.lowering.exported import lower_exported as lower_to_kernels
from wrapperir.interp import interpret
from wrapperir.ir import (
    AllocateLine,
    Collective,
    CollectiveLine,
    ExternKernelLine,
    Program,
    WaitCollectiveLine,
)
from wrapperir.passes import MEMORY_PASSES, insert_frees
from wrapperir.pipelines import run_passes
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify

pytestmark = [
    pytest.mark.skipif(
        not (distributed.is_available() and distributed.is_gloo_available()),
        reason="needs torch.distributed with gloo",
    ),
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
]


@pytest.fixture
def group(tmp_path: Path) -> Generator[distributed.ProcessGroup]:
    """Return a group of this process alone."""
    store = (tmp_path / "store").as_uri()
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    found = distributed.group.WORLD
    assert found is not None
    yield found
    distributed.destroy_process_group()


class Everything(torch.nn.Module):
    """Calls each functional collective."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        group = self.group
        reduced = functional.all_reduce(x + 1, "sum", group)
        gathered = functional.all_gather_tensor(x * 2, 0, group)
        scattered = functional.reduce_scatter_tensor(x * 3, "sum", 0, group)
        sent = functional.broadcast(x * 4, 0, group)
        exchanged = functional.all_to_all_single(x * 5, None, None, group)
        one, two = functional.all_reduce_coalesced([x * 6, x * 7], "sum", group)
        parts = functional.all_gather_into_tensor_coalesced([x * 8, x * 9], group)
        results = (reduced, gathered, scattered, sent, exchanged, one, two, *parts)
        return tuple(result * 2 for result in results)


WANTED = [
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.BROADCAST,
    Collective.ALL_TO_ALL,
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
]

Lower = Callable[[Any, Sequence[Any]], Lowered]
FRONTENDS: dict[str, Lower] = {
    "inductor": lambda model, x: capture(model, x)[0],
    "export": lambda model, x: lower_exported(torch.export.export(model, tuple(x))),
    "lowering": lambda model, x: (
        lower_to_kernels(torch.export.export(model, tuple(x))).lowered
    ),
}


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_every_functional_collective_becomes_a_line(
    frontend: str, group: distributed.ProcessGroup
) -> None:
    torch._dynamo.reset()
    model, x = Everything(group), torch.arange(4.0)
    lowered = FRONTENDS[frontend](model, [x])
    program = lowered.program
    starts = [line for line in program.lines if isinstance(line, CollectiveLine)]
    assert [line.operation for line in starts] == WANTED
    waits = [line for line in program.lines if isinstance(line, WaitCollectiveLine)]
    assert [line.work for line in waits] == [line.result for line in starts]
    calls = [line for line in program.lines if isinstance(line, ExternKernelLine)]
    assert not any("c10d" in line.operator for line in calls)
    assert [(each.name, each.size) for each in program.groups] == [(group.group_name, 1)]
    wanted = model(x)
    planned = run_passes(program, MEMORY_PASSES)
    assert verify(planned) == ()
    found = interpret(planned, [x.clone()], lowered.constants)
    torch.testing.assert_close(found, wanted)
    call = compile_program(planned, constants=lowered.constants)
    torch.testing.assert_close(call([x.clone()]), wanted)


def lowered_text(body: str, result: str = "%r") -> Program:
    text = f"""wrapperir 1

program @main(%x: mutated f32[4], %y: mutated f32[4]) {{
{body}  return {result}
}}
"""
    return lower_collectives(parse_program(text), {"g": 2}.get)


GATHER = (
    '  %r = extern_kernel _c10d_functional.all_gather_into_tensor.default(%x, 2, "g")'
    " : f32[8]\n"
)
WAIT = "  %w = extern_kernel _c10d_functional.wait_tensor.default(%r) : f32[8]\n  free %r\n"


def test_what_is_read_is_freed_after_the_wait() -> None:
    start = GATHER.replace("(%x", "(%a")
    made = "  %a = extern_kernel aten.neg.default(%x) : f32[4]\n"
    program = lowered_text(made + start + "  free %a\n" + WAIT, "%w")
    assert verify(program) == ()
    text = format_program(program)
    assert text.index("wait_collective") < text.index("free %a") < text.index("free %r")
    assert any(isinstance(line, AllocateLine) for line in program.lines)


@pytest.mark.parametrize(
    "body",
    [
        GATHER,  # nothing waits
        GATHER.replace('"g"', '"other"') + WAIT,  # a group that nobody knows
        GATHER + "  extern_kernel aten.zero_.default(%x) writes(%x)\n" + WAIT,
        GATHER + "  %u = extern_kernel aten.neg.default(%r) : f32[8]\n  free %u\n" + WAIT,
    ],
)
def test_what_cannot_be_a_line_stays_a_call(body: str) -> None:
    result = "%w" if "%w" in body else "%r"
    program = lowered_text(body, result)
    assert program == lower_collectives(program, lambda name: None)
    assert not any(isinstance(line, CollectiveLine) for line in program.lines)
    assert not program.groups


def test_two_collectives_that_read_one_tensor_free_it_once() -> None:
    made = "  %a = extern_kernel aten.neg.default(%x) : f32[4]\n"
    first, second = (GATHER.replace("(%x", "(%a").replace("%r", r) for r in ("%r", "%s"))
    other = WAIT.replace("%r", "%s").replace("%w", "%v")
    program = lowered_text(made + first + second + "  free %a\n" + WAIT + other, "%w, %v")
    assert verify(program) == ()
    text = format_program(insert_frees(program))
    assert text.count("free %a") == 1
    assert text.rindex("wait_collective") < text.index("free %a")
