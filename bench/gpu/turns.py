"""Times of a call of one workload: its contenders take turns in this process.

Each contender is compared with eager before and after it is timed.  Times are microseconds
of a call, the GPU's work included.  There are three kinds: calls in a row with inputs that
stay where they are (``in_place``), calls after each of which the host waits for the GPU
(``waited``), and calls in a row with inputs at other addresses each time (``moved``).

The process prints JSON objects, one a line::

    {"begun": CONTENDER}                      before it compiles, and before each turn
    {"compiled": CONTENDER, "seconds": ...}
    {"contender": CONTENDER, "skipped": ...}  why it has no figures
    {"ready": true}                           then the process waits for a line of input
    {"contender": CONTENDER, ...}             its figures, after each round
    {"skipped": ...}                          why the process ends before it is done
    {"done": true}

    python -m bench.gpu.turns WORKLOAD ROUNDS [CONTENDER TO LEAVE OUT ...]
"""

import gc
import json
import math
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import torch
from attrs import define, field

from bench.gpu.contenders import (
    CONTENDERS,
    Contender,
    Step,
    captured,
    reason_of,
    step_of,
    take_output,
)
from bench.gpu.models import WORKLOADS, Inputs, Prepared, Workload

LEAST_SECONDS = 0.03
LEAST_CALLS = 32
"""A turn repeats its calls at least this often, and for at least so many seconds."""
COPIES = 4
"""Copies of the inputs that take turns where inputs move."""
WAITED = "waited"
PHASES = (("in_place", WAITED), ("moved",))
"""Kinds of calls in the order of their rounds.

Moved inputs come last, because a replay may copy inputs from then on that moved often.
"""
Kinds: TypeAlias = Mapping[str, Sequence[Inputs]]
"""Inputs of calls, by what the records name their times."""
Say: TypeAlias = Callable[[Mapping[str, object]], None]


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


@define(kw_only=True)
class Contest:
    """The contenders of a workload in this process, and their figures so far.

    ``expected`` are eager's results, one list for each input, or nothing without eager.
    """

    workload: Workload
    prepared: Prepared
    say: Say
    steps: dict[str, Step] = field(factory=dict)
    records: dict[str, dict[str, float]] = field(factory=dict)
    expected: list[list[torch.Tensor]] = field(factory=list)

    def drop(self, name: str, reason: str | Exception) -> None:
        """Go on without a contender, and say why.

        Raises:
            Exception: the GPU is lost to this process, and so are all contenders.
        """
        self.steps.pop(name, None)
        self.records.pop(name, None)
        if isinstance(reason, Exception):
            traceback.print_exception(reason)
            reason = reason_of(reason)
        self.say({"contender": name, "skipped": reason})
        torch.cuda.synchronize()

    def compile(self, contender: Contender) -> None:
        """Compile a contender and compare its results, or drop it."""
        name, captures = contender.name, contender.captures
        if captures is not None and self.workload.training:
            # Gradients are summed on the stream where autograd first saw a parameter.
            self.drop(name, "autograd works on streams of its own")
            return
        if captures is not None and captures not in self.steps:
            self.drop(name, f"{captures} does not run")
            return
        begun = time.perf_counter()
        self.say({"begun": name})
        try:
            if captures is None:
                self.steps[name] = step_of(self.workload, contender, self.prepared)
            else:
                self.steps[name] = captured(self.steps[captures], self.prepared.inputs)
            for _ in range(3):
                results = self.results(name)
            if name == "eager":
                self.expected = results
            self.records[name] = {}
            self.compare(name, results)
            torch.cuda.synchronize()
        except Exception as error:
            self.drop(name, error)
            return
        self.say({"compiled": name, "seconds": time.perf_counter() - begun})

    def results(self, name: str) -> list[list[torch.Tensor]]:
        """Return the results of a contender for each input that it computes."""
        inputs = list(self.prepared.inputs)
        if any(each.captures for each in CONTENDERS if each.name == name):
            inputs = inputs[:1]  # a replay computes what it was recorded for
        return [results_of(self.steps[name], each, self.prepared) for each in inputs]

    def compare(self, name: str, results: Sequence[Sequence[torch.Tensor]]) -> None:
        """Record the largest error of results that a contender had."""
        record = self.records[name]
        for expected, actual in zip(self.expected, results, strict=False):
            error = largest_error(expected, actual)
            record["error"] = max(error, record.get("error", 0.0))

    def take_turns(self, kinds: Kinds, rounds: int) -> None:
        """Time all contenders, and say their figures after each round.

        A contender that fails is dropped.  Another one begins each round, because a turn
        may depend on the one before it.
        """
        times: dict[tuple[str, str], list[float]] = {}
        calls: dict[tuple[str, str], int] = {}
        for phase in PHASES:
            for number in range(rounds):
                names = [*self.steps]
                first = number % max(1, len(names))
                for name in (*names[first:], *names[:first]):
                    self.say({"begun": name})
                    step = self.steps[name]
                    try:
                        for kind in phase:
                            turn, inputs = (name, kind), kinds[kind]
                            if turn not in calls:
                                calls[turn] = calls_of_a_turn(step, kind, inputs)
                            taken = seconds_of_a_turn(step, kind, inputs, calls[turn])
                            times.setdefault(turn, []).append(taken)
                    except Exception as error:
                        self.drop(name, error)
                self.say_figures(times)
        for name in [*self.steps]:
            self.say({"begun": name})
            try:
                self.compare(name, self.results(name))
            except Exception as error:
                self.drop(name, error)
        self.say_figures(times)

    def say_figures(self, times: Mapping[tuple[str, str], Sequence[float]]) -> None:
        """Say the record of each contender that is left, from its times by kind."""
        for (name, kind), seconds in times.items():
            if name in self.records:
                self.records[name] |= {
                    "turns": len(times[name, PHASES[0][0]]),
                    kind: min(seconds) * 1e6,
                    f"{kind}_median": statistics.median(seconds) * 1e6,
                }
        for name, record in self.records.items():
            self.say({"contender": name, **record})


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


def calls_of_a_turn(step: Step, kind: str, inputs: Sequence[Inputs]) -> int:
    """Return how many calls a turn of a step has: as many with each of the inputs."""
    few = 2 * len(inputs)
    seconds_of(step, kind, inputs, few)
    seconds = seconds_of(step, kind, inputs, few)
    calls = max(LEAST_CALLS, LEAST_SECONDS / seconds)
    return math.ceil(calls / len(inputs)) * len(inputs)


def seconds_of_a_turn(step: Step, kind: str, inputs: Sequence[Inputs], calls: int) -> float:
    """Return the seconds of a call after some that are not timed.

    Without these, the first calls of a turn find the caches full of another contender's
    code and data.
    """
    seconds_of(step, kind, inputs, max(len(inputs), calls // 4))
    return seconds_of(step, kind, inputs, calls)


def measure(workload: Workload, rounds: int, without: Sequence[str], say: Say) -> None:
    """Say the figures of the contenders of a workload; go on when there is input."""
    torch._dynamo.config.recompile_limit = 64
    torch.manual_seed(0)
    prepared = workload.prepare()
    contest = Contest(workload=workload, prepared=prepared, say=say)
    for contender in CONTENDERS:
        if contender.name not in without:
            contest.compile(contender)
    gc.collect()
    gc.freeze()
    say({"ready": True})
    if not sys.stdin.readline():
        return  # the process that reads the figures has ended
    moved = [
        tuple(tensor.clone() for tensor in each)
        for _ in range(COPIES)
        for each in prepared.inputs
    ]
    kinds = {"in_place": prepared.inputs, "moved": moved, WAITED: prepared.inputs}
    contest.take_turns(kinds, rounds)
    say({"done": True})


def main(name: str, rounds: str, *without: str) -> None:
    """Print the figures, or why there are none."""
    output = take_output()
    (workload,) = (each for each in WORKLOADS if each.name == name)

    def say(record: Mapping[str, object]) -> None:
        print(json.dumps(record), file=output, flush=True)

    try:
        measure(workload, int(rounds), without, say)
    except Exception as error:
        traceback.print_exc()
        say({"skipped": reason_of(error)})
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
