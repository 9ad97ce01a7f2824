"""Copies that kernels make are said, with what is copied and for whom, and no others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attrs import frozen

from bench.demo.models import DEMO
from bench.demo.recording import Recorded, copied
from bench.model_run import ModelTask, run_step
from bench.sweep.model_zoo import ZOO
from tests.backend.recorded_calls import FRONTENDS, recorded_calls
from wrapperir.diagnostics import LinePath
from wrapperir.interp import Interpreter, LineNames
from wrapperir.ir import ExternKernelLine
from wrapperir.report import CopyReason, copy_reasons, line_flow
from wrapperir.report.declared_copies import DeclaredCopies, DeclaredCopy
from wrapperir.verify import verify


class Block(torch.nn.Module):
    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(4, given)
        self.conv = torch.nn.Conv2d(given, made, 3, padding=1)
        self.gate = torch.nn.Conv2d(given, made, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.nn.functional.silu(self.norm(x))
        y: torch.Tensor = self.conv(h) * torch.sigmoid(self.gate(h))
        return y


class UNet(torch.nn.Module):
    """Convolutions in channels last, what they compute, and a ``cat`` of two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.down = Block(8, 16)
        self.pool = torch.nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.mid = Block(16, 16)
        self.up = Block(32, 8)
        self.head = torch.nn.Conv2d(8, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down(self.stem(x))
        b = self.mid(self.pool(a))
        b = torch.nn.functional.interpolate(b, scale_factor=2.0)
        y: torch.Tensor = self.head(self.up(torch.cat((a, b), dim=1)))
        return y


def recorded_of(
    function: Callable[..., Any], frontend: str, *inputs: torch.Tensor
) -> list[Recorded]:
    with recorded_calls(function, frontend) as (call, recorder):
        result = call(*inputs)
        if result.requires_grad:
            result.sum().backward()
    for recorded in recorder.recorded:
        assert verify(recorded.program) == ()
    return recorder.recorded


def reasons_of(recorded: Recorded) -> list[CopyReason]:
    program = recorded.program
    return [x for xs in copy_reasons(program, line_flow(program)).values() for x in xs]


@frozen
class FoundCopy:
    """A copy, and how many elements of it are among those of its source."""

    copy: DeclaredCopy
    elements: int
    equal: int

    @property
    def is_true(self) -> bool:
        made = self.copy.made
        count = made.count if made.count is not None else self.elements
        return self.equal >= (count if made.whole or made.count is not None else 1)


def found_copies(recorded: Recorded) -> list[FoundCopy]:
    """Return the copies that kernels declare, as a run of the program finds them."""
    program, found = recorded.program, list[FoundCopy]()
    declared = DeclaredCopies(program)

    def tensor(name: str, names: LineNames) -> torch.Tensor:
        seen = names.value(name)
        assert seen is not None
        assert isinstance(seen.value, torch.Tensor)
        return seen.value

    def after_line(path: LinePath, names: LineNames) -> None:
        if len(path) != 2 or path[0] != "lines":
            return
        for copy in declared.of(program.lines[int(path[1])]):
            target, source = (tensor(name, names) for name in (copy.target, copy.source))
            equal = int(torch.isin(target, source).sum())
            found.append(FoundCopy(copy, target.numel(), equal))

    constants = {key: value.clone() for key, value in recorded.constants.items()}
    assert recorded.inputs is not None
    Interpreter(program, constants).run([*map(copied, recorded.inputs)], after_line)
    return found


def assert_true(recorded: Recorded) -> int:
    found = found_copies(recorded)
    assert [each for each in found if not each.is_true] == []
    return len(found)


@pytest.mark.slow
def test_copies_of_inductor_that_are_fused_are_named() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        (recorded,) = recorded_of(UNet(), "cpp", torch.randn(2, 3, 16, 16))
    program = recorded.program
    reasons = reasons_of(recorded)
    assert assert_true(recorded) == len(reasons)
    (last,) = [each for each in reasons if each.returned]
    assert (last.nodes, last.readers) == ((), ())
    assert (last.layouts, last.bytes) == (("channels last", "contiguous"), 6144)
    paths = {each.name: each.path for each in program.inputs}
    weights = {paths[x]: each for each in reasons for x in each.sources if paths.get(x)}
    operators = {x.name: x.operator for x in program.origins}
    assert set(weights) == {
        *("stem.weight", "down.conv.weight", "pool.weight", "mid.conv.weight"),
        "up.conv.weight",
    }
    for reason in weights.values():
        assert reason.layouts == ("contiguous", "channels last")
        (reader,) = reason.readers
        line = program.lines[reader]
        assert isinstance(line, ExternKernelLine)
        assert line.provenance is not None
        assert line.provenance.origins == reason.nodes
        assert [operators[name] for name in reason.nodes] == ["aten.convolution.default"]
    assert weights["pool.weight"].bytes == 16 * 16 * 9 * 4
    fused = weights["down.conv.weight"].fused
    assert {operators[name] for name in fused} == {
        "aten.native_group_norm.default",
        "aten.silu.default",
    }
    (part,) = [each for each in reasons if each.part_of is not None]
    assert [operators[name] for name in part.nodes] == ["aten.cat.default"]
    assert part.bytes == 2 * 16 * 16 * 16 * 4
    assert part.whole is False  # it is computed and stored twice, and not read
    assert {operators[name] for name in part.fused} == {
        "aten.mul.Tensor",
        "aten.sigmoid.default",
    }
    assert part.values != (part.part_of,)
    assert len(reasons) == len(weights) + 3  # and the input of the first convolution


def test_a_part_of_a_cat_that_is_in_memory_too_is_written_twice() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        (recorded,) = recorded_of(UNet(), "lowering", torch.randn(2, 3, 16, 16))
    (reason,) = reasons_of(recorded)
    assert assert_true(recorded) == 1
    operators = {x.name: x.operator for x in recorded.program.origins}
    assert [operators[name] for name in reason.nodes] == ["aten.cat.default"]
    assert reason.values == (reason.part_of,)
    assert reason.whole is False
    assert reason.bytes == 2 * 16 * 16 * 16 * 4
    assert {operators[name] for name in reason.fused} == {
        "aten.mul.Tensor",
        "aten.sigmoid.default",
    }


def permuted_slice(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, 8, 16)[:, :, 4:12].transpose(1, 2).contiguous()


def expanded(x: torch.Tensor) -> torch.Tensor:
    return x[:, None, :].expand(16, 4, 16).contiguous()


def of_computed(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).view(2, 8, 16)[..., 4:12].transpose(1, 2).contiguous()


@pytest.mark.parametrize("frontend", ["cpp", *FRONTENDS])
@pytest.mark.parametrize(
    ("function", "stride"),
    [
        (permuted_slice, "128, 1, 16"),
        (expanded, "16, 0, 1"),
        (of_computed, "128, 1, 16"),
    ],
)
def test_copies_of_views_have_their_layouts(
    function: Callable[..., Any], stride: str, frontend: str
) -> None:
    (recorded,) = recorded_of(function, frontend, torch.randn(16, 16))
    (reason,) = reasons_of(recorded)
    assert reason.layouts == (f"stride {stride}", "contiguous")
    assert assert_true(recorded) == 1


def written_over(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.clone()
    z[:, 3] = y[:, 0]
    z[2:4, 2:4] = y[2:4, 1:3]
    return z


@pytest.mark.parametrize("frontend", ["cpp", *FRONTENDS])
def test_copies_that_are_written_over_in_part_are_not_whole(frontend: str) -> None:
    (recorded,) = recorded_of(written_over, frontend, torch.randn(8, 16), torch.randn(8, 4))
    assert assert_true(recorded) > 0


def stored_twice(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = x.sin()
    return torch.cat((a, y), 1), a


@pytest.mark.parametrize("frontend", ["cpp", *FRONTENDS])
def test_what_is_computed_and_stored_twice_is_not_copied(frontend: str) -> None:
    with recorded_calls(stored_twice, frontend) as (call, recorder):
        call(torch.randn(8, 16), torch.randn(8, 4))
    (recorded,) = recorder.recorded
    is_copied = {x.sources: x.whole for x in reasons_of(recorded)}
    assert sorted(is_copied.values()) == [False, True]
    given = {each.name for each in recorded.program.inputs}
    assert all(whole is given.issuperset(names) for names, whole in is_copied.items())


def parts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat((x, y.sin(), y), 1)


def chosen(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.where(x > 0, x, -x), y.sin()), 1)


@pytest.mark.parametrize("frontend", ["cpp", *FRONTENDS])
def test_what_a_cat_computes_is_not_copied(frontend: str) -> None:
    inputs = torch.randn(8, 16), torch.randn(8, 16)
    (recorded,) = recorded_of(parts, frontend, *inputs)
    (name,) = {x.name for x in recorded.program.origins if x.operator == "aten.cat.default"}
    reasons = reasons_of(recorded)
    assert {name for each in reasons for name in each.nodes} == {name}
    given = [each.name for each in recorded.program.inputs]
    assert sorted(x for each in reasons for x in each.sources) == sorted(given)
    assert sum(each.bytes or 0 for each in reasons) == 2 * 8 * 16 * 4
    assert all(each.returned for each in reasons)
    assert assert_true(recorded) == 2
    (recorded,) = recorded_of(chosen, frontend, *inputs)
    assert reasons_of(recorded) == []


def same(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin(), x.sin()


def turned(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


def gathered(x: torch.Tensor) -> torch.Tensor:
    return x[torch.tensor([2, 1, 0])]


@pytest.mark.parametrize("frontend", ["cpp", "lowering"])
@pytest.mark.parametrize("function", [turned, gathered, same])
def test_what_operators_move_is_not_said_to_be_a_copy(
    function: Callable[..., Any], frontend: str
) -> None:
    with recorded_calls(function, frontend) as (call, recorder):
        call(torch.randn(3, 4))
    (recorded,) = recorder.recorded
    assert reasons_of(recorded) == []


@pytest.mark.parametrize("frontend", ["cpp", "lowering"])
def test_bytes_of_symbolic_copies_follow_the_sizes(frontend: str) -> None:
    x, y = torch.randn(6, 16), torch.randn(6, 16)
    for each in (x, y):
        torch._dynamo.mark_dynamic(each, 0)
    (recorded,) = recorded_of(parts, frontend, x, y)
    program = recorded.program
    assert {each.bytes for each in reasons_of(recorded)} == {None}
    sizes = {line.symbol: 6 for line in program.symbols}
    reasons = copy_reasons(program, line_flow(program), sizes).values()
    assert sum(x.bytes or 0 for xs in reasons for x in xs) == 2 * 6 * 16 * 4
    assert assert_true(recorded) == 2


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("frontend", ["cpp", *FRONTENDS])
@pytest.mark.parametrize("task", [*DEMO, *ZOO.values()], ids=lambda task: task.name)
def test_no_copy_of_a_model_is_false(task: ModelTask, frontend: str) -> None:
    torch.manual_seed(0)
    model = task.model().train(task.training)
    inputs = task.inputs()
    with recorded_calls(model, frontend) as (call, recorder):
        run_step(model, call, inputs, training=task.training)
    for recorded in recorder.recorded:
        assert_true(recorded)
