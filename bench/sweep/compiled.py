"""Compilation of a callable with a named backend, and its diagnostics."""

import re
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

import torch
from torch._dynamo.backends.registry import lookup_backend

P = ParamSpec("P")
R = TypeVar("R")

_CODE = re.compile(r"\bWIR\d{3}\b")


class CountingBackend:
    """A backend that counts the graphs it is given: with none, nothing was compiled."""

    def __init__(self, name: str, options: Mapping[str, object] | None = None) -> None:
        """Wrap the backend registered as ``name``; ``options`` are passed to it."""
        self._backend = lookup_backend(name)
        self._keywords = {} if options is None else {"options": dict(options)}
        self.graphs = 0

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]
    ) -> Callable[..., object]:
        """Compile one graph."""
        self.graphs += 1
        compiled: Callable[..., object] = self._backend(graph, inputs, **self._keywords)
        return compiled


def compile_fresh(function: Callable[P, R], backend: CountingBackend) -> Callable[P, R]:
    """Return the compiled function, after a reset of Dynamo."""
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, dynamic=False)


def diagnostic_code(error: BaseException) -> str | None:
    """Return the code of the diagnostic that caused an error, if one did."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if type(current).__name__ == "DiagnosticError":
            found = _CODE.search(str(current))
            if found:
                return found[0]
        inner = getattr(current, "inner_exception", None)
        current = inner or current.__cause__ or current.__context__
    return None


def first_line(error: BaseException, length: int = 160) -> str:
    """Return the kind of an error and the first line of its message."""
    inner = getattr(error, "inner_exception", None) or error
    lines = str(inner).strip().splitlines()
    return f"{type(inner).__name__}: {lines[0] if lines else ''}"[:length]
