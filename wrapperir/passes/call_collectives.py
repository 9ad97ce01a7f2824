"""Make collectives calls of PyTorch's operators, which any emitter for operators emits."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from wrapperir import ir as wir
from wrapperir.ir.blocks import rewrite_blocks, walk_lines
from wrapperir.ir.line_effects import value_names, value_types

_NAMESPACE = "_c10d_functional"
_WAIT = f"{_NAMESPACE}.wait_tensor.default"


def call_collectives(program: wir.Program) -> wir.Program:
    """Return the program with operator calls for each collective and each wait.

    Before::

        program @main(%x: mutated f32[4]) {
          group "0" size 2

          %w = collective all_reduce(sum) "0" reads(%x) writes(%x)
          wait_collective %w reads(%x) writes(%x)
          return %x
        }

    After::

        program @main(%x: mutated f32[4]) {
          group "0" size 2

          extern_kernel _c10d_functional.all_reduce_.default(%x, "sum", "0") writes(%x)
          extern_kernel _c10d_functional.wait_tensor.default(%x) writes(%x)
          return %x
        }

    PyTorch has no ``all_to_all`` into a given tensor: its result is copied after the wait.
    For emitters without collectives the pipeline runs this pass.  Linear in the program.
    """
    if not any(isinstance(line, wir.CollectiveLine) for line in walk_lines(program.lines)):
        return program
    calls = _Calls(
        {group.name: group.size for group in program.groups},
        value_types(program),
        wir.FreshNames(value_names(program)),
    )
    return evolve(program, lines=tuple(calls.of_lines(program.lines)))


class _Calls:
    """Makes calls for groups of known sizes and values of known types."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        types: Mapping[str, wir.ValueType],
        names: wir.FreshNames,
    ) -> None:
        self._sizes = sizes
        self._types = types
        self._names = names

    def of_lines(self, lines: Sequence[wir.BodyLine]) -> Iterator[wir.BodyLine]:
        """Yield the lines of a block, with calls for its collectives."""
        copied: dict[str, str] = {}
        handles: set[str] = set()
        for line in lines:
            if isinstance(line, wir.FreeLine) and line.buffer in handles:
                continue
            if isinstance(line, wir.CollectiveLine):
                handles.add(line.result)
                yield from self._start(line, copied)
            elif isinstance(line, wir.WaitCollectiveLine):
                yield from _wait(line, copied)
            else:
                yield rewrite_blocks(line, self._in_block)

    def _in_block(self, block: wir.Block) -> wir.Block:
        return evolve(block, lines=tuple(self.of_lines(block.lines)))

    def _start(
        self, line: wir.CollectiveLine, copied: dict[str, str]
    ) -> Iterator[wir.ExternKernelLine]:
        """Yield the calls that start a collective.

        ``copied`` gets the name of a result that is to be copied, by the handle.
        """
        group, size = line.group, self._sizes[line.group]
        reduction = "" if line.reduction is None else line.reduction.value
        reads = tuple(map(wir.BufferRef, line.reads))
        writes = tuple(map(wir.BufferRef, line.writes))
        match line.operation:
            case wir.Collective.ALL_REDUCE if len(reads) > 1:
                yield _call(line, "all_reduce_coalesced_", reads, reduction, group)
            case wir.Collective.ALL_REDUCE:
                yield _call(line, "all_reduce_", *reads, reduction, group)
            case wir.Collective.BROADCAST:
                yield _call(line, "broadcast_", *reads, line.peer, group)
            case wir.Collective.SEND:
                yield _call(line, "isend", *reads, line.peer, 0, group)
            case wir.Collective.RECEIVE:
                yield _call(line, "irecv", *writes, line.peer, 0, group)
            case wir.Collective.ALL_GATHER:
                for read, out in zip(reads, writes, strict=True):
                    name = "all_gather_into_tensor_out"
                    yield _call(line, name, read, size, group, out=out)
            case wir.Collective.REDUCE_SCATTER:
                for read, out in zip(reads, writes, strict=True):
                    name = "reduce_scatter_tensor_out"
                    yield _call(line, name, read, reduction, size, group, out=out)
            case wir.Collective.ALL_TO_ALL:
                copied[line.result] = result = self._names.new(None, "buf")
                given, taken = self._splits(line, size)
                call = _call(line, "all_to_all_single", *reads, taken, given, group)
                type = self._types[line.writes[0]]
                assert isinstance(type, wir.TensorType)
                plain = wir.tensor(type.dtype, type.size, device=type.device)
                yield evolve(call, result=result, type=plain, writes=())

    def _splits(
        self, line: wir.CollectiveLine, size: int
    ) -> tuple[tuple[wir.Expr, ...], tuple[wir.Expr, ...]]:
        """Return the rows that are given to and taken from each rank."""
        if line.read_splits:
            return line.read_splits, line.write_splits
        type = self._types[line.reads[0]]
        assert isinstance(type, wir.TensorType)
        equal = (wir.floordiv(type.size[0], size),) * size
        return equal, equal


def _wait(
    line: wir.WaitCollectiveLine, copied: Mapping[str, str]
) -> Iterator[wir.BodyLine]:
    """Yield the calls that wait for a collective."""
    result = copied.get(line.work)
    if result is None:
        for name in line.writes or line.reads:
            yield _wait_for(line, name)
        return
    (target,) = line.writes
    yield _wait_for(line, result)
    yield wir.ExternKernelLine(
        operator="aten.copy_.default",
        arguments=(wir.BufferRef(target), wir.BufferRef(result)),
        writes=(target,),
        device=line.device,
        stream=line.stream,
        provenance=line.provenance,
    )
    yield wir.FreeLine(buffer=result, provenance=line.provenance)


def _call(
    line: wir.CollectiveLine,
    operator: str,
    *arguments: wir.Argument,
    out: wir.BufferRef | None = None,
) -> wir.ExternKernelLine:
    return wir.ExternKernelLine(
        operator=f"{_NAMESPACE}.{operator}.default",
        arguments=arguments,
        keywords=() if out is None else (("out", out),),
        writes=line.writes if out is None else (out.name,),
        device=line.device,
        stream=line.stream,
        provenance=line.provenance,
    )


def _wait_for(line: wir.WaitCollectiveLine, name: str) -> wir.ExternKernelLine:
    return wir.ExternKernelLine(
        operator=_WAIT,
        arguments=(wir.BufferRef(name),),
        writes=(name,) if name in line.writes else (),
        device=line.device,
        stream=line.stream,
        provenance=line.provenance,
    )
