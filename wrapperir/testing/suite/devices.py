"""Programs of the CPU on another device: as they are, or with copies at the borders.

Kernels in C++ become those in a language of the emitter's own, where it has any.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.emit import Emitter, Support
from wrapperir.ir.line_effects import LineEffects, value_names, value_types
from wrapperir.ir.renaming import rename_values, replace_devices
from wrapperir.testing.suite.own_kernels import own_kernels
from wrapperir.testing.suite.processes import CheckEndedError, in_own_process
from wrapperir.testing.suite.results import CheckResult, Status

_COPY = "aten.copy_.default"
_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_SECONDS = 60
"""The time to find out whether a device is there."""


@frozen
class Placing:
    """A way to run CPU programs on a device: its name, and the programs' form on it.

    ``place`` of ``None`` leaves them as they are, on the CPU.  ``is_own`` says that their
    kernels are in a language of the emitter's own.
    """

    device: str
    place: Callable[[wir.Program], wir.Program] | None = None
    is_own: bool = False


def placings(emitter: Emitter) -> Mapping[str, Placing | str]:
    """Return the way to run programs on each declared kind of device, or why there is none.

    An emitter that declares every kind is tried on the CPU and on a CUDA device.
    """
    kinds = emitter.support.devices
    kinds = frozenset({"cpu", "cuda"}) if kinds is None else kinds
    found: dict[str, Placing | str] = {}
    for kind in sorted(kinds, key=lambda kind: (kind != "cpu", kind)):
        placing = _placing(kind, emitter.support)
        own = own_kernels(emitter, kind)
        if own is not None and isinstance(placing, Placing):
            move = placing.place
            write = own.write if move is None else _in_turn(own.write, move)
            placing = Placing(kind, write, is_own=True)
        found[kind] = placing
    return found


def _placing(kind: str, support: Support) -> Placing | str:
    """Return the way to run programs on a kind of device, or why there is none."""
    device = wir.Device(kind, 0)
    if kind == "cpu":
        return Placing(kind)
    if kind in support.hosted:
        return Placing(kind, partial(moved, device=device))
    absence = absence_of(kind)
    if absence is None:
        return Placing(kind, partial(moved, device=device))
    if kind == "cuda":
        return absence
    if wir.ExternKernelLine in support.lines:
        return Placing(kind, partial(moved_with_copies, device=device))
    return f"{absence} for inputs, and without extern_kernel lines {_COPY} cannot copy them"


def _in_turn(
    first: Callable[[wir.Program], wir.Program], then: Callable[[wir.Program], wir.Program]
) -> Callable[[wir.Program], wir.Program]:
    return lambda program: then(first(program))


@contextmanager
def counting_by_nvml() -> Generator[None]:
    """Count GPUs by NVML: where a process asks CUDA, its children cannot use it."""
    before = os.environ.get(_NVML)
    os.environ[_NVML] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NVML]
        else:
            os.environ[_NVML] = before


def absence_of(kind: str) -> str | None:
    """Return why PyTorch cannot use a kind of device in the process of a check, if so.

    This process does not try it: children of a process that uses a GPU cannot.
    """
    import torch

    def check() -> Sequence[CheckResult]:
        try:
            torch.empty(1, device=kind)
        except (RuntimeError, AssertionError) as error:  # of an unknown or absent device
            return [CheckResult(kind, "present", Status.FAILED, str(error))]
        return [CheckResult(kind, "present", Status.PASSED)]

    try:
        (result,) = in_own_process(check, _SECONDS)
    except CheckEndedError:
        return f"PyTorch fails on device {kind}"
    if result.status is Status.PASSED:
        return None
    if "forked subprocess" in result.reason:
        reason = f"this process used CUDA, or counted its devices without {_NVML}=1"
        return f"{reason}, and its children then cannot use it"
    return (
        "there is no CUDA device here"
        if kind == "cuda"
        else f"PyTorch has no device {kind}"
    )


def moved(program: wir.Program, device: wir.Device) -> wir.Program:
    """Return a CPU program with all of its memory and work on ``device``."""
    return replace_devices(program, lambda _: device)


def moved_with_copies(program: wir.Program, device: wir.Device) -> wir.Program:
    """Return a CPU program that works on ``device`` and takes and returns CPU tensors.

    Inputs and constants are copied to buffers on the device, and outputs and what the
    program mutates are copied back.  Streams wait for the former, and the latter for them.
    """
    inner = moved(program, device)
    types = value_types(inner)
    names = wir.FreshNames(value_names(inner))
    host: dict[str, str] = {}
    begin: list[wir.BodyLine] = []
    end: list[wir.BodyLine] = []
    kept: set[str] = set()
    given: list[wir.Input | wir.ConstantInput] = [*program.inputs, *program.constants]
    for item in given:
        type = types[item.name]
        if not isinstance(type, wir.TensorType):
            continue
        host[item.name] = names.new(None, "host")
        begin.append(wir.AllocateLine(result=item.name, type=evolve(type, offset=0)))
        begin.append(_copy(item.name, host[item.name], device))
        if not (isinstance(item, wir.Input) and item.donated):
            kept.add(item.name)
        if item.mutated:
            end.append(_copy(host[item.name], item.name, device))
    outputs: dict[str, str] = {}
    for output in inner.outputs:
        if not isinstance(output, wir.BufferRef) or output.name in outputs:
            continue
        made = types[output.name]
        if isinstance(made, wir.TensorType):
            outputs[output.name] = name = names.new(None, "host")
            there = evolve(made, device=wir.CPU, offset=0)
            end.append(wir.AllocateLine(result=name, type=there))
            end.append(_copy(name, output.name, device))
    end += [wir.FreeLine(buffer=name) for name in sorted(kept | outputs.keys())]
    own = [x for x in inner.lines if not (isinstance(x, wir.FreeLine) and x.buffer in kept)]
    streams = {*_streams(own)} - {0}
    forks = [_wait(0, stream, device, names) for stream in sorted(streams)]
    joins = [_wait(stream, 0, device, names) for stream in sorted(streams)]

    def rename(name: str) -> str:
        return host.get(name, name)

    return evolve(
        inner,
        inputs=tuple(
            [evolve(x, name=rename(x.name), donated=False) for x in program.inputs]
        ),
        constants=tuple([evolve(x, name=rename(x.name)) for x in program.constants]),
        symbols=tuple([rename_values(line, rename) for line in inner.symbols]),
        lines=(*begin, *chain(*forks), *own, *chain(*joins), *end),
        outputs=tuple(
            [
                wir.BufferRef(outputs.get(x.name, x.name))
                if isinstance(x, wir.BufferRef)
                else x
                for x in inner.outputs
            ]
        ),
    )


def _copy(to: str, source: str, device: wir.Device) -> wir.ExternKernelLine:
    return wir.ExternKernelLine(
        operator=_COPY,
        arguments=(wir.BufferRef(to), wir.BufferRef(source)),
        writes=(to,),
        device=device,
    )


def _streams(lines: Iterable[wir.BodyLine]) -> Iterator[int]:
    effects = LineEffects(None)
    for line in lines:
        stream = effects.visit(line).stream
        if stream is not None:
            yield stream.number


def _wait(
    before: int, after: int, device: wir.Device, names: wir.FreshNames
) -> tuple[wir.BodyLine, wir.BodyLine]:
    """Return lines that order later work of a stream after earlier work of another."""
    event = names.new(None, "event")
    return (
        wir.RecordEventLine(result=event, device=device, stream=before),
        wir.WaitEventLine(event=event, device=device, stream=after),
    )
