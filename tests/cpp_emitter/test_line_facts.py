"""Where messages say that a line of the program is."""

import pytest

from wrapperir.testing import CASES, Case
from wrapperir.text import format_with_positions
from wrapperir_cpp.program_text import find_lines


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lines_are_found_in_the_text(case: Case) -> None:
    text, positions = format_with_positions(case.program)
    found = find_lines(case.program, text)
    assert len(found) == len(case.program.lines)
    for index, fact in enumerate(found):
        assert fact.number == positions["lines", index].line
        assert fact.text in text.splitlines()[fact.number - 1]
        assert fact.text
