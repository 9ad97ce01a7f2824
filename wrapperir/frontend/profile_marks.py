"""Marks of calls of programs in PyTorch's profiles, as Inductor makes them."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import torch

from wrapperir.caching import digest_of

if TYPE_CHECKING:
    from wrapperir.emit import Loaded, Value

_PROFILER = cast(Any, torch).autograd.profiler
_RECORD = cast(Any, torch)._C._profiler._RecordFunctionFast

_digest = lru_cache(maxsize=64)(digest_of)


def marking(call: "Loaded", code: str) -> "Loaded":
    """Return the callable of a program that marks its calls while a profiler records.

    A mark has the digest of ``code``.  AOTAutograd gives the callable one list, which it
    empties.
    """

    def run(args: "list[Value]") -> "tuple[Value, ...]":
        if not _PROFILER._is_profiler_enabled:
            return call(args)
        with _RECORD(f"## Call CompiledFxGraph {_digest(code)} ##"):
            return call(args)

    vars(run)["_boxed_call"] = True
    return run
