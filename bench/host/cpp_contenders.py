"""The host programs of a chain that :mod:`bench.host.cpp` compares."""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from attrs import field, frozen
from torch._inductor import config

from bench.host import cpp_harness
from bench.host.chains import SHAPE, Chain, example_inputs
from bench.host.python import inductor_callable, lower
from wrapperir.emit import Emitter, compile_program, write_artifact
from wrapperir.emit.pipeline import find_emitter, prepare_program
from wrapperir.frontend import Lowered
from wrapperir.ir import (
    AllocateLine,
    Argument,
    BufferRef,
    ExternKernelLine,
    FreeLine,
    KernelCallLine,
    KernelDefinitionLine,
    Program,
    ReuseLine,
)
from wrapperir.kernels import CppBuildError, build_libraries
from wrapperir.passes import memory_passes
from wrapperir_cpp.emitter import CppEmitter


class Timed(Protocol):
    """Something whose calls are timed."""

    def nanoseconds(self, calls: int) -> float:
        """Return the time of one call, as the mean of so many."""

    def output(self) -> torch.Tensor:
        """Call it once and return what it gives."""


@frozen
class FromPython:
    """A Python callable; ``arguments`` are made anew for each call."""

    call: Callable[..., Any]
    arguments: Callable[[], Sequence[Any]]

    def nanoseconds(self, calls: int) -> float:
        """Return the time of one call, as the mean of so many."""
        call, arguments = self.call, self.arguments
        start = time.perf_counter_ns()
        for _ in range(calls):
            call(*arguments())
        return (time.perf_counter_ns() - start) / calls

    def output(self) -> torch.Tensor:
        """Call it once and return what it gives."""
        result = self.call(*self.arguments())
        only: torch.Tensor = result if isinstance(result, torch.Tensor) else result[0]
        return only


@frozen
class Contenders:
    """The host programs of a chain, and the text of our C++ one."""

    timed: Mapping[str, Timed]
    text: str = field(repr=False)


INDUCTOR = "Inductor, Python wrapper"
CPP_WRAPPER = "Inductor, cpp_wrapper"
AOTI_PYTHON = "AOTInductor from Python"
AOTI = "AOTInductor, loader.run"
PYTHON = "wrapperir, Python emitter"
CPP_PYTHON = "wrapperir, C++ from Python"
CPP = "wrapperir, wrapperir_run"
BARE = "bare loop"
BARE_FRESH = "bare loop, a fresh output"


def make(chain: Chain, folder: Path, *, bare: bool) -> Contenders:
    """Compile a chain in every way; files go into ``folder``.

    With ``bare``, the chain must be kernels and products of matrices alone.
    """
    given = example_inputs(chain)
    wrapper = inductor_callable(chain)
    with config.patch(cpp_wrapper=True):
        cpp_wrapper = inductor_callable(chain)
    package = _package(chain, given, folder)
    aoti = torch._inductor.aoti_load_package(str(package))
    lowered = lower(chain)

    def boxed() -> Sequence[Any]:
        return (list(given),)

    cpp = CppEmitter()
    library, text = write_library(lowered, folder)
    timed: dict[str, Timed] = {
        INDUCTOR: FromPython(wrapper, boxed),
        CPP_WRAPPER: FromPython(cpp_wrapper, boxed),
        AOTI_PYTHON: FromPython(aoti, lambda: given),
        AOTI: cpp_harness.loader(package, given),
        PYTHON: FromPython(_compiled(lowered, find_emitter("python")), boxed),
        CPP_PYTHON: FromPython(_compiled(lowered, cpp), boxed),
        CPP: cpp_harness.library(library, given),
    }
    if bare:
        timed |= bare_loops(lowered.program, given)
    return Contenders(timed, text)


def _package(chain: Chain, given: Sequence[torch.Tensor], folder: Path) -> Path:
    class Module(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return chain(*inputs)

    exported = torch.export.export(Module(), tuple(given))
    path = folder / "aoti.pt2"
    torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
    return path


def _compiled(lowered: Lowered, emitter: Emitter) -> Callable[..., Any]:
    """Return the callable that ``torch.compile`` makes with this emitter."""
    return compile_program(
        lowered.program,
        emitter=emitter.trusting_inputs(),
        passes=memory_passes(emitter.support.lines),
        constants=lowered.constants,
    )


def write_library(lowered: Lowered, folder: Path) -> tuple[Path, str]:
    """Write our artifact, built; return its library's path and its program's text."""
    emitter = CppEmitter()
    program = prepare_program(lowered.program, memory_passes(emitter.support.lines))
    artifact = emitter.build(emitter.emit(program), lowered.constants)
    write_artifact(artifact, folder / "wrapperir")
    text = artifact.files["program.cpp"]
    assert isinstance(text, str)
    return folder / "wrapperir" / "program.so", text


def bare_loops(program: Program, given: Sequence[torch.Tensor]) -> dict[str, Timed]:
    """Return loops over the work of a program: its kernels and products of matrices.

    Memory is reused as the program says, so that as much of it is touched.
    """
    kernels = _kernel_addresses(program)
    places = list(given)
    place_of = {i.name: number for number, i in enumerate(program.inputs)}
    unused: list[int] = []

    def placed(arguments: Sequence[Argument]) -> list[int]:
        names = [a.name for a in arguments if isinstance(a, BufferRef)]
        assert len(names) == len(arguments), arguments
        return [place_of[name] for name in names]

    steps: list[tuple[int, Sequence[int]]] = []
    for step in program.lines:
        match step:
            case AllocateLine(result=name):
                if not unused:
                    unused.append(len(places))
                    places.append(torch.empty(SHAPE))
                place_of[name] = unused.pop()
            case ReuseLine(result=name, source=source):
                place_of[name] = place_of.pop(source)
            case FreeLine(buffer=name) if place_of[name] >= len(given):
                unused.append(place_of.pop(name))
            case KernelCallLine(kernel=kernel, arguments=arguments):
                steps.append((kernels[kernel], placed(arguments)))
            case ExternKernelLine(operator="aten.mm.out", arguments=arguments):
                out = dict(step.keywords)["out"]
                steps.append((cpp_harness.multiply(), placed((*arguments, out))))
            case ExternKernelLine(operator=operator):
                raise ValueError(f"no bare loop has {operator}")
    (output,) = program.outputs
    assert isinstance(output, BufferRef)
    last = place_of[output.name]
    return {
        name: cpp_harness.bare_loop(steps, places, last, fresh=fresh)
        for name, fresh in ((BARE, False), (BARE_FRESH, True))
    }


def _kernel_addresses(program: Program) -> dict[str, int]:
    definitions = [d for d in program.definitions if isinstance(d, KernelDefinitionLine)]
    libraries = build_libraries([definition.source for definition in definitions])
    addresses: dict[str, int] = {}
    for definition, library in zip(definitions, libraries, strict=True):
        if isinstance(library, CppBuildError):
            raise library
        entry = ctypes.cast(getattr(library, definition.entry), ctypes.c_void_p)
        addresses[definition.name] = entry.value or 0
    return addresses
