"""Python exceptions for the messages of programs that failed."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch

_OUT_OF_MEMORY = re.compile(
    r"\b(CUDA|HIP|XPU) out of memory\."
    # PyTorch 2.11 returns no message, and allocations on a GPU fail for no other cause.
    r"|^[^:]*:\d+, allocate[^\n]*@cuda[^\n]*it wrote why to stderr$"
)
_RAISED = re.compile(
    r"(?P<line>.*?): (?P<name>\w[\w.]*)(: (?P<text>.*))?\n\nAt:\n(?P<frames>.*)", re.DOTALL
)
"""What pybind says of an exception in a Python operator, after the line that failed."""
_EMPTY = "<EMPTY MESSAGE>"
_NO_MEMORY = "Cannot access data pointer"
_LINALG: Any = torch.linalg
_OF_PYTORCH: dict[str, type[Exception]] = {
    r": (torch\.)?linalg\.\w+: (\(Batch element \d+\): )?The ": _LINALG.LinAlgError,
    r": index -?\d+ is out of bounds for dimension \d+ with size \d+": IndexError,
}
"""What PyTorch's operators say of exceptions that are not plain ``RuntimeError``."""


def error_of(message: str, raised: BaseException | None = None) -> BaseException:
    """Return the exception that a program's message stands for.

    PyTorch's C interface returns the text of an exception only.  The exception that an
    operator in Python raised is made again from its class, found by its name, and its text;
    where it was raised is a note.  So is the line of one that is still ``raised``, as those
    in a dispatch mode are.  GPU memory that ran out is ``torch.OutOfMemoryError``.
    """
    if raised is not None:
        raised.add_note(f"raised in {message.rstrip(': ')}")
        return raised
    if _OUT_OF_MEMORY.search(message):
        return torch.OutOfMemoryError(message)
    if _NO_MEMORY in message:  # tensors of torch.func and tracing have none
        wanted = "the program takes plain tensors only, with memory of their own"
        return TypeError(f"{message}: {wanted}")
    said = _RAISED.fullmatch(message)
    again = None
    if said is not None:
        text = said["text"] or ""
        found = _class_named(said["name"].rpartition(".")[2], said["frames"])
        again = _again(found, "" if text == _EMPTY else text)
    if said is None or again is None:
        kinds = (kind for text, kind in _OF_PYTORCH.items() if re.search(text, message))
        return next(kinds, RuntimeError)(message)
    again.add_note(f"raised in {said['line']}, at:\n{said['frames'].rstrip()}")
    return again


def _again(found: type[BaseException] | None, text: str) -> BaseException | None:
    """Return an exception of a class, with a text; ``None`` if that cannot be made."""
    if found is None:
        return None
    given: tuple[object, ...] = (text,) if text else ()
    if found is SystemExit:
        return SystemExit(*(int(text) if text.isdecimal() else text for _ in given))
    try:
        if issubclass(found, KeyError):  # its text is the literal of its key
            with suppress(ValueError, SyntaxError):
                given = (ast.literal_eval(text),)
        # A class of the user's may take other arguments.
        error = found.__new__(found, *given)
        error.args = given
        return error if text in str(error) else None
    except Exception:  # whatever such a class raises
        return None


def _class_named(name: str, frames: str) -> type[BaseException] | None:
    """Return the class; of several, the one whose file is among the frames of the error."""
    known: object = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        return known
    named = {found for found in _subclasses(BaseException) if found.__name__ == name}
    if len(named) > 1:
        named = {found for found in named if f"{_file_of(found)}(" in frames}
    return named.pop() if len(named) == 1 else None


def _file_of(found: type[BaseException]) -> object:
    return getattr(sys.modules.get(found.__module__), "__file__", None)


def _subclasses(parent: type[BaseException]) -> Iterator[type[BaseException]]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses(child)
