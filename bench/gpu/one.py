"""Compiles one workload in one way, and prints seconds and memory as JSON.

``seconds`` are from the first call to the end of the third: recording takes two.  Memory is
the peak of a later step above what the weights and inputs take, in MB.

    python -m bench.gpu.one WORKLOAD CONTENDER
"""

import json
import sys
import time

import torch

from bench.gpu.contenders import step_of
from bench.gpu.models import WORKLOADS


def main(name: str, contender: str) -> None:
    """Print the figures."""
    (workload,) = (each for each in WORKLOADS if each.name == name)
    torch.manual_seed(0)
    function, inputs = workload.make()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    step = step_of(workload, contender, function)
    start = time.perf_counter()
    for _ in range(3):
        for each in inputs:
            torch.compiler.cudagraph_mark_step_begin()
            step(each)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    torch.cuda.reset_peak_memory_stats()
    for each in inputs:
        torch.compiler.cudagraph_mark_step_begin()
        step(each)
    torch.cuda.synchronize()
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20
    print(json.dumps({"seconds": round(seconds, 1), "peak": round(peak, 1)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
