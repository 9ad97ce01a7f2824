"""Sends and receives end graphs, or are refused where PyTorch puts them into graphs."""

from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from torch import distributed
from torch._dynamo import config
from torch._dynamo.exc import BackendCompilerFailed

from tests.torch_release import BEFORE_2_13
from wrapperir.frontend.aten.collectives import lower_collectives
from wrapperir.ir import Program
from wrapperir.text import format_program, parse_program

pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="needs torch.distributed"
)


@pytest.fixture(autouse=True)
def two_ranks() -> Generator[None]:
    """Make this process the first of two ranks that exchange nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch._dynamo.reset()
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    distributed.destroy_process_group()


def exchange(x: torch.Tensor) -> torch.Tensor:
    received = torch.zeros_like(x)
    works = [distributed.isend(x + 1, 1), distributed.irecv(received, 1)]
    for work in works:
        assert work is not None
        work.wait()
    return received * 2


def exchange_at_once(x: torch.Tensor) -> torch.Tensor:
    received = torch.zeros_like(x)
    operations = [
        distributed.P2POp(distributed.isend, x + 1, 1),
        distributed.P2POp(distributed.irecv, received, 1),
    ]
    for work in distributed.batch_isend_irecv(operations):
        work.wait()
    return received * 2


MODELS = [exchange, exchange_at_once]
# Before 2.13 Dynamo leaves a function that sends several at once to eager as a whole.
TRACED = MODELS[: 1 if BEFORE_2_13 else 2]
Model = Callable[[torch.Tensor], torch.Tensor]


@pytest.mark.parametrize("model", TRACED)
def test_graphs_end_before_them(model: Model) -> None:
    programs: list[Program] = []

    def keep(program: Program) -> Program:
        programs.append(program)
        return program

    options: Any = {"passes": [keep], "frontend": "lowering"}
    compiled = torch.compile(model, backend="wrapperir", options=options)
    compiled(torch.ones(4))
    assert programs
    assert not any("c10d" in format_program(program) for program in programs)


@pytest.mark.skipif(BEFORE_2_13, reason="PyTorch has no operators for them in graphs")
@pytest.mark.parametrize("model", MODELS)
def test_graphs_with_them_are_refused(model: Model) -> None:
    options: Any = {"frontend": "lowering"}
    compiled = torch.compile(model, backend="wrapperir", options=options)
    refused = pytest.raises(BackendCompilerFailed, match=r"WIR602.*does not say so")
    with config.patch(enable_p2p_compilation=True), refused:
        compiled(torch.ones(4))


@pytest.mark.skipif(BEFORE_2_13, reason="PyTorch has no operators for them in graphs")
def test_inductors_graphs_with_them_are_refused() -> None:
    compiled = torch.compile(exchange, backend="wrapperir")
    refused = pytest.raises(BackendCompilerFailed, match=r"WIR602.*does not say so")
    with config.patch(enable_p2p_compilation=True), refused:
        compiled(torch.ones(4))


def test_receives_that_say_what_they_write_stay() -> None:
    program = parse_program("""wrapperir 1

program @main(%x: mutated f32[4]) {
  extern_kernel _c10d_functional.irecv.default(%x, 1, 0, "0") writes(%x)
  return %x
}
""")
    assert lower_collectives(program) == program
