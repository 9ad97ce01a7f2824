"""The ways to run a workload on a GPU."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from bench.gpu.models import Function, Inputs, Workload

Step: TypeAlias = Callable[[Inputs], object]
"""One call, with its backward pass in training."""

CONTENDERS: Mapping[str, Mapping[str, Any] | None] = {
    "eager": None,
    "Inductor": {},
    "Inductor, cpp_wrapper": {"options": {"cpp_wrapper": True}},
    "Inductor, reduce-overhead": {"mode": "reduce-overhead"},
    "wrapperir, Python": {"backend": "wrapperir"},
    "wrapperir, C++": {"backend": "wrapperir", "options": {"emitter": "cpp"}},
}
"""Arguments of ``torch.compile``; none for eager."""
REPLAYED = "wrapperir, C++, captured by hand"


def step_of(workload: Workload, contender: str, function: Function) -> Step:
    """Return a contender's step of a workload; it compiles in its first calls."""
    arguments = CONTENDERS[contender]
    compiled = function
    if arguments is not None:

        def own(*inputs: torch.Tensor) -> object:
            return function(*inputs)

        # Dynamo keeps what it compiled by code: each contender has its own.
        number = list(CONTENDERS).index(contender)
        own.__code__ = own.__code__.replace(co_name=f"{workload.name}_{number}")
        dynamic = True if workload.dynamic else None
        compiled = torch.compile(own, dynamic=dynamic, **arguments)
    if workload.training:
        return lambda inputs: compiled(*inputs).backward()  # type: ignore[attr-defined]

    def step(inputs: Inputs) -> object:
        with torch.no_grad():
            return compiled(*inputs)

    return step


def captured(step: Step, inputs: Inputs) -> Step:
    """Return the replay of a step that was recorded once in a CUDA graph, by hand.

    The inputs stay where they are, which no user's program can promise: it is the least
    that a replay can take.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step(inputs)

    def replay(_: Inputs) -> object:
        graph.replay()
        return output

    return replay
