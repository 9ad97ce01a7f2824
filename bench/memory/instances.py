"""A reader of public instances: CSV with a row ``id,lower,upper,size`` for each buffer."""

import csv
from pathlib import Path

from wrapperir.planning import Buffer

_COLUMNS = ("id", "lower", "upper", "size")


def read_instance(path: Path) -> tuple[Buffer, ...]:
    """Return the buffers of a CSV file in the order of its rows.

    A buffer is alive from ``lower`` up to, not including, ``upper``.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not such a file; the message names file and line.
    """
    try:
        return parse_instance(path.read_text(encoding="utf-8"))
    except ValueError as error:  # UnicodeDecodeError too
        raise ValueError(f"{path}: {error}") from None


def parse_instance(text: str) -> tuple[Buffer, ...]:
    """Return the buffers of CSV text; see :func:`read_instance`.

    Raises:
        ValueError: the text is not such CSV; the message names the line.
    """
    rows = csv.reader(text.splitlines())
    try:
        header = tuple(name.strip() for name in next(rows, ()))
        if header != _COLUMNS:
            raise ValueError(f"expected the columns {','.join(_COLUMNS)}")
        buffers: list[Buffer] = []
        ids: set[str] = set()
        for row in rows:
            if row:
                buffers.append(_parse_row(row, ids))
    except (ValueError, csv.Error) as error:
        raise ValueError(f"line {max(rows.line_num, 1)}: {error}") from None
    return tuple(buffers)


def _parse_row(row: list[str], ids: set[str]) -> Buffer:
    """Return a row's buffer; ``ids`` are those of the rows before it, and grows."""
    if len(row) != len(_COLUMNS):
        raise ValueError(f"expected {len(_COLUMNS)} values, found {len(row)}")
    if row[0] in ids:
        raise ValueError(f"buffer {row[0]} is there twice")
    ids.add(row[0])
    numbers: list[int] = []
    for name, value in zip(_COLUMNS[1:], row[1:], strict=True):
        if not value.strip().isdecimal() or not value.isascii() or len(value) > 18:
            raise ValueError(f"{name} is to be a whole number, found {value!r}")
        numbers.append(int(value))
    lower, upper, size = numbers
    if upper < lower:
        raise ValueError(f"upper {upper} is before lower {lower}")
    return Buffer(size, lower, upper)
