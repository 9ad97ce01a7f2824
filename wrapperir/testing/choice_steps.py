"""Steps that call multi-kernels, of every policy; the choices agree bit for bit."""

from functools import cache

from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.ir.builder import NamedValue
from wrapperir.testing.generator import BlockGenerator, Tracked
from wrapperir.testing.kernels import KernelKind

COUNT = "xnumel"
"""The scalar parameter of the library's kernels that counts their elements."""

_LARGEST_SIZE = 12
"""Hints and bounds are about as large as sizes are, so that each choice is taken."""

_KEPT_ELEMENTS = 64

ADDING = (
    (KernelKind.ADD, (0, 1, 2, 3)),
    (KernelKind.ADD_REVERSED, (0, 1, 2, 3)),
    (KernelKind.ADD, (1, 0, 2, 3)),
)
"""Kernels that add the first two of four arguments; their order makes no difference."""

_ADDERS = st.lists(st.sampled_from(ADDING), unique=True, min_size=1, max_size=len(ADDING))


@cache
def selections(sizes: tuple[str, ...], count: int) -> st.SearchStrategy[wir.Selection]:
    """Draw a policy that picks one of ``count`` choices by the sizes of these names."""
    indices = st.integers(0, count - 1)
    times = st.lists(
        st.none() | st.floats(0, 1e6, allow_nan=False), min_size=count, max_size=count
    )
    devices = st.sampled_from(["", "cpu", 'an "odd" device'])
    lengths = st.tuples(*(st.integers(0, _LARGEST_SIZE) for _ in sizes))
    hints = st.lists(st.builds(wir.Hint, indices, lengths), min_size=1, max_size=4)
    return st.one_of(
        st.just(wir.FirstChoice()),
        st.builds(wir.ForcedChoice, indices),
        st.builds(wir.RecordedChoice, indices, st.just(()) | times.map(tuple), devices),
        st.just(wir.BenchmarkChoice()),
        st.builds(wir.NearestChoice, hints.map(tuple)),
        st.builds(wir.ComputedChoice, _trees(sizes, indices), devices),
    )


def _trees(
    sizes: tuple[str, ...], indices: st.SearchStrategy[int]
) -> st.SearchStrategy[wir.Expr]:
    names = st.sampled_from([*sizes, COUNT]).map(wir.Symbol)
    values = st.one_of(
        names,
        st.builds(wir.mul, names, names),
        st.builds(wir.mod, names, st.integers(1, 4)),
    )
    bounds = st.integers(0, _LARGEST_SIZE**2)
    order = st.sampled_from([wir.ExprOp.LT, wir.ExprOp.LE, wir.ExprOp.GE, wir.ExprOp.NE])
    tests = st.builds(wir.compare, order, values, st.one_of(bounds, values))
    conditions = tests | st.builds(
        lambda *each: wir.Operation(wir.ExprOp.AND, each), tests, tests
    )

    def where(branches: st.SearchStrategy[wir.Expr]) -> st.SearchStrategy[wir.Expr]:
        return st.builds(
            lambda *parts: wir.Operation(wir.ExprOp.WHERE, parts),
            conditions,
            branches,
            branches,
        )

    return st.recursive(indices, where, max_leaves=4)


def choose_adder(generator: BlockGenerator, language: wir.Language) -> wir.MultiKernelLine:
    """Return a multi-kernel that adds two matrices; its choices take them in any order."""
    world = generator.world
    choices = generator.draw(_ADDERS)
    sizes = generator.choose(({}, {"rows": ("in_ptr0", 0), "columns": ("in_ptr0", 1)}))
    return world.builder.multi_kernel(
        [world.kernel(kind, language) for kind, _ in choices],
        positions=[positions for _, positions in choices],
        sizes=sizes,
        selection=generator.draw(selections(tuple(sizes), len(choices))),
    )


def copy_with_choices(generator: BlockGenerator) -> None:
    """Copy a tensor by way of a workspace: each choice takes one of its own."""
    world = generator.world
    source = generator.pick(lambda t: _is_row_of_elements(generator, t))
    mode = generator.workspace_mode()
    is_clean = mode is not wir.ZeroMode.UNINITIALIZED
    kernel = generator.kernel(
        KernelKind.SCRATCH_ADD if is_clean else KernelKind.SCRATCH_WRITE
    )
    by_size = generator.flip()
    elements = generator.numel(source.type)
    count = wir.Symbol(COUNT)
    line = world.builder.multi_kernel(
        [kernel, kernel],
        positions=[(0, 1, 2, 3), (0, 4, 2, 3)],
        sizes={"length": ("in_ptr0", 0)} if by_size else {},
        workspaces={kernel.name: {"ws_ptr": (count, mode)}},
        selection=generator.draw(selections(("length",) if by_size else (), 2)),
    )
    workspaces = [_workspace(generator, elements, mode) for _ in range(2)]
    target = generator.buffer(wir.tensor(wir.DType.F32, source.type.size))
    generator.block.call(
        line, source.value, workspaces[0], target.value, elements, workspaces[1]
    )
    target.memory.written = True


def _is_row_of_elements(generator: BlockGenerator, tracked: Tracked) -> bool:
    """Say whether a tensor is dense, may be read, and is no larger than a matrix."""
    type, world = tracked.type, generator.world
    known = [world.matrix(type.dtype), world.flat(type.dtype), world.vector(type.dtype)]
    return (
        tracked.plain
        and tracked.dense
        and tracked.memory.written
        and type.dtype is wir.DType.F32
        and type.size in [shape.size for shape in known]
    )


def _workspace(
    generator: BlockGenerator, elements: wir.Expr, mode: wir.ZeroMode
) -> NamedValue:
    if mode is not wir.ZeroMode.ZERO_PER_PROGRAM:
        tracked = generator.buffer(wir.tensor(wir.DType.F32, (elements,)), workspace=mode)
        # a choice that is not taken leaves its workspace as it was
        tracked.memory.written = mode is wir.ZeroMode.ZERO_ON_CALL
        tracked.memory.writable = False
        return tracked.value
    type = wir.tensor(wir.DType.F32, (_KEPT_ELEMENTS,))
    value = generator.block.allocate(type, workspace=mode)
    generator.world.program_workspaces.append(value)
    return value
