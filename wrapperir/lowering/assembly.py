"""Make a nest of a list of instructions: instructions outside, and inner loops."""

from collections.abc import Mapping

from attrs import evolve

from wrapperir.ir import TensorType
from wrapperir.lowering.flat_nest import FlatNest
from wrapperir.lowering.loop_plan import LoopPlan, RowReuse
from wrapperir.lowering.loops import InnerLoop, Instruction, Load, Nest, Step
from wrapperir.lowering.row_reuse import choose_reuse
from wrapperir.lowering.substitution import Substitution, results


def assemble(
    flat: FlatNest, name: str, sequential: Mapping[str, TensorType] | None = None
) -> Nest:
    """Return instructions as a nest.

    ``sequential`` has the types of buffers if the inner loops of a point run one after the
    other on one processor, so that a loop can load what another stored.

    Raises:
        NotNestedError: a store or check outside the inner axes depends on them.
    """
    plan = LoopPlan(flat)
    reuse: dict[int, RowReuse] = {}
    if sequential is not None and plan.loops > 1:
        reuse = choose_reuse(plan, sequential)
    loops, outer = plan.needed(reuse)
    emitted: set[str] = set()
    body: list[Step] = []
    for position in range(plan.loops + 1):
        body += [flat.code[place] for place in outer if plan.stage[place] == position]
        if position < plan.loops:
            inner = _inner_loop(plan, position, loops[position], reuse, emitted)
            body.append(InnerLoop(axes=flat.inner, body=inner))
    return Nest(
        name=name,
        axes=flat.parallel,
        body=tuple(body),
        origins=flat.origins,
        stored=flat.stored,
    )


def _inner_loop(
    plan: LoopPlan,
    loop: int,
    places: list[int],
    reuse: Mapping[int, RowReuse],
    emitted: set[str],
) -> tuple[Instruction, ...]:
    """Return an inner loop's instructions; values computed again get new names."""
    values: dict[str, str] = {}
    rename = Substitution(values)
    found: list[Instruction] = []
    for place in places:
        each = plan.code[place]
        for name in results(each):
            if name in emitted:
                values[name] = f"{name}'{loop}"
            emitted.add(name)
        kept = reuse.get(place)
        if kept is None:
            found.append(rename.instruction(each) if values else each)
            continue
        (value,) = results(each)
        new = values.get(value, value)
        if loop > kept.loop:
            store = kept.store
            found.append(
                Load(
                    result=new,
                    dtype=kept.dtype,
                    buffer=store.buffer,
                    index=store.index,
                    origins=each.origins,
                )
            )
            continue
        found.append(rename.instruction(each) if values else each)
        if kept.is_added and loop == kept.loop:
            found.append(evolve(kept.store, value=new))
    return tuple(found)
