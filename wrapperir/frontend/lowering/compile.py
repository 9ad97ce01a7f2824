"""Compilation of graphs that Dynamo traced, through AOTAutograd and loops of our own."""

import contextlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch
from attrs import evolve, frozen
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._functorch import config as functorch_config
from torch._subclasses.fake_tensor import unset_fake_temporarily

from wrapperir.diagnostics import Code, DiagnosticError, Note, first_line
from wrapperir.emit import OutputCode
from wrapperir.frontend import Lowered
from wrapperir.frontend.aten.attention import densify_masks
from wrapperir.frontend.aten.marked_inputs import MarkedInputs, mark_inputs
from wrapperir.frontend.aten.storage_offsets import example_offsets, input_places
from wrapperir.frontend.donation import donated_inputs, keep_apart, retaining
from wrapperir.frontend.failures import (
    ReportFailure,
    compile_or_fall_back,
    error_origin,
    node_location,
)
from wrapperir.frontend.kept_programs import KeptProgram, kept_program
from wrapperir.frontend.lowering.accumulation import (
    accumulate_products,
    accumulate_rows,
)
from wrapperir.frontend.lowering.decompositions import table
from wrapperir.frontend.lowering.graph_key import (
    dynamo_graph_key,
    graph_key,
    guard_count,
)
from wrapperir.frontend.lowering.padding import (
    pad_rows,
    padded_strides,
    report_strides,
    take_examples,
)
from wrapperir.frontend.lowering.program_cache import (
    find_program,
    has_programs,
    keep_program,
    program_cache,
)
from wrapperir.frontend.named_program import name_program
from wrapperir.frontend.opaque_inputs import refuse_opaque_inputs
from wrapperir.frontend.output_code import show_output_code, show_texts
from wrapperir.frontend.passed_objects import PassedObjects, PassedResult
from wrapperir.frontend.preparation import Prepare, prepare_nothing
from wrapperir.frontend.profile_marks import marking
from wrapperir.frontend.user_names import UserNames, dynamo_names
from wrapperir.ir import KernelDefinitionLine, Program

if TYPE_CHECKING:
    from wrapperir.emit import Loaded

CompileProgram: TypeAlias = (
    "Callable[[Lowered, bool, Callable[[OutputCode], None]], Loaded]"
)
"""Turns a program into a callable.

It is given whether the program is a backward, and a function to show emitted code to.
"""

FallBack: TypeAlias = Callable[[torch.fx.GraphModule, Sequence[Any], bool], Any]
"""Compiles a traced graph, in whose place a program was to run; it may be a backward."""


class GraphKeeper(Protocol):
    """What has PyTorch keep graphs together with what AOTAutograd makes of them."""

    def compiler(self, compile: Callable[..., Any]) -> Any:
        """Return a compiler for AOTAutograd, which looks a graph up before it traces it."""
        ...

    def keyed_by(self, key: str) -> AbstractContextManager[None]:
        """Look graphs up under PyTorch's key and ``key``."""
        ...

    def code(
        self,
        kept: KeptProgram,
        constants: Mapping[str, torch.Tensor],
        call: Callable[[list[Any]], Any],
    ) -> Any:
        """Return the compiled code of a graph, as PyTorch keeps it."""
        ...


@frozen(kw_only=True)
class LoweringSettings:
    """Settings of the compilation of a graph.

    ``rounding`` is the value of a :class:`~wrapperir.lowering.schedule.Rounding`.
    Without ``times_configs``, kernels have their first config only, which rules choose.
    Programs are kept for later processes if ``cache_key`` is the key of how they are
    compiled; with a ``keeper``, whole graphs are, too.  What graphs have on the CPU is on a
    device of ``kernel_device`` in programs, if it is given.  ``report`` is given the error
    of each graph that fails.
    """

    rounding: str = "fused"
    times_configs: bool = True
    cache_key: str | None = None
    keeper: GraphKeeper | None = None
    fall_back: FallBack | None = None
    kernel_device: str | None = None
    report: ReportFailure | None = None


def compile_graph(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compile: CompileProgram,
    settings: LoweringSettings,
    prepare: Prepare = prepare_nothing,
) -> Callable[..., Any]:
    """Compile a graph that Dynamo traced; return the callable that replaces it.

    A training graph gives a forward and a backward program, the backward maybe not before
    it first runs.  ``prepare`` is called before what is not kept is compiled.

    Raises:
        DiagnosticError: the graph has something that a program cannot express, ``compile``
            raised it, or WIR655, the lowering failed.
    """

    def compiler(*, backward: bool, saves: bool = False) -> Callable[..., Any]:
        def compile_traced(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            prepare(is_new=False)
            fall_back = settings.fall_back
            take_examples(module, inputs)
            if settings.rounding == "fused":  # it rounds once where eager does twice
                if backward:
                    accumulate_rows(module.graph)
                accumulate_products(module.graph)
            pad_rows(module, saves=saves)
            marked = mark_inputs(module.graph, conjugated=True)
            traced = _TracedGraph(module, inputs, backward, settings, names, marked)
            return compile_or_fall_back(
                lambda: traced.compile(compile, prepare),
                None if fall_back is None else lambda: fall_back(module, inputs, backward),
                is_backward=backward,
                report=settings.report,
            )

        return compile_traced

    refuse_opaque_inputs(graph, example_inputs)
    cache = None if settings.cache_key is None else program_cache()
    if cache is None or not has_programs(cache):
        prepare(is_new=False)  # compilers run while AOTAutograd traces
    densify_masks(graph)
    names = dynamo_names(graph)
    keeper = settings.keeper
    facts = [settings.cache_key, settings.rounding, settings.times_configs, names.digest]
    key = None if keeper is None else dynamo_graph_key(graph, facts)
    compilers = {
        "fw_compiler": compiler(backward=False, saves=True),
        "bw_compiler": compiler(backward=True),
        "inference_compiler": compiler(backward=False),
    }
    looking_up: AbstractContextManager[None] = contextlib.nullcontext()
    if keeper is not None and key is not None:
        compilers = {name: keeper.compiler(each) for name, each in compilers.items()}
        looking_up = keeper.keyed_by(key)
    backend: Any = aot_autograd(
        **compilers,
        decompositions=dict(table()),
        partition_fn=_partition,
        keep_inference_input_mutations=True,
    )
    unlifted: Any = functorch_config.patch(unlift_effect_tokens=True)
    with looking_up, unlifted:  # so the graph does not take effect tokens as arguments
        compiled: Callable[..., Any] = backend(graph, list(example_inputs))
    return compiled


def _partition(
    joint: torch.fx.GraphModule, inputs: Sequence[Any], **settings: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    from wrapperir.frontend.lowering.partition import partition  # for training only

    return partition(joint, inputs, **settings)


@frozen
class _TracedGraph:
    """A forward or backward graph of AOTAutograd's, and its examples."""

    module: torch.fx.GraphModule
    inputs: Sequence[Any]
    backward: bool
    settings: LoweringSettings
    user_names: UserNames
    marked: MarkedInputs

    def compile(self, compile: CompileProgram, prepare: Prepare) -> Any:
        """Return the compiled code of the program that is kept, or of a new one."""
        with contextlib.ExitStack() as stack:
            donated = frozenset[int]()
            if self.backward:
                donated = stack.enter_context(donated_inputs(self.inputs))
            cache = None if self.settings.cache_key is None else program_cache()
            key = None if cache is None else self._key(donated)
            if cache is None or key is None:
                prepare(is_new=True)
                return self._compile_anew(compile, donated)[0]
            kept = find_program(cache, key)
            if kept is not None:
                with contextlib.suppress(OSError):  # then it is compiled anew
                    return self._code(kept, self._load(kept))
            prepare(is_new=True)
            guards = guard_count(self.module.graph)
            loaded, made = self._compile_anew(compile, donated)
            if made is None:
                return loaded
            # Guards that this has added would be missing where the program is loaded.
            if guards == guard_count(self.module.graph):
                keep_program(cache, key, made)
            return self._code(made, loaded)

    def _code(self, kept: KeptProgram, loaded: "Loaded") -> Any:
        """Return a loaded program as AOTAutograd calls it, and keeps it if it is to."""
        keeper = self.settings.keeper
        if keeper is None:
            return loaded
        with unset_fake_temporarily():
            held = _held_tensors(self.module)
        constants = {name: held[name] for name in kept.constants.values()}
        return keeper.code(kept, constants, loaded)

    def _key(self, donated: frozenset[int]) -> str | None:
        if self.marked.views:
            return None  # what is kept has nothing around it
        settings = self.settings
        tag: str = torch.compiler.config.cache_key_tag
        chosen = [settings.cache_key, settings.rounding, settings.times_configs, tag]
        chosen.append(self.user_names.digest)
        return graph_key(self.module, [*chosen, self.backward, sorted(donated)])

    def _load(self, kept: KeptProgram) -> "Loaded":
        with unset_fake_temporarily():
            loaded = marking(kept.load(_held_tensors(self.module)), kept.text)
        show_texts(lambda: kept.program, kept.text, kept.suffix)
        report_strides(kept.strides)
        return loaded

    def _compile_anew(
        self, compile: CompileProgram, donated: frozenset[int]
    ) -> "tuple[Loaded, KeptProgram | None]":
        """Return the callable of a new program, and the program if it can be kept."""
        lowered = self._lower(donated)
        strides = padded_strides(self.module)
        not_donated = () if self.backward else keep_apart(lowered.program)
        codes: list[OutputCode] = []

        def show(code: OutputCode) -> None:
            codes.append(code)
            show_output_code(code)

        inputs = lowered.program.inputs
        given = [number for number, each in enumerate(inputs) if each.donated]
        with unset_fake_temporarily():  # constants are real tensors
            loaded = self._with_objects(compile(lowered, self.backward, show))
            names = _names_of(lowered.constants, _held_tensors(self.module))
        report_strides(strides)
        kept = None
        if codes and names is not None:
            kept = evolve(
                kept_program(codes[0], names, given, not_donated), strides=strides
            )
        run = retaining(loaded, given) if given else loaded
        return marking(run, codes[0].text if codes else ""), kept

    def _with_objects(self, loaded: "Loaded") -> "Loaded":
        """Return the callable of the graph, which returns its own objects too."""
        from wrapperir.frontend.aten.graph import is_passed_object
        from wrapperir.frontend.aten.values import jagged_size_in
        from wrapperir.frontend.lowering.lower import returned_objects

        objects = returned_objects(self.module)
        results: Any = self.module.graph.output_node().args[0]
        given = self.module.graph.find_nodes(op="placeholder")
        places = {node: place for place, node in enumerate(given) if is_passed_object(node)}
        passed = PassedObjects(hidden=list(places.values()))
        passed.results += [
            PassedResult(position, value=getattr(objects[node], "real_obj", objects[node]))
            for position, node in enumerate(results)
            if isinstance(node, torch.fx.Node) and node in objects
        ]
        sizes = {
            jagged_size_in(node.meta.get("val")): place for node, place in places.items()
        }
        for position, node in enumerate(results):
            if not isinstance(node, torch.fx.Node):
                continue
            size = jagged_size_in(node.meta.get("val"))
            if node in places:
                passed.results.append(PassedResult(position, given=places[node]))
            elif size is not None:
                passed.results.append(PassedResult(position, sizes[size], scaled=True))
        return passed.around(self.marked.around(loaded))

    def _lower(self, donated: frozenset[int]) -> Lowered:
        # Not where a kept program is loaded, which is quicker without these modules.
        from wrapperir.frontend.lowering.lower import lower_to_program
        from wrapperir.lowering.schedule import Rounding

        graph = self.module.graph
        names = self.user_names.of_traced(graph, backward=self.backward)
        rounding = Rounding(self.settings.rounding)
        try:
            places = input_places(graph, example_offsets(graph))
            stages = lower_to_program(
                self.module,
                rounding,
                places=places,
                donated=donated,
                kernel_device=self.settings.kernel_device,
            )
        except DiagnosticError as error:
            origin = error_origin(error, node_location)
            found = [evolve(d, origin=d.origin or origin) for d in error.diagnostics]
            raise DiagnosticError(*found) from error.__cause__
        except TorchDynamoException:
            raise
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            raise Code.COMPILATION_FAILED.error(
                f"the graph was not lowered: {type(error).__name__}: {first_line(error)}",
                notes=(Note(message=f"raised at {at.filename}:{at.lineno}, in {at.name}"),),
                origin=error_origin(error, node_location),
            ) from error
        lowered = stages.lowered
        program = name_program(lowered.program, names)
        if not self.settings.times_configs:
            program = _with_first_configs(program)
        return Lowered(program, lowered.constants, stages)


def _held_tensors(module: torch.fx.GraphModule) -> Mapping[str, torch.Tensor]:
    """Return the tensors that a graph's module and its parts hold, by their names."""
    found: dict[str, torch.Tensor] = {}
    for path, part in module.named_modules():
        for name, value in (*vars(part).items(), *part.named_buffers(recurse=False)):
            if isinstance(value, torch.Tensor):
                found[f"{path}.{name}" if path else name] = value.detach()
    return found


def _names_of(
    constants: Mapping[str, torch.Tensor], held: Mapping[str, torch.Tensor]
) -> Mapping[str, str] | None:
    """Return the name of each constant among held tensors; ``None`` if one is not there."""
    names = {_memory_of(tensor): name for name, tensor in held.items()}
    named = {key: names.get(_memory_of(each)) for key, each in constants.items()}
    found = {key: name for key, name in named.items() if name is not None}
    return found if len(found) == len(constants) else None


def _memory_of(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.dtype, tensor.size(), tensor.stride()


def _with_first_configs(program: Program) -> Program:
    definitions = tuple(
        evolve(line, configs=line.configs[:1])
        if isinstance(line, KernelDefinitionLine)
        else line
        for line in program.definitions
    )
    return evolve(program, definitions=definitions)
