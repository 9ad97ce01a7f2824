"""What is not to be done with the code of a graph."""

import copyreg
from typing import NoReturn

from torch.fx import Graph, Tracer

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError


class _NotPickled(type):
    """The class of a class that FX would name in a pickle, and use where it is loaded."""


class NoTracer(Tracer, metaclass=_NotPickled):
    """Refuses to trace the code of a graph again, as FX does where it loads a module.

    What calls ``torch.empty_strided`` with known sizes would then allocate once, while it
    is traced, and all calls of the module would share that memory.
    """

    def trace(self, *args: object, **kwargs: object) -> Graph:
        """Refuse.

        Raises:
            DiagnosticError: WIR705, always.
        """
        raise _refused()


def _refuse(tracer: type) -> NoReturn:
    raise _refused()


def _refused() -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            code=Code.UNSUPPORTED_FEATURE,
            message="the code of a graph cannot be traced again: it allocates memory",
            hint="save the module that the fx emitter made, or a copy.deepcopy of it, not"
            " another module of its graph",
        )
    )


# So what cannot be loaded is not saved: FX saves a module with the tracer of its graph.
copyreg.pickle(_NotPickled, _refuse)
