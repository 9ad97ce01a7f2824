"""Every example in the documentation works."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from sybil import Example

from tests.docs.examples import SYBIL, named_file, parse_commands
from tests.forked_processes import ProcessServer
from tests.plugin.own_tests import install
from tests.stepping.gdb import missing_gdb
from tests.torch_release import BEFORE_2_13
from wrapperir.tuning.choice_cache import fresh_choice_cache

ROOT = Path(__file__).parents[2]
MEMORY_PASSES = ROOT / "plugins" / "wrapperir-passes-memory"
"""A plugin that pages import; it takes longer to install it."""

PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")],
)


@pytest.fixture
def page_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty folder, whose modules can be imported and are forgotten after.

    What is tuned there was not tuned before, and nothing that the process compiled before
    counts toward Dynamo's limits.
    """
    torch._dynamo.reset()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(MEMORY_PASSES)
    monkeypatch.syspath_prepend(tmp_path)
    with fresh_choice_cache():
        yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


SLOW = {
    "several-gpus.md",
    "write-an-emitter.md",
    "step-through-it.md",
    "private-device.md",
    "testing-compilers.md",
    "write-a-pass.md",
    "where-did-my-line-go.md",
    "why-is-it-slow.md",
    "cli.md",
}
"""Pages whose examples take four seconds or more."""


@pytest.mark.usefixtures("page_folder")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=[pytest.mark.slow] if page.name in SLOW else [],
        )
        for page in PAGES
    ],
)
def test_examples_work(
    page: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if BEFORE_2_13 and page.name == "getting-started.md":
        pytest.xfail(
            "torch.export of 2.11 does not record where a function's operators are"
        )
    if page.name == "step-through-it.md" and (missing := missing_gdb()) is not None:
        pytest.skip(missing)
    if page.name == "private-device.md":
        if BEFORE_2_13:
            pytest.skip("PyTorch before 2.13 has no graphs of other devices than CUDA's")
        # A device of PyTorch's own is for the whole of a process: not for forked ones.
        monkeypatch.setenv("PYTHONPATH", install("wrapperir-device-sim", tmp_path / "site"))
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        monkeypatch.setenv("PATH", path)
    elif "```console" in page.read_text():
        server: ProcessServer = request.getfixturevalue("process_server")
        path = f"{server.commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        monkeypatch.setenv("PATH", path)
    for example in SYBIL.parse(page).examples():
        example.evaluate()


def test_console_blocks_split_into_commands() -> None:
    commands = parse_commands("$ echo a\na\n$ echo \\\n> b\nb\n")
    assert [c.line for c in commands] == ["echo a\n", "echo \\\nb\n"]
    assert [c.expected for c in commands] == ["a\n", "b\n"]


def python_example(folder: Path, code: str) -> Example:
    """Return a Python block of a page's section about WIR100."""
    page = folder / "page.md"
    imports = "from wrapperir.diagnostics import Code"
    page.write_text(f"## WIR100 a fault\n\n```python\n{imports}\n{code}\n```\n")
    (example,) = SYBIL.parse(page).examples()
    return example


@pytest.mark.parametrize(
    "code",
    ["raise Code.MALFORMED.error('no')", "assert 'WIR100' in [\"WIR100\"]"],
    ids=["raises", "compares"],
)
def test_an_example_of_a_code_shows_it(code: str, tmp_path: Path) -> None:
    python_example(tmp_path, code).evaluate()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("raise Code.REDEFINITION.error('no')", "{'WIR102'}"),
        ("'\"WIR100\"'; raise Code.REDEFINITION.error('no')", "{'WIR102'}"),
        ("pass  # WIR100", "set()"),
    ],
    ids=["raises another", "names it and raises another", "raises nothing"],
)
def test_an_example_of_a_code_that_does_not_show_it_fails(
    code: str, found: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=re.escape(f"expected WIR100, found {found}")):
        python_example(tmp_path, code).evaluate()


def test_a_file_is_named_where_readers_see_it() -> None:
    shown = "Save this as `a.py`:\n\n<!-- file: a.py -->\n"
    assert named_file(shown, len(shown)) == "a.py"
    assert named_file("no comment\n", 11) is None
    hidden = "Save `a.py`.\n\nThis:\n\n<!-- file: a.py -->\n"
    with pytest.raises(AssertionError, match="does not name"):
        named_file(hidden, len(hidden))


def test_each_block_is_fenced_as_what_it_is() -> None:
    for page in PAGES:
        for fence, first in re.findall(r"^```(\w+)\n(.*)$", page.read_text(), re.M):
            assert fence == "wir" or not first.startswith("wrapperir 1"), page
