"""Kernels of the kit in an emitter's own language, in place of those in C++."""

from collections.abc import Sequence

from attrs import evolve, frozen

from wrapperir import ir as wir
from wrapperir.emit import Emitter
from wrapperir.lowering.renderer import Renderer
from wrapperir.plugin import plugin_manager
from wrapperir.testing.kernel_nests import rendered_kernel
from wrapperir.testing.kernels import KernelKind, cpp_kernel

OF_THE_KIT = frozenset({wir.Language.CPP, wir.Language.TRITON})
"""Languages that the kit has kernels in."""


@frozen
class OwnKernels:
    """The kernels that an emitter, or a renderer, writes for a device in place of C++."""

    emitter: Emitter
    device: wir.Device
    renderers: Sequence[Renderer]

    @property
    def exist(self) -> bool:
        """Whether there is one: the kernel that most cases have."""
        return self.kernel(cpp_kernel(KernelKind.NEGATE)) is not None

    def kernel(self, line: wir.KernelDefinitionLine) -> wir.KernelDefinitionLine | None:
        """Return a kernel in place of one in C++, ``None`` if there is none."""
        own = self.emitter.own_kernel(line)
        for renderer in self.renderers if own is None else ():
            own = own or rendered_kernel(line, renderer, self.device)
        return own

    def write(self, program: wir.Program) -> wir.Program:
        """Return a program with own kernels in place of those in C++ that have one."""
        definitions = [
            (self.kernel(line) or line)
            if isinstance(line, wir.KernelDefinitionLine)
            and line.language is wir.Language.CPP
            else line
            for line in program.definitions
        ]
        return evolve(program, definitions=tuple(definitions))


def own_kernels(emitter: Emitter, kind: str) -> OwnKernels | None:
    """Return an emitter's own kernels for a kind of device, ``None`` without any.

    They are in another language than C++ and Triton, in which the kit has kernels.
    """
    languages = emitter.support.languages - OF_THE_KIT
    if not languages:
        return None
    renderers = [r for r in plugin_manager().renderers(kind) if r.language in languages]
    found = OwnKernels(emitter, wir.Device(kind, 0), renderers)
    return found if found.exist else None
