"""Building of a program from the lines of a wrapper."""

from typing import TYPE_CHECKING, Any

from attrs import evolve
from torch._inductor import config
from torch._inductor.virtualized import V

from wrapperir.frontend import Lowered
from wrapperir.frontend.inductor.boundary import (
    constant_type,
    free_rest,
    input_symbols,
    input_type,
    lower_outputs,
)
from wrapperir.frontend.inductor.lines import lower_lines
from wrapperir.frontend.inductor.multi_kernel_lines import united_parameters
from wrapperir.frontend.inductor.scope import Scope
from wrapperir.frontend.inductor.storage_offsets import input_places, place_symbols
from wrapperir.ir import (
    ConstantInput,
    Input,
    Program,
    TensorParameter,
    ValueType,
    runtime_parameters,
)
from wrapperir.ir import line as wir
from wrapperir.passes.check_nans import check_nans

if TYPE_CHECKING:
    from wrapperir.frontend.inductor.session import Session
    from wrapperir.frontend.inductor.wrapper import CaptureWrapper


def build_program(wrapper: "CaptureWrapper") -> Lowered:
    """Return the program of the outermost graph, and its constants."""
    session = wrapper.session
    graph: Any = V.graph
    scope = Scope(session, graph, nested=False)
    session.constants.update(graph.constants)
    types: dict[str, ValueType] = {}
    places = input_places(graph)
    for name in graph.graph_input_names:
        offset = places[name].offset if name in places else 0
        types[name] = input_type(graph.graph_inputs[name], offset)
        scope.borrow(name, types[name], freeable=True)
    for name, tensor in graph.constants.items():
        scope.borrow(name, constant_type(tensor))
    symbols = input_symbols(scope, graph.graph_inputs)
    symbols += place_symbols(scope, places)
    lower_lines(scope, wrapper.lines)
    outputs = lower_outputs(scope, wrapper.get_graph_outputs())
    if config.nan_asserts:
        for output in outputs:
            if isinstance(output, wir.BufferRef):
                scope.append(wir.AssertNotNanLine(buffer=output.name))
    free_rest(scope, outputs)
    mutated = scope.mutated | session.mutated | set(graph.mutated_inputs)
    program = Program(
        inputs=tuple(
            Input(name=name, type=type, mutated=name in mutated)
            for name, type in types.items()
        ),
        symbols=tuple(symbols),
        constants=tuple(
            ConstantInput(
                name=name, type=constant_type(tensor), key=name, mutated=name in mutated
            )
            for name, tensor in session.constants.items()
        ),
        definitions=finished_definitions(session),
        lines=tuple(scope.lines),
        outputs=outputs,
    )
    if config.nan_asserts:
        program = check_nans(program)
    return Lowered(program, session.constants)


def finished_definitions(session: "Session") -> tuple[wir.DefinitionLine, ...]:
    """Return the kernels, with the accesses that their calls have shown."""
    definitions = dict(session.definitions)
    for (name, position), access in session.accesses.items():
        definition = definitions[name]
        parameter = runtime_parameters(definition.parameters)[position]
        assert isinstance(parameter, TensorParameter)
        known = evolve(parameter, access=access)
        definitions[name] = evolve(
            definition,
            parameters=tuple(known if p is parameter else p for p in definition.parameters),
        )
    return tuple(
        evolve(line, parameters=united_parameters(line, definitions))
        if isinstance(line, wir.MultiKernelLine)
        else line
        for line in definitions.values()
    )
