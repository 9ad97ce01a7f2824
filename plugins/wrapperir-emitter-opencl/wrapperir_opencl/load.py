"""Loads a program in C over the OpenCL API, compiled with the system's C compiler.

This file is beside ``program.c`` in every artifact, and imports only the standard library,
and numpy for arrays::

    program = Program(Path("folder"))
    (y,) = program([x])

Inputs are numbers, and numpy arrays or tensors in the host's memory.  Outputs are numpy
arrays, unless ``arrays`` makes others.
"""

import ctypes
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

SOURCE, LIBRARY, SIGNATURE = "program.c", "program.so", "signature.json"
OPTIONS = ("-std=gnu11", "-O1", "-fPIC", "-shared")
_MESSAGE = 1024
_DTYPE = re.compile(r"(b?f|i|u|c)(?:loat|nt|int|omplex)(\d+)(\w*)")


class InputError(RuntimeError):
    """An input is not as the program declares it."""


class LoadError(RuntimeError):
    """A program does not compile, or there is no OpenCL device."""


class Memory(NamedTuple):
    """A tensor in the host's memory; ``owner`` keeps it alive, ``offset`` is in elements."""

    address: int
    size: Sequence[int]
    stride: Sequence[int]
    offset: int
    owner: object


class Arrays(Protocol):
    """Makes the outputs of a program."""

    def hold(self, block: "ctypes.Array[ctypes.c_char]") -> object:
        """Return the memory of an output, which is released with ``block``."""
        ...

    def make(
        self, held: object, element: str, begin: int, size: list[int], stride: list[int]
    ) -> object:
        """Return a tensor in held memory; ``begin`` is its first byte."""
        ...

    def view(
        self, given: object, element: str, begin: int, size: list[int], stride: list[int]
    ) -> object:
        """Return a view of an input; ``begin`` counts bytes from its first element."""
        ...


class _Value(ctypes.Structure):
    """``wir_value`` of ``wir_opencl.h``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.POINTER(ctypes.c_int64)),
        ("stride", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_int64),
        ("whole", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("source", ctypes.c_int64),
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
    )


class _Described:
    """What the signature says of a value."""

    def __init__(self, entry: Mapping[str, object]) -> None:
        self.name, self.key = str(entry.get("name")), str(entry.get("key"))
        self.kind, self.mutated = str(entry["kind"]), entry.get("mutated") is True
        self.dtype, self.element = str(entry.get("dtype")), str(entry.get("element"))
        rank = entry.get("rank", 0)
        self.rank = rank if isinstance(rank, int) else 0


def compile_library(folder: Path, target: Path) -> None:
    """Compile the program in ``folder`` to the library ``target``.

    Raises:
        LoadError: there is no C compiler, or it reports an error.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise LoadError("there is no C compiler: set CC to one")
    source = [str(folder / SOURCE), "-I", str(folder), "-lOpenCL"]
    command = [compiler, *OPTIONS, "-o", str(target), *source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise LoadError(f"{SOURCE} does not compile: {done.stderr[-2000:]}")


class Program:
    """A callable program on the first OpenCL device.

    Calls may come from several threads; one runs at a time.
    """

    def __init__(
        self,
        folder: Path,
        constants: Mapping[str, object] | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        """Load the program in ``folder``; compile it unless it has a library.

        Raises:
            LoadError: it does not compile, a constant is missing, or there is no device.
        """
        entries = json.loads((folder / SIGNATURE).read_text("utf-8"))
        self._inputs, self._constants, self._outputs = (
            [_Described(entry) for entry in entries[part]]
            for part in ("inputs", "constants", "outputs")
        )
        given = constants or {}
        for constant in self._constants:
            if constant.key not in given:
                raise LoadError(f"no tensor was given for constant {constant.key!a}")
        self._held = [given[constant.key] for constant in self._constants]
        self._arrays = NumpyArrays() if arrays is None else arrays
        self._library = _load_library(folder)
        message = ctypes.create_string_buffer(_MESSAGE)
        self._state: int | None = self._library.wir_program_open(message)
        if not self._state:
            raise LoadError(message.value.decode("utf-8", "replace"))
        self._lock = threading.Lock()
        weakref.finalize(self, self._library.wir_program_close, self._state).atexit = False

    @property
    def live_bytes(self) -> int:
        """The bytes of the device that the program holds now."""
        return int(self._library.wir_program_live())

    def __call__(self, args: list[object]) -> tuple[object, ...]:
        """Run the program on a list of inputs, which is emptied.

        Raises:
            InputError: an input is not as the program declares it.
            RuntimeError: the program fails, with its message.
        """
        if not isinstance(args, list):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError("WIR800: a program takes one list, of its inputs")
        count = len(self._inputs)
        if len(args) != count:
            raise InputError(
                f"WIR800: {count} input{'s'[: count != 1]} needed, {len(args)} given"
            )
        given = [*args, *self._held]
        described = [*self._inputs, *self._constants]
        inputs = (_Value * max(len(given), 1))()
        outputs = (_Value * max(len(self._outputs), 1))()
        alive = [_fill(inputs[i], value, described[i]) for i, value in enumerate(given)]
        for index, output in enumerate(self._outputs):
            zeros = [0] * output.rank
            alive.append(_give_arrays(outputs[index], zeros, zeros))
        args.clear()
        message = ctypes.create_string_buffer(_MESSAGE)
        if self._library.wir_program_run(self._state, inputs, outputs, message):
            text = message.value.decode("utf-8", "replace")
            raise (InputError if text.startswith("WIR80") else RuntimeError)(text)
        held: dict[int, object] = {}
        return tuple(
            [
                self._output(output, outputs[index], given, held)
                for index, output in enumerate(self._outputs)
            ]
        )

    def _output(
        self,
        output: _Described,
        made: _Value,
        given: Sequence[object],
        held: dict[int, object],
    ) -> object:
        if output.kind == "tensor":
            size, stride = made.size[: output.rank], made.stride[: output.rank]
            if made.source >= 0:
                place = given[made.source], output.element, made.offset
                return self._arrays.view(*place, size, stride)
            if made.memory not in held:
                held[made.memory] = self._arrays.hold(self._own(made))
            place = held[made.memory], output.element, made.offset
            return self._arrays.make(*place, size, stride)
        if output.kind == "float":
            return float(made.real)
        if output.kind == "bool":
            return bool(made.whole)
        return int(made.whole) if output.kind == "int" else None

    def _own(self, made: _Value) -> "ctypes.Array[ctypes.c_char]":
        """Return memory that is released when nothing refers to it."""
        block = (ctypes.c_char * max(made.bytes, 1)).from_address(made.memory)
        release = self._library.wir_program_release
        weakref.finalize(block, release, made.memory).atexit = False
        return block


def _load_library(folder: Path) -> ctypes.CDLL:
    if (folder / LIBRARY).is_file():
        library = ctypes.CDLL(str((folder / LIBRARY).resolve()))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch) / LIBRARY
            compile_library(folder, target)
            library = ctypes.CDLL(str(target))  # it stays mapped when its file is gone
    pointer = ctypes.c_void_p
    library.wir_program_open.restype = pointer
    library.wir_program_open.argtypes = [pointer]
    library.wir_program_run.argtypes = [pointer] * 4
    library.wir_program_close.argtypes = library.wir_program_release.argtypes = [pointer]
    library.wir_program_close.restype = library.wir_program_release.restype = None
    library.wir_program_live.restype = ctypes.c_int64
    return library


def _fill(value: _Value, given: object, wanted: _Described) -> object:
    """Fill in an input; return what must live until the call."""
    name = wanted.name
    if wanted.kind == "tensor":
        found = _memory_of(given, wanted)
        value.data, value.offset = found.address, found.offset
        return _give_arrays(value, found.size, found.stride), found
    if wanted.kind == "none":
        return None
    if not isinstance(given, int | float) or hasattr(given, "shape"):
        raise InputError(f"WIR801: {name} needs a number, not a {type(given).__name__}")
    if wanted.kind == "float":
        value.real = float(given)
    elif isinstance(given, float):
        raise InputError(f"WIR801: {name} needs an {wanted.kind}, not a float")
    elif wanted.kind == "bool":
        value.whole = given != 0
    elif -(2**63) <= given < 2**63:
        value.whole = given
    else:
        raise InputError(f"WIR801: {name} needs an int of 64 bits, not {given}")
    return None


def _give_arrays(value: _Value, size: Sequence[int], stride: Sequence[int]) -> object:
    array = ctypes.c_int64 * max(len(size), 1)
    value.size, value.stride = array(*size), array(*stride)
    return value.size, value.stride


def _memory_of(given: object, wanted: _Described) -> Memory:
    """Return the memory of a tensor or array, with its element type and rank checked."""
    is_tensor = hasattr(given, "data_ptr")
    if not is_tensor and not hasattr(given, "__array_interface__"):
        kind = "nothing" if given is None else f"a {type(given).__name__}"
        _refuse(wanted, f"a tensor, not {kind}")
    found: str = str(given.dtype).removeprefix("torch.")  # type: ignore[attr-defined]
    if found != wanted.element:
        name = _DTYPE.fullmatch(found)
        _refuse(
            wanted,
            f"elements of {wanted.dtype}, not {''.join(name.groups()) if name else found}",
        )
    memory = _tensor_memory(given, wanted) if is_tensor else _array_memory(given, wanted)
    if len(memory.size) != wanted.rank:
        _refuse(wanted, f"{wanted.rank} dimensions, not {len(memory.size)}")
    return memory


def _tensor_memory(given: "object", wanted: _Described) -> Memory:
    """Return the memory of a tensor of PyTorch, which need not be imported for this."""
    tensor: _Tensor = given  # type: ignore[assignment]
    if str(tensor.layout) != "torch.strided":
        _refuse(wanted, f"a tensor with strides, not {tensor.layout}")
    if tensor.device.type != "cpu":
        _refuse(wanted, f"memory of the host, not of {tensor.device}")
    if tensor.is_neg() or tensor.is_conj():
        if wanted.mutated:
            _refuse(wanted, "memory that holds its values; pass its clone")
        tensor = tensor.resolve_conj().resolve_neg()
    if not tensor.data_ptr() and tensor.numel():
        _refuse(wanted, "memory for its elements, and has none")
    offset = tensor.storage_offset()
    return Memory(tensor.data_ptr(), tensor.shape, tensor.stride(), offset, tensor)


class _Device(Protocol):
    type: str


class _Tensor(Protocol):
    """The members of a tensor of PyTorch that are used here."""

    layout: object
    device: _Device
    shape: Sequence[int]

    def is_neg(self) -> bool: ...
    def is_conj(self) -> bool: ...
    def resolve_conj(self) -> "_Tensor": ...
    def resolve_neg(self) -> "_Tensor": ...
    def data_ptr(self) -> int: ...
    def numel(self) -> int: ...
    def stride(self) -> Sequence[int]: ...
    def storage_offset(self) -> int: ...


def _array_memory(given: object, wanted: _Described) -> Memory:
    import numpy

    assert isinstance(given, numpy.ndarray)
    if not given.dtype.isnative:
        _refuse(wanted, "elements in the byte order of this machine")
    if wanted.mutated and not given.flags.writeable:
        _refuse(wanted, "an array that can be written")
    item = given.itemsize
    if any(step % item for step in given.strides):
        _refuse(wanted, "strides of whole elements")
    stride = [step // item for step in given.strides]
    return Memory(given.ctypes.data, given.shape, stride, 0, given)


def _refuse(wanted: _Described, problem: str) -> None:
    raise InputError(f"WIR801: {wanted.name} needs {problem}")


class _At:
    """Memory for numpy: it keeps ``owner`` alive."""

    def __init__(self, interface: Mapping[str, object], owner: object) -> None:
        self.__array_interface__, self._owner = dict(interface), owner


class NumpyArrays:
    """Makes outputs that are numpy arrays."""

    def hold(self, block: "ctypes.Array[ctypes.c_char]") -> object:
        """Return the block."""
        return block

    def make(
        self, held: object, element: str, begin: int, size: list[int], stride: list[int]
    ) -> object:
        """Return an array in held memory.

        Raises:
            TypeError: numpy has no such elements.
        """
        import numpy

        assert isinstance(held, ctypes.Array)
        return _place(
            numpy.dtype(element), ctypes.addressof(held) + begin, size, stride, held
        )

    def view(
        self, given: object, element: str, begin: int, size: list[int], stride: list[int]
    ) -> object:
        """Return a view of an array, or of a tensor through numpy."""
        import numpy

        array = numpy.asarray(given)
        return _place(numpy.dtype(element), array.ctypes.data + begin, size, stride, given)


def _place(
    dtype: "numpy.dtype[numpy.generic]",
    address: int,
    size: list[int],
    stride: list[int],
    owner: object,
) -> object:
    import numpy

    interface = {
        "version": 3,
        "typestr": dtype.str,
        "shape": tuple(size),
        "strides": tuple(step * dtype.itemsize for step in stride),
        "data": (address, False),
    }
    return numpy.asarray(_At(interface, owner))
