"""What origins cost: their share of the time of a capture, and of the text of a program.

Seconds are processor time of the main thread in ``backend="wrapperir"``, with PyTorch's own
work for it, and in the functions that find origins and places.  Text is that of captured
programs before any pass: as it is, without origins, and as it was before lines had several,
when each had its nodes, one operator and one place.

    python -m bench.compile.origins
"""

import contextlib
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from attrs import define, evolve

import wrapperir.backend
from bench.demo.models import DEMO
from bench.model_run import ModelTask
from wrapperir.frontend.inductor import block_lines, build, kernel_lines
from wrapperir.frontend.inductor.kernel_origins import ComputedNodes
from wrapperir.frontend.lowering import program as lowered_lines
from wrapperir.frontend.provenance import TracedOrigins
from wrapperir.ir import DefinitionLine, KernelDefinitionLine, Program
from wrapperir.ir.blocks import walk_lines
from wrapperir.text import format_program

FINDERS: tuple[tuple[Any, str], ...] = (
    *((TracedOrigins, n) for n in ("provenance", "named", "origin", "include", "listed")),
    (ComputedNodes, "of"),
    (kernel_lines, "parts_of_values"),
    (kernel_lines, "kernel_copies"),
    *((lowered_lines, name) for name in ("launch_copies", "touched_elements")),
    (build, "with_memory_origins"),
    (block_lines, "with_memory_origins"),
)
"""The functions that find origins, and what kernels copy and touch."""
_ENDING = re.compile(r" (?:from|by)\((?:[^()\"]|\"(?:[^\"\\]|\\.)*\"|\([^()]*\))*\)")


@define
class Clock:
    """Seconds in functions; those of a call within another count once."""

    seconds: float = 0.0
    depth: int = 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time counts."""

        def run(*args: Any, **keywords: Any) -> Any:
            begun = time.thread_time()
            self.depth += 1
            try:
                return function(*args, **keywords)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.seconds += time.thread_time() - begun

        return run


@contextlib.contextmanager
def _timed(clock: Clock, owner: Any, name: str) -> Iterator[None]:
    with mock.patch.object(owner, name, clock.timed(getattr(owner, name))):
        yield


def _without_facts(program: Program) -> Iterator[DefinitionLine]:
    """Yield definitions without what reports say that kernels copy and touch."""
    for line in program.definitions:
        if isinstance(line, KernelDefinitionLine):
            kept = [
                e for e in line.metadata if not e[0].startswith(("copies.", "touched."))
            ]
            yield evolve(line, metadata=tuple(kept))
        else:
            yield line


def text_sizes(program: Program) -> tuple[int, int, int]:
    """Return the bytes of a program's text: as it is, without origins, and as before."""
    text = format_program(program)
    plain = format_program(evolve(program, definitions=tuple(_without_facts(program))))
    bare = _ENDING.sub("", plain.partition("\norigins {")[0])
    before = len(bare.encode())
    origins = {each.name: each for each in program.origins}
    for line in walk_lines(program.lines):
        if line.provenance is None or not line.provenance.origins:
            continue
        names = line.provenance.origins
        first = origins.get(names[0])
        parts = [f"nodes({', '.join(map(json.dumps, names))})"]
        if first is not None and first.operator is not None:
            parts.append(f"operator({json.dumps(first.operator)})")
        if first is not None and first.place is not None:
            place = program.places[first.place]
            parts.append(f"at({json.dumps(place.file)}, {place.line})")
        before += len(f" from({', '.join(parts)})".encode())
    return len(text.encode()), len(bare.encode()), before


def measure(task: ModelTask, frontend: str) -> tuple[float, float, list[Program]]:
    """Return the seconds of a capture, those of origins, and the programs."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = task.model().train(task.training)
    programs: list[Program] = []

    def keep(program: Program) -> Program:
        programs.append(program)
        return program

    whole, origins = Clock(), Clock()
    options: Any = {"frontend": frontend, "passes": [keep]}
    backend = whole.timed(wrapperir.backend.wrapperir_backend)
    with contextlib.ExitStack() as stack:
        for owner, name in FINDERS:
            stack.enter_context(_timed(origins, owner, name))
        compiled = torch.compile(
            model, backend=lambda *given: backend(*given, options=options)
        )
        with contextlib.nullcontext() if task.training else torch.no_grad():
            outputs = compiled(**task.inputs())
        if task.training:
            outputs.loss.backward()
    return whole.seconds, origins.seconds, programs


def main() -> None:
    """Print a row for each model and frontend."""
    heads = "seconds", "origins", "share", "bytes", "/ without", "/ before"
    print(f"{'model':14} {'frontend':10}", *(f"{head:>10}" for head in heads))
    for frontend in ("lowering", "inductor"):
        for task in DEMO:
            with (
                tempfile.TemporaryDirectory() as folder,
                mock.patch.dict("os.environ", {"TORCHINDUCTOR_CACHE_DIR": folder}),
                mock.patch.dict("os.environ", {"XDG_CACHE_HOME": f"{folder}/own"}),
            ):
                whole, origins, programs = measure(task, frontend)
            sizes = [text_sizes(program) for program in programs]
            now, bare, before = (sum(each) for each in zip(*sizes, strict=True))
            times = f"{whole:10.2f} {origins:10.3f} {origins / whole:10.1%}"
            bytes = f"{now:10,} {now / bare:10.2f} {now / before:10.2f}"
            print(f"{task.name:14} {frontend:10} {times} {bytes}", flush=True)


if __name__ == "__main__":
    main()
