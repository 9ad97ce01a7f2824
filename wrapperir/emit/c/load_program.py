"""Loads a library that was made of a program in C or C++, and calls it.

This file is in every artifact of such programs, beside the library, ``program.so``.  It
imports the standard library only, and numpy for arrays::

    program = CompiledProgram(Path("folder"))
    (y,) = program([x])

Inputs are numbers, and numpy arrays or tensors of PyTorch in the host's memory.  Outputs
are numpy arrays, unless other ``arrays`` are given.
"""

import ctypes
import json
import re
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

LIBRARY, SIGNATURE = "program.so", "signature.json"
_DTYPE = re.compile(r"(b?f|i|u|c)(?:loat|nt|int|omplex)(\d+)(\w*)")


class WrongInputError(RuntimeError):
    """An input is not as the program declares it."""


class LoadError(RuntimeError):
    """The driver cannot be opened."""


class MissingConstantError(LoadError):
    """No tensor was given for a constant."""


class Arrays(Protocol):
    """Makes the outputs of a program."""

    def hold(self, owner: object) -> object:
        """Return what keeps memory alive: an input, or a ``ctypes`` array of an output."""
        ...

    def make(
        self, held: object, address: int, element: str, size: list[int], stride: list[int]
    ) -> object:
        """Return a tensor at an address in held memory; strides count elements."""
        ...


class NumpyArrays:
    """Makes outputs that are numpy arrays."""

    def hold(self, owner: object) -> object:
        """Return the owner."""
        return owner

    def make(
        self, held: object, address: int, element: str, size: list[int], stride: list[int]
    ) -> object:
        """Return an array.

        Raises:
            TypeError: numpy has no such elements.
        """
        import numpy

        dtype: Any = numpy.dtype(element)
        steps = tuple(step * int(dtype.itemsize) for step in stride)
        place = {"typestr": dtype.str, "shape": tuple(size), "strides": steps}
        return numpy.asarray(
            _ArrayView({**place, "data": (address, False), "version": 3}, held)
        )


class _ArrayView:
    def __init__(self, interface: Mapping[str, object], held: object) -> None:
        self.__array_interface__, self._held = interface, held


class _Value(ctypes.Structure):
    """``wir_value`` of ``wir_program.h``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.POINTER(ctypes.c_int64)),
        ("stride", ctypes.POINTER(ctypes.c_int64)),
        ("whole", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("source", ctypes.c_int64),
        ("memory", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("offset", ctypes.c_int64),
    )


class _Described:
    """What the signature says of a value."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.kind = str(entry["kind"])
        self.name, self.key = str(entry.get("name")), str(entry.get("key"))
        self.dtype, self.element = str(entry.get("dtype")), str(entry.get("element"))
        self.mutated, self.rank = bool(entry.get("mutated")), int(entry.get("rank", 0))
        self.device = str(entry.get("device"))

    def refuse(self, problem: str) -> NoReturn:
        """Raise the error that an input needs something else."""
        raise WrongInputError(f"WIR801: {self.name} needs {problem}")


class CompiledProgram:
    """A callable program, with what its driver keeps while it is loaded.

    Several threads may call it; one call runs at a time.
    """

    def __init__(
        self,
        folder: Path,
        constants: Mapping[str, object] | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        """Load the program in ``folder``.

        Raises:
            MissingConstantError: no tensor was given for a constant.
            LoadError: the driver cannot be opened.
            OSError: there is no library, or it cannot be loaded.
        """
        entries = json.loads((folder / SIGNATURE).read_text("utf-8"))
        self._inputs, self._constants, self._outputs = (
            [_Described(entry) for entry in entries[part]]
            for part in ("inputs", "constants", "outputs")
        )
        given = constants or {}
        for constant in self._constants:
            if constant.key not in given:
                raise MissingConstantError(
                    f"no tensor was given for constant {constant.key!a}"
                )
        self._held = [given[constant.key] for constant in self._constants]
        self._arrays = NumpyArrays() if arrays is None else arrays
        self.path = (folder / LIBRARY).resolve()
        self._library = _load_library(self.path)
        message = ctypes.create_string_buffer(1024)
        self._state: int | None = self._library.wir_program_open(message)
        if not self._state:
            raise LoadError(message.value.decode("utf-8", "replace"))
        weakref.finalize(self, self._library.wir_program_close, self._state).atexit = False

    @property
    def live_bytes(self) -> int:
        """The bytes of the driver's memory that the library holds now."""
        return int(self._library.wir_program_live())

    def take_peak(self) -> int:
        """Return the most bytes that the library held since this was asked last."""
        return int(self._library.wir_program_peak())

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        """Run the program on a list of inputs, which is emptied.

        Raises:
            WrongInputError: an input is not as the program declares it.
            RuntimeError: the program fails, with its message.
        """
        count = len(self._inputs)
        if not isinstance(args, list):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongInputError("WIR800: a program takes one list, of its inputs")
        if len(args) != count:
            plural = "s"[: count != 1]
            raise WrongInputError(
                f"WIR800: {count} input{plural} needed, {len(args)} given"
            )
        given: list[Any] = [*args, *self._held]
        inputs = (_Value * max(len(given), 1))()
        outputs = (_Value * max(len(self._outputs), 1))()
        for index, wanted in enumerate([*self._inputs, *self._constants]):
            given[index] = _fill(inputs[index], given[index], wanted)
        for index, output in enumerate(self._outputs):
            _give_layout(outputs[index], [0] * output.rank, [0] * output.rank)
        args.clear()
        message = ctypes.create_string_buffer(1024)
        if self._library.wir_program_run(self._state, inputs, outputs, message):
            text = message.value.decode("utf-8", "replace")
            raise (WrongInputError if text.startswith("WIR80") else RuntimeError)(text)
        held: dict[int, object] = {}
        result: list[Any] = []
        for output, made in zip(self._outputs, outputs, strict=False):
            if output.kind == "tensor" and made.source < 0 and made.memory not in held:
                held[made.memory] = self._arrays.hold(_own(self, self._library, made))
            if output.kind == "tensor":
                size, stride = made.size[: output.rank], made.stride[: output.rank]
                if made.source < 0:
                    owner, address = held[made.memory], made.base + made.offset
                else:
                    owner = self._arrays.hold(given[made.source])
                    address = (inputs[made.source].data or 0) + made.offset
                tensor = self._arrays.make(owner, address, output.element, size, stride)
                result.append(tensor)
            else:
                result.append(_number(made, output.kind))
        return tuple(result)


def _own(program: CompiledProgram, library: ctypes.CDLL, made: _Value) -> object:
    """Return memory that is released with its last reference; the program lives as long."""
    block = (ctypes.c_char * max(made.bytes, 1)).from_address(made.base)
    release = library.wir_program_release

    def end(program: CompiledProgram, memory: int) -> None:
        release(memory)

    weakref.finalize(block, end, program, made.memory).atexit = False
    return block


def _load_library(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    pointer = ctypes.c_void_p
    library.wir_program_open.restype = pointer
    library.wir_program_open.argtypes = [pointer]
    library.wir_program_run.argtypes = [pointer] * 4
    library.wir_program_close.argtypes = library.wir_program_release.argtypes = [pointer]
    library.wir_program_close.restype = library.wir_program_release.restype = None
    library.wir_program_live.restype = ctypes.c_int64
    library.wir_program_peak.restype = ctypes.c_int64
    return library


def _number(made: _Value, kind: str) -> float | bool | int | None:
    if kind == "float":
        return float(made.real)
    if kind == "bool":
        return bool(made.whole)
    return int(made.whole) if kind == "int" else None


def _give_layout(value: _Value, size: Sequence[int], stride: Sequence[int]) -> None:
    array = ctypes.c_int64 * max(len(size), 1)
    value.size, value.stride = array(*size), array(*stride)


def _fill(value: _Value, given: Any, wanted: _Described) -> object:
    """Fill in an input; return it, or the copy that the program is given."""
    if wanted.kind == "tensor":
        is_tensor = hasattr(given, "data_ptr")
        if not is_tensor and not hasattr(given, "__array_interface__"):
            wanted.refuse("a tensor, not " + ("nothing" if given is None else _kind(given)))
        found = str(given.dtype).removeprefix("torch.")
        if found != wanted.element:
            parts = _DTYPE.fullmatch(found)
            name = "".join(parts.groups()) if parts else found
            wanted.refuse(f"elements of {wanted.dtype}, not {name}")
        if len(given.shape) != wanted.rank:
            wanted.refuse(f"{wanted.rank} dimensions, not {len(given.shape)}")
        return (_fill_tensor if is_tensor else _fill_array)(value, given, wanted)
    if wanted.kind == "none":
        return given
    if not isinstance(given, int | float) or hasattr(given, "shape"):
        wanted.refuse(f"a number, not {_kind(given)}")
    if wanted.kind == "float":
        value.real = float(given)
    elif isinstance(given, float):
        wanted.refuse(f"a whole number, not {given}")
    elif wanted.kind == "int" and not -(2**63) <= given < 2**63:
        wanted.refuse(f"a number of 64 bits, not {given}")
    else:
        value.whole = given if wanted.kind == "int" else given != 0
    return given


def _kind(given: object) -> str:
    name = type(given).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _fill_tensor(value: _Value, given: Any, wanted: _Described) -> object:
    """Fill in a tensor of PyTorch, which this file does not import."""
    if str(given.layout) != "torch.strided":
        wanted.refuse(f"a tensor with strides, not {given.layout}")
    if given.device.type != wanted.device:
        place = "the host" if wanted.device == "cpu" else wanted.device
        wanted.refuse(f"memory of {place}, not of {given.device}")
    if given.is_neg() or given.is_conj():
        if wanted.mutated:
            wanted.refuse("memory that holds its values; pass its clone")
        given = given.resolve_conj().resolve_neg()
    if not given.data_ptr() and given.numel():
        wanted.refuse("memory for its elements, and has none")
    value.data, value.offset = given.data_ptr(), given.storage_offset()
    _give_layout(value, given.shape, given.stride())
    return given


def _fill_array(value: _Value, given: Any, wanted: _Described) -> object:
    """Fill in a numpy array."""
    if not given.dtype.isnative:
        wanted.refuse("elements in the byte order of this machine")
    if wanted.mutated and not given.flags.writeable:
        wanted.refuse("an array that can be written")
    if any(step % given.itemsize for step in given.strides):
        wanted.refuse("strides of whole elements")
    value.data, value.offset = given.ctypes.data, 0
    _give_layout(value, given.shape, [step // given.itemsize for step in given.strides])
    return given
