"""Calls of a program in C through ctypes, with the values of ``wir_program.h``."""

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.emit.checked_inputs import input_checker
from wrapperir.emit.context import ProgramFacts
from wrapperir.emit.contract import Value
from wrapperir.emit.number_kinds import kind_of
from wrapperir.emit.torch_dtypes import torch_dtype


class _Value(ctypes.Structure):
    """``wir_value`` of ``wir_program.h``."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("size", ctypes.POINTER(ctypes.c_int64)),
        ("stride", ctypes.POINTER(ctypes.c_int64)),
        ("whole", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("source", ctypes.c_int64),
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("offset", ctypes.c_int64),
    ]


class CProgram:
    """A callable over a library with ``run`` and ``release``.

    ``const char *run(const wir_value *inputs, wir_value *outputs)`` takes the program's
    inputs, then its constants, and returns a message if it fails.  ``void release(void *)``
    releases the memory of an output.  Inputs are checked before the call.  The library may
    be called from several threads if its code may.
    """

    def __init__(
        self,
        path: Path,
        program: wir.Program,
        constants: Mapping[str, torch.Tensor],
        *,
        run: str,
        release: str,
    ) -> None:
        """Load the library at ``path``; ``run`` and ``release`` are names of functions.

        Raises:
            DiagnosticError: WIR707, a constant is missing.
            OSError: the library cannot be loaded.
        """
        for constant in program.constants:
            if constant.key not in constants:
                message = f"no tensor was given for constant {constant.key!a}"
                raise Code.MISSING_CONSTANT.error(message)
        library = ctypes.CDLL(str(path))
        self._run, self._release = library[run], library[release]
        self._run.restype = ctypes.c_char_p
        self._release.argtypes, self._release.restype = [ctypes.c_void_p], None
        self._program = program
        self._facts = ProgramFacts(program)
        self._check = input_checker(program, constants)
        self._constants = [constants[c.key].detach() for c in program.constants]

    def __call__(self, args: list[Value]) -> tuple[Value, ...]:
        """Run the program on a list of inputs, which is emptied.

        Raises:
            InputError: an input is not as the program declares it.
            RuntimeError: the program fails, with its message.
        """
        self._check(args)
        given: list[Value] = [*args, *self._constants]
        args.clear()
        inputs = (_Value * max(len(given), 1))()
        outputs = (_Value * max(len(self._program.outputs), 1))()
        arrays = [_fill_input(inputs[i], value) for i, value in enumerate(given)]
        for index, output in enumerate(self._program.outputs):
            type = self._type(output)
            rank = len(type.size) if isinstance(type, wir.TensorType) else 0
            arrays.append(_give_arrays(outputs[index], [0] * rank, [0] * rank))
        message: bytes | None = self._run(inputs, outputs)
        if message is not None:
            raise RuntimeError(message.decode())
        owned: dict[int, torch.UntypedStorage] = {}
        return tuple(
            [
                self._output(output, outputs[index], given, owned)
                for index, output in enumerate(self._program.outputs)
            ]
        )

    def _type(self, output: wir.Argument) -> wir.ValueType | None:
        return self._facts.types[output.name] if isinstance(output, wir.BufferRef) else None

    def _output(
        self,
        output: wir.Argument,
        made: _Value,
        given: Sequence[Value],
        owned: dict[int, torch.UntypedStorage],
    ) -> Value:
        type = self._type(output)
        if isinstance(type, wir.TensorType):
            return self._tensor(type, made, given, owned)
        if isinstance(type, wir.ScalarType):
            return _number(made, kind_of(type.dtype))
        if isinstance(output, int | float | wir.Symbol | wir.Operation):
            return _number(made, self._facts.kinds.kind(output) or wir.SymbolKind.INT)
        return None

    def _tensor(
        self,
        type: wir.TensorType,
        made: _Value,
        given: Sequence[Value],
        owned: dict[int, torch.UntypedStorage],
    ) -> torch.Tensor:
        rank, dtype = len(type.size), torch_dtype(type.dtype)
        size, stride = made.size[:rank], made.stride[:rank]
        number: int = made.source
        if number >= 0:
            source = given[number]
            assert isinstance(source, torch.Tensor)
            storage = source.untyped_storage()
        elif made.bytes:
            storage = owned.get(made.memory) or self._own(made)
            owned[made.memory] = storage
        else:  # without bytes there is no memory, but an address to release
            self._release(made.memory)
            return torch.empty_strided(size, stride, dtype=dtype)
        offset = ((made.data or 0) - storage.data_ptr()) // dtype.itemsize
        return torch.empty(0, dtype=dtype).set_(storage, offset, size, stride)

    def _own(self, made: _Value) -> torch.UntypedStorage:
        """Return a storage that releases the memory of an output when it goes."""
        array = (ctypes.c_char * made.bytes).from_address(made.memory)
        weakref.finalize(array, self._release, made.memory).atexit = False
        return torch.frombuffer(array, dtype=torch.uint8).untyped_storage()


def _fill_input(value: _Value, given: Value) -> object:
    """Fill in an input; return what must live until the call."""
    if isinstance(given, torch.Tensor):
        value.data, value.offset = given.data_ptr(), given.storage_offset()
        return _give_arrays(value, given.shape, given.stride())
    if isinstance(given, float):
        value.real = given
    elif given is not None:
        if not -(2**63) <= int(given) < 2**63:
            raise RuntimeError(f"{int(given)} does not fit 64 bits")
        value.whole = int(given)
    return None


def _give_arrays(value: _Value, size: Sequence[int], stride: Sequence[int]) -> object:
    array = ctypes.c_int64 * max(len(size), 1)
    value.size, value.stride = array(*size), array(*stride)
    return value.size, value.stride


def _number(made: _Value, kind: wir.SymbolKind) -> Value:
    match kind:
        case wir.SymbolKind.FLOAT:
            return float(made.real)
        case wir.SymbolKind.BOOL:
            return bool(made.whole)
        case wir.SymbolKind.INT:
            return int(made.whole)
