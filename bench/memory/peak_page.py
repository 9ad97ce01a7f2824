"""The page of ``docs/results`` with the peaks of memory."""

from collections.abc import Mapping, Sequence

from bench.memory.models import BATCH, LAYERS, LENGTH, TASKS, WIDTH
from bench.results import Record, tested_versions
from bench.small_models import VOCABULARY

INTRODUCTION = """\
# Memory of one call

Models of the library `transformers` with random weights,
{layers} layers of width {width} (ConvNeXt and
ResNet-50 have their own), {vocabulary} tokens, batches of {batch} × {length} tokens or
images of 64 × 64, on the CPU with one thread. Attention is PyTorch's
`scaled_dot_product_attention`. Made by `make bench-memory` with {versions}.

The **lower bound** is the most bytes alive at once of the buffers that the captured
program allocates: intermediates and outputs, but not inputs, weights or an operator's own
scratch memory. No plan that keeps the order of the lines is lower. The other columns are
multiples of it.

**Peaks** are measured with the profiler's events of allocation and free: the most bytes
that one call of the compiled callable, without Dynamo and AOTAutograd, holds of PyTorch's
CPU allocator at once. Memory allocated before the call does not count. Scratch memory that
an operator allocates and frees does, and no plan can place it: attention allocates some for
each thread, a convolution a copy of its weights. All sizes are rounded up to 64 bytes.

- *default*: Inductor with its default settings; *pools*: Inductor with
  `memory_planning=True` and `memory_pool="intermediates"`.
- *ours*: the Python emitter's module, after {passes}.
- *height*: the most bytes that the lines of the planned program hold, with whole pools and
  the buffers outside them; *in pools*: the share of buffer bytes that is placed in pools.
  Outputs are not placed, among them what a forward saves for its backward.
- *planning*: the seconds of those passes, and their share of the first call. The first call
  includes Dynamo, Inductor's lowering, verification, emission, loading kernels that were
  compiled before, and one run. The planner's compiled code was built before, which takes a
  few seconds once per machine.

A peak above the height is scratch memory of operators. Inductor's peak can be below the
bound where it puts new buffers into inputs that are no longer needed; programs here free
such inputs instead.

| model | program | lower bound, KiB | default | pools | ours | height | in pools |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""

PLANNING = """
| model | planning, s | first call, s | share |
| --- | ---: | ---: | ---: |
"""


def format_table(records: Mapping[str, Record], passes: Sequence[str]) -> str:
    """Return the page for the records of every task."""
    text = INTRODUCTION.format(
        layers=LAYERS,
        width=WIDTH,
        vocabulary=VOCABULARY,
        batch=BATCH,
        length=LENGTH,
        versions=tested_versions(),
        passes=", ".join(f"`{name}`" for name in passes),
    )
    planning = PLANNING
    for name, task in TASKS.items():
        record = records[name]
        for number in range(int(record["programs"] or 0)):
            role = "backward" if number else "forward" if task.training else "inference"
            cells = [name.removesuffix("-training"), role, *_sizes(record, number)]
            text += f"| {' | '.join(cells)} |\n"
        spent, seconds = _number(record, "planning_seconds"), _number(record, "seconds")
        cells = [name, f"{spent:.3f}", f"{seconds:.1f}", f"{spent / seconds:.2%}"]
        planning += f"| {' | '.join(cells)} |\n"
    return text + planning


def _sizes(record: Record, number: int) -> list[str]:
    bound = _number(record, f"bound_{number}")
    multiples = [
        f"{_number(record, f'{key}_{number}') / bound:.3f}"
        for key in ("default", "pools", "ours", "height")
    ]
    placed = f"{_number(record, f'share_placed_{number}'):.1%}"
    return [f"{bound / 1024:.1f}", *multiples, placed]


def _number(record: Record, key: str) -> float:
    value = record[key]
    assert isinstance(value, int | float)
    return value
