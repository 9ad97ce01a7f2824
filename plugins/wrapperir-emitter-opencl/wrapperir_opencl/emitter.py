"""The emitter: a C host program over the OpenCL API, without PyTorch at run time."""

from collections.abc import Sequence
from typing import ClassVar

from wrapperir.emit import Support
from wrapperir.emit.c.emitter import CEmitter
from wrapperir.emit.c.lines import COPY, CLines
from wrapperir.emit.partial_lines import declared_lines
from wrapperir.ir import Language
from wrapperir_opencl.kernels import DEVICE
from wrapperir_opencl.lines import OpenclLines


class OpenclEmitter(CEmitter):
    """Emits ``program.c``, with kernels in OpenCL C, and a loader for it.

    Kernels run on the device ``opencl``.  Tensors are there or on ``cpu``, and
    ``aten.copy_.default`` copies between both.  Inputs and outputs that a program has on
    the device are copied from the host's memory and to it.
    """

    name = "opencl"
    lines: ClassVar[type[CLines]] = OpenclLines
    libraries: ClassVar[Sequence[str]] = ("-lOpenCL",)
    support = Support(
        lines=declared_lines(OpenclLines),
        languages=frozenset({Language.OPAQUE}),
        devices=frozenset({"cpu", DEVICE}),
        streams=frozenset({"cpu", DEVICE}),
        operators=frozenset({COPY}),
        hosted=frozenset({DEVICE}),
        greatest_alignment=128,  # every implementation of the full profile has it
        limits=("loops that stack their values",),
    )
