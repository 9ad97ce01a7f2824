"""The peak probe: calls hold no more memory at once than the frees of programs allow."""

import ctypes
import gc
from collections.abc import Callable

import torch
from attrs import frozen

from wrapperir import ir as wir
from wrapperir.emit import Emitter, Loaded
from wrapperir.testing.inputs import example_inputs
from wrapperir.testing.memory_check import peak_bytes
from wrapperir.testing.suite.leaks import memory_meter
from wrapperir.testing.suite.peak_programs import LARGE, large_bytes


@frozen
class PeakMeter:
    """A count of the most bytes in use on a device.

    ``ask`` returns the most since it was asked last.  If programs count themselves, it
    returns the bytes in use.
    """

    ask: Callable[[], int]
    programs_count: bool = False


def peak_meter(emitter: Emitter, device: str) -> PeakMeter | None:
    """Return what counts the most bytes in use on a kind of device, if anything does.

    On the CPU, programs count what the C library has given out.  PyTorch counts for GPUs,
    and an emitter for other devices.
    """
    if device == "cpu":
        in_use = memory_meter(emitter, device)
        has_count = hasattr(ctypes.CDLL(None), "mallinfo2")
        return PeakMeter(in_use, programs_count=True) if in_use and has_count else None
    if device == "cuda":
        return PeakMeter(_most_of_cuda)
    if emitter.peak_bytes(device) is None:
        return None
    return PeakMeter(lambda: emitter.peak_bytes(device) or 0)


def _most_of_cuda() -> int:
    most = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return most


def peak_fault(
    programs: tuple[wir.Program, wir.Program],
    given: Callable[[wir.Program], wir.Program],
    load: Callable[[wir.Program], Loaded],
    meter: PeakMeter,
) -> str | None:
    """Return how much more a call of the second program holds than it allows, if it does.

    Less than one of its buffers is a fault, too: then the count is wrong.

    A call of the first one loads modules.  ``given`` returns a program with the inputs
    that callers have.
    """
    first, program = programs
    load(first)(example_inputs(given(first)))
    gc.collect()
    meter.ask()
    before = meter.ask()
    inputs = example_inputs(given(program))
    cell = inputs[0]
    loaded = load(program)  # some counts are of loaded programs
    loaded(inputs)
    most = meter.ask()
    if meter.programs_count:
        assert isinstance(cell, torch.Tensor)
        most = int(cell)
    held, unit = most - before, large_bytes(LARGE)
    allowed = _input_bytes(program) + peak_bytes(program, {})
    if held < unit:
        return f"{held} bytes are counted, and a call holds buffers of {unit}"
    if held > allowed + unit // 2:
        return f"a call holds {held} bytes at once, and its frees allow {allowed}"
    return None


def _input_bytes(program: wir.Program) -> int:
    """Return the bytes of the inputs, which the device may have copies of."""
    types = [item.type for item in program.inputs]
    return sum(
        wir.evaluate_int(wir.storage_extent(type), {}) * type.dtype.itemsize
        for type in types
        if isinstance(type, wir.TensorType)
    )
