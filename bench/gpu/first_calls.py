"""The peak memory of later calls of one contender, as JSON.

Three calls with each input of the workload come first, because recording takes two.
``allocated`` and ``reserved`` are the peaks of later calls in MB (10⁶ bytes) above what
weights and inputs take: of tensors, and of what the allocator holds, recordings included.
Before these calls, gradients are dropped and free memory is given back, so that what
compilation left does not count.

    python -m bench.gpu.first_calls WORKLOAD CONTENDER
"""

import gc
import json
import sys
import traceback

import torch

from bench.gpu.contenders import CONTENDERS, reason_of, step_of, take_output
from bench.gpu.models import WORKLOADS, Workload


def measured(workload: Workload, contender: str) -> dict[str, float]:
    """Return the figures of a contender."""
    (chosen,) = (each for each in CONTENDERS if each.name == contender)
    torch._dynamo.config.recompile_limit = 64
    torch.manual_seed(0)
    prepared = workload.prepare()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    step = step_of(workload, chosen, prepared)
    for _ in range(3):
        for each in prepared.inputs:
            step(each)
    torch.cuda.synchronize()
    for parameter in prepared.parameters:
        parameter.grad = None
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        for each in prepared.inputs:
            step(each)
    torch.cuda.synchronize()
    return {
        "allocated": (torch.cuda.max_memory_allocated() - allocated) / 1e6,
        "reserved": (torch.cuda.max_memory_reserved() - reserved) / 1e6,
    }


def main(name: str, contender: str) -> None:
    """Print the figures, or the reason why there are none."""
    output = take_output()
    (workload,) = (each for each in WORKLOADS if each.name == name)
    found: dict[str, float] | dict[str, str]
    try:
        found = measured(workload, contender)
    except Exception as error:
        traceback.print_exc()
        found = {"skipped": reason_of(error)}
    print(json.dumps(found), file=output, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
