"""What a pass's docstring shows is what the pass does."""

import inspect
import re
import textwrap

import pytest

from wrapperir.ir import Program
from wrapperir.passes import PASSES
from wrapperir.text import parse_program

BLOCK = r"::\n\n((?:(?: {4}.*)?\n)+)"
EXAMPLE = re.compile(rf"Before{BLOCK}After{BLOCK}")


def shown(name: str) -> tuple[Program, Program]:
    """Return the programs before and after that a pass's docstring shows."""
    found = EXAMPLE.search(f"{inspect.getdoc(PASSES[name])}\n")
    assert found is not None
    texts = [f"wrapperir 1\n{textwrap.dedent(text)}" for text in found.groups()]
    return parse_program(texts[0]), parse_program(texts[1])


@pytest.mark.parametrize("name", PASSES)
def test_before_and_after(name: str) -> None:
    before, after = shown(name)
    assert before != after
    assert PASSES[name](before) == after
