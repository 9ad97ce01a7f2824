"""The C++ emitter for a made-up device, as another distribution would have it."""

from pathlib import Path
from typing import ClassVar

from wrapperir.emit import Support
from wrapperir.ir import (
    BufferRef,
    ExternKernelLine,
    Language,
    mul,
    product,
)
from wrapperir_cpp.device_table import CPU_TABLE, DeviceTable
from wrapperir_cpp.emitter import CppEmitter
from wrapperir_cpp.kernels import KernelLanguages, launched_kernels
from wrapperir_cpp.lines import CppLines
from wrapperir_cpp.memory import tensor_address
from wrapperir_cpp.streams import format_device_call, format_stream_handle

FOLDER = Path(__file__).parent

ACME_TABLE = DeviceTable(
    kind="acme",
    enumerator="privateuseone",
    functions="acme_functions",
    headers=("acme.h",),
    files=(FOLDER / "acme.h", FOLDER / "acme.cpp"),
    reserved=frozenset({"acme_functions", "acme_run", "acme_copy", "acme_launch"}),
)


class AcmeLines(CppLines):
    """C++ kernels run on the device; copies to and from it are the driver's."""

    languages: ClassVar[KernelLanguages] = {
        **CppLines.languages,
        ("acme", Language.CPP): launched_kernels("acme_run"),
    }

    def visit_extern_kernel(self, line: ExternKernelLine) -> None:
        """Append a copy, and a wait of the host for one to its memory."""
        context = self.context
        if line.device.kind != "acme" or line.operator != "aten.copy_.default":
            super().visit_extern_kernel(line)
            return
        names = [value.name for value in line.arguments if isinstance(value, BufferRef)]
        type = context.facts.tensor_type(names[0])
        bytes = mul(product(type.size), type.dtype.itemsize)
        context.writer.emit_line(
            "acme_copy({}, {}, {}, {});",
            format_stream_handle(context, line.device, line.stream),
            *(tensor_address(context, name) for name in names),
            context.expressions.format_index(bytes),
        )
        if type.device.kind == "cpu":
            call = format_device_call(context, line.device)
            context.writer.emit_line("{}->synchronize({});", call, context.line_number())


class AcmeEmitter(CppEmitter):
    """Emits C++ for the host and the made-up device."""

    name = "acme"
    devices = (CPU_TABLE, ACME_TABLE)
    support = Support(
        devices=frozenset({"cpu", "acme"}),
        streams=frozenset({"cpu", "acme"}),
        languages=frozenset({Language.CPP}),
        choosing=True,
    )

    def lines_class(self) -> type[CppLines]:
        """Return the class with the lines that differ."""
        return AcmeLines
