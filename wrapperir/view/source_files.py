"""Reads the source files that a program's origins name, as far as they are there."""

import os
import tokenize
from pathlib import Path

from wrapperir.view.links import ShownFile

LARGEST = 4 << 20
"""Bytes of the largest file that is read."""


def read_source_file(path: str) -> ShownFile:
    """Return a file's lines, or why there are none; it never raises.

    Only regular files of Python are read: a program that someone else wrote can name any
    file, and a page may be given away.
    """
    if not path.endswith(".py"):
        return ShownFile(path=path, missing="only files that end in .py are read")
    try:
        file = Path(path)
        if not file.is_file():
            return ShownFile(path=path, missing="there is no such file here")
        if file.stat().st_size > LARGEST:
            return ShownFile(path=path, missing=f"the file has more than {LARGEST} bytes")
        with tokenize.open(path) as stream:
            text = stream.read()
    except OSError as error:
        return ShownFile(path=path, missing=os.strerror(error.errno or 0))
    except (SyntaxError, ValueError):  # an unknown encoding, wrong bytes, a null in a name
        return ShownFile(path=path, missing="the file is not text")
    return ShownFile(path=path, lines=tuple(text.split("\n")))
