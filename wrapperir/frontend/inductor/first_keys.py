"""Graphs looked up as Dynamo traced them, where PyTorch first changes them (before 2.13).

There the key of a graph is made after passes that only the compiler's modules have.  Here
the graph is looked up before, and what is then compiled is kept under the key that it had.
A key holds the settings by which those passes change a graph.
"""

import contextlib
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from inspect import signature
from typing import Any

import torch
from attrs import define
from torch._functorch import aot_autograd
from torch._functorch._aot_autograd import autograd_cache
from torch._inductor import config

from wrapperir.frontend.inductor.shared_patch import SharedPatch

LOOKS_UP_FIRST = (
    "pre_grad_passes" in signature(aot_autograd.aot_module_simplified).parameters
)
"""Whether PyTorch looks a graph up as Dynamo traced it."""


class NotKeptError(Exception):
    """A graph has to be compiled."""


@define
class _Lookup:
    """A graph that this thread looks up, and then compiles.

    Attributes:
        key: What PyTorch's key of it was, once one was made.
        compiles: Whether it is compiled now.
    """

    key: Any = None
    compiles: bool = False


_lookup: ContextVar[_Lookup | None] = ContextVar("_lookup", default=None)


@contextlib.contextmanager
def kept_as_traced(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Generator[None]:
    """Have a graph kept under the key by which :func:`looking_up` finds it."""
    if LOOKS_UP_FIRST or not _has_one_key(graph, inputs):
        yield
        return
    token = _lookup.set(_Lookup())
    try:
        with _keeping_keys:
            yield
    finally:
        _lookup.reset(token)


@contextlib.contextmanager
def looking_up() -> Generator[None]:
    """Look a graph up and compile nothing.

    Raises:
        NotKeptError: it is not kept.
    """
    if LOOKS_UP_FIRST:
        yield
        return
    lookup = _lookup.get()
    if lookup is None:
        raise NotKeptError
    try:
        with _refusing:
            yield
    finally:
        lookup.compiles = True


def _has_one_key(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Say whether a key of the graph stands for what PyTorch compiles.

    It packs the inputs or results of other graphs anew.  A pass of the user's over a graph
    that is not traced yet may have no name.
    """
    is_flat = not any(isinstance(value, (list, tuple, dict)) for value in inputs)
    (results,) = graph.graph.output_node().args
    return (
        is_flat and isinstance(results, (list, tuple)) and not config.pre_grad_custom_pass
    )


def _keep_key(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes the key of a graph; once it is compiled, it is the first one."""

    def key(*arguments: Any) -> Any:
        lookup = _lookup.get()
        if lookup is None:
            return stock(*arguments)
        if not lookup.compiles:
            lookup.key = stock(*arguments)
            return lookup.key
        _lookup.set(None)  # what else is compiled meanwhile is another graph
        return stock(*arguments) if lookup.key is None else lookup.key

    return key


def _refuse(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return the first step of a compilation, which a graph that is looked up stops at."""

    def begin(*arguments: Any, **options: Any) -> Any:
        lookup = _lookup.get()
        if lookup is not None and not lookup.compiles:
            raise NotKeptError
        return stock(*arguments, **options)

    return begin


_keeping_keys = SharedPatch(autograd_cache, "autograd_cache_key", _keep_key)
_refusing = SharedPatch(aot_autograd, "create_aot_state", _refuse)
