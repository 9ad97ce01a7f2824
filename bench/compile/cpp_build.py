"""Time to build the host code of a model, beside AOTInductor's wrapper file.

The model is a Llama of 12 layers of width 128.  Kernels are built before, in both.
AOTInductor's time is that of the command that compiles the wrapper, with a precompiled
header, and of the link.  Ours is that of emission, compiling ``program.cpp``, the link and
the rest of the build (digests, files); the runtime is built before.  The program ten times
the size has the same lines ten times over.

Times are processor times, so that other work on the machine counts little.

The same program is also built as one large function, and chains are run in both forms.

    python -m bench.compile.cpp_build
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import torch
from attrs import evolve, frozen
from torch._inductor import config, cpp_builder
from torch._inductor.utils import fresh_cache

from bench.compile.repeated_program import repeat_program
from bench.host import cpp_harness
from bench.host.chains import example_inputs
from bench.host.cpp import CASES, measure
from bench.host.cpp_contenders import write_library
from bench.host.python import lower
from bench.machine import describe_machine
from bench.memory.models import TASKS
from wrapperir.emit import Artifact
from wrapperir.emit.pipeline import prepare_program
from wrapperir.frontend.inductor import capture
from wrapperir.ir import Program
from wrapperir.kernels import Compiler
from wrapperir.passes import memory_passes
from wrapperir_cpp import module_text
from wrapperir_cpp.emitter import CppEmitter

HOST = "program.cpp"
LIBRARY = "program.so"
ONE_FUNCTION = 10**9
"""Lines in one function, so that all are."""


@frozen
class Build:
    """Seconds that a program's host code takes."""

    lines: int
    emit: float
    compile: float
    link: float
    total: float
    """Emission and the whole build."""


def processor_seconds() -> float:
    """Return the processor seconds of this process and of its finished children."""
    return sum(os.times()[:4])


@contextlib.contextmanager
def commands_timed(owner: object, name: str, key: int) -> Iterator[dict[str, float]]:
    """Time calls of a function that runs commands, by its argument number ``key``."""
    seconds: dict[str, float] = {}
    original: Callable[..., None] = getattr(owner, name)

    def run(*arguments: object, **keywords: object) -> None:
        start = processor_seconds()
        original(*arguments, **keywords)
        seconds[str(arguments[key])] = processor_seconds() - start

    with mock.patch.object(owner, name, run):
        yield seconds


def aoti_seconds(rounds: int) -> tuple[float, float]:
    """Return the seconds of AOTInductor's wrapper file: compiling it, the least; linking.

    The link is that of its own build, which removes some of the objects.
    """
    task = TASKS["llama"]
    torch.manual_seed(0)
    model, inputs = task.model().eval(), task.inputs()
    exported = torch.export.export(model, (), kwargs=inputs, strict=False)
    with fresh_cache(), tempfile.TemporaryDirectory() as folder:
        with commands_timed(cpp_builder, "run_compile_cmd", 0) as commands:
            package = str(Path(folder) / "llama.pt2")
            torch._inductor.aoti_compile_and_package(exported, package_path=package)
        (compile_,) = (c for c in commands if ".wrapper.cpp" in c and " -c " in c)
        (link,) = (c for c in commands if ".wrapper.o" in c and " -shared " in c)
        return least_seconds(compile_, rounds), commands[link]


def least_seconds(command: str, rounds: int) -> float:
    """Run a command several times."""
    found: list[float] = []
    for _ in range(rounds):
        start = processor_seconds()
        subprocess.run(command, shell=True, check=True, capture_output=True)
        found.append(processor_seconds() - start)
    return min(found)


def llama_program() -> Program:
    """Return the model's program, after the passes that ``torch.compile`` runs."""
    task = TASKS["llama"]
    torch.manual_seed(0)
    model, inputs = task.model().eval(), task.inputs()
    torch._dynamo.reset()
    (lowered,) = capture(lambda: model(**inputs).logits, ())
    return lowered.program


def prepared(program: Program) -> Program:
    """Return the program after the passes that ``torch.compile`` runs."""
    return prepare_program(program, memory_passes(CppEmitter.support.lines))


def build_seconds(program: Program, rounds: int) -> Build:
    """Return the fastest build; kernels and runtime are built before."""
    emitter = CppEmitter()
    emitter.build(with_remark(emitter.emit(program), time.time_ns()), {})
    found: list[Build] = []
    for _ in range(rounds):
        start = processor_seconds()
        artifact = emitter.emit(program)
        emitted = processor_seconds()
        # What was built before is kept, so the text is another one each time.
        artifact = with_remark(artifact, time.time_ns())
        begun = processor_seconds()
        with commands_timed(Compiler, "run", 3) as seconds:
            emitter.build(artifact, {})
        total = (emitted - start) + (processor_seconds() - begun)
        assert set(seconds) == {HOST, LIBRARY}, seconds
        found.append(
            Build(
                lines=len(program.lines),
                emit=emitted - start,
                compile=seconds[HOST],
                link=seconds[LIBRARY],
                total=total,
            )
        )
    return min(found, key=lambda build: build.total)


def with_remark(artifact: Artifact, number: int) -> Artifact:
    """Return the artifact with another text of the same meaning."""
    text = artifact.files[HOST]
    assert isinstance(text, str)
    return evolve(artifact, files={**artifact.files, HOST: f"{text}// {number}\n"})


def main() -> None:
    """Print all figures."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    torch.set_num_threads(1)
    print(describe_machine())
    with (
        torch.no_grad(),
        config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        theirs, link = aoti_seconds(rounds)
        program = llama_program()
        builds = [
            build_seconds(prepared(repeat_program(program, times)), rounds)
            for times in (1, 10)
        ]
        with mock.patch.object(module_text, "LENGTH", ONE_FUNCTION):
            whole = [
                build_seconds(prepared(repeat_program(program, times)), 1)
                for times in (1, 10)
            ]
        print_builds(theirs, link, builds, whole)
        print_run_times(("X", "P"))


def print_builds(
    theirs: float, link: float, builds: Sequence[Build], whole: Sequence[Build]
) -> None:
    """Print the seconds of every build, and the goals."""
    columns = f"{'lines':>6} {'emit':>6} {'compile':>8} {'link':>6} {'all':>7}"
    print(f"\n{'processor seconds':28} {columns}")
    command = f"{'':13} {theirs:8.2f} {link:6.2f} {theirs + link:7.2f}"
    print(f"{'AOTInductor, wrapper file':28} {command}")
    named = [("wrapperir", b) for b in builds] + [("in one function", b) for b in whole]
    for name, b in named:
        parts = f"{b.emit:6.2f} {b.compile:8.2f} {b.link:6.2f} {b.total:7.2f}"
        print(f"{name:28} {b.lines:6} {parts}")
    small, large = builds
    print(f"\nours / AOTInductor's compilation alone: {small.total / theirs:.3f}")
    size = large.lines / small.lines
    growth = large.total / small.total / size
    print(f"at {size:.1f} times the size, a line costs {growth:.2f} times as much")


def print_run_times(cases: Sequence[str]) -> None:
    """Print the run time of the chains, in chunks and as one function."""
    print(f"\n{'us a call':12} {'chunks':>8} {'one function':>13} {'ratio':>7}")
    for name in cases:
        case = CASES[name]
        with case.settings():
            lowered = lower(case.chain)
        given = example_inputs(case.chain)
        folder = Path(tempfile.mkdtemp())
        try:
            (folder / "chunks").mkdir()
            chunked, _ = write_library(lowered, folder / "chunks")
            with mock.patch.object(module_text, "LENGTH", ONE_FUNCTION):
                (folder / "one").mkdir()
                whole, _ = write_library(lowered, folder / "one")
            times = measure(
                {
                    "chunks": cpp_harness.library(chunked, given),
                    "one": cpp_harness.library(whole, given),
                },
                300,
            )
        finally:
            shutil.rmtree(folder)
        least = times["chunks"].least, times["one"].least
        print(f"{name:12} {least[0]:8.2f} {least[1]:13.2f} {least[0] / least[1]:7.3f}")


if __name__ == "__main__":
    main()
