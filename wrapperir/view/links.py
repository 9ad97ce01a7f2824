"""The parts of a program that a page shows, and what links them, as data.

Parts refer to each other by index.  Lines are those of the program's body, of nested
blocks too, in the order of the text.
"""

from attrs import frozen


@frozen(kw_only=True)
class LinkedLine:
    """A line: its 1-based number in the program's text and, without blocks, its text.

    ``nodes`` are those that it came from, and ``kernel`` or ``operator`` is what it calls.
    ``reads`` and ``writes`` are the bytes that a call reads and writes: those that its
    kernel touches at most, if it is ``touched``, or else those of whole tensors;
    ``values`` are the names that it makes, uses or drops, and ``sources`` the lines that
    last wrote what a call reads, each with the name of a value that it wrote.  ``ns`` is
    the time that it takes in a call, in nanoseconds, if a profile says so; less than
    ``resolution_ns`` is not told from nothing.  ``alike`` is the first line that does the
    same for an equal layer.  A reuse of memory that no pass chose is ``by_frontend``.
    """

    number: int
    text: str
    depth: int = 0
    nodes: tuple[int, ...] = ()
    kernel: int | None = None
    operator: str | None = None
    passes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    sources: tuple[tuple[int, str], ...] = ()
    reads: int = 0
    writes: int = 0
    touched: bool = False
    by_frontend: bool = False
    ns: int | None = None
    resolution_ns: int = 0
    alike: int = 0


@frozen(kw_only=True)
class LinkedNode:
    """A node of the graph; ``places`` is its stack in the source, the innermost first."""

    name: str
    operator: str | None = None
    module: str | None = None
    places: tuple[int, ...] = ()


@frozen(kw_only=True)
class LinkedPlace:
    """A place in a source file: the file's index, a 1-based line, and the function."""

    file: int
    line: int
    function: str | None = None


@frozen(kw_only=True)
class LinkedKernel:
    """A kernel or multi-kernel, and where the program's text defines it.

    ``begin`` and ``end`` are the first and the last line of the definition, ``source`` the
    line of the first row of its source, or 0, and ``calls`` the lines that call it.  Rows
    of the source count from 0: ``own`` is where the kernel's own code begins, after what
    other kernels have too, and ``statements`` are rows with the nodes that they are for,
    if these are known.  ``parts`` are the kernels that it runs in turn, if it does: the
    name and the nodes of each.
    """

    name: str
    language: str
    begin: int
    end: int
    source: int = 0
    own: int = 0
    statements: tuple[tuple[int, tuple[int, ...]], ...] = ()
    parts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    calls: tuple[int, ...] = ()


@frozen(kw_only=True)
class LinkedCopy:
    """Why a line copies, as a :class:`~wrapperir.report.CopyReason` says.

    ``values`` are what it writes the copy to, if it writes others too or ``sources`` are
    known.
    """

    line: int
    values: tuple[str, ...]
    nodes: tuple[int, ...]
    views: tuple[int, ...]
    readers: tuple[int, ...]
    whole: bool
    sources: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    part_of: str | None = None
    bytes: int | None = None
    fused: tuple[int, ...] = ()
    returned: bool = False


@frozen(kw_only=True)
class LinkedValue:
    """A value, and the nodes of the lines that make and write it."""

    name: str
    nodes: tuple[int, ...]


@frozen(kw_only=True)
class LinkedParameter:
    """A value that the user's model holds: its name, its dotted path, and its type.

    ``tied`` are other paths of the same value, and ``lines`` those that read or write it.
    """

    name: str
    path: str
    type: str
    tied: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()


@frozen(kw_only=True)
class ShownFile:
    """A source file; ``missing`` says why it has no ``lines``."""

    path: str
    lines: tuple[str, ...] = ()
    missing: str | None = None


@frozen(kw_only=True)
class CodeRange:
    """Lines of an emitted file, from 1-based ``begin`` to ``end``, and what they are for.

    That is a line, a kernel, or nodes, of which a kernel may be given that runs the lines.
    ``others`` are further kernels that run them.
    ``source`` is the line of the first row of a kernel's source, or 0 where that is not
    known.
    """

    begin: int
    end: int
    line: int | None = None
    kernel: int | None = None
    nodes: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    source: int = 0


@frozen(kw_only=True)
class CodeFile:
    """An emitted file, in the language that its name says."""

    path: str
    text: str
    ranges: tuple[CodeRange, ...] = ()


@frozen(kw_only=True)
class EmittedCode:
    """The code of one emitter: files, or the reasons why it refuses the program.

    The stages of a lowering are shown beside them, as the code of ``loops``.
    """

    emitter: str
    files: tuple[CodeFile, ...] = ()
    refusals: tuple[str, ...] = ()


@frozen(kw_only=True)
class ShownDecision:
    """A decision about nodes: what was decided of which parts, and why.

    ``bytes`` is the memory traffic that it saves, or would save.
    """

    kind: str
    subject: str
    reason: str = ""
    bytes: int | None = None
    nodes: tuple[int, ...] = ()


@frozen(kw_only=True)
class LinkedProgram:
    """A program's text, and its parts with their links."""

    name: str
    text: str
    lines: tuple[LinkedLine, ...]
    nodes: tuple[LinkedNode, ...]
    places: tuple[LinkedPlace, ...]
    kernels: tuple[LinkedKernel, ...]
    files: tuple[ShownFile, ...]
    copies: tuple[LinkedCopy, ...] = ()
    values: tuple[LinkedValue, ...] = ()
    parameters: tuple[LinkedParameter, ...] = ()
    codes: tuple[EmittedCode, ...] = ()
