"""Escaping of text for Markdown."""


def escape_cell(value: object) -> str:
    """Return a value's text so that a table's cell shows it as it is; of None, none."""
    text = "" if value is None else str(value)
    for character in "\\`|<>*_[]":
        text = text.replace(character, f"\\{character}")
    return text
