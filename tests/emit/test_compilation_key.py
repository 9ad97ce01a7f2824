"""The digest of a package's files, whichever thread makes it."""

import importlib
import sys
import threading
from pathlib import Path

import pytest

from wrapperir.backend import BackendOptions, cache_key
from wrapperir.emit import compilation_key
from wrapperir.emit.compilation_key import begin_digest
from wrapperir.passes import InstalledPass, PassCall
from wrapperir.pipelines import ChosenPass


def digest_of(package: str) -> str | None:
    """Return the digest as a process that has none yet."""
    compilation_key._package_digest.cache_clear()
    return compilation_key._package_digest(package)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compilation_key, "_begun", {})
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "made_up_package"
    (folder / "part").mkdir(parents=True)
    (folder / "__init__.py").write_text("import made_up_package.part.module\n")
    (folder / "part" / "module.py").write_text("x = 1\n")
    (folder / "part" / "header.h").write_text("int x;\n")
    for module in [name for name in sys.modules if name.startswith("made_up_package")]:
        monkeypatch.delitem(sys.modules, module)  # of another test
    importlib.import_module("made_up_package")
    return folder


def test_files_decide_and_their_bytecode_does_not(package: Path) -> None:
    found = digest_of("made_up_package")
    assert found is not None
    left = package / "part" / "__pycache__" / "module.cpython-311.pyc.1234"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half written")
    assert digest_of("made_up_package") == found
    (package / "part" / "header.h").write_text("int y;\n")
    changed = digest_of("made_up_package")
    assert changed not in (None, found)
    (package / "part" / "header.h").rename(package / "part" / "other.h")
    assert digest_of("made_up_package") not in (None, found, changed)


def test_a_digest_that_was_begun_is_the_same(package: Path) -> None:
    found = digest_of("made_up_package")
    begin_digest("made_up_package")
    begin_digest("made_up_package")
    thread, result = compilation_key._begun["made_up_package"]
    assert digest_of("made_up_package") == found
    assert result == [found]
    assert not thread.is_alive()


def test_a_thread_without_a_result_costs_nothing_but_time(package: Path) -> None:
    """As in a process that was forked while the thread ran."""
    ended = threading.Thread(target=lambda: None)
    ended.start()
    compilation_key._begun["made_up_package"] = ended, []
    assert digest_of("made_up_package") is not None


def test_what_is_no_file_does_not_count(package: Path) -> None:
    """Editors mark files that are open by links to nothing."""
    found = digest_of("made_up_package")
    (package / "part" / ".#module.py").symlink_to("somebody@somewhere.1234")
    assert digest_of("made_up_package") == found


def test_a_thread_is_found_only_after_it_has_started(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Watched(threading.Thread):
        def start(self) -> None:
            found.append(digest_of("made_up_package"))  # as another thread may ask for it
            super().start()

    found: list[str | None] = []
    monkeypatch.setattr(threading, "Thread", Watched)
    begin_digest("made_up_package")
    assert found == [digest_of("made_up_package")]


def test_files_of_the_package_that_defines_a_pass_count(package: Path) -> None:
    """A plugin may provide functions of another package."""
    code = "def keep(program):\n    return program\n"
    (package / "passes.py").write_text(code)
    run = importlib.import_module("made_up_package.passes").keep
    installed = InstalledPass("keep", run, (), "plugin 1", package="wrapperir")
    chosen = ChosenPass(PassCall("keep"), run, installed=installed)

    def key() -> str | None:
        compilation_key._package_digest.cache_clear()
        return cache_key(BackendOptions(passes=(chosen,)))

    found = key()
    assert found is not None
    (package / "passes.py").write_text(f"{code}# changed\n")
    assert key() not in (None, found)


def test_what_is_no_package_has_no_digest() -> None:
    assert digest_of("no_such_package") is None
    begin_digest("no_such_package")
    assert digest_of("no_such_package") is None
