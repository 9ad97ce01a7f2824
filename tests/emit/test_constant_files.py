"""Constants on disk: what is written is read back, and nothing else is."""

import json
from pathlib import Path

import pytest
import torch
from attrs import evolve

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Artifact, read_artifact, write_artifact
from wrapperir.emit.constants import (
    place_constants,
    read_constants,
    write_with_constants,
)
from wrapperir.emit.torch_dtypes import torch_dtype
from wrapperir.ir import DType, Program, SizeOf, Symbol, tensor
from wrapperir.ir.builder import ProgramBuilder

ARTIFACT = Artifact("python", {"program.py": "pass\n"}, "program.py")
WIDE = torch.arange(40, dtype=torch.int64)
CONSTANTS = {
    "transposed": torch.randn(3, 4).t(),
    "part": torch.arange(10, dtype=torch.int8)[3:],
    "strided": torch.randn(9, 9)[1:8:3, 2::2],
    "none": torch.empty(0, 3),
    "one": torch.tensor(True),
    "expanded": torch.ones(1).expand(4, 5),
    "parameter": torch.nn.Parameter(torch.randn(5)),
    "shared": WIDE[:20],
    "shared too": WIDE[10:],
}


def program_of(constants: dict[str, torch.Tensor]) -> Program:
    names = {name: dtype for dtype in DType for name in [dtype.torch_name]}
    builder = ProgramBuilder()
    for index, (key, value) in enumerate(constants.items()):
        dtype = names[str(value.dtype).removeprefix("torch.")]
        type = tensor(dtype, tuple(value.shape), tuple(value.stride()))
        builder.constant(type, key=key, name=f"c{index}")
    return builder.build()


def written(constants: dict[str, torch.Tensor], folder: Path) -> Path:
    directory = folder / "an artifact"
    write_with_constants(program_of(constants), ARTIFACT, constants, directory)
    return directory


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    left, right = left.detach().contiguous(), right.detach().contiguous()
    return bytes(left.view(-1).view(torch.uint8)) == bytes(right.view(-1).view(torch.uint8))


def test_constants_are_read_back(tmp_path: Path) -> None:
    found = read_constants(written(CONSTANTS, tmp_path))
    assert list(found) == list(CONSTANTS)
    for key, value in CONSTANTS.items():
        assert (found[key].dtype, found[key].shape) == (value.dtype, value.shape)
        assert found[key].stride() == value.stride()
        assert torch.equal(found[key], value)
        assert not found[key].requires_grad


@pytest.mark.parametrize("dtype", list(DType))
def test_constants_of_any_type_are_read_back(dtype: DType, tmp_path: Path) -> None:
    raw = torch.arange(6 * dtype.itemsize, dtype=torch.uint8) % 2
    value = raw.view(torch_dtype(dtype))
    found = read_constants(written({"w": value}, tmp_path))["w"]
    assert found.dtype == value.dtype
    assert same_bits(found, value)


def test_constants_are_aligned_and_apart(tmp_path: Path) -> None:
    places = place_constants(program_of(CONSTANTS))
    end = 0
    for place in places:
        assert place is not None
        assert place.begin % 64 == 0
        assert place.begin >= end
        end = place.begin + place.bytes
    for value in read_constants(written(CONSTANTS, tmp_path)).values():
        assert value.data_ptr() % 64 == 0


def test_constants_are_written_in_their_places(tmp_path: Path) -> None:
    directory = written(CONSTANTS, tmp_path)
    content = (directory / "constants.bin").read_bytes()
    part = place_constants(program_of(CONSTANTS))[1]
    assert part is not None
    assert content[part.begin : part.begin + part.bytes] == bytes(range(3, 10))


def test_a_constant_of_symbolic_size_has_no_place(tmp_path: Path) -> None:
    builder = ProgramBuilder()
    builder.input(tensor("f32", (Symbol("s0"),)), name="x")
    builder.symbol("s0", SizeOf("x", 0), lower=2, upper=9)
    builder.constant(tensor("f32", (Symbol("s0"),)), key="sized", name="a")
    builder.constant(tensor("f32", (3,)), key="fixed", name="b")
    program = builder.build()
    assert place_constants(program)[0] is None
    given = {"sized": torch.randn(5), "fixed": torch.randn(3)}
    write_with_constants(program, ARTIFACT, given, tmp_path)
    found = read_constants(tmp_path)
    assert all(torch.equal(found[key], given[key]) for key in given)


def test_writing_to_a_constant_does_not_reach_the_file(tmp_path: Path) -> None:
    directory = written(CONSTANTS, tmp_path)
    for value in read_constants(directory).values():
        if value.numel() and not any(stride == 0 for stride in value.stride()):
            value.zero_()
    again = read_constants(directory)
    assert torch.equal(again["transposed"], CONSTANTS["transposed"])
    read_artifact(directory)


def test_the_artifact_is_read_without_the_bytes(tmp_path: Path) -> None:
    found = read_artifact(written(CONSTANTS, tmp_path))
    assert set(found.files) == {"program.py", "constants.json"}


def test_a_program_without_constants_has_no_files_of_them(tmp_path: Path) -> None:
    directory = written({}, tmp_path)
    assert {path.name for path in directory.iterdir()} == {"manifest.json", "program.py"}
    assert read_constants(directory) == {}


def test_changed_bytes_are_found(tmp_path: Path) -> None:
    directory = written(CONSTANTS, tmp_path)
    content = bytearray((directory / "constants.bin").read_bytes())
    content[0] ^= 1
    (directory / "constants.bin").write_bytes(content)
    with pytest.raises(DiagnosticError, match="was changed after it was written") as caught:
        read_artifact(directory)
    assert caught.value.diagnostics[0].code is Code.INVALID_ARTIFACT


def test_missing_bytes_are_found(tmp_path: Path) -> None:
    directory = written(CONSTANTS, tmp_path)
    (directory / "constants.bin").unlink()
    with pytest.raises(DiagnosticError, match="lacks a file") as caught:
        read_artifact(directory)
    assert caught.value.diagnostics[0].code is Code.INVALID_ARTIFACT


GOOD = {"key": "w", "dtype": "f32", "size": [2], "stride": [1], "device": "cpu", "begin": 0}


@pytest.mark.parametrize(
    "listed",
    [
        "",
        "[]",
        "{}",
        '{"wrapperir_constants": 2, "constants": []}',
        '{"wrapperir_constants": 1}',
        '{"wrapperir_constants": 1, "constants": [1]}',
        '{"wrapperir_constants": 1, "constants": 1}',
        "[" * 100_000,
        *(
            json.dumps({"wrapperir_constants": 1, "constants": [{**GOOD, **wrong}]})
            for wrong in (
                {"key": 1},
                {"dtype": "f31"},
                {"dtype": None},
                {"size": 2},
                {"size": [2, 2]},
                {"size": [-2]},
                {"size": [True]},
                {"size": [2.0]},
                {"size": [3]},
                {"size": [2**61]},
                {"size": [2**62]},
                {"stride": [2**40]},
                {"size": [1] * 65, "stride": [0] * 65},
                {"size": [2**61, 8], "stride": [0, 0]},
                {"size": [0, 2**61, 8], "stride": [0, 0, 0]},
                {"begin": 4, "size": [1]},
                {"begin": 64},
                {"begin": -4},
                {"begin": "0"},
                {"device": "nowhere"},
                {"device": 0},
            )
        ),
    ],
    ids=lambda text: text[:80],
)
def test_a_malformed_list_is_refused(tmp_path: Path, listed: str) -> None:
    artifact = evolve(ARTIFACT, files={**ARTIFACT.files, "constants.json": listed})
    write_artifact(artifact, tmp_path, {"constants.bin": [bytes(8)]})
    with pytest.raises(DiagnosticError) as caught:
        read_constants(tmp_path)
    assert caught.value.diagnostics[0].code is Code.INVALID_ARTIFACT


def test_a_constant_may_have_many_dimensions(tmp_path: Path) -> None:
    given = torch.ones([1] * 64)
    assert torch.equal(read_constants(written({"w": given}, tmp_path))["w"], given)


@pytest.mark.parametrize("kept", [[], ["constants.bin"]])
def test_constants_that_are_not_in_the_manifest_do_not_count(
    tmp_path: Path, kept: list[str]
) -> None:
    directory = written(CONSTANTS, tmp_path)
    leave_in_manifest(directory, kept)
    assert read_constants(directory) == {}


def test_a_list_without_data_is_refused(tmp_path: Path) -> None:
    directory = written(CONSTANTS, tmp_path)
    leave_in_manifest(directory, ["constants.json"])
    with pytest.raises(DiagnosticError, match=r"has no constants\.bin"):
        read_constants(directory)


def test_a_changed_list_is_refused(tmp_path: Path) -> None:
    directory = written({"w": torch.ones(2)}, tmp_path)
    listing = directory / "constants.json"
    listing.write_text(listing.read_text().replace('"w"', '"v"'))
    with pytest.raises(DiagnosticError, match="was changed after it was written"):
        read_constants(directory)


def leave_in_manifest(directory: Path, kept: list[str]) -> None:
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in {"constants.json", "constants.bin"} - {*kept}:
        del manifest["files"][name]
    path.write_text(json.dumps(manifest))
