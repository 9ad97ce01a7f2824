"""Steps that add lines which compute nothing: symbols, asserts, comments."""

from hypothesis import strategies as st

from wrapperir import ir as wir
from wrapperir.testing.generator import BlockGenerator

_TEXTS = st.sampled_from(
    ["a remark", "", 'it\'s "quoted"', "back\\slash", "%buf0 = allocate", "tab\tand → ø"]
)

PATHS = st.sampled_from([None, "layers.0.weight", 'an "odd"\npath'])
"""The paths that inputs may have in a model."""

PLACES = (
    wir.SourcePlace(file="dir/model.py", line=12, function="forward"),
    wir.SourcePlace(file='odd "file"\n.py', line=3, caller=0),
)
ORIGINS = (
    wir.NodeOrigin(name="add", operator="aten.add.Tensor", module="layers.0", place=0),
    wir.NodeOrigin(name="relu", operator="aten.relu.default", place=1),
    wir.NodeOrigin(name="block_1.mul", module='an "odd" module'),
    wir.NodeOrigin(name="mm", place=1),
    wir.NodeOrigin(name="view"),
)
"""The origins that lines may have, and the places of these."""


def symbol_of_tensor(generator: BlockGenerator) -> None:
    """Define a symbol from a size, a stride or the offset of a tensor.

    In a graph region it is a parameter: operators may decide the sizes of their results.
    """
    tracked = generator.pick(
        lambda t: len(t.type.size) > 0 and not (generator.recorded and t.owned)
    )
    name = tracked.value.name
    dim = generator.choose(range(len(tracked.type.size)))
    sources: list[wir.SymbolSource] = [
        wir.SizeOf(name, dim),
        wir.StrideOf(name, dim),
        wir.OffsetOf(name),
    ]
    generator.define_symbol(generator.choose(sources), lower=0)


def symbol_computed(generator: BlockGenerator) -> None:
    """Define a symbol from others."""
    numel = generator.world.numel
    options = [wir.mul(numel, 2), numel + 1, wir.minimum(numel, 7), numel // 2, numel % 3]
    generator.define_symbol(generator.choose(options))


def symbol_of_item(generator: BlockGenerator) -> None:
    """Define a symbol from an input of one integer."""
    source = wir.ItemOf(generator.pick_input_cell().value.name)
    generator.define_symbol(source, lower=0, upper=100)


def assert_layout(generator: BlockGenerator) -> None:
    """Check the declared layout of a tensor."""
    tracked = generator.pick(lambda _: True)
    size, stride = tracked.type.size, tracked.type.stride
    generator.block.assert_size_stride(tracked.value, size, stride, generator.draw(_TEXTS))


def assert_aligned(generator: BlockGenerator) -> None:
    """Check the alignment that every tensor of the dtype has."""
    if generator.recorded:
        return
    tracked = generator.pick(lambda _: True)
    generator.block.assert_alignment(tracked.value, tracked.type.dtype.itemsize)


def assert_condition(generator: BlockGenerator) -> None:
    """Check a condition on symbols."""
    if generator.symbols:
        symbol = generator.choose(generator.symbols)
        condition = wir.compare(wir.ExprOp.GE, symbol, 0)
        generator.block.assert_scalar(condition, generator.draw(_TEXTS))


def assert_finite(generator: BlockGenerator) -> None:
    """Check that a tensor holds no NaN."""
    if generator.recorded:
        return
    generator.block.assert_not_nan(generator.pick(lambda t: t.memory.written).value)


def comment(generator: BlockGenerator) -> None:
    """Add a comment, with characters that emitters must escape."""
    generator.block.comment(generator.draw(_TEXTS))


def provenance(generator: BlockGenerator) -> None:
    """Give the lines that follow a provenance, or none."""
    names = tuple(origin.name for origin in ORIGINS)
    options = [
        None,
        wir.Provenance(origins=names[:2]),
        wir.Provenance(origins=names, passes=("some_pass", "another")),
        wir.Provenance(origins=names[2:3]),
        wir.Provenance(passes=("some_pass",)),
    ]
    generator.block.at(generator.choose(options))


STEPS = (
    symbol_of_tensor,
    symbol_computed,
    symbol_of_item,
    assert_layout,
    assert_aligned,
    assert_condition,
    assert_finite,
    comment,
    provenance,
)
"""The steps of this module; a step that is listed twice is drawn twice as often."""
