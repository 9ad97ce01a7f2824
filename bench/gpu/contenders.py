"""The ways to run a workload on a GPU."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO, TypeAlias

import torch
from attrs import frozen

from bench.gpu.models import Inputs, Prepared, Workload

Step: TypeAlias = Callable[[Inputs], object]
"""One call, with its backward pass in training."""

LONGEST_REASON = 240


@frozen(kw_only=True)
class Contender:
    """A way to run a workload.

    ``arguments`` are those of ``torch.compile``; eager has none.  With ``captures``, the
    step of the contender of that name is recorded by hand in a CUDA graph and replayed.
    """

    name: str
    title: str
    arguments: Mapping[str, Any] | None = None
    captures: str | None = None


CONTENDERS = (
    Contender(name="eager", title="eager"),
    Contender(name="inductor", title="Inductor", arguments={}),
    Contender(
        name="inductor-cpp",
        title="Inductor, cpp_wrapper",
        arguments={"options": {"cpp_wrapper": True}},
    ),
    Contender(
        name="inductor-replay",
        title="Inductor, reduce-overhead",
        arguments={"mode": "reduce-overhead"},
    ),
    Contender(name="python", title="wrapperir, Python", arguments={"backend": "wrapperir"}),
    Contender(
        name="cpp",
        title="wrapperir, C++",
        arguments={"backend": "wrapperir", "options": {"emitter": "cpp"}},
    ),
    Contender(
        name="replay",
        title="wrapperir, reduce-overhead",
        arguments={"backend": "wrapperir", "mode": "reduce-overhead"},
    ),
    Contender(
        name="lowering",
        title="own kernels, Python",
        arguments={"backend": "wrapperir", "options": {"frontend": "lowering"}},
    ),
    Contender(
        name="lowering-cpp",
        title="own kernels, C++",
        arguments={
            "backend": "wrapperir",
            "options": {"frontend": "lowering", "emitter": "cpp"},
        },
    ),
    Contender(
        name="lowering-replay",
        title="own kernels, reduce-overhead",
        arguments={
            "backend": "wrapperir",
            "options": {"frontend": "lowering", "graphs": True},
        },
    ),
    Contender(name="bare", title="bare replay", captures="python"),
)


def step_of(workload: Workload, contender: Contender, prepared: Prepared) -> Step:
    """Return a contender's step of a workload; it compiles in its first calls.

    A step in training drops the gradients of the step before, as optimizers do.
    """
    function, parameters = prepared.function, prepared.parameters
    compiled = function
    if contender.arguments is not None:

        def own(*inputs: torch.Tensor) -> Any:
            return function(*inputs)

        # Dynamo keeps what it compiled by code: each contender has its own.
        own.__code__ = own.__code__.replace(co_name=f"{workload.name}_{contender.name}")
        dynamic = True if workload.dynamic else None
        compiled = torch.compile(own, dynamic=dynamic, **contender.arguments)
    if workload.training:

        def train(inputs: Inputs) -> object:
            for parameter in parameters:
                parameter.grad = None
            loss = compiled(*inputs)
            loss.backward()
            return loss

        return train

    def step(inputs: Inputs) -> object:
        with torch.no_grad():
            return compiled(*inputs)

    return step


def captured(step: Step, inputs: Sequence[Inputs]) -> Step:
    """Return replays of a step that was recorded in CUDA graphs, one for each shape.

    A replay reads the inputs of its recording, wherever those of the call are, which is
    the least that a replay can take.
    """
    replays: dict[tuple[torch.Size, ...], Callable[[], object]] = {}
    for each in inputs:
        shapes = tuple(tensor.shape for tensor in each)
        if shapes not in replays:
            replays[shapes] = _recorded(step, each)
    if len(replays) == 1:
        (only,) = replays.values()
        return lambda _: only()
    return lambda given: replays[tuple(tensor.shape for tensor in given)]()


def _recorded(step: Step, inputs: Inputs) -> Callable[[], object]:
    side: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step(inputs)

    def replay() -> object:
        graph.replay()
        return output

    return replay


def take_output() -> TextIO:
    """Return standard output; what libraries and child processes print becomes errors."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return output


def reason_of(error: BaseException) -> str:
    """Return one line: the class and the first line of the message of an error.

    For an error that Dynamo wraps, the line is about the backend's own.
    """
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, BaseException):
        return reason_of(inner)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else "no message"
    return f"{type(error).__name__}: {first}"[:LONGEST_REASON]
