"""Strategies for programs that can be written but need not be valid.

They draw every line kind with every field, names and types without regard for what the
program means, so what reads and prints programs is tried on more than valid ones.  For
valid programs see :mod:`wrapperir.testing`.
"""

from hypothesis import strategies as st

from wrapperir.ir.kernel import (
    Access,
    BufferParameter,
    ConstexprParameter,
    DescriptorParameter,
    KernelChoice,
    KernelConfig,
    KernelSize,
    Language,
    Parameter,
    ScalarParameter,
)
from wrapperir.ir.line import (
    AllocateLine,
    AllocatePoolLine,
    Argument,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    Block,
    BlockParameter,
    BodyLine,
    BufferRef,
    CommentLine,
    ComplexLiteral,
    ConditionalLine,
    DefinitionLine,
    ExternKernelLine,
    FreeLine,
    ItemOf,
    KernelArgument,
    KernelCallLine,
    KernelDefinitionLine,
    MultiKernelLine,
    MultiOutputLine,
    OffsetOf,
    PlaceLine,
    Provenance,
    RecordEventLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    SizeOf,
    SourceLocation,
    StrideOf,
    SubgraphCallLine,
    SymbolDefinitionLine,
    SymbolKind,
    SymbolSource,
    TorchEnum,
    ValueOf,
    WaitEventLine,
    WhileLoopLine,
    ZeroMode,
)
from wrapperir.ir.program import ConstantInput, Input, Program
from wrapperir.ir.selection import (
    BenchmarkChoice,
    ComputedChoice,
    FirstChoice,
    ForcedChoice,
    Hint,
    NearestChoice,
    RecordedChoice,
    Selection,
)
from wrapperir.ir.types import DType
from wrapperir.ir.workspace import WorkspaceNeed
from wrapperir.testing.arbitrary_types import (
    devices,
    dotted_names,
    exprs,
    floats,
    integers,
    names,
    numbers,
    pool_types,
    sizes,
    symbol_names,
    tensor_types,
    texts,
    value_types,
)

constants = st.none() | st.booleans() | numbers | texts
buffers = names.map(BufferRef)
arguments: st.SearchStrategy[Argument] = st.recursive(
    st.none()
    | st.booleans()
    | texts
    | exprs
    | buffers
    | st.sampled_from(DType)
    | devices
    | st.builds(TorchEnum, st.sampled_from(("layout", "memory_format")), names)
    | st.builds(ComplexLiteral, floats, floats),
    lambda children: st.lists(children, max_size=3).map(tuple),
    max_leaves=4,
)
"""Every kind of argument of an operator."""

kernel_arguments: st.SearchStrategy[KernelArgument] = buffers | exprs
"""Every kind of argument of a kernel."""

provenances = st.none() | st.builds(
    Provenance,
    nodes=st.lists(texts, max_size=2).map(tuple),
    operator=st.none() | texts,
    location=st.none() | st.builds(SourceLocation, texts, integers),
)

_parameters: st.SearchStrategy[Parameter] = (
    st.builds(BufferParameter, names, st.sampled_from(DType), st.sampled_from(Access))
    | st.builds(
        DescriptorParameter,
        names,
        st.sampled_from(DType),
        st.lists(integers, max_size=3).map(tuple),
        st.sampled_from(Access),
    )
    | st.builds(ScalarParameter, names, st.sampled_from(DType))
    | st.builds(ConstexprParameter, names)
)


_bindings = st.lists(st.tuples(names, constants), max_size=2).map(tuple)
_config_values = st.booleans() | numbers | texts
_kernel_definitions = st.builds(
    KernelDefinitionLine,
    name=names,
    language=st.sampled_from(Language),
    parameters=st.lists(_parameters, max_size=3).map(tuple),
    grid=st.lists(exprs, max_size=3).map(tuple),
    constants=_bindings,
    configs=st.lists(
        st.builds(
            KernelConfig, st.lists(st.tuples(names, _config_values), max_size=2).map(tuple)
        ),
        max_size=2,
    ).map(tuple),
    entry=names,
    metadata=st.lists(st.tuples(texts, constants), max_size=2).map(tuple),
    source=texts | st.lists(texts, max_size=3).map("\n".join),
    provenance=provenances,
)
_positions = st.integers(0, 2) | integers
_choices = st.builds(
    KernelChoice,
    names,
    st.lists(integers, max_size=3).map(tuple),
    st.lists(
        st.builds(WorkspaceNeed, _positions, exprs, st.sampled_from(ZeroMode)), max_size=2
    ).map(tuple),
)
_times = st.none() | st.integers(0, 2**70) | st.floats(0.0, allow_infinity=False).map(abs)
selections: st.SearchStrategy[Selection] = st.one_of(
    st.builds(FirstChoice),
    st.builds(ForcedChoice, integers),
    st.builds(RecordedChoice, integers, st.lists(_times, max_size=3).map(tuple), texts),
    st.builds(BenchmarkChoice),
    st.builds(
        NearestChoice,
        st.lists(
            st.builds(Hint, integers, st.lists(integers, max_size=2).map(tuple)), max_size=2
        ).map(tuple),
    ),
    st.builds(ComputedChoice, exprs, texts),
)
"""Every selection policy; few pick a choice that there is."""

_multi_kernels = st.builds(
    MultiKernelLine,
    name=names,
    parameters=st.lists(_parameters, max_size=3).map(tuple),
    sizes=st.lists(st.builds(KernelSize, names, _positions, integers), max_size=2).map(
        tuple
    ),
    choices=st.lists(_choices, max_size=2).map(tuple),
    selection=selections,
    provenance=provenances,
)
definitions: st.SearchStrategy[DefinitionLine] = _kernel_definitions | _multi_kernels

sources: st.SearchStrategy[SymbolSource] = (
    st.builds(SizeOf, names, integers)
    | st.builds(StrideOf, names, integers)
    | st.builds(OffsetOf, names)
    | st.builds(ValueOf, names)
    | st.builds(ItemOf, names)
    | exprs
)
symbol_definitions = st.builds(
    SymbolDefinitionLine,
    symbol=symbol_names,
    kind=st.sampled_from(SymbolKind),
    lower=st.none() | integers,
    upper=st.none() | integers,
    source=sources,
    provenance=provenances,
)
_streams = st.just(0) | integers
_name_lists = st.lists(names, max_size=2).map(tuple)
_operands = st.lists(kernel_arguments, max_size=3).map(tuple)
_results = st.lists(st.builds(Result, names, value_types), max_size=2).map(tuple)

_simple_lines: st.SearchStrategy[BodyLine] = st.one_of(
    st.builds(
        AllocateLine,
        result=names,
        type=tensor_types(),
        workspace=st.none() | st.sampled_from(ZeroMode),
        provenance=provenances,
    ),
    st.builds(AllocatePoolLine, result=names, type=pool_types, provenance=provenances),
    st.builds(
        PlaceLine,
        result=names,
        type=tensor_types() | pool_types,
        pool=names,
        offset=st.integers(0, 4096) | exprs,
        workspace=st.none() | st.sampled_from(ZeroMode),
        provenance=provenances,
    ),
    st.builds(FreeLine, buffer=names, provenance=provenances),
    st.builds(
        ReuseLine, result=names, source=names, type=tensor_types(), provenance=provenances
    ),
    st.builds(
        ReinterpretLine,
        result=names,
        source=names,
        type=tensor_types(),
        provenance=provenances,
    ),
    st.builds(
        KernelCallLine,
        kernel=names,
        arguments=_operands,
        device=devices,
        stream=_streams,
        provenance=provenances,
    ),
    st.builds(
        ExternKernelLine,
        result=st.none() | names,
        type=st.none() | value_types,
        operator=dotted_names,
        arguments=st.lists(arguments, max_size=3).map(tuple),
        keywords=st.lists(st.tuples(names, arguments), max_size=2).map(tuple),
        writes=_name_lists,
        aliases=_name_lists,
        device=devices,
        stream=_streams,
        provenance=provenances,
    ),
    st.builds(
        MultiOutputLine,
        result=names,
        source=names,
        indices=st.lists(integers, max_size=2).map(tuple),
        type=value_types,
        provenance=provenances,
    ),
    st.builds(
        RecordEventLine,
        result=names,
        device=devices,
        stream=_streams,
        provenance=provenances,
    ),
    st.builds(
        WaitEventLine,
        event=names,
        device=devices,
        stream=_streams,
        provenance=provenances,
    ),
    symbol_definitions,
    st.builds(
        AssertSizeStrideLine,
        buffer=names,
        size=sizes,
        stride=sizes,
        message=texts,
        provenance=provenances,
    ),
    st.builds(
        AssertAlignmentLine,
        buffer=names,
        bytes=integers,
        message=texts,
        provenance=provenances,
    ),
    st.builds(AssertScalarLine, condition=exprs, message=texts, provenance=provenances),
    st.builds(AssertNotNanLine, buffer=names, message=texts, provenance=provenances),
    st.builds(CommentLine, text=texts, provenance=provenances),
)


@st.composite
def _blocks(draw: st.DrawFn, depth: int) -> Block:
    lines = st.lists(_body_lines(depth - 1), max_size=2) if depth else st.just([])
    return Block(
        parameters=tuple(draw(st.lists(_block_parameters, max_size=2))),
        lines=tuple(draw(lines)),
        results=tuple(draw(st.lists(arguments, max_size=2))),
    )


_block_parameters = st.builds(BlockParameter, names, value_types)


@st.composite
def _body_lines(draw: st.DrawFn, depth: int = 2) -> BodyLine:
    kind = draw(st.integers(0, 15))
    results, provenance = draw(_results), draw(provenances)
    if depth == 0 or kind > 2:
        return draw(_simple_lines)
    if kind == 0:
        return ConditionalLine(
            results=results,
            predicate=draw(kernel_arguments),
            operands=draw(_operands),
            on_true=draw(_blocks(depth)),
            on_false=draw(_blocks(depth)),
            provenance=provenance,
        )
    if kind == 1:
        return WhileLoopLine(
            results=results,
            carried=draw(_operands),
            invariant=draw(_operands),
            condition=draw(_blocks(depth)),
            body=draw(_blocks(depth)),
            provenance=provenance,
        )
    return SubgraphCallLine(
        results=results,
        name=draw(names),
        operands=draw(_operands),
        body=draw(_blocks(depth)),
        provenance=provenance,
    )


body_lines: st.SearchStrategy[BodyLine] = _body_lines()
"""Lines of every kind that a body holds."""

programs = st.builds(
    Program,
    name=names,
    inputs=st.lists(
        st.builds(Input, name=names, type=value_types, mutated=st.booleans()), max_size=2
    ).map(tuple),
    symbols=st.lists(symbol_definitions, max_size=2).map(tuple),
    constants=st.lists(
        st.builds(
            ConstantInput,
            name=names,
            type=tensor_types(),
            key=texts,
            mutated=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
    definitions=st.lists(definitions, max_size=2).map(tuple),
    lines=st.lists(body_lines, max_size=4).map(tuple),
    outputs=st.lists(arguments, max_size=2).map(tuple),
)
"""Programs that can be written; few are valid."""
