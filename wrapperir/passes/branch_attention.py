"""Tell attention of few positions from that of many while the program runs."""

from collections.abc import Iterator, Mapping

from wrapperir import ir as wir
from wrapperir.analysis import Body, rewrite_bodies
from wrapperir.ir.renaming import rename_values
from wrapperir.passes.attention_calls import AttentionCall, AttentionFacts, has_attention
from wrapperir.passes.remove_dead_lines import remove_dead_lines

_LONGEST = 200
"""Characters of a name that names in a block begin with."""


def branch_attention(program: wir.Program) -> wir.Program:
    """Return the program with a branch for attention of few positions.

    Before::

        program @main(%q: f16[8, s0, 32]@cuda) {
          symbol s0: int 1.. = size(%q, 1)

          %p = reinterpret %q as f16[1, 8, s0, 32]@cuda
          %all = extern_kernel aten._scaled_dot_product_flash_attention.default(\
%p, %p, %p) @cuda : (f16[1, 8, s0, 32]@cuda, f32[1, 8, s0]@cuda)
          %y = multi_output %all[0] : f16[1, 8, s0, 32]@cuda
          free %all
          free %p
          return %y
        }

    After::

        program @main(%q: f16[8, s0, 32]@cuda) {
          symbol s0: int 1.. = size(%q, 1)

          %p = reinterpret %q as f16[1, 8, s0, 32]@cuda
          %y = conditional s0 <= 256 (%p) : f16[1, 8, s0, 32]@cuda {
            true (%p_0: f16[1, 8, s0, 32]@cuda) {
              %all_0 = extern_kernel aten._scaled_dot_product_flash_attention.default(\
%p_0, %p_0, %p_0) @cuda : (f16[1, 8, s0, 32]@cuda, f32[1, 8, s0]@cuda)
              %y_0 = multi_output %all_0[0] : f16[1, 8, s0, 32]@cuda
              free %all_0
              return %y_0
            }
            false (%p_1: f16[1, 8, s0, 32]@cuda) {
              %all_1 = extern_kernel aten._scaled_dot_product_flash_attention.default(\
%p_1, %p_1, %p_1) @cuda : (f16[1, 8, s0, 32]@cuda, f32[1, 8, s0]@cuda)
              %y_1 = multi_output %all_1[0] : f16[1, 8, s0, 32]@cuda
              assert_size_stride %y_1 (1, 8, s0, 32) (8 * (s0 * 32), s0 * 32, 32, 1) \
"aten._scaled_dot_product_flash_attention.default"
              free %all_1
              return %y_1
            }
          }
          free %p
          return %y
        }

    Then :func:`~.tile_attention.tile_attention` replaces the first call.  Branched is what
    it could take, where the ranges of symbols do not tell whether there are few positions.
    On a stream other than 0 the call stays as it is, since blocks are on stream 0.  Linear
    in the program.
    """
    if not has_attention(program):
        return program
    live = remove_dead_lines(program)
    facts = AttentionFacts.of_program(live)
    names = wir.FreshNames(facts.types)
    changed = rewrite_bodies(live, lambda body: _branched(body, facts, names))
    return program if changed == live else changed


def _branched(
    body: Body, facts: AttentionFacts, names: wir.FreshNames
) -> Iterator[wir.BodyLine]:
    branches: dict[str, wir.ConditionalLine] = {}
    for name, call in facts.calls(body.lines).items():
        condition = facts.has_few_positions(call)
        if not isinstance(condition, bool) and not call.line.stream:
            branches[name] = _conditional(call, condition, facts.types, names)
    for line in body.lines:
        if isinstance(line, wir.ExternKernelLine) and line.result in branches:
            yield branches[line.result]
        elif isinstance(line, wir.MultiOutputLine) and line.source in branches:
            continue
        elif not (isinstance(line, wir.FreeLine) and line.buffer in branches):
            yield line


def _conditional(
    call: AttentionCall,
    condition: wir.Expr,
    types: Mapping[str, wir.ValueType],
    names: wir.FreshNames,
) -> wir.ConditionalLine:
    given = dict.fromkeys(ref.name for ref in call.refs)

    def block(*lines: wir.BodyLine) -> wir.Block:
        inner: dict[str, str] = {}

        def rename(name: str) -> str:
            if name not in inner:
                inner[name] = names.new(None, f"{name[:_LONGEST]}_")
            return inner[name]

        parameters = tuple(wir.BlockParameter(rename(name), types[name]) for name in given)
        return wir.Block(
            parameters=parameters,
            lines=tuple(rename_values(line, rename) for line in lines),
            results=(wir.BufferRef(rename(call.result)),),
        )

    # Of a kernel's result the layout is known, and so it is then in both blocks.
    check = wir.AssertSizeStrideLine(
        buffer=call.result,
        size=call.out.size,
        stride=call.out.stride,
        message=call.line.operator,
    )
    freed = wir.FreeLine(buffer=call.first.source)
    return wir.ConditionalLine(
        results=(wir.Result(call.result, call.out),),
        predicate=condition,
        operands=tuple(map(wir.BufferRef, given)),
        on_true=block(call.line, call.first, freed),
        on_false=block(call.line, call.first, check, freed),
        provenance=call.line.provenance,
    )
