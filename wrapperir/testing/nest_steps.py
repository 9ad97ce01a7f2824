"""Steps that grow a drawn nest, each by a few instructions."""

from collections.abc import Sequence
from math import inf, prod

from attrs import define, evolve, field
from hypothesis import strategies as st

from wrapperir.ir import (
    DType,
    Expr,
    Symbol,
    TensorType,
    contiguous_stride,
    floordiv,
    mod,
    mul,
)
from wrapperir.lowering.loops import (
    Apply,
    Axis,
    Check,
    IndexValue,
    InnerLoop,
    Instruction,
    Literal,
    Load,
    Reduce,
    Scan,
    Step,
    Store,
    StoreMode,
)
from wrapperir.lowering.scalar_op import (
    REDUCED_REAL,
    SCANS,
    ReduceOp,
    ScalarOp,
    operand_count,
    reduced_dtypes,
    result_dtype,
    scanned_dtypes,
    takes_dtype,
)
from wrapperir.testing.value_facts import (
    DIVISIONS,
    DTYPES,
    EXACT,
    EXTENTS,
    GREATEST,
    MOST,
    PLACED,
    ROUGH,
    SMOOTH,
    WHOLE_FLOATS,
    KnownValue,
    can_reduce,
    number_of,
    points_of,
    result_facts,
)


@define
class NestMaker:
    """The nest so far, and the values and axes that are visible."""

    draw: st.DrawFn
    axes: list[Axis] = field(factory=list[Axis])
    known: list[KnownValue] = field(factory=list[KnownValue])
    body: list[Step] = field(factory=list[Step])
    loop: list[Instruction] | None = None
    buffers: dict[str, TensorType] = field(factory=dict[str, TensorType])
    inputs: list[str] = field(factory=list[str])
    outputs: list[str] = field(factory=list[str])
    positions: dict[str, int] = field(factory=dict[str, int])
    rough: dict[str, float] = field(factory=dict[str, float])
    count: int = 0

    def name(self) -> str:
        """Return a new name."""
        self.count += 1
        return f"v{self.count}"

    def add(self, step: Instruction) -> None:
        """Append an instruction to the loop that is open, or to the nest."""
        (self.body if self.loop is None else self.loop).append(step)

    def value(
        self, step: Literal | IndexValue | Load | Apply, **facts: object
    ) -> KnownValue:
        """Add an instruction; note and return its value."""
        self.add(step)
        known = KnownValue(name=step.result, dtype=step.dtype, **facts)  # type: ignore[arg-type]
        self.known.append(known)
        return known

    def pick(self, wanted: Sequence[KnownValue]) -> KnownValue:
        """Draw one of some values."""
        return self.draw(st.sampled_from(wanted))

    def some_axes(self) -> list[Axis]:
        """Draw some of the visible axes, in any order."""
        return self.draw(st.permutations(self.axes))[: self.draw(st.integers(0, 3))]

    def buffer(self, dtype: DType, size: Sequence[Expr], word: str) -> str:
        """Add a buffer, row by row or column by column; return its name."""
        name = f"{word}{len(self.buffers)}"
        stride = contiguous_stride(tuple(size))
        if self.draw(st.booleans()):
            stride = tuple(reversed(contiguous_stride(tuple(reversed(size)))))
        self.buffers[name] = TensorType(dtype=dtype, size=tuple(size), stride=stride)
        return name

    def dimension(self, axis: Axis) -> tuple[list[Expr], list[Expr]]:
        """Draw one or two dimensions that an axis runs over: their sizes and indices."""
        at, extent = Symbol(axis.name), axis.extent
        kinds: list[tuple[list[Expr], list[Expr]]] = [
            ([extent], [at]),
            ([extent], [extent - 1 - at]),
            ([mul(extent, 2)], [mul(at, 2) + 1]),
            ([extent + 1], [at + 1]),
            ([floordiv(extent + 1, 2), 2], [floordiv(at, 2), mod(at, 2)]),
            ([3, extent], [1, at]),
        ]
        return self.draw(st.sampled_from(kinds))

    def load(self) -> None:
        """Load from a new input, at an index over some axes."""
        sizes: list[Expr] = []
        index: list[Expr] = []
        for axis in self.some_axes():
            size, at = self.dimension(axis)
            sizes += size
            index += at
        dtype = self.draw(st.sampled_from((*DTYPES[:2], *DTYPES)))
        self.load_input(dtype, sizes, index)

    def load_input(
        self,
        dtype: DType,
        sizes: Sequence[Expr],
        index: Sequence[Expr],
        mask: str | None = None,
    ) -> KnownValue:
        """Add an input, and a load of it; return the value."""
        name = self.buffer(dtype, sizes, "in")
        self.inputs.append(name)
        load = Load(
            result=self.name(),
            dtype=dtype,
            buffer=name,
            index=tuple(index),
            mask=mask,
            other=number_of(dtype, 3),
        )
        return self.value(load, size=GREATEST, whole=True)

    def gather(self) -> None:
        """Load where other loads say."""
        axis = self.draw(st.sampled_from(self.axes))
        place = self.load_input(DType.I64, [axis.extent], [Symbol(axis.name)])
        limit = self.draw(st.integers(1, 5))
        self.positions[self.inputs[-1]] = limit
        dtype = self.draw(st.sampled_from(DTYPES))
        self.load_input(dtype, [limit], [Symbol(place.name)])

    def masked_load(self) -> None:
        """Load the next element along an axis, where there is one."""
        axis = self.draw(st.sampled_from(self.axes))
        mask = self.inside(axis)
        at = Symbol(axis.name) + 1
        dtype = self.draw(st.sampled_from(DTYPES))
        self.load_input(dtype, [axis.extent], [at], mask)

    def inside(self, axis: Axis) -> str:
        """Return the name of a mask: whether the next point of an axis exists."""
        i64 = DType.I64
        at = IndexValue(result=self.name(), dtype=i64, expr=Symbol(axis.name) + 1)
        end = IndexValue(result=self.name(), dtype=i64, expr=axis.extent)
        operands = (at.result, end.result)
        self.add(at)
        self.add(end)
        test = Apply(
            result=self.name(), dtype=DType.BOOL, op=ScalarOp.LT, operands=operands
        )
        return self.value(test, size=1, whole=True).name

    def literal(self) -> None:
        """Add a constant."""
        dtype = self.draw(st.sampled_from(DTYPES))
        number = self.draw(st.integers(-GREATEST, GREATEST))
        value = number_of(dtype, number)
        wraps = dtype is DType.U8 and number < 0
        size = inf if wraps else GREATEST
        literal = Literal(result=self.name(), dtype=dtype, value=value)
        self.value(literal, size=size, whole=not wraps)

    def position(self) -> None:
        """Add the value of an index."""
        at: Expr = 0
        for axis in self.some_axes():
            at = mul(at, 3) + Symbol(axis.name)
        dtype = self.draw(st.sampled_from([DType.I64, DType.I32, DType.F32, DType.F64]))
        self.value(
            IndexValue(result=self.name(), dtype=dtype, expr=at), size=120, whole=True
        )

    def operator(self) -> None:
        """Apply an operator to values of one dtype, if any of it are known."""
        first = self.pick(self.known)
        usable = SMOOTH if first.rough else EXACT
        ops = [op for op in ScalarOp if op in usable and takes_dtype(op, first.dtype)]
        if first.size <= 16 and not first.rough and takes_dtype(ScalarOp.EXP, first.dtype):
            ops.append(self.draw(st.sampled_from(ROUGH)))
        if not ops:
            return
        op = self.draw(st.sampled_from(ops))
        others = [k for k in self.known if k.dtype is first.dtype]
        if op not in SMOOTH:
            others = [k for k in others if not k.rough]
        second = self.pick(others)
        operands = [first, second][: operand_count(op)]
        facts = result_facts(op, operands)
        if facts is None:
            return
        dtype = result_dtype(op, [first.dtype, second.dtype])
        assert dtype is not None
        names = tuple(each.name for each in operands)
        apply = Apply(result=self.name(), dtype=dtype, op=op, operands=names)
        self.value(apply, size=facts.size, whole=facts.whole, rough=facts.rough)

    def division(self) -> None:
        """Divide by a constant, or shift by one."""
        numbers = [k for k in self.known if k.dtype in DTYPES[:-1] and not k.rough]
        if not numbers:
            return
        first = self.pick(numbers)
        ops = list(DIVISIONS)
        if first.dtype.is_integer:
            ops += [ScalarOp.SHL, ScalarOp.SHR]
        elif not first.whole:
            return  # eager's quotients of reals are not exact
        op = self.draw(st.sampled_from(ops))
        number = number_of(first.dtype, self.draw(st.integers(1, 5)))
        by = Literal(result=self.name(), dtype=first.dtype, value=number)
        self.value(by, size=5, whole=True)
        apply = Apply(
            result=self.name(), dtype=first.dtype, op=op, operands=(first.name, by.result)
        )
        self.value(apply, size=inf if op is ScalarOp.SHL else max(first.size, 5))

    def cast(self) -> None:
        """Convert a value to a dtype that holds it."""
        first = self.pick(self.known)
        targets = list(DTYPES)
        if first.dtype.is_float:
            small = first.whole and first.size <= 100
            targets = [d for d in DTYPES if d.is_float or (small and d is not DType.U8)]
            if first.rough:
                targets = [d for d in targets if d.is_float]
        dtype = self.draw(st.sampled_from(targets))
        whole = first.whole and first.size <= WHOLE_FLOATS.get(dtype, 100)
        apply = Apply(
            result=self.name(), dtype=dtype, op=ScalarOp.CAST, operands=(first.name,)
        )
        self.value(apply, size=first.size, whole=whole, rough=first.rough)

    def choose(self) -> None:
        """Add a ``where``."""
        conditions = [k for k in self.known if k.dtype is DType.BOOL and not k.rough]
        if not conditions:
            return
        first = self.pick(self.known)
        second = self.pick([k for k in self.known if k.dtype is first.dtype])
        names = (self.pick(conditions).name, first.name, second.name)
        apply = Apply(
            result=self.name(), dtype=first.dtype, op=ScalarOp.WHERE, operands=names
        )
        self.value(
            apply,
            size=max(first.size, second.size),
            whole=first.whole and second.whole,
            rough=first.rough or second.rough,
        )

    def check(self) -> None:
        """Check what holds: a value equals itself."""
        whole = [k for k in self.known if k.dtype.is_integer]
        if whole:
            name = self.pick(whole).name
            test = Apply(
                result=self.name(), dtype=DType.BOOL, op=ScalarOp.EQ, operands=(name, name)
            )
            condition = self.value(test, size=1, whole=True).name
            self.add(Check(condition=condition, message="a value equals itself"))

    def store(self) -> None:
        """Store a value at each point."""
        value = self.pick(self.known[-6:])
        axes = self.draw(st.permutations(self.axes))
        name = self.buffer(value.dtype, [axis.extent for axis in axes], "out")
        index = tuple(Symbol(axis.name) for axis in axes)
        mask = None
        if axes and self.draw(st.integers(0, 3)) == 0:
            self.inputs.append(name)  # what is not stored keeps its contents
            mask = self.inside(axes[0])
        self.finish_store(
            Store(buffer=name, index=index, value=value.name, mask=mask), value
        )

    def combine(self) -> None:
        """Combine a value with elements that several points update."""
        able = (DType.F32, DType.F64, DType.I64, DType.I32)
        values = [k for k in self.known if k.dtype in able and k.size <= 100]
        if not values or not self.axes:
            return
        value = self.pick(values)
        name = self.buffer(value.dtype, [2], "acc")
        self.inputs.append(name)
        at = mod(Symbol(self.draw(st.sampled_from(self.axes)).name), 2)
        mode = self.draw(st.sampled_from([StoreMode.ADD, StoreMode.MIN, StoreMode.MAX]))
        if mode is StoreMode.ADD and not value.whole and value.dtype.is_float:
            value = evolve(value, rough=True, size=value.size * 1000)
        self.finish_store(
            Store(buffer=name, index=(at,), value=value.name, mode=mode), value
        )

    def finish_store(self, store: Store, value: KnownValue) -> None:
        """Add a store, and note its output."""
        self.add(store)
        self.outputs.append(store.buffer)
        if value.rough:
            self.rough[store.buffer] = value.size

    def inner_loop(self) -> None:
        """Add a loop that reduces and scans values, and stores values of its own."""
        outer = list(self.axes), list(self.known)
        count = self.draw(st.integers(1, 2))
        extents = [self.draw(st.sampled_from(EXTENTS)) for _ in range(count)]
        first = sum(len(step.axes) for step in self.body if isinstance(step, InnerLoop))
        axes = tuple(Axis(f"r{first + n}", extent) for n, extent in enumerate(extents))
        points = prod(points_of(extent) for extent in extents)
        self.axes += axes
        self.loop = []
        self.load()
        self.grow(2)
        reduced: list[KnownValue] = []
        for _ in range(self.draw(st.integers(0, 2))):
            reduced += self.reduction(points, is_scan=False)
        self.known += self.reduction(points_of(extents[-1]), is_scan=True)
        self.grow(1)
        if self.draw(st.booleans()):
            self.store()
        self.body.append(InnerLoop(axes=axes, body=tuple(self.loop)))
        self.loop = None
        self.axes, self.known = outer
        self.known += reduced

    def reduction(self, points: int, *, is_scan: bool) -> list[KnownValue]:
        """Reduce or scan a value, if it can be; return the results."""
        op = self.draw(st.sampled_from(SCANS if is_scan else list(ReduceOp)))
        values = [value for value in self.known if can_reduce(op, value)]
        if not values or (is_scan and self.draw(st.booleans())):
            return []
        value = self.pick(values[-6:])
        whole, size, rough = value.whole, value.size, value.rough
        if op is ReduceOp.SUM:
            size *= points
        elif op is ReduceOp.PROD:
            size = max(size, 1) ** points
        elif op in REDUCED_REAL:
            size, whole, rough = max(size, size * size * points), False, True
        if op in (ReduceOp.SUM, ReduceOp.PROD) and value.dtype.is_float:
            whole = whole and size <= WHOLE_FLOATS[value.dtype]
            rough = not whole
        if rough and size > MOST:
            return []
        dtypes = (scanned_dtypes if is_scan else reduced_dtypes)(op, value.dtype)
        names = tuple(self.name() for _ in dtypes)
        kind = Scan if is_scan else Reduce
        self.add(kind(results=names, dtype=value.dtype, op=op, operands=(value.name,)))
        if op in PLACED:
            size = max(size, points)
        return [
            KnownValue(name=name, dtype=dtype, size=size, whole=whole, rough=rough)
            for name, dtype in zip(names, dtypes, strict=True)
        ]

    def grow(self, most: int) -> None:
        """Add at least one step, and at most so many."""
        steps = [self.operator] * 4
        steps += [self.load, self.literal, self.position, self.division, self.cast]
        steps += [self.cast, self.choose, self.check]
        steps += [self.gather, self.masked_load] if self.axes else []
        for _ in range(self.draw(st.integers(1, most))):
            self.draw(st.sampled_from(steps))()
