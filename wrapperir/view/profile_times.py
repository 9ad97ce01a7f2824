"""Times of lines, from a profile that ``wrapperir profile --format json`` wrote."""

import json
from typing import cast

from attrs import evolve

from wrapperir.view.links import LinkedProgram


class WrongProfileError(ValueError):
    """A file is no profile, or one of another program."""


def add_times(program: LinkedProgram, text: str) -> LinkedProgram:
    """Return the program with the time that each line takes in a call.

    It is that of the GPU, for a line that gives one work, or else that of the host.

    Raises:
        WrongProfileError: the text is no profile, or a line of it is not of the program.
    """
    try:
        times = dict(map(_read_line, _read_lines(text)))
    except (ValueError, RecursionError, KeyError, TypeError):
        raise WrongProfileError("it is not what profile --format json writes") from None
    unknown = None, 0
    timed = [times.pop((line.number, line.text), unknown) for line in program.lines]
    lines = tuple(
        evolve(line, ns=ns, resolution_ns=resolution)
        for line, (ns, resolution) in zip(program.lines, timed, strict=True)
    )
    if times:
        number, line = next(iter(times))
        raise WrongProfileError(f"the program has no line {number}: {line}")
    return evolve(program, lines=lines)


def _read_lines(text: str) -> list[dict[str, object]]:
    lines = json.loads(text)["lines"]
    if not isinstance(lines, list):
        raise TypeError
    return cast("list[dict[str, object]]", lines)


def _read_line(line: dict[str, object]) -> tuple[tuple[int, str], tuple[int, int]]:
    number, text = line["line"], line["text"]
    host, device, resolution = line["host_ns"], line["device_ns"], line["resolution_ns"]
    time = host if device is None else device
    is_timed = isinstance(time, int) and isinstance(resolution, int)
    if not (isinstance(number, int) and isinstance(text, str) and is_timed):
        raise TypeError
    return (number, text), cast("tuple[int, int]", (time, resolution))
