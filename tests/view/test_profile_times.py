"""Times of a profile beside lines."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.report.conftest import Opener
from tests.view.small_program import PROGRAM, write_model
from tests.view.test_link_program import linked
from tests.view.test_view_page import viewed
from wrapperir.text import parse_program
from wrapperir.view import WrongProfileError, add_times, format_view

MM = "%y = extern_kernel aten.mm.default(%x, %w) : f32[8, 8]"
CALL = "kernel_call @fused(%y, %z)"


def line(
    number: int, text: str, host: int, device: int | None = None, resolution: int = 0
) -> dict[str, Any]:
    times = {"host_ns": host, "device_ns": device, "resolution_ns": resolution}
    return {"line": number, "text": text, **times}


def profile(*lines: dict[str, Any]) -> str:
    return json.dumps({"lines": lines})


def test_times_are_those_of_the_device_that_works() -> None:
    program = linked(parse_program(PROGRAM))
    timed = add_times(program, profile(line(13, MM, 500), line(17, CALL, 100, 9000)))
    assert [each.ns for each in timed.lines] == [500, None, None, None, 9000, None]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"lines": 3}', '{"lines": [3]}', "[" * 100_000),
        profile(line(13, MM, 1) | {"host_ns": "1"}),
    ],
)
def test_what_is_no_profile_is_refused(text: str) -> None:
    with pytest.raises(WrongProfileError, match="not what profile --format json writes"):
        add_times(linked(parse_program(PROGRAM)), text)


def test_a_profile_of_another_program_is_refused() -> None:
    with pytest.raises(WrongProfileError, match="no line 14: %y"):
        add_times(linked(parse_program(PROGRAM)), profile(line(14, MM, 1)))


def test_kernels_are_listed_by_time(opener: Opener, tmp_path: Path) -> None:
    view = viewed(write_model(tmp_path), [])
    text = profile(line(13, MM, 500, resolution=600), line(17, CALL, 1_500_000))
    page = opener.open(format_view(evolve(view, program=add_times(view.program, text))))
    rows = page.locator(".panel[data-name=kernels] .line")
    assert [rows.nth(n).locator(".time").inner_text() for n in range(2)] == [
        "1.50 ms",
        "<0.600 µs",
    ]
    rows.first.click()
    assert "takes 1.50 ms" in page.locator("#details").inner_text()
