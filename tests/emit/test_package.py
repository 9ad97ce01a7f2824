"""Packages as files: what is written is read, and nothing else is."""

import json
import mmap
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Artifact, write_artifact
from wrapperir.emit.package import (
    Package,
    find_entries,
    is_package,
    read_package,
    write_package,
)
from wrapperir.emit.pipeline import find_emitter

WEIGHT = torch.arange(192, dtype=torch.int32).reshape(12, 16)
DATA = bytes(WEIGHT.untyped_storage())
LISTING = json.dumps(
    {
        "wrapperir_constants": 1,
        "constants": [
            {
                **{"key": "layer.weight", "dtype": "i32", "device": "cpu", "begin": 0},
                **{"size": [12, 16], "stride": [16, 1]},
            }
        ],
    }
)
LIBRARY = b"\x7fELF no library"
ARTIFACT = Artifact(
    "cpp",
    {
        "program.cpp": "int x = 1; // é\n",
        "program.so": LIBRARY,
        "constants.json": LISTING,
        "build.json": '{"devices": ["cpu"]}',
        "kernels/add.cpp": "void add() {}\n",
        "kernels/add.sm_90.cubin": b"\0\xff",
    },
    "program.cpp",
    {"key": "value"},
)
FILES = ARTIFACT.files
MANIFEST = "package/extra/wrapperir/manifest.json"
MODEL_FACTS = {"AOTI_DEVICE_KEY": "cpu"}
MODEL = "package/data/aotinductor/model/"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return written(ARTIFACT, tmp_path)


def written(artifact: Artifact, folder: Path, data: bytes = DATA) -> Path:
    write_artifact(artifact, folder / "artifact", {"constants.bin": [data]})
    write_package(folder / "artifact", folder / "model.pt2", MODEL_FACTS)
    return folder / "model.pt2"


def assert_unchanged(read: Package) -> None:
    assert read.artifact == ARTIFACT
    assert list(read.constants) == ["layer.weight"]
    assert torch.equal(read.constants["layer.weight"], WEIGHT)


def refusal(path: Path) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(DiagnosticError) as raised:
        read_package(path)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code is Code.INVALID_ARTIFACT
    return diagnostic.message


def test_a_package_is_read_as_it_was_written(package: Path) -> None:
    read = read_package(package)
    assert_unchanged(read)
    assert sorted(file.name for file in package.parent.iterdir()) == [
        "artifact",
        "model.pt2",
    ]


NAMES = st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3}){0,2}\.[a-z]", fullmatch=True)
CONTENTS = st.text(st.characters(exclude_categories=["Cs"])) | st.binary()


@settings(max_examples=30)
@given(st.dictionaries(NAMES, CONTENTS), st.binary())
def test_any_artifact_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, str | bytes],
    more: bytes,
) -> None:
    artifact = evolve(ARTIFACT, files={**FILES, **files})
    folder = tmp_path_factory.mktemp("package")
    read = read_package(written(artifact, folder, DATA + more))
    assert read.artifact == artifact
    assert torch.equal(read.constants["layer.weight"], WEIGHT)


def test_equal_artifacts_make_equal_packages(package: Path) -> None:
    first = package.read_bytes()
    package.unlink()
    write_package(package.parent / "artifact", package, MODEL_FACTS)
    assert package.read_bytes() == first


def test_files_are_aligned_and_constants_begin_a_page(package: Path) -> None:
    with package.open("rb") as file:
        entries = find_entries(file, "package")
    assert all(entry.begin % 64 == 0 for entry in entries.values())
    assert entries[f"{MODEL}constants.bin"].begin % mmap.PAGESIZE == 0


def test_large_files_are_aligned_too(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 200)  # sizes of 64 bits from there on
    write_package(package.parent / "artifact", package, MODEL_FACTS)
    test_files_are_aligned_and_constants_begin_a_page(package)
    assert_unchanged(read_package(package))


def test_what_a_program_writes_to_constants_does_not_reach_the_file(package: Path) -> None:
    before = package.read_bytes()
    weight = read_package(package).constants["layer.weight"]
    weight.zero_()
    assert not weight.any()
    assert package.read_bytes() == before
    assert_unchanged(read_package(package))


def test_constants_are_mapped_from_the_file(package: Path) -> None:
    weight = read_package(package).constants["layer.weight"]
    assert weight.data_ptr() % mmap.PAGESIZE == 0
    assert str(package) in mapping_of(weight.data_ptr())


def mapping_of(address: int) -> str:
    """Return the line of this process's mappings that an address is in."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= address < end:
            return line
    raise AssertionError(f"{address:x} is not mapped")


def test_a_package_may_be_removed_while_it_is_used(package: Path) -> None:
    read = read_package(package)
    package.unlink()
    assert_unchanged(read)


def test_constants_beyond_the_data_are_refused(tmp_path: Path) -> None:
    assert "too few for 'layer.weight'" in refusal(written(ARTIFACT, tmp_path, DATA[1:]))


def test_a_program_may_have_no_constants(tmp_path: Path) -> None:
    files = {name: text for name, text in FILES.items() if name != "constants.json"}
    write_artifact(evolve(ARTIFACT, files=files), tmp_path / "artifact")
    write_package(tmp_path / "artifact", tmp_path / "model.pt2", MODEL_FACTS)
    assert read_package(tmp_path / "model.pt2").constants == {}


def test_a_truncated_package_is_refused(package: Path) -> None:
    content = package.read_bytes()
    for size in range(0, len(content), 61):
        package.write_bytes(content[:size])
        refusal(package)


@settings(max_examples=draws(120, fuzz=300))
@given(st.data())
def test_a_changed_byte_is_refused_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    package = written(ARTIFACT, tmp_path_factory.mktemp("package"))
    content = bytearray(package.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    package.write_bytes(content)
    try:
        read = read_package(package)
    except DiagnosticError:
        refusal(package)
    else:  # padding, a date or another field that nothing depends on
        assert_unchanged(read)


Files = dict[str, bytes]


def rewritten(package: Path, change: Callable[[Files], None], method: int = 0) -> None:
    """Replace a package by one with other files."""
    with zipfile.ZipFile(package) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(package, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def put(name: str) -> Callable[[Files], None]:
    def changed(files: Files) -> None:
        files[name] = b"changed"

    return changed


def change_manifest(
    change: Callable[[dict[str, dict[str, object]]], None],
) -> Callable[[Files], None]:
    def changed(files: Files) -> None:
        manifest = json.loads(files[MANIFEST])
        change(manifest["files"])
        files[MANIFEST] = json.dumps(manifest).encode()

    return changed


def test_changed_files_are_refused(package: Path) -> None:
    content = package.read_bytes()
    for name, in_archive in {
        "program.so": f"{MODEL}program.wrapper.so",
        "constants.bin": f"{MODEL}constants.bin",
        "kernels/add.cpp": "package/extra/wrapperir/kernels/add.cpp",
    }.items():
        package.write_bytes(content)
        rewritten(package, put(in_archive))
        assert name in refusal(package)
        assert "was changed after it was written" in refusal(package)


@pytest.mark.parametrize("path", ["../escape", "/etc/escape", "a/../../escape", "a//b", ""])
def test_paths_out_of_the_package_are_refused(package: Path, path: str) -> None:
    def move(files: dict[str, dict[str, object]]) -> None:
        files[path] = files.pop("kernels/add.cpp")

    rewritten(package, change_manifest(move))
    assert "is not a relative path" in refusal(package)


def test_files_that_the_manifest_does_not_name_are_refused(package: Path) -> None:
    name = f"{MODEL}../../../../escape"
    rewritten(package, put(name))
    assert f"its manifest does not name, {name!r}" in refusal(package)


def test_missing_files_are_refused(package: Path) -> None:
    def drop(files: Files) -> None:
        del files[f"{MODEL}program.wrapper.so"]

    rewritten(package, drop)
    assert "lacks" in refusal(package)


def test_compressed_files_are_refused(package: Path) -> None:
    rewritten(package, lambda files: None, zipfile.ZIP_DEFLATED)
    assert "compressed" in refusal(package)


def test_archives_of_others_are_refused(package: Path) -> None:
    rewritten(package, Files.clear)
    assert "without a program" in refusal(package)
    rewritten(package, put("model.py"))
    assert "without a program" in refusal(package)


def forge(package: Path, name: str, field: int, value: bytes) -> None:
    """Overwrite bytes of a file's entry in the archive's directory."""
    content = bytearray(package.read_bytes())
    entry = content.rindex(name.encode()) - 46  # the directory is at the end
    assert content[entry : entry + 4] == b"PK\1\2"
    content[entry + field : entry + field + len(value)] = value
    package.write_bytes(content)


def test_sizes_beyond_the_file_are_refused(package: Path) -> None:
    declared = struct.pack("<2L", 1 << 31, 1 << 31)  # both sizes: nothing is read for them
    forge(package, f"{MODEL}constants.bin", 20, declared)
    assert "outside of its place" in refusal(package)


def test_files_that_share_bytes_are_refused(package: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        other = archive.getinfo(f"{MODEL}program.wrapper.so")
    place = struct.pack("<L", other.header_offset)
    forge(package, f"{MODEL}constants.bin", 42, place)
    assert "outside of its place" in refusal(package)


def test_a_name_given_twice_is_refused(package: Path) -> None:
    with zipfile.ZipFile(package, "a") as archive, pytest.warns(match="Duplicate name"):
        archive.writestr(MANIFEST, b"{}")
    assert "twice" in refusal(package)


def test_a_directory_without_an_artifact_is_not_packaged(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match="has no readable"):
        write_package(tmp_path, tmp_path / "model.pt2", MODEL_FACTS)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_named(package: Path) -> None:
    target = package.parent / "missing" / "model.pt2"
    with pytest.raises(OSError, match="No such file") as raised:
        write_package(package.parent / "artifact", target, MODEL_FACTS)
    assert raised.value.filename == str(target)
    (package.parent / "folder").mkdir()
    with pytest.raises(OSError, match="directory") as raised:
        write_package(package.parent / "artifact", package.parent / "folder", MODEL_FACTS)
    assert raised.value.filename == str(package.parent / "folder")
    assert not list(package.parent.glob(".*"))


def test_emitters_may_have_no_packages(package: Path) -> None:
    with pytest.raises(DiagnosticError, match="python emitter has no packages") as raised:
        find_emitter("python").package(package.parent / "artifact", package)
    assert raised.value.diagnostics[0].code is Code.UNSUPPORTED_FEATURE


def test_a_changed_artifact_is_not_packaged_and_the_older_package_stays(
    package: Path,
) -> None:
    before = package.read_bytes()
    (package.parent / "artifact" / "constants.bin").write_bytes(DATA[1:])
    with pytest.raises(DiagnosticError, match="was changed"):
        write_package(package.parent / "artifact", package, MODEL_FACTS)
    (package.parent / "artifact" / "constants.bin").unlink()
    with pytest.raises(DiagnosticError, match="cannot be read"):
        write_package(package.parent / "artifact", package, MODEL_FACTS)
    assert package.read_bytes() == before


def test_packages_are_told_from_other_files(package: Path) -> None:
    assert is_package(package)
    assert not is_package(package.parent)
    assert not is_package(package.parent / "artifact" / "program.cpp")
    assert not is_package(package.parent / "missing")
