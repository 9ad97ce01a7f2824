"""Inputs that begin within their storage, and views that count from its start."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import config as dynamo_config
from torch._inductor import config, lowering

from tests.frontend_inductor.captured import capture_all, while_loop
from wrapperir.frontend.inductor import build, versions
from wrapperir.frontend.inductor.storage_offsets import (
    input_offsets,
    offsets_from_the_storage,
)
from wrapperir.interp import interpret
from wrapperir.ir import OffsetOf

Function = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


def _strided(x: torch.Tensor, at: int) -> torch.Tensor:
    return x.as_strided((2,), (1,), at)


def _loop(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    carried: tuple[torch.Tensor, ...] = while_loop(
        lambda i, z: i < 3, lambda i, z: (i + 1, z * 2), (x[0].long() * 0, x[1:])
    )
    return carried[1], _strided(x, 1) + 0


def _branch(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    chosen: torch.Tensor = torch.cond(
        x.sum() > 0, lambda a: a * 3, lambda a: a * 5, (x[1:],)
    )
    return chosen, x[2:]


RETURNED: dict[str, Function] = {
    "before the input": lambda x: (x * 2, _strided(x, 1)),
    "a branch's operand": _branch,
}
READ: dict[str, Function] = {
    "by a kernel": lambda x: (_strided(x, 1) + 0, x[1:] * 2, x[3:]),
    "by an operator": lambda x: (_strided(x, 1) @ x[:2], x.view(torch.int16)[3:]),
    "after the input's start": lambda x: (_strided(x, 9) @ x[:2],),
    "where a view begins": lambda x: (x[2:].as_strided((2,), (1,)) + 1,),
    "of a view": lambda x: (_strided(x[2:], 1) + 1,),
    "beside a branch": lambda x: (
        torch.cond(x.sum() > 0, lambda a: a * 3, lambda a: a * 5, (x,)),
        _strided(x, 1) + 0,
    ),
    "beside a loop": _loop,
}
CASES = {**RETURNED, **READ}


def _input(offset: int) -> torch.Tensor:
    return torch.arange(float(offset + 29))[offset:]


@pytest.fixture(autouse=True)
def _forget() -> None:
    torch._dynamo.reset()


FRONTENDS = ("inductor", "lowering")


def _compiled(function: Function, frontend: str, *, dynamic: bool) -> Function:
    options: Any = {"frontend": frontend}
    made: Function = torch.compile(
        function, backend="wrapperir", dynamic=dynamic, options=options
    )
    return made


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_views_are_of_the_callers_memory(name: str, frontend: str, dynamic: bool) -> None:
    function = CASES[name]
    with config.patch(cpu_backend="triton"):
        compiled = _compiled(function, frontend, dynamic=dynamic)
        for offset in (7, 3) if dynamic or name in RETURNED else (7,):
            torch.testing.assert_close(compiled(_input(offset)), function(_input(offset)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_interpreter_agrees(name: str, dynamic: bool) -> None:
    with dynamo_config.patch(assume_static_by_default=not dynamic):
        (lowered,) = capture_all(CASES[name], (_input(7),), cpu_backend="triton")
    inputs: list[Any] = [29, 7, _input(7)] if dynamic else [_input(7)]
    outputs = interpret(lowered.program, inputs, lowered.constants)
    expected = CASES[name](_input(7))
    torch.testing.assert_close(outputs[-len(expected) :], expected)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("frontend", FRONTENDS)
def test_no_other_place_is_read_than_the_one_compiled_for(name: str, frontend: str) -> None:
    """Nothing recompiles for another offset: Inductor's own wrapper reads elsewhere."""
    with config.patch(cpu_backend="triton"):
        compiled = _compiled(READ[name], frontend, dynamic=False)
        compiled(_input(7))
        with pytest.raises(RuntimeError, match=r"<= 7 but received 3"):
            compiled(_input(3))
    (lowered,) = capture_all(READ[name], (_input(7),), cpu_backend="triton")
    with pytest.raises(Exception, match=r"<= 7 but received 3"):
        interpret(lowered.program, [_input(3)], lowered.constants)


def test_other_inputs_keep_no_offset() -> None:
    (lowered,) = capture_all(
        lambda x, y: (x[1:] * 2, _strided(y, 1) + 0), (_input(7), _input(5))
    )
    (symbol,) = lowered.program.symbols
    assert symbol.source == OffsetOf(lowered.program.inputs[1].name)
    assert (symbol.lower, symbol.upper) == (5, 5)


def test_offsets_are_found_in_the_graph_where_inductor_does_not_know_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Any] = []

    def offsets(graph: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(versions, "KNOWS_INPUT_OFFSETS", False)
            found.append(input_offsets(graph))
        if versions.KNOWS_INPUT_OFFSETS:
            assert found[-1] == graph.graph_input_storage_offsets
        return found[-1]

    monkeypatch.setattr(build, "input_offsets", offsets)
    capture_all(lambda x, y: x * 2 + y, (_input(7), _input(5)))
    (known,) = found
    assert sorted(known.values()) == [5, 7]


def test_inductors_table_of_lowerings_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "KNOWS_INPUT_OFFSETS", False)
    before = dict(lowering.lowerings)
    with offsets_from_the_storage():
        assert lowering.lowerings != before
    assert lowering.lowerings == before
