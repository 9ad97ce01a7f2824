"""Packages are loaded by PyTorch's own loaders, and give what they give here."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch._inductor import aoti_load_package
from torch._inductor.package.package import load_package
from torch.export.pt2_archive._package import load_pt2

from tests.torch_release import NEEDS_MESSAGES
from wrapperir.emit.constants import write_with_constants
from wrapperir.emit.package import read_package
from wrapperir.ir import Program
from wrapperir.kernels import find_compiler
from wrapperir.text import format_program, parse_program
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.layout import LIBRARY

PROGRAM = parse_program("""wrapperir 1
program @main(%x: f32[3, 8], %n: i64) {
  symbol s0: int = value(%n)
  constant %w: f32[8, 4] = "fc.weight"
  %y = allocate f32[3, 4]
  extern_kernel aten.mm.out(%x, %w, out = %y) writes(%y)
  free %x
  %z = extern_kernel aten.mul.Tensor(%y, s0) : f32[3, 4]
  free %y
  return %z, s0 + 1, none
}
""")
NUMBERS = parse_program("""wrapperir 1
program @main(%n: i64, %scale: f64, %flag: bool) {
  return %flag, %scale, %n
}
""")
WEIGHT = torch.arange(32, dtype=torch.float32).view(8, 4) / 7
X = torch.arange(24, dtype=torch.float32).view(3, 8)
PRODUCT = X @ WEIGHT

Loaded = Callable[..., tuple[torch.Tensor | None, ...]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packaged(PROGRAM, {"fc.weight": WEIGHT}, tmp_path_factory.mktemp("package"))


def packaged(program: Program, constants: Mapping[str, torch.Tensor], folder: Path) -> Path:
    emitter = CppEmitter()
    artifact = emitter.build(emitter.emit(program), constants)
    write_with_constants(program, artifact, constants, folder / "artifact")
    emitter.package(folder / "artifact", folder / "model.pt2")
    return folder / "model.pt2"


def in_pytorch(package: Path) -> Loaded:
    return aoti_load_package(str(package))


def mappings(what: str) -> list[str]:
    """Return the lines of this process's mappings that name a file."""
    return [
        line for line in Path("/proc/self/maps").read_text().splitlines() if what in line
    ]


def test_a_package_runs_where_it_was_compiled(package: Path) -> None:
    read = read_package(package)
    program = CppEmitter().load(read.artifact, read.constants)
    result, number, nothing = program([X.clone(), 5])
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, PRODUCT * 5)
    assert (number, nothing) == (6, None)
    assert str(package) in "".join(mappings(package.name)), "constants are not mapped"


def test_pytorch_loads_and_runs_a_package(package: Path) -> None:
    program = in_pytorch(package)
    for n in (5, 5, 7):
        result, number, nothing = program(X, torch.tensor(n))
        assert result is not None
        assert torch.equal(result, PRODUCT * n)
        assert number is not None
        assert number.item() == n + 1
        assert nothing is None


@NEEDS_MESSAGES
def test_numbers_of_each_kind_are_tensors_of_pytorch(tmp_path: Path) -> None:
    program = in_pytorch(packaged(NUMBERS, {}, tmp_path))
    number, scale, flag = (
        torch.tensor(2**62 + 1),
        torch.tensor(0.1).double(),
        torch.ones(()),
    )
    outputs = program(number, scale, flag.bool())
    for output, expected in zip(outputs, (flag.bool(), scale, number), strict=True):
        assert output is not None
        assert output.dtype == expected.dtype
        assert torch.equal(output, expected)
    narrow = program(number.int(), scale.float(), flag.bool())
    assert narrow[1] is not None
    assert torch.equal(narrow[1], scale.float().double())
    for wrong, what in (
        (
            (number, scale, flag),
            "input 2 is a number: pass a tensor of one element of bool",
        ),
        ((number, number, flag.bool()), "input 1 .* of float64 or float32"),
    ):
        with pytest.raises(RuntimeError, match=what):
            program(*wrong)


def test_the_runner_may_be_of_one_thread_or_of_several(package: Path) -> None:
    alone = load_package(str(package), run_single_threaded=True)
    several = load_package(str(package), num_runners=2)
    for program in (alone, several):
        result = program(X, torch.tensor(5))[0]
        assert torch.equal(result, PRODUCT * 5)


def test_packages_are_loaded_twice_and_run_by_several_threads(package: Path) -> None:
    loaded = [in_pytorch(package), in_pytorch(package)]

    def run(index: int) -> bool:
        result = loaded[index % 2](X, torch.tensor(index))[0]
        return result is not None and torch.equal(result, PRODUCT * index)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(400)))


def test_pytorch_maps_the_constants_until_the_program_goes(package: Path) -> None:
    before = len(mappings("/constants.bin"))
    program = in_pytorch(package)
    assert len(mappings("/constants.bin")) == before + 1
    del program
    assert len(mappings("/constants.bin")) == before


def test_an_output_that_is_a_constant_outlives_the_program(tmp_path: Path) -> None:
    text = """wrapperir 1
    program @main(%x: f32[8]) {
      constant %w: f32[8] = "w"
      %v = reinterpret %w as f32[2, 4]
      %y = extern_kernel aten.add.Tensor(%x, %w) : f32[8]
      return %v, %y
    }
    """
    constants = {"w": torch.arange(8.0)}
    program = in_pytorch(packaged(parse_program(text), constants, tmp_path))
    before = len(mappings("/constants.bin"))
    (whole, _) = program(torch.zeros(8))
    assert whole is not None
    part = whole[1]
    del program, whole
    assert len(mappings("/constants.bin")) == before
    assert part.tolist() == [4, 5, 6, 7]
    del part
    assert len(mappings("/constants.bin")) == before - 1


def test_inputs_that_need_gradients_give_outputs_that_do_not(package: Path) -> None:
    result = in_pytorch(package)(X.clone().requires_grad_(), torch.tensor(5))[0]
    assert result is not None
    assert not result.requires_grad
    assert torch.is_grad_enabled()


@NEEDS_MESSAGES
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X[:2], torch.tensor(5)], "x needs size [3, 8], not [2, 8]"),
        ([X.double(), torch.tensor(5)], "x needs elements of f32, not f64"),
        ([X], "2 inputs needed, 1 given"),
        ([X, torch.tensor(5.0)], "input 1 is a number: pass a tensor of one element of"),
        ([X, torch.arange(2)], "input 1 is a number: pass a tensor of one element of"),
        ([X, torch.empty(0, dtype=torch.int64)], "input 1 is a number"),
    ],
)
def test_wrong_inputs_are_named(
    package: Path, inputs: list[torch.Tensor], message: str
) -> None:
    program = in_pytorch(package)
    with pytest.raises(RuntimeError) as raised:
        program(*inputs)
    assert message in str(raised.value)
    assert program(X, torch.tensor(5))[0] is not None


def test_pytorch_is_told_the_constants_and_not_to_replace_them(
    package: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = aoti_load_package(str(package))
    assert program.get_constant_fqns() == ["fc.weight"]
    with pytest.raises(RuntimeError):
        program.load_constants({"fc.weight": WEIGHT}, check_full_update=True)
    assert "constants of this package cannot be replaced" in capfd.readouterr().err


class Library:
    """A library as PyTorch's loaders see it: functions, a container and a last error."""

    def __init__(self, package: Path) -> None:
        self.directory = package.parent / "artifact"
        self.functions = ctypes.CDLL(str(self.directory / LIBRARY))
        self.container = ctypes.c_void_p()

    def call(self, name: str, *arguments: object) -> int:
        return int(self.functions[f"AOTInductor{name}"](*arguments))

    def create(self, device: bytes, directory: bytes | None) -> int:
        name = "ModelContainerCreateWithDevice"
        place = ctypes.byref(self.container)
        return self.call(name, place, ctypes.c_size_t(1), device, directory)

    def error(self) -> str:
        message = ctypes.c_char_p()
        assert self.call("GetLastError", ctypes.byref(message)) == 0
        assert message.value is not None
        return message.value.decode()


@pytest.fixture
def library(package: Path) -> Iterator[Library]:
    found = Library(package)
    assert found.create(b"cpu", None) == 0, found.error()
    yield found
    assert found.call("ModelContainerDelete", found.container) == 0


@pytest.mark.parametrize("device", [b"cuda:1", b"cpu:1", b"cpux", b""])
def test_a_program_is_not_moved_to_another_device(package: Path, device: bytes) -> None:
    library = Library(package)
    assert library.create(device, None) == 1
    assert library.error().endswith(f"compiled for, and not for {device.decode()}")
    assert library.container.value is None


def test_a_directory_without_constants_is_named(package: Path, tmp_path: Path) -> None:
    library = Library(package)
    assert library.create(b"cpu", bytes(tmp_path)) == 1
    assert f"{tmp_path}/constants.bin cannot be read" in library.error()


def test_a_library_finds_its_constants_after_the_directory_changed(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(package.parent / "artifact", tmp_path / "copied")
    monkeypatch.chdir(tmp_path)
    library = Library(package)
    library.functions = ctypes.CDLL(f"./{folder.name}/{LIBRARY}")
    monkeypatch.chdir("/")
    assert library.create(b"cpu", None) == 0, library.error()
    assert library.call("ModelContainerDelete", library.container) == 0


def test_loaders_are_told_of_inputs_outputs_and_constants(library: Library) -> None:
    number = ctypes.c_size_t()
    for what, count in {"Inputs": 2, "Outputs": 3, "Constants": 1}.items():
        name = f"ModelContainerGetNum{what}"
        assert library.call(name, library.container, ctypes.byref(number)) == 0
        assert number.value == count
    size = ctypes.c_uint64()
    name = "ModelContainerGetConstantsBlobSize"
    assert library.call(name, library.container, ctypes.byref(size)) == 0
    assert size.value == WEIGHT.nbytes
    text = ctypes.c_char_p()
    name = "ModelContainerGetConstantName"
    assert (
        library.call(name, library.container, ctypes.c_size_t(0), ctypes.byref(text)) == 0
    )
    assert text.value == b"fc.weight"
    assert (
        library.call(name, library.container, ctypes.c_size_t(1), ctypes.byref(text)) == 1
    )
    assert library.error() == "there is no constant 1: the program has 1"
    code = ctypes.c_int32()
    name = "ModelContainerGetConstantDtype"
    assert (
        library.call(name, library.container, ctypes.c_size_t(0), ctypes.byref(code)) == 0
    )
    assert code.value == 6  # PyTorch's code of float32


def test_pytorch_reads_the_texts_as_extra_files(package: Path) -> None:
    contents = load_pt2(str(package))
    assert contents.extra_files["wrapperir/program.wir"] == format_program(PROGRAM)
    assert list(contents.aoti_runners) == ["model"]
    metadata = contents.aoti_runners["model"].get_metadata()
    assert metadata["AOTI_DEVICE_KEY"] == "cpu"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a program with PyTorch's C++ loader; its headers take some seconds."""
    folder = tmp_path_factory.mktemp("harness")
    source = Path(__file__).with_name("package_harness.cpp")
    root = Path(torch.__file__).parent
    flags = [
        *(
            "-std=c++20",
            "-O0",
            "-w",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        ),
        *("-isystem", str(root / "include"), f"-L{root / 'lib'}"),
        *("-ltorch_cpu", "-lc10", f"-Wl,-rpath,{root / 'lib'}"),
    ]
    command = [str(source), *flags, "-o", "harness"]
    find_compiler().run(command, folder, "the harness")
    return folder / "harness"


@pytest.mark.slow
def test_the_cpp_loader_runs_a_package_without_python(package: Path, harness: Path) -> None:
    done = subprocess.run([harness, package], capture_output=True, text=True, check=True)
    numbers, count, *python = done.stdout.splitlines()
    result = torch.tensor([float.fromhex(number) for number in numbers.split()])
    assert torch.equal(result.view(3, 4), PRODUCT * 5)
    assert int(count) == 6
    assert python == []


def test_the_cpp_loader_says_what_is_wrong(
    package: Path, harness: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "model.pt2"
    damaged.write_bytes(package.read_bytes()[:-100])
    done = subprocess.run([harness, damaged], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "zip" in done.stderr
