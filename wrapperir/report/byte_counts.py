"""Writing numbers of bytes for people."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_bytes(count: int) -> str:
    """Return bytes in the largest unit of 1024s that leaves at least one: ``1.5 MiB``.

    What is not exact has three significant digits or more.
    """
    unit = max(0, (abs(count).bit_length() - 1) // 10)
    unit = min(unit, len(_UNITS) - 1)
    if unit == 0:
        return "1 byte" if count == 1 else f"{count} bytes"
    value = count / 1024**unit
    digits = 2 if value < 10 else 1 if value < 100 else 0
    text = f"{value:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {_UNITS[unit]}"
