"""Streams and events of the user become streams and events of the program."""

import re
from typing import Any

import pytest
import torch
from attrs import evolve
from torch._dynamo import graph_bytecode_inputs
from torch.utils import _pytree as pytree

from tests.frontend_inductor import gpu_cases
from tests.frontend_inductor.captured import Capture, CaptureFailedError, lines_of
from tests.frontend_inductor.user_stream_cases import CASES
from tests.torch_release import BEFORE_2_12
from wrapperir.frontend.inductor import stream_operators, user_streams, versions
from wrapperir.interp import interpret
from wrapperir.ir import (
    Device,
    ExternKernelLine,
    KernelCallLine,
    Program,
    RecordEventLine,
    WaitEventLine,
)
from wrapperir.ir.recordable_operators import recording_obstacle
from wrapperir.passes import capture_graphs
from wrapperir.text import format_program, parse_program
from wrapperir.verify import verify
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_fx.emitter import FxEmitter
from wrapperir_python.emitter import PythonEmitter

ENTERS_STREAMS = pytest.mark.skipif(
    not versions.ENTER_STREAMS, reason="Inductor of 2.11 works on one stream"
)
CAPTURED = [
    pytest.param(name, marks=() if name == "recorded" else ENTERS_STREAMS)
    for name in CASES
    if name != "in branch"
]
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


def kinds_of(program: Program) -> list[tuple[str, int]]:
    """Return the work and the order of a program: operator or line kind, and stream."""
    return [
        (
            line.operator if isinstance(line, ExternKernelLine) else type(line).__name__,
            line.stream,
        )
        for line in program.lines
        if isinstance(
            line, KernelCallLine | ExternKernelLine | RecordEventLine | WaitEventLine
        )
    ]


@ENTERS_STREAMS
def test_work_is_on_the_streams_that_the_user_enters(captured: Capture) -> None:
    (program,) = captured("entered")
    assert kinds_of(program) == [
        ("wrapperir_streams.begin.default", 1),
        ("KernelCallLine", 0),
        ("RecordEventLine", 0),
        ("WaitEventLine", 1),
        ("KernelCallLine", 1),
        ("RecordEventLine", 1),
        ("wrapperir_streams.record_event.default", 1),
        ("WaitEventLine", 0),
        ("KernelCallLine", 0),
        ("wrapperir_streams.end.default", 1),
        ("RecordEventLine", 1),
        ("WaitEventLine", 0),
        ("streams.record_stream.default", 0),
    ]


@pytest.mark.parametrize("name", CAPTURED)
def test_programs_are_ordered_and_emitted(name: str, captured: Capture) -> None:
    (program,) = captured(name)
    assert verify(program) == ()
    assert parse_program(format_program(program)) == program
    assert verify(capture_graphs(program)) == ()
    for emitter in (PythonEmitter(), CppEmitter(), FxEmitter()):
        texts = [t for t in emitter.emit(program).files.values() if isinstance(t, str)]
        assert any("wrapperir_streams" in text for text in texts)


@pytest.mark.parametrize("name", CAPTURED)
def test_programs_compute_what_eager_does(
    name: str, captured: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = captured(name)
    text = format_program(program).replace("@cuda:0", "@cpu")
    if name == "copied":  # on one device, nothing orders the host's work and the copies
        text = re.sub(r" stream\(\d+\)", "", text)
    program = parse_program(text)
    # Here the program runs outside of torch.compile, which keeps the user's streams.
    inside = tuple(
        line
        for line in program.lines
        if not (isinstance(line, ExternKernelLine) and "streams." in line.operator)
    )
    monkeypatch.setattr(gpu_cases, "DEVICE", "cpu")
    torch.manual_seed(0)
    (x,) = CASES[name].example()
    reference = CASES[name].reference
    assert reference is not None
    expected = pytree.tree_leaves(reference(x))
    outputs = interpret(evolve(program, lines=inside), [x], {})
    torch.testing.assert_close(outputs, expected, **CLOSE)


@ENTERS_STREAMS
@pytest.mark.parametrize(("name", "added"), [("entered", 0), ("racing", 1), ("two", 3)])
def test_waits_that_inductor_leaves_out_are_added(
    name: str, added: int, captured: Capture
) -> None:
    (program,) = captured(name)
    # Waits of the user and of the end have a place in the source, or come last.
    launches = [i for i, line in enumerate(program.lines) if type(line) is KernelCallLine]
    new = [
        line
        for line in program.lines[: launches[-1]]
        if isinstance(line, WaitEventLine) and line.provenance is None
    ]
    assert len(new) == added


@ENTERS_STREAMS
def test_the_host_waits_where_the_user_says(captured: Capture) -> None:
    (program,) = captured("synchronized")
    names = [line.operator for line in lines_of(program, ExternKernelLine)]
    assert names[1:5] == [
        "wrapperir_streams.synchronize.default",
        "wrapperir_streams.record_event.default",
        "streams.synchronize_event.default",
        "streams.synchronize_device.default",
    ]


@ENTERS_STREAMS
def test_copies_to_the_host_are_work_of_the_stream(captured: Capture) -> None:
    (program,) = captured("copied")
    copies = [
        line
        for line in lines_of(program, ExternKernelLine)
        if line.operator == "aten.copy_.default"
    ]
    assert [(str(line.device), line.stream) for line in copies] == [("cuda:0", 1)] * 2


@ENTERS_STREAMS
def test_a_stream_in_a_nested_block_is_refused(captured: Capture) -> None:
    with pytest.raises(CaptureFailedError, match="WIR651: a stream or an event is used"):
        captured("in branch")


def test_where_inductor_enters_no_stream_all_work_is_on_the_current_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user's events then mark the work, although they name another stream."""
    streams = user_streams.UserStreams(Device("cuda", 0))
    monkeypatch.setattr(user_streams, "ENTER_STREAMS", ())
    assert [streams.add(position) for position in (3, 4)] == [0, 0]


class Recorder:
    """A stream or an event that notes what it is asked to do."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls

    def __getattr__(self, method: str) -> Any:
        return lambda *others: self.calls.append(
            " ".join([self.name, method, *(other.name for other in others)])
        )


def test_operators_act_on_the_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    current, stream, event = (Recorder(name, calls) for name in ("current", "s", "e"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    graph_bytecode_inputs.store_user_object_weakrefs(current, stream, event)
    operators: Any = torch.ops.wrapperir_streams
    operators.begin(1, 0)
    operators.end(1, 0)
    operators.record_event(2, 0)
    operators.wait_event(2, 0)
    operators.synchronize(0)
    assert calls == [
        "current wait_stream s",
        "s wait_stream current",
        "e record current",
        "e wait current",
        "current synchronize",
    ]
    assert stream_operators.NAMESPACE == "wrapperir_streams"
    graph_bytecode_inputs.reset_user_object_tracking()


@pytest.mark.parametrize("operator", ["wrapperir_streams.begin", "streams.record_stream"])
def test_work_of_the_users_streams_is_not_recorded(operator: str) -> None:
    line = ExternKernelLine(operator=f"{operator}.default", arguments=(1, 0))
    assert "of the caller" in (recording_obstacle(line, {}) or "")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("name", CAPTURED)
def test_results_match_eager(name: str, emitter: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    reference = CASES[name].reference
    assert reference is not None
    compiled: Any = torch.compile(
        CASES[name].function, backend="wrapperir", options={"emitter": emitter}
    )
    for _ in range(3):
        x = torch.randn(8, 8, device="cuda")
        torch.testing.assert_close(compiled(x), reference(x), **CLOSE)


@pytest.mark.xfail(
    BEFORE_2_12, reason="2.11 works on one stream, which the user's events do not order"
)
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_work_outside_is_ordered_with_the_program(emitter: str) -> None:
    torch._dynamo.reset()
    cuda: Any = torch.cuda

    def inside(x: torch.Tensor, side: Any, before: Any, after: Any) -> torch.Tensor:
        before.wait(side)
        with cuda.stream(side):
            y = x @ x
        after.record(side)
        return y

    compiled: Any = torch.compile(inside, backend="wrapperir", options={"emitter": emitter})
    x = torch.eye(4096, device="cuda")
    for factor in (2.0, 3.0, 4.0):
        side, other = cuda.Stream(), cuda.Stream()
        before, after = cuda.Event(), cuda.Event()
        cuda.synchronize()
        with cuda.stream(other):
            cuda._sleep(50_000_000)
            given = x * factor
            before.record()
        y = compiled(given, side, before, after)
        with cuda.stream(other):
            after.wait()
            total = y.sum()
        cuda.synchronize()
        assert total.item() == factor * factor * 4096
