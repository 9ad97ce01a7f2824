"""What is not to be done with the code of a graph."""

from torch.fx import Graph, Tracer

from wrapperir.diagnostics import Code, Diagnostic, DiagnosticError


class NoTracer(Tracer):
    """Refuses to trace the code of a graph again, as FX does where it loads a module.

    What calls ``torch.empty_strided`` with known sizes would then allocate once, while it
    is traced, and all calls of the module would share that memory.
    """

    def trace(self, *args: object, **kwargs: object) -> Graph:
        """Refuse.

        Raises:
            DiagnosticError: WIR705, always.
        """
        raise DiagnosticError(
            Diagnostic(
                code=Code.UNSUPPORTED_FEATURE,
                message="the code of a graph cannot be traced again: it allocates memory",
                hint="pickle the module that the fx emitter made, not another of its graph",
            )
        )
