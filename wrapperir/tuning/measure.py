"""Times the choices of a call with what an emitter makes of each."""

import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, cast

import torch
from attrs import define, frozen

from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit.contract import Emitter, Loaded, Value
from wrapperir.emit.pipeline import compile_program
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.emit.updated_arguments import updated_arguments
from wrapperir.ir.expr import Number, evaluate_int
from wrapperir.ir.line import (
    BufferRef,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    ValueOf,
)
from wrapperir.ir.program import Program
from wrapperir.ir.types import Device, ScalarType, TensorType, storage_extent
from wrapperir.tuning.calls import ZeroedInput

MOST_ROUNDS = 100
"""How often a choice is timed at most, at one case."""

LONGEST_REASON = 240
"""How many characters the reason that a choice has no time has at most."""

_LEAST_ROUNDS = 3
_TRIAL_ROUNDS = 2
_TOO_SLOW = 4.0
"""How much slower than the fastest a choice is that is timed no longer."""

_FLUSHED_BYTES = 1 << 28
"""What is written before a launch on a GPU, as ``triton.testing.do_bench`` does: more
than its caches hold, and long enough that the host is done with the call by then."""


@frozen
class Times:
    """The microseconds of each choice, and why one has none; one of both is ``None``."""

    microseconds: tuple[float | None, ...]
    failures: tuple[str | None, ...]


class Timer(Protocol):
    """Times the programs of a call's choices at values of its symbols."""

    def __call__(self, programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        """Return the times of programs that take the same inputs, one a choice."""
        ...


class CallTimer:
    """Times call programs compiled with an emitter; this executes their kernels.

    Each choice runs once untimed.  Then all take turns, so that what else happens on the
    machine meets them alike, until ``seconds`` are over or each was timed
    :data:`MOST_ROUNDS` times; three times at least, except one that two turns show to be
    four times slower than the fastest.  Arguments that any choice reads and any writes are
    brought back to how they began before each launch, and workspaces that are to be zero
    are, which is not timed.

    A time on the CPU is the least of a choice's, as what disturbs can only add to it, and
    it has the emitted code's own in it, the same for all choices.  Elsewhere it is the
    median of the device's own, with its caches flushed before each launch.
    """

    def __init__(
        self,
        emitter: Emitter,
        seconds: float = 0.2,
        begun: Callable[[str], object] | None = None,
    ) -> None:
        """Take the emitter and how long a case may take, beside compiling.

        ``begun`` is called with the name of a choice's kernel before its first run of a
        case, which may be what ends the process.
        """
        self._emitter = emitter
        self._seconds = seconds
        self._begun = begun
        self._compiled: tuple[Sequence[Program], list[Loaded | str]] | None = None

    def __call__(self, programs: Sequence[Program], values: Mapping[str, Number]) -> Times:
        """Return the times of programs that take the same inputs, one a choice."""
        loaded = self._load(programs)
        failures = [entry if isinstance(entry, str) else None for entry in loaded]
        taken: list[list[float]] = [[] for _ in programs]
        try:
            arguments = Arguments.fresh(programs, values)
            clock = _clock(_device_of(programs[0]))
        except (RuntimeError, ValueError, TypeError, MemoryError) as error:
            reason = _reason(error)
            return Times((None,) * len(programs), (reason,) * len(programs))
        running = [at for at, failure in enumerate(failures) if failure is None]

        def once(at: int) -> float | None:
            run = loaded[at]
            assert not isinstance(run, str)
            try:
                arguments.restore()
                return clock(run, arguments.values())
            except Exception as error:  # the program's own code: the next choice may run
                failures[at] = _reason(error)
                return None

        def first(at: int) -> float | None:
            if self._begun is not None:
                self._begun(programs[at].definitions[0].name)
            return once(at)

        running = [at for at in running if first(at) is not None]
        begin = time.perf_counter()
        for turn in itertools.count():
            spent = time.perf_counter() - begin
            few = turn < _LEAST_ROUNDS and spent < 10 * self._seconds
            if turn >= MOST_ROUNDS or not running or (spent > self._seconds and not few):
                break
            start = turn % len(running)
            for at in (*running[start:], *running[:start]):
                took = once(at)
                if took is not None:
                    taken[at].append(took)
            running = [at for at in running if failures[at] is None]
            if turn + 1 == _TRIAL_ROUNDS:
                running = _without_slow(running, taken)
        return Times(
            tuple(
                round(clock.typical(times), 3) if times and failure is None else None
                for times, failure in zip(taken, failures, strict=True)
            ),
            tuple(failures),
        )

    def _load(self, programs: Sequence[Program]) -> list[Loaded | str]:
        # The cases of a call come one after another, and have the same programs.
        if self._compiled is None or self._compiled[0] is not programs:
            loaded = [self._load_one(program) for program in programs]
            self._compiled = programs, loaded
        return self._compiled[1]

    def _load_one(self, program: Program) -> Loaded | str:
        try:
            return compile_program(program, emitter=self._emitter)
        except (DiagnosticError, OSError) as error:
            return _reason(error)


def _without_slow(running: Sequence[int], taken: Sequence[list[float]]) -> list[int]:
    least = min((min(taken[at]) for at in running), default=0.0)
    return [at for at in running if min(taken[at]) <= _TOO_SLOW * least]


_COMPILER_ERROR = re.compile(r"(?:[^/\s]+: )?(?:fatal )?error: .*|undefined reference .*")
"""An error in what a compiler printed, from the last part of the file's path on."""


def _reason(error: Exception) -> str:
    """Return why a choice has no time: one line, not long, of characters that print.

    Where a compiler's output is only in the cause of an error, its first error is added.
    """
    if isinstance(error, DiagnosticError):
        first = error.diagnostics[0]
        text = f"{first.code.value}: {first.message}"
    else:
        text = f"{type(error).__name__}: {error}"
    line = (text.strip().splitlines() or ["no message"])[0]
    found = _COMPILER_ERROR.search(str(error.__cause__ or ""))
    if found is not None and _COMPILER_ERROR.search(line) is None:
        line = f"{line}: {found[0]}"
    return "".join(filter(str.isprintable, line))[:LONGEST_REASON]


def _device_of(program: Program) -> Device:
    (line,) = program.lines
    assert isinstance(line, KernelCallLine)
    return line.device


@define
class Arguments:
    """The inputs of call programs, and what brings them back to how they began."""

    _values: list[Value]
    _changed: list[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def fresh(
        cls, programs: Sequence[Program], values: Mapping[str, Number]
    ) -> "Arguments":
        """Return inputs for programs that take the same, at values of their symbols.

        Real numbers are uniform in [-1, 1), so that sums and products of them overflow
        nowhere; whole ones are 0, as they may be indices, and so is a :class:`ZeroedInput`.

        Raises:
            RuntimeError: PyTorch cannot make such a tensor, or has not the memory.
            ValueError: it knows no such device.
        """
        program = programs[0]
        numbers = {
            line.source.name: values[line.symbol]
            for line in program.symbols
            if isinstance(line.source, ValueOf)
        }
        zeroed = {item.name for item in program.inputs if isinstance(item, ZeroedInput)}
        updated = updated_arguments(map(_launched, programs), map(BufferRef, zeroed))
        made: list[Value] = []
        changed: list[tuple[torch.Tensor, torch.Tensor]] = []
        for item in program.inputs:
            if isinstance(item.type, ScalarType):
                made.append(numbers[item.name])
                continue
            assert isinstance(item.type, TensorType)
            memory, tensor = _tensor(item.type, values, zeroed=item.name in zeroed)
            made.append(tensor)
            if BufferRef(item.name) in updated:
                bytes = memory.view(torch.uint8)
                changed.append((bytes, bytes.clone()))
        return cls(made, changed)

    def values(self) -> list[Value]:
        """Return the inputs as a list that a loaded program may empty."""
        return list(self._values)

    def restore(self) -> None:
        """Bring what a run may have changed for the next one back to how it began."""
        for memory, saved in self._changed:
            memory.copy_(saved)


def _launched(
    program: Program,
) -> tuple[KernelDefinitionLine, tuple[KernelArgument, ...]]:
    """Return the kernel that a call program launches, and what it is given."""
    (kernel,), (line,) = program.definitions, program.lines
    assert isinstance(kernel, KernelDefinitionLine)
    assert isinstance(line, KernelCallLine)
    return kernel, line.arguments


def _tensor(
    type: TensorType, values: Mapping[str, Number], *, zeroed: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the memory of a tensor, as one dimension, and the tensor in it."""
    size = [evaluate_int(extent, values) for extent in type.size]
    stride = [evaluate_int(step, values) for step in type.stride]
    offset = evaluate_int(type.offset, values)
    extent = 0 if 0 in size else evaluate_int(storage_extent(type), values)
    dtype, device = torch_dtype(type.dtype), torch_device(type.device)
    count = offset + extent
    if type.dtype.is_float and type.dtype.itemsize > 1 and not zeroed:
        memory = torch.empty(count, dtype=dtype, device=device).uniform_(-1, 1)
    else:
        zeros = torch.zeros(count * type.dtype.itemsize, dtype=torch.uint8, device=device)
        memory = zeros.view(dtype)
    if type.pinned:
        memory = memory.pin_memory()
    return memory, memory.as_strided(size, stride, offset)


class _Clock(Protocol):
    def __call__(self, run: Loaded, inputs: list[Value]) -> float: ...

    def typical(self, times: Sequence[float]) -> float: ...


class _HostClock:
    """Times a call as the host sees it; ``wait`` returns when a device is done."""

    def __init__(self, wait: Callable[[], object] | None = None) -> None:
        self._wait = wait

    def __call__(self, run: Loaded, inputs: list[Value]) -> float:
        if self._wait is None:
            begin = time.perf_counter_ns()
            run(inputs)
            return (time.perf_counter_ns() - begin) / 1000
        self._wait()
        begin = time.perf_counter_ns()
        run(inputs)
        self._wait()
        return (time.perf_counter_ns() - begin) / 1000

    def typical(self, times: Sequence[float]) -> float:
        return min(times)


class _Event(Protocol):
    def record(self) -> object: ...

    def elapsed_time(self, end: "_Event") -> float: ...


class _DeviceModule(Protocol):
    """What ``torch.cuda`` and its like offer of what is needed here."""

    def synchronize(self) -> object: ...

    def device(self, device: torch.device) -> AbstractContextManager[object]: ...

    def Event(self, *, enable_timing: bool) -> _Event: ...  # noqa: N802


class _EventClock:
    """Times a call by events on the device's stream."""

    def __init__(self, module: _DeviceModule, device: torch.device) -> None:
        self._module = module
        self._device = device
        self._flushed = torch.empty(_FLUSHED_BYTES // 4, dtype=torch.int32, device=device)

    def __call__(self, run: Loaded, inputs: list[Value]) -> float:
        with self._module.device(self._device):
            begin = self._module.Event(enable_timing=True)
            end = self._module.Event(enable_timing=True)
            self._flushed.zero_()
            begin.record()
            run(inputs)
            end.record()
            self._module.synchronize()
        return begin.elapsed_time(end) * 1000

    def typical(self, times: Sequence[float]) -> float:
        return sorted(times)[(len(times) - 1) // 2]


def _clock(device: Device) -> _Clock:
    """Return the clock of a device.

    Raises:
        RuntimeError: PyTorch has no such device.
    """
    if device.kind == "cpu":
        return _HostClock()
    module = cast(
        _DeviceModule, cast(object, torch.get_device_module(torch_device(device)))
    )
    if hasattr(module, "Event"):
        return _EventClock(module, torch_device(device))
    return _HostClock(module.synchronize)
