"""``plugins``, ``plugins new`` and ``plugins check`` as users call them."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.files import ADD, broken, invoke
from wrapperir.plugin import PluginManager, hookimpl
from wrapperir_python.emitter import PythonEmitter


def test_the_list_has_the_built_in_plugins() -> None:
    listed = invoke("plugins")
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        *("PLUGIN", "cpp", "fx", "python", "renderers")
    ]


def test_a_hook_that_fails_is_listed_beside_what_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @hookimpl
    def wrapperir_emitters() -> object:
        return [PythonEmitter()]

    @hookimpl
    def wrapperir_renderers() -> object:
        raise RuntimeError("no licence")

    hooks = {each.__name__: each for each in (wrapperir_emitters, wrapperir_renderers)}
    manager = PluginManager([])
    manager.register(SimpleNamespace(**hooks), "half")
    monkeypatch.setattr("wrapperir.plugin.plugin_manager", lambda: manager)
    listed = invoke("plugins")
    assert listed.exit_code == 1
    assert listed.stdout.splitlines()[1].split() == [
        *("half", "half", "python", "failed", "none")
    ]
    assert listed.stderr.startswith("\nhalf of half failed in wrapperir_renderers:\n")
    assert "RuntimeError: no licence" in listed.stderr


@pytest.mark.parametrize("target", ["python", "c", "cpp"])
def test_new_says_what_to_do_next(folder: Path, target: str) -> None:
    made = invoke("plugins", "new", "some_device", "--target", target, "-o", "here")
    assert made.exit_code == 0
    assert "pip install -e here" in made.stdout
    assert "wrapperir plugins check some_device" in made.stdout
    assert "## What to write next" in (folder / "here" / "README.md").read_text()
    again = invoke("plugins", "new", "some_device", "-o", "here")
    assert again.exit_code == 1
    assert "error WIR911: here exists already" in again.stderr


def test_a_directory_that_cannot_be_written(folder: Path) -> None:
    (folder / "file").write_text("")
    made = invoke("plugins", "new", "acme", "-o", "file/below")
    assert made.exit_code == 3
    assert "file/below" in made.stderr


def test_wrong_names_are_refused_with_what_was_meant() -> None:
    for options, hint in (
        (("--feature", "leak"), "did you mean `leaks`?"),
        (("--case", "kernel_buffer_cpp"), "did you mean `kernel_buffers_cpp`?"),
        (("--device", "vulkan"), "there are: cpu, cuda"),
    ):
        result = invoke("plugins", "check", "python", *options)
        assert result.exit_code == 1
        assert "error WIR910" in result.stderr
        assert hint in result.stderr
    unknown = invoke("plugins", "check", "nothing")
    assert "error WIR700" in unknown.stderr
    assert "did you mean" not in unknown.stderr
    near = invoke("plugins", "check", "pyhton")
    assert "hint: did you mean `python`?" in near.stderr


def test_one_program_is_checked(folder: Path) -> None:
    good = invoke("plugins", "check", "python", "--program", "-", "--seed", "3", input=ADD)
    assert good.exit_code == 0
    assert "drawn programs        1        0        0" in good.stdout
    bad = invoke("plugins", "check", "python", "--program", "-", input=broken())
    assert bad.exit_code == 1
    assert "error WIR103: nothing defines %missing" in bad.stderr


def test_nothing_that_ran_is_a_failure() -> None:
    options = ("--feature", "descriptors", "--case", "kernel_buffers_cpp")
    result = invoke("plugins", "check", "python", *options, "--device", "cpu")
    assert result.exit_code == 1
    assert "Nothing was run, which is a failure." in result.stdout


def test_without_hypothesis_a_code_says_what_is_missing() -> None:
    script = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from wrapperir.cli.main import main\n"
        "main(['plugins', 'check', 'python'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "error WIR912" in done.stderr
    assert "wrapperir[testing]" in done.stderr
