"""Have operators write their results into allocated memory."""

from collections.abc import Iterable, Sequence

from attrs import define, evolve, field

from wrapperir import ir as wir
from wrapperir.ir.blocks import rewrite_blocks
from wrapperir.ir.line_effects import uses, value_names
from wrapperir.ir.mentions import buffers_in, type_symbols
from wrapperir.operators import OutOverload, find_out_overload


def use_out_variants(program: wir.Program) -> wir.Program:
    """Return the program with results of operators in buffers of its own.

    Before::

        program @main(%x: f32[8, 4]) {
          %buf0 = extern_kernel aten.cumsum.default(%x, 1) : f32[8, 4]
          %buf1 = extern_kernel aten.max.dim(%buf0, 1) : (f32[8], i64[8])
          %buf2 = multi_output %buf1[0] : f32[8]
          free %buf1
          return %buf0, %buf2
        }

    After::

        program @main(%x: f32[8, 4]) {
          %buf0 = allocate f32[8, 4]
          extern_kernel aten.cumsum.out(%x, 1, out=%buf0) writes(%buf0)
          %buf2 = allocate f32[8]
          %buf3 = allocate i64[8]
          extern_kernel aten.max.dim_max(%buf0, 1, max=%buf2, max_values=%buf3) \
writes(%buf2, %buf3)
          free %buf3
          return %buf0, %buf2
        }

    So they can be placed and reused.  An operator stays as it is where its device has no
    kernel that writes into given memory, where its result may share memory or is not
    dense, and where a size of it is known only when it has run.
    """
    rewriter = _Rewriter(
        wir.FreshNames(value_names(program)), {line.symbol for line in program.symbols}
    )
    return evolve(program, lines=rewriter.lines(program.lines, program.outputs))


@define
class _Tuple:
    """The lines that name a tuple's elements, and whether other lines use it."""

    elements: list[wir.MultiOutputLine] = field(factory=list[wir.MultiOutputLine])
    used_whole: bool = False


@define
class _Rewriter:
    names: wir.FreshNames
    known: set[str]

    def lines(
        self, lines: Sequence[wir.BodyLine], results: Iterable[wir.Argument]
    ) -> tuple[wir.BodyLine, ...]:
        """Return the lines of a block, rewritten."""
        tuples = _tuples(lines, results)
        gone: set[str] = set()
        rewritten: list[wir.BodyLine] = []
        for line in lines:
            if isinstance(line, wir.SymbolDefinitionLine):
                self.known.add(line.symbol)
            if isinstance(line, wir.ExternKernelLine):
                new = self._call(line, tuples)
                rewritten.extend(new)
                if isinstance(line.type, wir.TupleType) and new[0] is not line:
                    gone.add(str(line.result))
            elif not gone or gone.isdisjoint(
                uses(line)
            ):  # else it names or frees part of a tuple
                rewritten.append(rewrite_blocks(line, self._block))
        return tuple(rewritten)

    def _block(self, block: wir.Block) -> wir.Block:
        return evolve(block, lines=self.lines(block.lines, block.results))

    def _call(
        self, line: wir.ExternKernelLine, tuples: dict[str, _Tuple]
    ) -> Sequence[wir.BodyLine]:
        """Return the lines that do what ``line`` does: itself where it stays."""
        if line.result is None or line.writes or line.aliases:
            return (line,)
        named: dict[int, str] | None = {0: line.result}
        types: tuple[wir.ValueType | None, ...] = (line.type,)
        if isinstance(line.type, wir.TupleType):
            named = _named_elements(tuples[line.result], line.type)
            types = line.type.elements
        if named is None or not all(self._suits(type, line) for type in types):
            return (line,)
        overload = find_out_overload(line.operator, line.device.kind)
        if overload is None or len(overload.keywords) != len(types):
            return (line,)
        unread = [n for n in range(len(types)) if n not in named]
        named |= {number: self.names.new(None, "buf") for number in unread}
        outs = [named[number] for number in range(len(types))]
        return (
            *(
                wir.AllocateLine(result=name, type=type, provenance=line.provenance)
                for name, type in zip(outs, types, strict=True)
                if isinstance(type, wir.TensorType)
            ),
            out_call(line, overload, outs),
            *(wir.FreeLine(buffer=named[number]) for number in unread),
        )

    def _suits(self, type: object, line: wir.ExternKernelLine) -> bool:
        """Say whether a buffer of this type can be allocated before ``line``."""
        return (
            isinstance(type, wir.TensorType)
            and type.offset == 0
            and type.device == line.device
            and type.space == wir.DEFAULT_SPACE
            and not type.pinned
            and type.layout is None
            and _is_dense(type)
            and self.known.issuperset(type_symbols(type))
        )


def _is_dense(type: wir.TensorType) -> bool:
    """Say whether elements are certain to fill their memory, each byte once.

    Dimensions of size 1 may have any stride.  A tensor without elements is not dense.
    """
    if 0 in type.size:
        return False
    pairs = zip(type.size, type.stride, strict=True)
    left = [(size, stride) for size, stride in pairs if size != 1]
    step: wir.Expr = 1
    while left:
        found = next((pair for pair in left if pair[1] == step), None)
        if found is None:
            return False
        left.remove(found)
        step = wir.mul(found[0], step)
    return True


def _tuples(
    lines: Sequence[wir.BodyLine], results: Iterable[wir.Argument]
) -> dict[str, _Tuple]:
    tuples = {
        line.result: _Tuple()
        for line in lines
        if isinstance(line, wir.ExternKernelLine) and isinstance(line.type, wir.TupleType)
        if line.result is not None
    }
    for line in lines if tuples else ():
        if isinstance(line, wir.MultiOutputLine) and line.source in tuples:
            tuples[line.source].elements.append(line)
        elif not isinstance(line, wir.FreeLine):
            for name in uses(line):
                if name in tuples:
                    tuples[name].used_whole = True
    for result in results:
        for name in buffers_in(result):
            if name in tuples:
                tuples[name].used_whole = True
    return tuples


def _named_elements(found: _Tuple, type: wir.TupleType) -> dict[int, str] | None:
    """Return the names of a tuple's elements, if each has one at most, of its type."""
    named: dict[int, str] = {}
    for line in found.elements:
        number, *deeper = line.indices
        if deeper or number in named or line.type != type.elements[number]:
            return None
        named[number] = line.result
    return None if found.used_whole else named


def out_call(
    line: wir.ExternKernelLine, overload: OutOverload, outs: Sequence[str]
) -> wir.ExternKernelLine:
    """Return the call that writes the results of ``line`` to buffers."""
    given = zip(overload.keywords, outs, strict=True)
    return evolve(
        line,
        result=None,
        type=None,
        operator=overload.operator,
        keywords=(*line.keywords, *((word, wir.BufferRef(name)) for word, name in given)),
        writes=tuple(outs),
    )
