"""Where messages say that a line of the program is."""

import pytest

from wrapperir.testing import CASES, Case
from wrapperir.text import format_line, format_program
from wrapperir_cpp.program_text import find_lines


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lines_are_found_in_the_text(case: Case) -> None:
    text, found = find_lines(case.program)
    assert text == format_program(case.program)
    assert len(found) == len(case.program.lines)
    for line, (number, words) in zip(case.program.lines, found, strict=True):
        printed = format_line(line).splitlines()[0]
        assert text.splitlines()[number - 1].strip() == printed.strip()
        assert words in printed
        assert words
