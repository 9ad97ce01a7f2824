"""The FX emitter: programs as graphs of PyTorch's."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Self

from attrs import define

from wrapperir.emit import Artifact, ComingPrograms, Emitter, GraphCompiler, Loaded, Support
from wrapperir.ir import Language, Program

if TYPE_CHECKING:
    import torch

    from wrapperir.fx import GraphParts

ENTRY = "program.wir"
GRAPH = "graph.py"


@define(kw_only=True, eq=False, slots=False)
class FxEmitter(Emitter):
    """Emits the program, and its graph as it prints; loading builds the graph.

    ``compile_graph`` is given the module of each loaded graph, and returns what runs it;
    without, the module's own code does.  With ``trusts_inputs``, calls do not check their
    inputs.
    """

    name = "fx"
    support = Support(
        languages=frozenset(Language),
        streams=frozenset({"cpu", "cuda"}),
        limits=("a C++ kernel does not run on cuda",),
        descriptors=True,
        choosing=True,
    )

    compile_graph: GraphCompiler | None = None
    trusts_inputs: bool = False

    def trusting_inputs(self) -> Self:
        """Return this emitter, made for callers whose guards have checked the inputs."""
        changed = copy(self)
        changed.trusts_inputs = True
        return changed

    def compiling_graphs(self, compile_graph: GraphCompiler) -> Self:
        """Return this emitter, made to run each graph as ``compile_graph`` compiles it."""
        changed = copy(self)
        changed.compile_graph = compile_graph
        return changed

    def preparations(self, coming: ComingPrograms) -> Sequence[Callable[[], object]]:
        """Return the builds of what calls kernels, and the start of Triton's compiler."""
        import torch

        from wrapperir.emit.python.extension_modules import build_launches, cpp_preparations
        from wrapperir.kernels.triton_compile import start_compiler

        has_cuda = "cuda" in coming.devices and torch.version.hip is None
        if coming.is_new:
            return (start_compiler,) if has_cuda else ()
        of_cuda = (build_launches,) if has_cuda else ()
        return (*of_cuda, *cpp_preparations(coming))

    def emit(self, program: Program) -> Artifact:
        """Return ``program.wir``, and ``graph.py`` to read.

        Raises:
            DiagnosticError: the program holds what a graph cannot express; all such
                places are named.
        """
        from wrapperir.text import format_program
        from wrapperir_fx.graph_text import format_graph

        files: dict[str, str | bytes] = {
            ENTRY: format_program(program),
            GRAPH: format_graph(program, self.build_graph(program)),
        }
        return Artifact(self.name, files, ENTRY)

    def shown_files(self, artifact: Artifact) -> tuple[str, ...]:
        """Return the paths of the printed graph and of the program, with its kernels."""
        return GRAPH, ENTRY

    def build_graph(self, program: Program) -> "GraphParts":
        """Return the graph of a verified program, without kernels that are built.

        Raises:
            DiagnosticError: the program holds what a graph cannot express.
        """
        from wrapperir_fx.graph_builder import build_graph  # it imports torch

        return build_graph(program)

    def load(self, artifact: Artifact, constants: Mapping[str, "torch.Tensor"]) -> Loaded:
        """Build the kernels and the graph, and return a function that runs it.

        Raises:
            DiagnosticError: a constant is missing, a kernel does not compile, or
                ``compile_graph`` fails.
        """
        from wrapperir_fx.load import load_graph

        return load_graph(
            artifact, constants, self.compile_graph, trusts_inputs=self.trusts_inputs
        )
