"""The C interface, called as a program without Python would call it."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.cpp_emitter.running import parsed
from wrapperir.emit.constants import write_with_constants
from wrapperir_cpp.emitter import CppEmitter

SUM = """
program @main(%x: f32[4], %n: i64) {
  constant %w: mutated f32[4] = "weight"
  constant %b: f32[2, 2; stride 1, 2] = "bias"
  %y = allocate f32[4]
  extern_kernel aten.add.out(%x, %w, out=%y) writes(%y)
  extern_kernel aten.add_.Tensor(%w, 1) writes(%w)
  %t = extern_kernel aten.relu.default(%b) : f32[2, 2; stride 1, 2]
  return %y, %n, %t
}
"""
BRIDGED = """
program @main(%x: f32[4]) {
  %y = extern_kernel aten.rsub.Scalar(%x, 2.5) : f32[4]
  return %y
}
"""
CONSTANT = """
program @main() {
  constant %w: f32[4] = "weight"
  return %w
}
"""
TENSOR, INT, NONE = 0, 1, 4


class Value(ctypes.Structure):
    """``wrapperir_value``; a number is the bits of its union."""

    _fields_ = (("kind", ctypes.c_int64), ("bits", ctypes.c_int64))


class Opened:
    """A program, and the functions of the library it is in."""

    def __init__(self, directory: Path) -> None:
        self.library = ctypes.CDLL(str(directory / "program.so"))
        self.library.wrapperir_error.restype = ctypes.c_char_p
        self.library.wrapperir_constant_key.restype = ctypes.c_char_p
        for name in ("input", "output", "constant"):
            getattr(self.library, f"wrapperir_{name}_count").restype = ctypes.c_int64
        self.torch = ctypes.CDLL(str(Path(torch.__file__).parent / "lib/libtorch_cpu.so"))
        self.program = ctypes.c_void_p()

    def error(self) -> str:
        return str(self.library.wrapperir_error().decode())

    def open(self, directory: Path) -> int:
        folder = str(directory).encode()
        return int(self.library.wrapperir_open(folder, ctypes.byref(self.program)))

    def handle(self, tensor: torch.Tensor) -> int:
        """Return a new handle of memory that the tensor keeps."""
        numbers = ctypes.c_int64 * tensor.dim()
        made = ctypes.c_void_p()
        failed = self.torch.aoti_torch_create_tensor_from_blob(
            ctypes.c_void_p(tensor.data_ptr()),
            ctypes.c_int64(tensor.dim()),
            numbers(*tensor.shape),
            numbers(*tensor.stride()),
            ctypes.c_int64(0),
            self.torch.aoti_torch_dtype_float32(),
            0,
            0,
            ctypes.byref(made),
        )
        assert not failed
        assert made.value is not None
        return made.value

    def numbers(self, handle: int, count: int) -> list[float]:
        """Return the first elements of a tensor in memory, and delete its handle."""
        data = ctypes.POINTER(ctypes.c_float)()
        self.torch.aoti_torch_get_data_ptr(ctypes.c_void_p(handle), ctypes.byref(data))
        found = data[:count]
        self.torch.aoti_torch_delete_tensor_object(ctypes.c_void_p(handle))
        return found

    def run(self, inputs: list[Value], outputs: "ctypes.Array[Value]") -> int:
        given = (Value * len(inputs))(*inputs)
        count, room = ctypes.c_int64(len(inputs)), ctypes.c_int64(len(outputs))
        return int(self.library.wrapperir_run(self.program, given, count, outputs, room))

    def close(self) -> int:
        return int(self.library.wrapperir_close(self.program))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program, emitter = parsed(SUM), CppEmitter()
    constants = {
        "weight": torch.arange(4.0),
        "bias": torch.tensor([[1.0, -2.0], [3.0, 4.0]]).t(),
    }
    artifact = emitter.build(emitter.emit(program), constants)
    folder = tmp_path_factory.mktemp("a program")
    write_with_constants(program, artifact, constants, folder)
    return folder


@pytest.fixture
def opened(directory: Path) -> Iterator[Opened]:
    found = Opened(directory)
    assert found.open(directory) == 0, found.error()
    yield found
    assert found.close() == 0


def test_a_program_says_what_it_takes(opened: Opened) -> None:
    assert opened.library.wrapperir_input_count(opened.program) == 2
    assert opened.library.wrapperir_output_count(opened.program) == 3
    assert opened.library.wrapperir_constant_count() == 2
    keys = [opened.library.wrapperir_constant_key(ctypes.c_int64(i)) for i in range(2)]
    assert keys == [b"weight", b"bias"]


def test_a_program_runs_with_the_constants_in_its_directory(opened: Opened) -> None:
    x, outputs = torch.full((4,), 10.0), (Value * 3)()
    inputs = [Value(TENSOR, opened.handle(x)), Value(INT, 7)]
    assert opened.run(inputs, outputs) == 0, opened.error()
    assert [output.kind for output in outputs] == [TENSOR, INT, TENSOR]
    assert opened.numbers(outputs[0].bits, 4) == [10, 11, 12, 13]
    assert outputs[1].bits == 7
    assert opened.numbers(outputs[2].bits, 4) == [1, 0, 3, 4]


def test_what_is_written_to_a_constant_is_the_program_s_own(
    opened: Opened, directory: Path
) -> None:
    before = (directory / "constants.bin").read_bytes()
    seen: list[list[float]] = []
    zeros = torch.zeros(4)
    for _ in range(2):
        outputs = (Value * 3)()
        inputs = [Value(TENSOR, opened.handle(zeros)), Value(INT, 0)]
        assert opened.run(inputs, outputs) == 0, opened.error()
        seen.append(opened.numbers(outputs[0].bits, 4))
        opened.numbers(outputs[2].bits, 4)
    assert seen == [[0, 1, 2, 3], [1, 2, 3, 4]]
    assert (directory / "constants.bin").read_bytes() == before


@pytest.mark.parametrize(
    ("inputs", "room", "message"),
    [
        ([], 3, "2 inputs needed, 0 given"),
        ([Value(INT, 1), Value(INT, 1)], 3, "x needs a tensor, not an int"),
        ([Value(TENSOR, 0), Value(INT, 1)], 3, "a tensor, not a null handle"),
        ([Value(99, 1), Value(INT, 1)], 3, "a tensor, not a value of an unknown kind"),
        ([Value(NONE, 0), Value(NONE, 0)], 2, "there are 3 outputs, room was given for 2"),
    ],
)
def test_wrong_calls_are_refused(
    opened: Opened, inputs: list[Value], room: int, message: str
) -> None:
    outputs = (Value * room)()
    assert opened.run(inputs, outputs) == 1
    assert message in opened.error()
    assert [output.kind for output in outputs] == [NONE] * room


def test_a_number_of_no_kind_is_refused(opened: Opened) -> None:
    x = Value(TENSOR, opened.handle(torch.zeros(4)))
    assert opened.run([x, Value(99, 1)], (Value * 3)()) == 1
    assert "%n needs an int, not a value of an unknown kind" in opened.error()


def test_what_lies_beside_the_library_is_found_after_the_directory_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, emitter = parsed(BRIDGED), CppEmitter()
    artifact = emitter.build(emitter.emit(program), {})
    assert "operators.so" in artifact.files
    write_with_constants(program, artifact, {}, tmp_path / "a program")
    monkeypatch.chdir(tmp_path)
    opened = Opened(Path("a program"))
    assert opened.open(Path("a program")) == 0, opened.error()
    monkeypatch.chdir("/")
    x, outputs = torch.zeros(4), (Value * 1)()
    assert opened.run([Value(TENSOR, opened.handle(x))], outputs) == 0, opened.error()
    assert opened.numbers(outputs[0].bits, 4) == [2.5] * 4
    assert opened.close() == 0


def test_an_output_that_is_a_constant_outlives_the_program(tmp_path: Path) -> None:
    program, emitter = parsed(CONSTANT), CppEmitter()
    constants = {"weight": torch.arange(4.0)}
    artifact = emitter.build(emitter.emit(program), constants)
    write_with_constants(program, artifact, constants, tmp_path)
    opened = Opened(tmp_path)
    assert opened.open(tmp_path) == 0, opened.error()
    outputs = (Value * 1)()
    assert opened.run([], outputs) == 0, opened.error()
    assert opened.close() == 0
    assert f"{tmp_path}/constants.bin" in Path("/proc/self/maps").read_text()
    assert opened.numbers(outputs[0].bits, 4) == [0, 1, 2, 3]
    assert f"{tmp_path}/constants.bin" not in Path("/proc/self/maps").read_text()


def test_a_directory_without_constants_is_said(directory: Path, tmp_path: Path) -> None:
    opened = Opened(directory)
    assert opened.open(tmp_path) == 1
    assert "constants.bin cannot be read: No such file or directory" in opened.error()
    assert opened.program.value is None
    (tmp_path / "constants.bin").mkdir()
    assert opened.open(tmp_path) == 1
    assert "constants.bin cannot be read: No such device" in opened.error()


@pytest.mark.parametrize("size", [0, 15, 79])
def test_constants_that_are_too_short_are_said(
    directory: Path, tmp_path: Path, size: int
) -> None:
    content = (directory / "constants.bin").read_bytes()
    assert len(content) == 80
    (tmp_path / "constants.bin").write_bytes(content[:size])
    opened = Opened(directory)
    assert opened.open(tmp_path) == 1
    assert f"has {size} bytes, too few for constant" in opened.error()


def test_constants_may_be_the_caller_s(directory: Path) -> None:
    opened = Opened(directory)
    weight, bias = torch.ones(4), torch.ones(2, 2).t()
    handles = (ctypes.c_void_p * 2)(opened.handle(weight), opened.handle(bias))
    program = ctypes.byref(opened.program)
    few = opened.library.wrapperir_open_with(handles, ctypes.c_int64(1), program)
    assert few == 1
    assert "2 constants needed, 1 given" in opened.error()
    assert not opened.library.wrapperir_open_with(handles, ctypes.c_int64(2), program)
    for handle in handles:
        opened.torch.aoti_torch_delete_tensor_object(ctypes.c_void_p(handle))
    zeros, outputs = torch.zeros(4), (Value * 3)()
    inputs = [Value(TENSOR, opened.handle(zeros)), Value(INT, 0)]
    assert opened.run(inputs, outputs) == 0, opened.error()
    assert opened.numbers(outputs[0].bits, 4) == [1, 1, 1, 1]
    assert weight.tolist() == [2, 2, 2, 2]
    opened.numbers(outputs[2].bits, 4)
    assert opened.close() == 0


def test_a_constant_of_symbolic_size_needs_the_caller_s(tmp_path: Path) -> None:
    program = parsed("""
    program @main(%x: f32[s0]) {
      symbol s0: int 2..100 = size(%x, 0)
      constant %w: f32[s0] = "weight"
      %y = extern_kernel aten.add.Tensor(%x, %w) : f32[s0]
      return %y
    }
    """)
    emitter = CppEmitter()
    constants = {"weight": torch.ones(3)}
    artifact = emitter.build(emitter.emit(program), constants)
    write_with_constants(program, artifact, constants, tmp_path)
    opened = Opened(tmp_path)
    assert opened.open(tmp_path) == 1
    assert "constant weight has no fixed size" in opened.error()


def test_constants_may_be_read_in_inference_mode(directory: Path) -> None:
    opened = Opened(directory)
    with torch.inference_mode():
        assert opened.open(directory) == 0, opened.error()
    x, outputs = torch.zeros(4), (Value * 3)()
    inputs = [Value(TENSOR, opened.handle(x)), Value(INT, 0)]
    assert opened.run(inputs, outputs) == 0, opened.error()
    assert opened.numbers(outputs[0].bits, 4) == [0, 1, 2, 3]
    opened.numbers(outputs[2].bits, 4)
    assert opened.close() == 0
