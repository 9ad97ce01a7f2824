"""What an explanation consists of: its subject, nodes, lines and parameters, as data."""

from enum import StrEnum

from attrs import frozen

from wrapperir.analysis.line_traffic import LineTraffic
from wrapperir.ir import NodeOrigin, SourcePlace
from wrapperir.report.copies import CopyReason
from wrapperir.report.model_parameters import ModelParameter


class SubjectKind(StrEnum):
    """The kind of part that is explained."""

    PROGRAM = "program"
    PLACE = "place"
    MODULE = "module"
    NODE = "node"
    KERNEL = "kernel"
    BUFFER = "buffer"


@frozen
class ExplainedNode:
    """A node of the graph, with its stack, the outermost place first."""

    origin: NodeOrigin
    stack: tuple[SourcePlace, ...]


@frozen
class ReadCopy:
    """A copy that a line reads: the number of the line that makes it, and its values."""

    line: int
    values: tuple[str, ...]
    sources: tuple[str, ...]


@frozen
class ExplainedLine:
    """A line: its number in the text, its text, and what it came from.

    ``nodes`` are those of its origins that are asked for, ``others`` the rest.  ``does``
    says what the line does with the buffer that is explained.  ``modules`` are those of
    its nodes, and ``equal_to`` the number of the first line that does the same for an
    equal layer.  ``traffic`` has the bytes that a line of a list of kernels and calls
    reads and writes, if sizes are known.  A reuse of memory that no pass chose is
    ``by_frontend``.
    """

    number: int | None
    text: str
    nodes: tuple[str, ...]
    others: tuple[str, ...]
    passes: tuple[str, ...]
    kernel: str | None = None
    values: tuple[str, ...] = ()
    does: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    equal_to: int | None = None
    copies: tuple[CopyReason, ...] = ()
    read_copies: tuple[ReadCopy, ...] = ()
    traffic: LineTraffic | None = None
    by_frontend: bool = False


@frozen
class Explanation:
    """The nodes that a subject is or came from, and the lines that it became or is in.

    ``parameters`` are those of a module, or the parameter that a buffer is.
    """

    program: str
    kind: SubjectKind
    subject: str
    nodes: tuple[ExplainedNode, ...]
    lines: tuple[ExplainedLine, ...]
    parameters: tuple[ModelParameter, ...] = ()

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that the lines call, each once."""
        return tuple(dict.fromkeys(x.kernel for x in self.lines if x.kernel is not None))
