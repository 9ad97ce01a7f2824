"""A program's constants: checked, written beside its artifact, and read back.

``constants.bin`` has the bytes of each constant's storage as they are in memory, so that it
can be mapped; ``constants.json`` says where, and of what type.
"""

import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, cast

from attrs import asdict, evolve, frozen

from wrapperir.diagnostics import Code, Diagnostic, did_you_mean
from wrapperir.emit.artifact import (
    MANIFEST,
    checked_content,
    read_manifest,
    write_artifact,
)
from wrapperir.emit.contract import Artifact
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.ir import DType, Program, TensorType, storage_extent

if TYPE_CHECKING:
    import torch


_MOST_HINTS = 8
"""Missing constants that are compared with the keys that were given: it takes time."""


def check_constants(
    program: Program, constants: Mapping[str, "torch.Tensor"]
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each constant that is missing or of another type.

    Kernels get only an address, so a wrong tensor would be read out of its bounds.
    Symbolic sizes are not compared; strides of dimensions of size 1 may be any.
    """
    found: list[Diagnostic] = []
    unused = constants.keys() - {constant.key for constant in program.constants}
    for index, constant in enumerate(program.constants):
        given = constants.get(constant.key)
        hint = None
        if given is None:
            code = Code.MISSING_CONSTANT
            message = f"no tensor was given for constant {constant.key!a}"
            if len(found) < _MOST_HINTS:
                hint = did_you_mean(constant.key, sorted(unused))
        else:
            if _matches(constant.type, given):
                continue
            type = constant.type
            wanted = _described(_dtype_name(type), type.size, type.stride, type.device)
            actual = _described(given.dtype, given.shape, given.stride(), given.device)
            code = Code.CONSTANT_MISMATCH
            message = f"constant {constant.key!a} is {actual}, not {wanted}"
        found.append(
            Diagnostic(
                code, message, path=("constants", index), subject=constant.name, hint=hint
            )
        )
    return tuple(found)


def _matches(type: TensorType, given: "torch.Tensor") -> bool:
    if _dtype_name(type) != str(given.dtype) or given.dim() != len(type.size):
        return False
    if type.device.kind != given.device.type:
        return False
    for size, stride, real_size, real_stride in zip(
        type.size, type.stride, given.shape, given.stride(), strict=True
    ):
        if isinstance(size, int) and size != real_size:
            return False
        if isinstance(stride, int) and stride != real_stride and real_size > 1:
            return given.numel() == 0
    return True


def _dtype_name(type: TensorType) -> str:
    return f"torch.{type.dtype.torch_name}"


def _described(
    dtype: object, size: Sequence[object], stride: Sequence[object], device: object
) -> str:
    sizes, strides = ", ".join(map(str, size)), ", ".join(map(str, stride))
    return f"{dtype} of size [{sizes}] and stride [{strides}] on {device}"


_invalid = Code.INVALID_ARTIFACT.error
CONSTANTS_DATA = "constants.bin"
CONSTANTS_LIST = "constants.json"
_VERSION = 1
_ALIGNMENT = 64
_LARGEST = 2**62
_MOST_DIMENSIONS = 64
"""More than these, PyTorch takes for some tensors and refuses for others."""


@frozen
class ConstantPlace:
    """The bytes of ``constants.bin`` that are a constant's storage from its offset on."""

    begin: int
    bytes: int


@frozen
class _Stored:
    """A constant in ``constants.bin``."""

    key: str
    dtype: DType
    size: Sequence[int]
    stride: Sequence[int]
    device: str
    begin: int

    @property
    def bytes(self) -> int:
        if 0 in self.size:
            return 0
        steps = zip(self.size, self.stride, strict=True)
        extent = 1 + sum((size - 1) * stride for size, stride in steps)
        return extent * self.dtype.itemsize


def place_constants(program: Program) -> tuple[ConstantPlace | None, ...]:
    """Return where each constant is in the file; ``None`` for one of symbolic size."""
    end = 0
    places: list[ConstantPlace | None] = []
    for constant in program.constants:
        extent = storage_extent(constant.type)
        strides = constant.type.stride
        if not isinstance(extent, int) or not all(isinstance(n, int) for n in strides):
            places.append(None)
            continue
        begin, bytes = _aligned(end, constant.type), extent * constant.type.dtype.itemsize
        places.append(ConstantPlace(begin, bytes))
        end = begin + bytes
    return tuple(places)


def _data_parts(
    program: Program, constants: Mapping[str, "torch.Tensor"]
) -> Iterator[bytes | memoryview]:
    """Yield the content of ``constants.bin``, in parts that are in memory already."""
    import ctypes  # it loads a library, which reading programs does not

    end = 0
    for item in _stored(program, constants):
        yield bytes(item.begin - end)
        end = item.begin + item.bytes
        if item.bytes:
            raw = _raw_bytes(constants[item.key], item.bytes)  # alive until the next
            yield memoryview((ctypes.c_char * item.bytes).from_address(raw.data_ptr()))


def write_with_constants(
    program: Program,
    artifact: Artifact,
    constants: Mapping[str, "torch.Tensor"],
    directory: Path,
) -> None:
    """Write a program's artifact as :func:`write_artifact` does, with the constants.

    The constants have passed :func:`check_constants`.

    Raises:
        DiagnosticError: as :func:`write_artifact`; WIR705, a constant has a layout of a
            library's own, so that it has no bytes to write.
        OSError: the files cannot be written.
    """
    if not program.constants:
        write_artifact(artifact, directory)
        return
    for constant in program.constants:
        if constant.type.layout is not None:
            raise Code.UNSUPPORTED_FEATURE.error(
                f"constant {constant.key!a} has the layout {constant.type.layout.name},"
                " which no file can have",
                hint="compile the model without freezing its parameters",
            )
    stored = _stored(program, constants)
    listed = [{**asdict(item), "dtype": item.dtype.value} for item in stored]
    listing = {"wrapperir_constants": _VERSION, "constants": listed}
    files = {**artifact.files, CONSTANTS_LIST: json.dumps(listing, indent=1) + "\n"}
    parts = _data_parts(program, constants)
    write_artifact(evolve(artifact, files=files), directory, {CONSTANTS_DATA: parts})


def read_constants(directory: Path) -> dict[str, "torch.Tensor"]:
    """Return the constants in the directory of an artifact; none where it has none.

    Files that are not in its manifest do not count.  The constants are mapped: pages are
    read when they are used, and writes to a constant do not reach the file.
    :func:`~wrapperir.emit.artifact.read_artifact` checks their bytes.

    Raises:
        DiagnosticError: WIR710, the manifest or the list is malformed or was changed, or
            the data is missing or too short.
        OSError: a file cannot be read.
    """
    listing, data = directory / CONSTANTS_LIST, directory / CONSTANTS_DATA
    _, manifest = read_manifest(directory)
    facts = manifest.files.get(CONSTANTS_LIST)
    if facts is None:
        return {}
    if CONSTANTS_DATA not in manifest.files:
        raise _invalid(f"{MANIFEST} of {directory} has no {CONSTANTS_DATA}")
    content = listing.read_bytes()
    checked_content(content, facts, listing)
    with data.open("rb") as file:
        size = file.seek(0, 2)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if size else b""
    return constants_in(memoryview(mapped), content, str(directory))


def constants_in(data: memoryview, listing: bytes, where: str) -> dict[str, "torch.Tensor"]:
    """Return the constants in the content of ``constants.bin``, which stays in use.

    ``listing`` is the content of ``constants.json``; messages call both ``where``.

    Raises:
        DiagnosticError: WIR710, the list is malformed, or the data too short.
    """
    stored = _parse_list(listing, where)
    for item in stored:
        if item.begin + item.bytes > len(data):
            raise _invalid(
                f"{CONSTANTS_DATA} of {where} has {len(data)} bytes, too few for"
                f" {item.key!a}"
            )
    return {item.key: _tensor_of(item, data) for item in stored}


def _stored(program: Program, constants: Mapping[str, "torch.Tensor"]) -> Iterator[_Stored]:
    """Yield the constants in the order of the file: constants of symbolic size are last."""
    placed = list(zip(program.constants, place_constants(program), strict=True))
    end = 0
    for constant, place in sorted(placed, key=lambda item: item[1] is None):
        given = constants[constant.key]
        item = _Stored(
            key=constant.key,
            dtype=constant.type.dtype,
            size=list(given.shape),
            stride=list(given.stride()),
            device=str(given.device),
            begin=_aligned(end, constant.type) if place is None else place.begin,
        )
        yield item
        end = item.begin + item.bytes


def _aligned(end: int, type: TensorType) -> int:
    alignment = max(_ALIGNMENT, type.alignment or 1)
    return -(-end // alignment) * alignment


def _raw_bytes(tensor: "torch.Tensor", size: int) -> "torch.Tensor":
    """Return the bytes of a tensor's storage from its offset on."""
    import torch

    raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    begin = int(tensor.storage_offset()) * tensor.element_size()
    raw.set_(tensor.untyped_storage(), begin, (size,), (1,))
    return raw.cpu()


def _tensor_of(item: _Stored, data: memoryview) -> "torch.Tensor":
    import torch

    dtype = torch_dtype(item.dtype)
    made = torch.empty(0, dtype=dtype)
    if not item.bytes:
        made = made.as_strided(item.size, item.stride)
    else:
        # Each is a storage of its own, so that constants do not seem to overlap.
        raw = torch.frombuffer(data, dtype=torch.uint8, count=item.bytes, offset=item.begin)
        made.set_(raw.untyped_storage(), 0, item.size, item.stride)
    try:
        return made.to(item.device)
    except (RuntimeError, AssertionError) as error:
        cause = (str(error).splitlines() or ["no such device"])[0]
        message = f"constant {item.key!a} cannot be put on {item.device!a}: {cause}"
        raise _invalid(message) from None


def _parse_list(listing: bytes, where: str) -> list[_Stored]:
    try:
        listed = json.loads(listing)
        if listed["wrapperir_constants"] != _VERSION:
            raise _invalid(f"{CONSTANTS_LIST} of {where} is of another version")
        return [_parse_stored(item) for item in listed["constants"]]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise _invalid(
            f"{CONSTANTS_LIST} of {where} is malformed: {type(error).__name__} {error}"
        ) from None


def _parse_stored(item: Mapping[str, object]) -> _Stored:
    size, stride = _numbers(item["size"]), _numbers(item["stride"])
    if len(size) != len(stride) or len(size) > _MOST_DIMENSIONS:
        raise ValueError("a constant has too many dimensions, or not as many as strides")
    if prod(filter(None, size)) >= _LARGEST:
        raise ValueError("a constant has too many elements")
    key, device = item["key"], item["device"]
    if not isinstance(key, str) or not isinstance(device, str):
        raise TypeError("a string was expected")
    (begin,) = _numbers([item["begin"]])
    if begin % _ALIGNMENT:
        raise ValueError(f"{begin} is not a multiple of {_ALIGNMENT}")
    return _Stored(key, DType(cast(str, item["dtype"])), size, stride, device, begin)


def _numbers(found: object) -> list[int]:
    if not isinstance(found, list):
        raise TypeError("a list was expected")
    for number in cast(list[object], found):
        if type(number) is not int or not 0 <= number < _LARGEST:
            raise ValueError(f"{number!r:.40} is not a size")
    return cast(list[int], found)
