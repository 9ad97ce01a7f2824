"""A distribution with passes is built, installed, found, and runs wherever passes do."""

import os
import subprocess

import pytest

from tests.forked_processes import ProcessServer
from tests.plugin.own_tests import install

PROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "tidy-passes"
version = "1.2"

[project.entry-points.wrapperir]
tidy = "tidy_passes"

[tool.hatch.build.targets.wheel]
packages = ["tidy_passes"]
"""
MODULE = '''\
"""Passes that tidy programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from wrapperir.ir import CommentLine, FreeLine
from wrapperir.plugin import hookimpl

if TYPE_CHECKING:
    from wrapperir.ir import Program


def drop_comments(program: Program, *, keep: str = "!") -> Program:
    """Return the program without comments, but for those that begin with ``keep``."""
    lines = (
        line
        for line in program.lines
        if not isinstance(line, CommentLine) or line.text.startswith(keep)
    )
    return evolve(program, lines=tuple(lines))


def free_nothing(program: Program) -> Program:
    """Return the program without its frees, which is wrong."""
    return evolve(program, lines=(CommentLine(text="none"), FreeLine(buffer="x")))


def look_up(program: Program) -> Program:
    """Raise an error."""
    return _look_up(program, {})


def _look_up(program: Program, found: dict[str, Program]) -> Program:
    return found[program.name]


@hookimpl
def wrapperir_passes():
    return {
        "drop_comments": drop_comments,
        "free_nothing": free_nothing,
        "look_up": look_up,
        "tidy": "drop_comments, remove_dead_lines",
    }
'''
PROGRAM = """\
wrapperir 1

program @main(%x: f32[4]) {
  comment "a remark"
  comment "! kept"
  %unused = extern_kernel aten.relu.default(%x) : f32[4]
  %y = extern_kernel aten.neg.default(%x) : f32[4]
  free %x
  free %unused
  return %y
}
"""
TIDY = """\
wrapperir 1

program @main(%x: f32[4]) {
  comment "! kept"
  %y = extern_kernel aten.neg.default(%x) : f32[4]
  free %x
  return %y
}
"""
KEY = """\
from attrs import evolve
from wrapperir.backend import BackendOptions, cache_key
from wrapperir.passes import InstalledPass
from wrapperir.plugin import plugin_manager

def key(*passes):
    return cache_key(BackendOptions(passes=passes))

assert key("tidy") is not None
assert key("tidy") == key("drop_comments, remove_dead_lines") != key("remove_dead_lines")
assert key("drop_comments") != key("drop_comments(keep = \\"?\\")") is not None
assert key("tidy", "tidy") != key("tidy")
assert key("no_such_pass") is key("drop_comments", lambda program: program) is None
before = key("drop_comments")
manager = plugin_manager()
(unique,) = [name for name, each in manager._plugins.items() if each.name == "tidy"]
plugin = manager._plugins[unique]
later = [evolve(each, origin="tidy-passes 1.3") for each in plugin.passes]
manager._plugins[unique] = evolve(plugin, passes=tuple(later))
assert key("drop_comments") not in (before, None)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Build the distribution and install it beside the library, in a folder of its own."""
    folder = tmp_path_factory.mktemp("tidy")
    (folder / "tidy_passes").mkdir()
    (folder / "tidy_passes" / "__init__.py").write_text(MODULE)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "main.wir").write_text(PROGRAM)
    path = install(folder, folder / "site")
    return {**os.environ, "PYTHONPATH": path, "MAIN": str(folder / "main.wir")}


@pytest.fixture
def wrapperir(environment: dict[str, str], process_server: ProcessServer) -> "Wrapperir":
    return Wrapperir(environment, process_server)


class Wrapperir:
    """Runs the command line where the distribution is installed."""

    def __init__(self, environment: dict[str, str], server: ProcessServer) -> None:
        self.environment = environment
        self.server = server

    def __call__(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, "COLUMNS": "100", **more}
        return self.server.run("-m", "wrapperir.cli", *arguments, env=environment)

    def opt(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self("opt", self.environment["MAIN"], *arguments, **more)


def test_it_is_listed_with_its_origin(wrapperir: Wrapperir) -> None:
    listed = wrapperir("plugins").stdout
    (row,) = [line for line in listed.splitlines() if line.startswith("tidy ")]
    assert "tidy-passes 1.2" in row
    assert "drop_comments, free_nothing, look_up, tidy" in row
    helped = wrapperir("opt", "--help").stdout
    passes = helped.partition("Passes of tidy-passes 1.2:\n")[2]
    assert passes.split()[:4] == ["drop_comments(keep", "=", '"!")', "Return"]
    pipelines = passes.partition("Pipelines of tidy-passes 1.2:\n")[2]
    assert pipelines.split()[:3] == ["tidy", "drop_comments,", "remove_dead_lines"]


def test_it_runs_by_name_on_the_command_line(wrapperir: Wrapperir) -> None:
    done = wrapperir.opt("--pass", "tidy", "--print-after", "drop_comments")
    assert done.stdout == TIDY
    assert '-  comment "a remark"' in done.stderr
    assert "before remove_dead_lines" not in done.stderr
    done = wrapperir.opt("--pass", 'drop_comments(keep = "a")')
    assert 'comment "a remark"' in done.stdout
    assert "kept" not in done.stdout


def test_its_wrong_result_is_shown_with_the_pass(wrapperir: Wrapperir) -> None:
    done = wrapperir.opt("--pass", "remove_dead_lines, free_nothing")
    assert (done.returncode, done.stdout) == (1, "")
    said = "after the pass `free_nothing` of tidy-passes 1.2: nothing defines %y"
    assert f"<program after the pass>:6:10: error WIR103: {said}" in done.stderr
    assert "  return %y" in done.stderr


def test_its_author_sees_a_traceback(wrapperir: Wrapperir) -> None:
    done = wrapperir.opt("--pass", "look_up")
    assert done.returncode == 1
    said = "error WIR743: the pass `look_up` of tidy-passes 1.2 failed: KeyError: 'main'"
    assert said in done.stderr
    assert "in _look_up" in done.stderr
    assert "WRAPPERIR_TRACEBACKS=1" in done.stderr
    assert "Traceback" not in done.stderr
    shown = wrapperir.opt("--pass", "look_up", WRAPPERIR_TRACEBACKS="1").stderr
    assert "Traceback (most recent call last)" in shown
    assert "return _look_up(program, {})" in shown
    assert "Traceback" not in wrapperir.opt("--pass", "x", WRAPPERIR_TRACEBACKS="1").stderr


def test_programs_are_kept_by_what_decides_its_passes(
    environment: dict[str, str], process_server: ProcessServer
) -> None:
    done = process_server.run("-c", KEY, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
