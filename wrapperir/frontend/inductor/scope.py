"""State of one block under construction: lines, names, types, live and written names."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wrapperir import ir as wir
from wrapperir.diagnostics import Code
from wrapperir.frontend.inductor.kernel_origins import ComputedNodes

if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering

    from wrapperir.frontend.inductor.session import Session


class BlockScope:
    """One block under construction.

    ``borrowed`` names may not be given away: inputs, constants, parameters of a block.
    ``freeable`` are the borrowed names that ``free`` may drop: a program's inputs.
    ``temporaries`` are freed after the line that is being lowered, and ``at`` is where
    that line came from.
    """

    def __init__(
        self, session: "Session", graph: "GraphLowering", *, nested: bool, suffix: str = ""
    ) -> None:
        """Start an empty block of ``graph``; ``suffix`` is appended to its names."""
        self.session = session
        self.graph = graph
        self.nested = nested
        self._suffix = suffix
        self._computed = ComputedNodes(graph)
        self.lines: list[wir.BodyLine] = []
        self.at: wir.Provenance | None = None
        self.temporaries: list[str] = []
        self.names: dict[str, str] = {}
        self.types: dict[str, wir.ValueType] = {}
        self.live: dict[str, None] = {}
        self.borrowed: set[str] = set()
        self.freeable: set[str] = set()
        self.merged: set[str] = set()
        self.results: dict[str, tuple[str, ...]] = {}
        self.precomputed: dict[str, wir.Expr] = {}
        self.symbols: set[str] = set()
        self.stream = 0
        self.allocated: set[str] = set()
        self.written: set[str] = set()
        self.mutated: set[str] = set()
        self._bases: dict[str, str] = {}
        self._begun: set[str] = set()
        self._initialized: set[str] = set()

    def stream_on(self, device: wir.Device) -> int:
        """Return the number of the current stream, if it is one of a device."""
        return 0 if device.kind == "cpu" else self.stream

    def enter(self, node: Any) -> None:
        """Set the provenance of the following lines to that of an Inductor node."""
        self.at = self.provenance(node)

    def provenance(self, *nodes: Any) -> wir.Provenance | None:
        """Return the provenance of a kernel or call that computes these Inductor nodes."""
        found = self._computed.of(nodes)
        return self.session.origins.provenance(*found) if found else None

    def finish_line(self) -> None:
        """Free the temporaries of the line that was lowered."""
        for name in self.temporaries:
            self.free(name)
        self.temporaries.clear()
        self.at = None

    def name(self, inductor: str) -> str:
        """Return the program's name for a name of Inductor's."""
        known = self.names.get(inductor)
        return f"{inductor}{self._suffix}" if known is None else known

    def borrow(self, name: str, type: wir.ValueType, *, freeable: bool = False) -> None:
        """Add a name that the block is given; its memory has contents."""
        self.types[name] = type
        self.borrowed.add(name)
        self.written.add(name)
        if freeable:
            self.freeable.add(name)

    def own(self, name: str, type: wir.ValueType) -> None:
        """Add a donated input; its memory has contents."""
        self.define(name, type)
        self.written.add(name)

    def define(self, name: str, type: wir.ValueType) -> None:
        """Note that the line appended next or last defines a name."""
        self.types[name] = type
        self.live[name] = None

    def tensor(self, name: str) -> wir.TensorType:
        """Return the type of a tensor that is in scope.

        Raises:
            DiagnosticError: WIR653, it is an object, such as a quantized tensor.
        """
        type = self.types[name]
        if isinstance(type, wir.OpaqueType):
            raise Code.INDUCTOR_VALUE.error(
                f"%{name} is used as a tensor of numbers, and is quantized or an object",
                hint="give quantized tensors to dequantize() alone, or keep them out",
            )
        assert isinstance(type, wir.TensorType), name
        return type

    def is_object(self, name: str) -> bool:
        """Say whether a name is that of an object or of a quantized tensor."""
        return isinstance(self.types.get(name), wir.OpaqueType)

    def reinterpret(self, result: str, source: str, type: wir.TensorType) -> None:
        """Append a view."""
        self.append(
            wir.ReinterpretLine(result=result, source=source, type=type, provenance=self.at)
        )
        self.define(result, type)
        self._bases[result] = source
        if source in self.written:
            self.written.add(result)
        elif self.is_initialized(source):
            self._initialized.add(result)

    def view(self, source: str, type: wir.TensorType) -> str:
        """Append a view under a new name, a temporary, and return the name."""
        name = self.session.temporary("view")
        self.reinterpret(name, source, type)
        self.temporaries.append(name)
        return name

    def reuse(self, result: str, source: str, type: wir.TensorType) -> None:
        """Append a reuse, or a view and a free if the source is borrowed."""
        if source in self.borrowed:
            self.reinterpret(result, source, type)
            self.mutated.add(source)
            self.written.discard(result)
            self.free(source)
            return
        self.append(wir.ReuseLine(result=result, source=source, type=type))
        self.live.pop(source, None)
        self.define(result, type)
        if source in self._bases:
            self._bases[result] = self._bases[source]
        if self.is_initialized(source):
            self._initialized.add(result)

    def free(self, name: str) -> None:
        """Append a free, unless the name was dropped before or is borrowed."""
        if name in self.live:
            del self.live[name]
        elif name in self.freeable:
            self.freeable.discard(name)
        else:
            return
        self.append(wir.FreeLine(buffer=name))

    def write(self, name: str) -> None:
        """Note that a line wrote to a name, and so to a part of its base."""
        self.written.add(name)
        while name in self._bases:
            name = self._bases[name]
            self._begun.add(name)
        if name in self.borrowed:
            self.mutated.add(name)

    def zero(self, name: str, provenance: wir.Provenance | None = None) -> None:
        """Append a call that writes zeros to a tensor."""
        device = self.tensor(name).device
        self.append(
            wir.ExternKernelLine(
                operator="aten.zero_.default",
                arguments=(wir.BufferRef(name),),
                writes=(name,),
                device=device,
                stream=self.stream_on(device),
                provenance=provenance,
            )
        )
        self.write(name)

    def fill_unwritten(self, names: Iterable[str]) -> None:
        """Write zeros to memory that is read next, and that the model left as it found it.

        A program reads nothing that was not written; the model may, of ``torch.empty``.
        """
        for name in dict.fromkeys(map(self._root, names)):
            if name in self.allocated and not self.is_initialized(name):
                self.zero(name, self.at)

    def has_contents(self, name: str) -> bool:
        """Say whether some of the memory under a name was written before."""
        return name in self.written or name in self._begun

    def is_initialized(self, name: str) -> bool:
        """Say whether anything was ever written to the memory under a name."""
        return self.has_contents(name) or name in self._initialized

    def is_view_of_borrowed(self, name: str) -> bool:
        """Say whether a name is borrowed or a view of a borrowed name."""
        return self._root(name) in self.borrowed

    def _root(self, name: str) -> str:
        """Return the name that a name is a view of, or the name itself."""
        while name in self._bases:
            name = self._bases[name]
        return name

    def append(self, line: wir.BodyLine) -> None:
        """Append a line."""
        self.lines.append(line)

    def resolve(self, expr: wir.Expr) -> wir.Expr:
        """Return an expression with this block's precomputed sizes put in."""
        return wir.substitute(expr, self.precomputed) if self.precomputed else expr
