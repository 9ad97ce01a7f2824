"""The emitter: Python that allocates and launches through the accelerator's driver."""

from collections.abc import Sequence

from wrapperir.emit import Emitter, Fragment, Support, fragment
from wrapperir.ir import Device, Language, TensorType
from wrapperir.plugin import hookimpl
from wrapperir_python.context import Callee
from wrapperir_python.emitter import PythonEmitter
from wrapperir_python.lines import PythonLines

RUNTIME = "wrapperir_acme.runtime"
ALIGNMENT = 64
"""Bytes to which the driver aligns what it allocates."""


class AcmeLines(PythonLines):
    """Each line as the Python emitter writes it, but for memory and launches."""

    def format_allocation(self, type: TensorType, *, in_call: bool = True) -> Fragment:
        """Allocate through the driver, which knows no pinned or over-aligned memory."""
        if type.pinned or (type.alignment or 0) > ALIGNMENT or type.offset != 0:
            return super().format_allocation(type, in_call=in_call)
        return fragment(
            "{}({}, {}, {})",
            self.module.import_from(RUNTIME, "allocate"),
            self.expressions.format_tuple(type.size),
            self.expressions.format_tuple(type.stride),
            self.arguments.format_dtype(type.dtype),
        )

    def emit_launch(self, callee: Callee, arguments: Fragment, device: Device) -> None:
        """Launch through the driver."""
        launch = self.module.import_from(RUNTIME, "launch")
        self.writer.emit_line("{}({}, {})", launch, callee.function, arguments)


class AcmeEmitter(PythonEmitter):
    """Emits Python for the Acme accelerator."""

    name = "acme"
    support = Support(languages=frozenset({Language.CPP}), devices=frozenset({"cpu"}))
    lines = AcmeLines


@hookimpl
def wrapperir_emitters() -> Sequence[Emitter]:
    """Return the emitter of this plugin."""
    return (AcmeEmitter(),)
