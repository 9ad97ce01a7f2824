"""Times of a call of one workload: its contenders take turns in this process.

Each contender is compared with eager before it is timed.  The process prints JSON objects,
one a line: one for each contender that is compiled, ``{"ready": true}`` after the last, and
after a line on its standard input, a record for each contender.  Times are microseconds of
a call, the GPU's work included.  There are three kinds: calls in a row with inputs that
stay where they are (``in_place``), calls in a row with inputs at other addresses each time
(``moved``), and calls where the host waits for the GPU before the next one (``waited``).

    python -m bench.gpu.turns WORKLOAD ROUNDS
"""

import gc
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import torch

from bench.gpu.contenders import CONTENDERS, Step, captured, reason_of, step_of, take_output
from bench.gpu.models import WORKLOADS, Inputs, Prepared, Workload

LEAST_SECONDS = 0.03
"""A turn repeats its calls for at least this long."""
COPIES = 4
"""Copies of the inputs that take turns where inputs move."""
WAITED = "waited"
Kinds: TypeAlias = Mapping[str, Sequence[Inputs]]
"""Inputs of calls, by what the records name their times."""
Records: TypeAlias = dict[str, dict[str, float | str]]
"""Figures by contender."""


def _leaves(value: object) -> Iterator[torch.Tensor]:
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    return (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


def largest_error(
    expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]
) -> float:
    """Return the largest error of a tensor: the norm of the difference, relative."""
    if len(expected) != len(actual):
        return float("inf")
    errors = [
        float((a.float() - e.float()).norm() / e.float().norm().clamp_min(1e-6))
        for e, a in zip(expected, actual, strict=True)
    ]
    return max((e if e == e else float("inf") for e in errors), default=0.0)


def results_of(step: Step, inputs: Inputs, prepared: Prepared) -> list[torch.Tensor]:
    """Return copies of the outputs of a call and of the gradients after it."""
    outputs = [leaf.detach().clone() for leaf in _leaves(step(inputs))]
    gradients = [p.grad.clone() for p in prepared.parameters if p.grad is not None]
    return outputs + gradients


def compiled_steps(
    workload: Workload,
    prepared: Prepared,
    records: Records,
    say: Callable[[Mapping[str, object]], None],
) -> dict[str, Step]:
    """Return the steps by contender; ``records`` gets their errors, or why they fail.

    ``say`` is told of each that is compiled.
    """
    steps: dict[str, Step] = {}
    expected: list[list[torch.Tensor]] = []
    for contender in CONTENDERS:
        name, inputs, begun = contender.name, list(prepared.inputs), time.perf_counter()
        try:
            if contender.captures is not None and workload.training:
                # Gradients are summed on the stream where autograd first saw a parameter.
                records[name] = {"skipped": "autograd works on streams of its own"}
                continue
            if contender.captures is None:
                step = step_of(workload, contender, prepared)
            elif contender.captures in steps:
                step = captured(steps[contender.captures], inputs)
                inputs = inputs[:1]  # a replay computes what it was recorded for
            else:
                records[name] = {"skipped": f"{contender.captures} does not run"}
                continue
            for _ in range(3):
                results = [results_of(step, each, prepared) for each in inputs]
            torch.cuda.synchronize()
        except Exception as error:
            traceback.print_exc()
            records[name] = {"skipped": reason_of(error)}
            continue
        expected = expected or results
        pairs = zip(expected, results, strict=False)
        records[name] = {"error": max(largest_error(e, a) for e, a in pairs)}
        steps[name] = step
        say({"compiled": name, "seconds": time.perf_counter() - begun})
    return steps


def seconds_of(step: Step, kind: str, inputs: Sequence[Inputs], calls: int) -> float:
    """Return the seconds of a call, the device's work included."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for number in range(calls):
        step(inputs[number % len(inputs)])
        if kind == WAITED:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def calls_of_a_turn(step: Step, kinds: Kinds) -> dict[str, int]:
    """Return how many calls a turn of a step has with each kind of inputs."""
    calls = {}
    for kind, inputs in kinds.items():
        least = 2 * len(inputs)
        seconds_of(step, kind, inputs, least)
        seconds = seconds_of(step, kind, inputs, least)
        calls[kind] = max(least, int(LEAST_SECONDS / seconds))
    return calls


def timed(
    steps: Mapping[str, Step], kinds: Kinds, rounds: int, records: Records
) -> dict[tuple[str, str], list[float]]:
    """Return the seconds of a call in each round, by contender and kind of inputs.

    ``records`` gets why a contender fails before the first round.
    """
    calls: dict[str, dict[str, int]] = {}
    for name, step in steps.items():
        try:
            calls[name] = calls_of_a_turn(step, kinds)
        except Exception as error:
            traceback.print_exc()
            records[name] = {"skipped": reason_of(error)}
    times: dict[tuple[str, str], list[float]] = {
        (name, kind): [] for name in calls for kind in kinds
    }
    for _ in range(rounds):
        for (name, kind), seconds in times.items():
            seconds.append(seconds_of(steps[name], kind, kinds[kind], calls[name][kind]))
    return times


def records_of(
    workload: Workload, rounds: int, say: Callable[[Mapping[str, object]], None]
) -> Iterator[Mapping[str, object]]:
    """Yield the objects to print; go on after the first when there is input."""
    torch._dynamo.config.recompile_limit = 64
    torch.manual_seed(0)
    prepared = workload.prepare()
    records: Records = {}
    steps = compiled_steps(workload, prepared, records, say)
    gc.collect()
    gc.freeze()
    yield {"ready": True}
    sys.stdin.readline()
    moved = [
        tuple(tensor.clone() for tensor in each)
        for _ in range(COPIES)
        for each in prepared.inputs
    ]
    kinds = {"in_place": prepared.inputs, "moved": moved, WAITED: prepared.inputs}
    times = timed(steps, kinds, rounds, records)
    for (contender, kind), seconds in times.items():
        records[contender][kind] = min(seconds) * 1e6
        records[contender][f"{kind}_median"] = statistics.median(seconds) * 1e6
    for contender, record in records.items():
        yield {"contender": contender, **record}


def main(name: str, rounds: str) -> None:
    """Print the records, or why there are none."""
    output = take_output()
    (workload,) = (each for each in WORKLOADS if each.name == name)

    def say(record: Mapping[str, object]) -> None:
        print(json.dumps(record), file=output, flush=True)

    try:
        for record in records_of(workload, int(rounds), say):
            say(record)
    except Exception as error:
        traceback.print_exc()
        say({"skipped": reason_of(error)})


if __name__ == "__main__":
    main(*sys.argv[1:])
