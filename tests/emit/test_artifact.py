import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapperir.diagnostics import Code, DiagnosticError
from wrapperir.emit import Artifact, artifact_digest, read_artifact, write_artifact

ARTIFACT = Artifact(
    "python",
    {"program.py": "x = 'é'\n", "kernels/add.py": "", "data.bin": b"\0\xff"},
    "program.py",
    {"triton": "interpreted"},
)


def test_an_artifact_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_artifact(ARTIFACT, tmp_path / "out")
    assert read_artifact(tmp_path / "out") == ARTIFACT
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


NAMES = st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3}){0,2}\.py", fullmatch=True)
CONTENTS = st.text(st.characters(exclude_categories=["Cs"])) | st.binary()


@given(st.dictionaries(NAMES, CONTENTS, min_size=1), st.dictionaries(st.text(), st.text()))
def test_any_artifact_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, str | bytes],
    metadata: dict[str, str],
) -> None:
    artifact = Artifact("any", files, next(iter(files)), metadata)
    directory = tmp_path_factory.mktemp("artifact")
    write_artifact(artifact, directory)
    assert read_artifact(directory) == artifact


def test_the_manifest_says_what_the_files_are(tmp_path: Path) -> None:
    write_artifact(ARTIFACT, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["wrapperir_artifact"] == 1
    assert manifest["emitter"] == "python"
    assert manifest["entry"] == "program.py"
    assert list(manifest["files"]) == ["data.bin", "kernels/add.py", "program.py"]


def test_an_artifact_replaces_an_older_one_whole(tmp_path: Path) -> None:
    write_artifact(ARTIFACT, tmp_path / "out")
    newer = Artifact("python", {"program.py": "y = 2\n"}, "program.py")
    write_artifact(newer, tmp_path / "out")
    assert read_artifact(tmp_path / "out") == newer
    assert not (tmp_path / "out" / "data.bin").exists()


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert failure(lambda: write_artifact(ARTIFACT, tmp_path)) is Code.INVALID_ARTIFACT
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    artifact = Artifact("python", {"a": "", "a/b": ""}, "a")  # a file and a folder
    with pytest.raises(OSError, match="a"):
        write_artifact(artifact, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../x",
        "/etc/x",
        "a/../../x",
        "a//b",
        "a\\b",
        "a b",
        "é",
        "manifest.json",
    ],
)
def test_a_path_that_leaves_the_directory_is_refused(path: str, tmp_path: Path) -> None:
    artifact = Artifact("python", {path: "x"}, path)
    code = failure(lambda: write_artifact(artifact, tmp_path / "out"))
    assert code is Code.INVALID_ARTIFACT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"wrapperir_artifact": 2}',
        '{"wrapperir_artifact": 1, "files": []}',
        '{"wrapperir_artifact": 1, "files": {"../x": {}}}',
        '{"wrapperir_artifact": 1, "files": {"absent": {"sha256": "", "text": true}}}',
        '{"wrapperir_artifact": 1, "files": {}, "entry": "x", "emitter": 1}',
        '{"wrapperir_artifact": 1, "files": {}, "entry": ["x"], "emitter": "python"}',
    ],
)
def test_a_bad_manifest_is_reported(manifest: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(manifest)
    assert failure(lambda: read_artifact(tmp_path)) is Code.INVALID_ARTIFACT


def test_a_changed_file_is_reported(tmp_path: Path) -> None:
    write_artifact(ARTIFACT, tmp_path)
    (tmp_path / "program.py").write_text("import os\n")
    assert failure(lambda: read_artifact(tmp_path)) is Code.INVALID_ARTIFACT


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    assert failure(lambda: read_artifact(tmp_path / "none")) is Code.INVALID_ARTIFACT


def test_the_digest_is_of_all_that_matters() -> None:
    changed = [
        Artifact("cpp", ARTIFACT.files, "program.py", ARTIFACT.metadata),
        Artifact("python", ARTIFACT.files, "data.bin", ARTIFACT.metadata),
        Artifact("python", ARTIFACT.files, "program.py"),
        Artifact("python", {**ARTIFACT.files, "more.py": ""}, "program.py"),
        Artifact("python", {**ARTIFACT.files, "data.bin": "\0"}, "program.py"),
    ]
    digests = {artifact_digest(artifact) for artifact in [ARTIFACT, *changed]}
    assert len(digests) == 6


def failure(act: object) -> Code:
    assert callable(act)
    with pytest.raises(DiagnosticError) as caught:
        act()
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code


def test_a_failed_replacement_keeps_the_older_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "out"
    older = Artifact("acme", {"a.txt": "older"}, "a.txt")
    write_artifact(older, directory)
    replace, calls = os.replace, 0

    def fail_second(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise PermissionError(errno.EACCES, "not now", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_second)
    with pytest.raises(OSError, match="not now"):
        write_artifact(Artifact("acme", {"a.txt": "newer"}, "a.txt"), directory)
    assert read_artifact(directory) == older
    assert list(tmp_path.iterdir()) == [directory]
