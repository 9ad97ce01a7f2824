"""Sources of C++ kernels as texts: their includes, and several as one.

Most of the time to compile a kernel is for PyTorch's header, so kernels that include no
other header are compiled several at a time.
"""

import os
import re
from collections.abc import Mapping, Sequence

HEADER = "torch/csrc/inductor/cpp_prefix.h"
"""PyTorch's header, which kernels of Inductor include."""

# The first header includes the others, so these are the same for every kernel.
_HEADERS = (f"#include <{HEADER}>\n", "#include <cmath>\n", "#include <cstdint>\n")
_INCLUDES = re.compile(r"(?:[ \t]*#[ \t]*include[ \t][^\n\\]*\n|[ \t]*\n)*")
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(?!pragma\b)(.*)$", re.MULTILINE)
_LARGEST_UNIT = 32
"""The most kernels that are compiled together."""
_WRITTEN_WITH = "// written with "
"""Begins the last line of a source that names its vector instructions."""


def split_includes(source: str) -> tuple[str, str]:
    """Return the includes that a source begins with, and what follows."""
    includes = _INCLUDES.match(source)
    end = includes.end() if includes else 0
    return source[:end], source[end:]


def is_joinable(text: str) -> bool:
    """Return whether a source may be put into a namespace, after the known headers.

    It has no directives but one ``#define`` and its ``#undef``, of its entry.
    """
    directives = _DIRECTIVE.findall(_without_headers(text))
    return [words.partition(" ")[0] for words in directives] == ["define", "undef"]


def joined_source(texts: Mapping[str, str]) -> str:
    """Return joinable sources as one, each in the namespace that is its key."""
    parts = [
        f"namespace {name} {{\n{_without_headers(text)}}}\n" for name, text in texts.items()
    ]
    if any(HEADER in text for text in texts.values()):
        return "".join((*_HEADERS, *parts))
    # Kernels without a header compile in a tenth of the time that <cmath> alone takes.
    included = [h for h in _HEADERS if any(h in text for text in texts.values())]
    return "".join((*included, *parts))


def _without_headers(text: str) -> str:
    while header := next((h for h in _HEADERS if text.startswith(h)), None):
        text = text.removeprefix(header)
    return text


def units_of(texts: Sequence[str]) -> list[list[int]]:
    """Return the indices of sources that are compiled together, on all processors."""
    joinable = [index for index, text in enumerate(texts) if is_joinable(text)]
    alone = [[index] for index in range(len(texts)) if index not in {*joinable}]
    most = min(os.cpu_count() or 1, len(joinable))
    count = max(most, -(-len(joinable) // _LARGEST_UNIT))
    return [*(joinable[first::count] for first in range(count)), *alone]


def with_vectors(text: str, vectors: str | None) -> str:
    """Return a kernel's source that says with which vector instructions it is written."""
    return text if vectors is None else f"{text}\n{_WRITTEN_WITH}{vectors}\n"


def written_vectors(text: str) -> str | None:
    """Return the vector instructions that :func:`with_vectors` put into a source."""
    last = text.removesuffix("\n").rpartition("\n")[2]
    found = last.removeprefix(_WRITTEN_WITH)
    return None if found == last else found
