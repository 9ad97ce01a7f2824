"""One program that has every line kind, every field and every kind of argument."""

from wrapperir.ir import (
    Access,
    AllocateLine,
    AllocatePoolLine,
    AssertAlignmentLine,
    AssertNotNanLine,
    AssertScalarLine,
    AssertSizeStrideLine,
    BenchmarkChoice,
    Block,
    BlockParameter,
    BufferParameter,
    BufferRef,
    Collective,
    CollectiveLine,
    CommentLine,
    ComplexLiteral,
    ComputedChoice,
    ConditionalLine,
    ConstantInput,
    ConstexprParameter,
    DescriptorParameter,
    Device,
    DType,
    EventType,
    ExprOp,
    ExternKernelLine,
    FirstChoice,
    ForcedChoice,
    FreeLine,
    GraphRegionLine,
    Hint,
    Input,
    ItemOf,
    KernelCallLine,
    KernelChoice,
    KernelConfig,
    KernelDefinitionLine,
    KernelSize,
    Language,
    MultiKernelLine,
    MultiOutputLine,
    NearestChoice,
    NodeOrigin,
    OffsetOf,
    OpaqueType,
    Operation,
    PlaceLine,
    PoolType,
    ProcessGroup,
    Program,
    Provenance,
    RankReduction,
    RecordedChoice,
    RecordEventLine,
    ReinterpretLine,
    Result,
    ReuseLine,
    ScalarParameter,
    ScalarType,
    Selection,
    SizeOf,
    SourcePlace,
    StrideOf,
    SubgraphCallLine,
    Symbol,
    SymbolDefinitionLine,
    SymbolKind,
    TorchEnum,
    TupleType,
    ValueOf,
    VendorLayout,
    WaitCollectiveLine,
    WaitEventLine,
    WhileLoopLine,
    WorkspaceNeed,
    ZeroMode,
    ceildiv,
    tensor,
)

GPU = Device("cuda", 0)
S0 = Symbol("s0")
ORIGIN = Provenance(origins=("mm", "block_1.relu"), passes=("tile_products",))
FUSED = Provenance(origins=("mm", "a", "b", "c", "d"))
VECTOR = tensor("f32", (4,))
FULL = tensor(
    "f16",
    (S0, 64),
    (1, S0),
    offset=16,
    device=GPU,
    space="comm",
    pinned=True,
    alignment=64,
    layout=VendorLayout("acme.tiled", (16, "row")),
)
POOL = PoolType(size=ceildiv(S0, 64), device=GPU, space="comm", pinned=True, alignment=512)
X = BufferRef("x")

KERNEL = KernelDefinitionLine(
    name="add",
    language=Language.TRITON,
    parameters=(
        BufferParameter("in_ptr", DType.F32, Access.READ),
        BufferParameter("out_ptr", DType.F32, Access.WRITE),
        BufferParameter("both_ptr", DType.F32, Access.READ_WRITE),
        ScalarParameter("xnumel", DType.I32),
        ConstexprParameter("XBLOCK"),
        DescriptorParameter("in_desc", DType.F16, (16, 64), Access.READ),
    ),
    grid=(ceildiv(Symbol("xnumel"), Symbol("XBLOCK")), 1, 1),
    constants=(("FLAG", True), ("SCALE", 0.5), ("NOTHING", None)),
    configs=(KernelConfig((("XBLOCK", 64), ("name", "a"))), KernelConfig(())),
    entry="add_",
    metadata=(("inductor.heuristic", "pointwise"), ("n", -1)),
    source="def add_():\n    ...\r\n\n\tx = '\u2028'\n",
    provenance=ORIGIN,
)
MULTI_KERNEL = MultiKernelLine(
    name="either",
    parameters=KERNEL.parameters[:4],
    sizes=(KernelSize("M", 0, 1), KernelSize("N", 1, 2)),
    choices=(
        KernelChoice("add", (0, 1, 2, 3)),
        KernelChoice(
            "add",
            (0, 0, 2, 3),
            (WorkspaceNeed(2, Symbol("M") * 4, ZeroMode.ZERO_ON_CALL),),
        ),
    ),
    selection=ForcedChoice(0),
    provenance=ORIGIN,
)
DEVICE = 'a "GPU", torch 2.11'
SELECTIONS: tuple[Selection, ...] = (
    FirstChoice(),
    ForcedChoice(1),
    BenchmarkChoice(),
    RecordedChoice(1),
    RecordedChoice(1, (12.5, None, 3), DEVICE),
    RecordedChoice(0, (1e-05,)),
    NearestChoice((Hint(0, (64, 64)), Hint(1, (4096, 0)))),
    ComputedChoice(0),
    ComputedChoice(
        Operation(
            ExprOp.WHERE,
            (Operation(ExprOp.LE, (Symbol("M") * Symbol("N"), 65536)), 0, 1),
        ),
        DEVICE,
    ),
)
"""Every selection policy, with and without what may be left out."""

BLOCK = Block(
    parameters=(BlockParameter("p", VECTOR),),
    lines=(CommentLine(text="inside"),),
    results=(BufferRef("p"),),
)

SAMPLE = Program(
    name="sample",
    inputs=(
        Input(name="x", type=FULL, mutated=True),
        Input(name="y", type=VECTOR, donated=True),
        Input(name="n", type=ScalarType(DType.I64)),
        Input(name="t", type=TupleType((VECTOR, TupleType(())))),
        Input(name="o", type=OpaqueType("a script object")),
        Input(name="fc_weight", type=VECTOR, path='the "fc".weight\n'),
    ),
    symbols=(
        SymbolDefinitionLine(symbol="s0", lower=2, upper=1024, source=SizeOf("x", 0)),
        SymbolDefinitionLine(
            symbol="s1", kind=SymbolKind.FLOAT, source=StrideOf("x", 1), provenance=ORIGIN
        ),
        SymbolDefinitionLine(
            symbol="s2", kind=SymbolKind.BOOL, upper=-1, source=OffsetOf("x")
        ),
        SymbolDefinitionLine(symbol="s3", source=ValueOf("n")),
    ),
    constants=(
        ConstantInput(name="w", type=VECTOR, key='the "key"'),
        ConstantInput(name="v", type=VECTOR, key="v", mutated=True),
    ),
    groups=(
        ProcessGroup(name="tensor parallel", size=2),
        ProcessGroup(name="data", size=8, rank=3),
    ),
    definitions=(
        KERNEL,
        MULTI_KERNEL,
        *(
            MultiKernelLine(
                name=f"selected_{index}", parameters=(), choices=(), selection=selection
            )
            for index, selection in enumerate(SELECTIONS)
        ),
    ),
    lines=(
        AllocateLine(
            result="ws", type=FULL, workspace=ZeroMode.ZERO_PER_PROGRAM, provenance=ORIGIN
        ),
        ReuseLine(result="r", source="ws", type=VECTOR, provenance=ORIGIN),
        ReinterpretLine(result="view", source="r", type=VECTOR, provenance=ORIGIN),
        FreeLine(buffer="view", provenance=ORIGIN),
        KernelCallLine(
            kernel="add",
            arguments=(X, S0, 1.5, Operation(ExprOp.MIN, (S0, 4))),
            device=GPU,
            stream=3,
            provenance=ORIGIN,
        ),
        ExternKernelLine(
            result="e",
            type=TupleType((VECTOR, ScalarType(DType.BOOL))),
            operator="aten.op.overload",
            arguments=(
                X,
                True,
                False,
                None,
                1,
                1.0,
                float("inf"),
                -0.0,
                "text\n",
                S0,
                DType.F32,
                "f32",
                GPU,
                Device("cpu"),
                TorchEnum("layout", "strided"),
                TorchEnum("memory_format", "channels_last"),
                TorchEnum("quantized_dtype", "quint8"),
                ComplexLiteral(1.0, -2.0),
                (),
                (1, (X, None)),
            ),
            keywords=(("dim", 1), ("out", X)),
            writes=("x",),
            aliases=("x", "w"),
            device=GPU,
            stream=1,
            provenance=ORIGIN,
        ),
        ExternKernelLine(operator="aten.nothing.default"),
        MultiOutputLine(
            result="m", source="e", indices=(0, 1), type=VECTOR, provenance=ORIGIN
        ),
        SymbolDefinitionLine(
            symbol="u0",
            kind=SymbolKind.FLOAT,
            lower=0,
            upper=9,
            source=ItemOf("m"),
            provenance=ORIGIN,
        ),
        SymbolDefinitionLine(symbol="u1", source=Operation(ExprOp.ADD, (S0, 1))),
        AssertSizeStrideLine(
            buffer="m", size=(S0, 4), stride=(4, 1), message="shape", provenance=ORIGIN
        ),
        AssertAlignmentLine(buffer="m", bytes=16, message="aligned", provenance=ORIGIN),
        AssertScalarLine(
            condition=Operation(ExprOp.GE, (S0, 2)), message="range", provenance=ORIGIN
        ),
        AssertNotNanLine(buffer="m", message="finite", provenance=ORIGIN),
        CommentLine(text='a "remark"', provenance=ORIGIN),
        ConditionalLine(
            results=(Result("c", VECTOR),),
            predicate=S0,
            operands=(X,),
            on_true=BLOCK,
            on_false=Block(),
            provenance=ORIGIN,
        ),
        WhileLoopLine(
            results=(Result("l", VECTOR), Result("k", ScalarType(DType.I64))),
            carried=(X, S0),
            invariant=(X,),
            condition=BLOCK,
            body=BLOCK,
            provenance=ORIGIN,
        ),
        SubgraphCallLine(
            results=(), name="block", operands=(X,), body=BLOCK, provenance=ORIGIN
        ),
        AllocatePoolLine(result="pool", type=POOL, provenance=ORIGIN),
        PlaceLine(
            result="inner",
            type=PoolType(size=64),
            pool="pool",
            offset=Operation(ExprOp.MUL, (S0, 64)),
            provenance=ORIGIN,
        ),
        PlaceLine(
            result="placed",
            type=VECTOR,
            pool="inner",
            offset=0,
            workspace=ZeroMode.ZERO_ON_CALL,
        ),
        RecordEventLine(result="done", device=GPU, stream=1, provenance=ORIGIN),
        WaitEventLine(event="done", device=GPU, stream=2, provenance=ORIGIN),
        SubgraphCallLine(
            results=(Result("later", EventType(GPU)),),
            name="lent",
            operands=(BufferRef("inner"),),
            body=Block(parameters=(BlockParameter("lent_pool", PoolType(size=S0)),)),
        ),
        GraphRegionLine(
            results=(Result("replayed", VECTOR),),
            name="region",
            operands=(X, S0),
            device=GPU,
            stream=1,
            recordings=2,
            body=BLOCK,
            provenance=ORIGIN,
        ),
        WhileLoopLine(
            results=(Result("last", VECTOR), Result("all", VECTOR)),
            carried=(X,),
            stacked=True,
            condition=BLOCK,
            body=BLOCK,
        ),
        CollectiveLine(
            result="work",
            operation=Collective.REDUCE_SCATTER,
            reduction=RankReduction.AVERAGE,
            group="tensor parallel",
            peer=1,
            reads=("x", "last"),
            writes=("last",),
            read_splits=(S0, 2),
            write_splits=(2, S0),
            device=GPU,
            stream=1,
            provenance=ORIGIN,
        ),
        WaitCollectiveLine(
            work="work",
            reads=("x",),
            writes=("last",),
            device=GPU,
            stream=1,
            provenance=ORIGIN,
        ),
    ),
    outputs=(X, S0, None),
    places=(
        SourcePlace(file="model.py", line=12, function="forward"),
        SourcePlace(file="layers.py", line=30, caller=0),
    ),
    origins=(
        NodeOrigin(name="mm", operator="aten.mm.default", module="layers.0", place=1),
        NodeOrigin(name="block_1.relu"),
    ),
)
