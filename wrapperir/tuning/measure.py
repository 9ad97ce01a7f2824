"""Times the choices of a call, each compiled with an emitter."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import torch
from attrs import define, frozen

from wrapperir import ir as wir
from wrapperir.diagnostics import DiagnosticError
from wrapperir.emit import Emitter, Loaded, Value, compile_program
from wrapperir.emit.runnable_kernels import updated_arguments
from wrapperir.emit.torch_dtypes import torch_device, torch_dtype
from wrapperir.kernels import side_by_side
from wrapperir.tuning.calls import CallProgram
from wrapperir.tuning.kernel_times import Clock, current_device, least_times

LONGEST_REASON = 240
"""The most characters of the reason that a choice has no time."""

_LEAST_TURNS = 3


@frozen
class Times:
    """For each choice its microseconds, or the reason that it has none."""

    microseconds: tuple[float | None, ...]
    failures: tuple[str | None, ...]


Timer: TypeAlias = Callable[[Sequence[wir.Program], Mapping[str, wir.Number]], Times]
"""Times programs that take the same inputs, one a choice, at values of their symbols."""


class CallTimer:
    """Times call programs compiled with an emitter; this executes their kernels.

    The choices take turns as :func:`~wrapperir.tuning.kernel_times.least_times` says, three
    at least, for ``seconds`` together.  CallInputs that any choice reads and any writes are
    restored before each launch, and workspaces that are to be zero are zeroed, untimed.  A
    time on the CPU includes the emitted code's own, which is the same for all choices.
    Kernels for GPUs are compiled several at a time, before the first of them is timed.
    """

    def __init__(
        self,
        emitter: Emitter,
        seconds: float = 0.2,
        begun: Callable[[str], object] | None = None,
        planned: Iterable[Sequence[wir.Program]] = (),
    ) -> None:
        """Take the emitter and how long a case may take, beside compiling.

        ``begun`` is called with the name of a choice's kernel before its first run of a
        case, which may end the process.  ``planned`` are the programs of cases to come.
        """
        # Tuning makes the inputs; checking them would hide what a short kernel costs.
        self._emitter = emitter.trusting_inputs()
        self._seconds = seconds
        self._begun = begun
        self._planned = tuple(planned)
        self._ahead: dict[int, list[Loaded | str]] | None = None
        """Planned programs as they were loaded, by the identities of their sequences."""
        self._compiled: tuple[Sequence[wir.Program], list[Loaded | str]] | None = None

    def __call__(
        self, programs: Sequence[wir.Program], values: Mapping[str, wir.Number]
    ) -> Times:
        """Return the times of programs that take the same inputs, one a choice."""
        loaded = self._load(programs)
        failures = [entry if isinstance(entry, str) else None for entry in loaded]
        microseconds: list[float | None] = [None] * len(programs)
        runnable = [at for at, failure in enumerate(failures) if failure is None]
        try:
            device = torch_device(_device_of(programs[0]))
            with current_device(device):
                arguments = CallInputs.fresh(programs, values)
                clock = Clock(device)
                runs = [
                    self._run_of(programs[at], loaded[at], arguments, clock)
                    for at in runnable
                ]

                def failed(index: int, error: Exception) -> None:
                    failures[runnable[index]] = _reason(error)

                taken = least_times(
                    runs,
                    failed,
                    device,
                    seconds=self._seconds / max(1, len(runs)),
                    least_turns=_LEAST_TURNS,
                )
        except (RuntimeError, ValueError, TypeError, MemoryError) as error:
            return Times(tuple(microseconds), (_reason(error),) * len(programs))
        for at, time in zip(runnable, taken, strict=True):
            microseconds[at] = None if time is None else round(time, 3)
        return Times(tuple(microseconds), tuple(failures))

    def _run_of(
        self, program: wir.Program, run: Loaded | str, arguments: "CallInputs", clock: Clock
    ) -> Callable[[], float]:
        assert not isinstance(run, str)
        name = program.definitions[0].name
        is_first = True

        def timed() -> float:
            nonlocal is_first
            if is_first and self._begun is not None:
                self._begun(name)
            is_first = False
            arguments.restore()
            inputs = arguments.values()
            return clock(lambda: run(inputs))

        return timed

    def _load(self, programs: Sequence[wir.Program]) -> list[Loaded | str]:
        # The cases of a call are timed one after another with the same programs.
        if self._compiled is None or self._compiled[0] is not programs:
            if self._ahead is None:
                self._ahead = self._load_planned()
            loaded = self._ahead.pop(id(programs), None)
            if loaded is None:
                loaded = [self._load_one(program) for program in programs]
            self._compiled = programs, loaded
        return self._compiled[1]

    def _load_planned(self) -> dict[int, list[Loaded | str]]:
        """Load the planned programs for GPUs, whose kernels other processes compile."""
        cases = [case for case in self._planned if _device_of(case[0]).kind == "cuda"]
        programs = [program for case in cases for program in case]
        if programs:
            from wrapperir.kernels.triton_compile import start_compiler

            start_compiler()
        loaded = iter(side_by_side(self._load_one, programs))
        return {id(case): [next(loaded) for _ in case] for case in cases}

    def _load_one(self, program: wir.Program) -> Loaded | str:
        try:
            return compile_program(program, emitter=self._emitter)
        except (DiagnosticError, OSError) as error:
            return _reason(error)


_COMPILER_ERROR = re.compile(r"(?:[^/\s]+: )?(?:fatal )?error: .*|undefined reference .*")
"""An error in a compiler's output, from the file's name on."""


def _reason(error: Exception) -> str:
    """Return why a choice has no time: one short line of printable characters.

    Where only the cause of an error has a compiler's output, its first error is added.
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


def _device_of(program: wir.Program) -> wir.Device:
    (line,) = program.lines
    assert isinstance(line, wir.KernelCallLine)
    return line.device


@define
class CallInputs:
    """The inputs of call programs, which can be restored to their first values."""

    _values: list[Value]
    _changed: list[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def fresh(
        cls, programs: Sequence[wir.Program], values: Mapping[str, wir.Number]
    ) -> "CallInputs":
        """Return inputs for programs that have the same inputs, at values of their symbols.

        Floats are uniform in [-1, 1), so that sums and products of them do not overflow.
        Integers are 0, as they may be indices, and so are inputs that must be zero.

        Raises:
            RuntimeError: PyTorch cannot make such a tensor, or lacks the memory.
            ValueError: PyTorch knows no such device.
        """
        program = programs[0]
        numbers = {
            line.source.name: values[line.symbol]
            for line in program.symbols
            if isinstance(line.source, wir.ValueOf)
        }
        zeroed = program.zeroed if isinstance(program, CallProgram) else ()
        updated = updated_arguments(map(_launched, programs), map(wir.BufferRef, zeroed))
        made: list[Value] = []
        changed: list[tuple[torch.Tensor, torch.Tensor]] = []
        for item in program.inputs:
            if isinstance(item.type, wir.ScalarType):
                made.append(numbers[item.name])
                continue
            assert isinstance(item.type, wir.TensorType)
            memory, tensor = _tensor(item.type, values, zeroed=item.name in zeroed)
            made.append(tensor)
            if wir.BufferRef(item.name) in updated:
                bytes = memory.view(torch.uint8)
                changed.append((bytes, bytes.clone()))
        return cls(made, changed)

    def values(self) -> list[Value]:
        """Return the inputs as a list that a loaded program may empty."""
        return list(self._values)

    def restore(self) -> None:
        """Restore the inputs that a run may have changed."""
        for memory, saved in self._changed:
            memory.copy_(saved)


def _launched(
    program: wir.Program,
) -> tuple[wir.KernelDefinitionLine, tuple[wir.KernelArgument, ...]]:
    """Return the kernel that a call program launches, and its arguments."""
    (kernel,), (line,) = program.definitions, program.lines
    assert isinstance(kernel, wir.KernelDefinitionLine)
    assert isinstance(line, wir.KernelCallLine)
    return kernel, line.arguments


def _tensor(
    type: wir.TensorType, values: Mapping[str, wir.Number], *, zeroed: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the memory of a tensor, as a one-dimensional tensor, and the tensor in it."""
    size = [wir.evaluate_int(extent, values) for extent in type.size]
    stride = [wir.evaluate_int(step, values) for step in type.stride]
    offset = wir.evaluate_int(type.offset, values)
    extent = 0 if 0 in size else wir.evaluate_int(wir.storage_extent(type), values)
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
