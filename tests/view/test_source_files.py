"""Reading the files that origins name."""

from pathlib import Path

import pytest

from wrapperir.view import source_files
from wrapperir.view.source_files import read_source_file


def test_a_file_is_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(b"# coding: latin-1\nname = '\xe9'\n")
    found = read_source_file(str(file))
    assert found.lines == ("# coding: latin-1", "name = 'é'", "")
    assert found.missing is None


def test_a_file_that_is_gone_says_so(tmp_path: Path) -> None:
    found = read_source_file(str(tmp_path / "gone.py"))
    assert (found.lines, found.missing) == ((), "there is no such file here")


def test_only_python_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "folder.py").mkdir()
    assert read_source_file(str(tmp_path / "secret.txt")).missing is not None
    assert read_source_file(str(tmp_path / "folder.py")).missing is not None
    assert read_source_file("<eval_with_key>.0").missing is not None


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"# coding: no-such\n"])
def test_what_is_not_text_is_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(content)
    assert read_source_file(str(file)).missing == "the file is not text"
    assert read_source_file("null\0.py").missing is not None


def test_large_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "LARGEST", 10)
    file = tmp_path / "model.py"
    file.write_text("x = 1234567")
    assert "more than 10 bytes" in str(read_source_file(str(file)).missing)
