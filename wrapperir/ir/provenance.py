"""Where lines came from: operators of a graph, places in the user's source, passes.

A program lists its origins and places once, and its lines refer to origins by name.  All
of it is only shown: nothing that a program does depends on it.
"""

from attrs import frozen


@frozen(kw_only=True)
class SourcePlace:
    """A place in the user's source: file, 1-based line and function.

    ``caller`` is the place that calls it: the index of an earlier one of the program.
    """

    file: str
    line: int
    function: str | None = None
    caller: int | None = None


@frozen(kw_only=True)
class NodeOrigin:
    """A node of the graph that lines came from.

    ``operator`` is the one that the user's code called, ``module`` the path of the module
    that called it, such as ``layers.0.mlp``, and ``place`` the index of the innermost place
    of its stack.
    """

    name: str
    operator: str | None = None
    module: str | None = None
    place: int | None = None


@frozen(kw_only=True)
class Provenance:
    """Names of the origins of a line, and of the passes that made, changed or moved it."""

    origins: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
