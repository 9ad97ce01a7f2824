"""Well-formedness: every part of a program is what its class declares.

The annotations of the attrs classes say it all, so that a new line kind or field needs
nothing here.  Readers of programs rely on the declared types after this check.

Programs are checked by columns, which is several times as fast as one object after the
other: of all objects of one class, one field after the other, by the set of the classes
found there.  Only a program that fails is walked once more, to find the places.
"""

import functools
import itertools
import operator
import sys
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import NoneType, UnionType
from typing import Any, ForwardRef, Never, TypeAlias, Union, get_args, get_origin

import attrs

from wrapperir.ir.definition import Line
from wrapperir.ir.expr import Symbol
from wrapperir.ir.program import ConstantInput, Input, Program

MAX_STEPS = 600
"""Steps from a program to a part of it, so that recursion over a program is safe.

Blocks and expressions of the greatest depths that the verifier accepts need fewer.
"""

_LARGEST = 10**4000  # Python refuses to print integers of more than 4300 digits
_MOST_REPORTED = 100
_CHUNK = 4096  # values that are checked together: so few that they stay in caches

PathStep: TypeAlias = int | str
"""A position in a tuple or the name of a field."""


@attrs.frozen
class MalformedPart:
    """A part of a program that is not what its field declares.

    ``path`` leads from the program to the line, input or constant that the part belongs
    to, of class ``owner`` (or is empty, for the program itself); ``field`` leads from
    there to the part.
    """

    path: tuple[PathStep, ...]
    owner: type
    field: str
    found: str
    expected: str


def malformed_parts(program: Program) -> list[MalformedPart]:
    """Return the parts of a program that are not what their fields declare.

    A ``bool`` is not an ``int``, except in an expression; an ``int`` is a ``float``.
    A line is of a declared class itself, not of a subclass.  At most 100 parts are
    returned.  The time is linear in the program.
    """
    return [] if _is_well_formed(program) else list(_located(program))


class _MisfitError(Exception):
    """A tuple has another length than its field declares."""


class _Record:
    """The fields of an attrs class."""

    def __init__(self, kind: type[attrs.AttrsInstance]) -> None:
        hints = typing.get_type_hints(kind)
        self._fields = [
            (a.name, operator.attrgetter(a.name), _rule(hints[a.name], kind.__module__))
            for a in attrs.fields(kind)
        ]
        # A repeated part is not checked again, unless looking it up costs as much.
        # Lines occur once.
        self.repeats = not issubclass(kind, Line) and any(
            rule.has_parts() for _, _, rule in self._fields
        )

    def columns(self, values: list[Any]) -> Iterator[tuple["_TypeRule", Iterable[object]]]:
        """Yield each field of many values."""
        for _, get, rule in self._fields:
            yield rule, map(get, values)

    def parts(self, value: object) -> Iterator[tuple[PathStep, object, "_TypeRule"]]:
        """Yield each field of one value."""
        for name, _, rule in self._fields:
            yield name, getattr(value, name, _ABSENT), rule


class _Items:
    """The items of a tuple of any length."""

    def __init__(self, rule: "_TypeRule", repeats: bool) -> None:
        self._rule = rule
        self.repeats = repeats

    def columns(self, values: list[Any]) -> Iterator[tuple["_TypeRule", Iterable[object]]]:
        """Yield the items of many tuples, in chunks."""
        items = itertools.chain.from_iterable(values)
        while chunk := list(itertools.islice(items, _CHUNK)):
            yield self._rule, chunk

    def parts(self, value: Any) -> Iterator[tuple[PathStep, object, "_TypeRule"]]:
        """Yield each item of one tuple."""
        for index, item in enumerate(value):
            yield index, item, self._rule


class _TupleItems:
    """The items of a tuple of a given length, each with a rule of its own."""

    repeats = False

    def __init__(self, rules: list["_TypeRule"]) -> None:
        self._rules = rules

    def columns(self, values: list[Any]) -> Iterator[tuple["_TypeRule", Iterable[object]]]:
        """Yield the items of many tuples that have one position.

        Raises:
            _MisfitError: a tuple has another length.
        """
        if {*map(len, values)} != {len(self._rules)}:
            raise _MisfitError
        for index, rule in enumerate(self._rules):
            yield rule, map(operator.itemgetter(index), values)

    def parts(self, value: Any) -> Iterator[tuple[PathStep, object, "_TypeRule"]]:
        """Yield each item of one tuple; missing items are absent."""
        for index, rule in enumerate(self._rules):
            yield index, value[index] if index < len(value) else _ABSENT, rule
        for index in range(len(self._rules), len(value)):
            yield index, value[index], _NOTHING


_Parts: TypeAlias = _Record | _Items | _TupleItems
_Generation: TypeAlias = dict[_Parts, list[object]]


class _Refusal:
    """The answer of a rule for classes that it does not allow."""


class _Absent:
    """The class of the placeholder for a missing field or item."""


_REFUSED = _Refusal()
_ABSENT = _Absent()


class _TypeRule(dict[type, _Parts | _Refusal | None]):
    """The values that an annotation allows: by class, their parts, if they have any."""

    def __init__(self, annotation: Any, module: str, of_items: bool) -> None:
        super().__init__()
        self._alternatives = list(_alternatives(annotation, module))
        self._module = module
        self._of_items = of_items
        self.is_plain = not self.has_parts() and not {int, float} & {*self._alternatives}
        """Whether the class of a value tells all about it."""
        self.is_text = self._alternatives == [str]
        self.leaves: set[type] = set()
        """The allowed classes met so far whose values need no look."""

    def __missing__(self, kind: type) -> _Parts | _Refusal | None:
        answer = self[kind] = self._answer(kind)
        if answer is None and (self.is_plain or not issubclass(kind, int)):
            self.leaves.add(kind)
        return answer

    def _answer(self, kind: type) -> _Parts | _Refusal | None:
        for allowed in self._alternatives:
            if get_origin(allowed) is tuple:
                if issubclass(kind, tuple):
                    return _tuple_parts(allowed, self._module, self._of_items)
            elif attrs.has(allowed):
                # Lines are told apart by their classes, which then may not be others.
                if kind is allowed or (
                    issubclass(kind, allowed) and not issubclass(kind, Line)
                ):
                    return _record(allowed)
            elif kind is bool and allowed in (int, float):
                if Symbol in self._alternatives:
                    return None  # a truth value counts as a number in expressions
            elif issubclass(kind, (int, float) if allowed is float else allowed):
                return None
        return _REFUSED

    def has_parts(self) -> bool:
        """Say whether some value that is allowed has parts."""
        return any(
            get_origin(allowed) is tuple or attrs.has(allowed)
            for allowed in self._alternatives
        )

    def expected(self) -> str:
        """Return a description of the allowed values."""
        names = ["None" if a is NoneType else a.__name__ for a in self._alternatives]
        shown = names if len(names) <= 6 else [*names[:5], "..."]
        return " or ".join(shown) or "nothing"


def _alternatives(annotation: Any, module: str) -> Iterator[Any]:
    """Yield the members of a union, or the annotation itself; names are looked up."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        annotation = vars(sys.modules[module])[annotation]
    if get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _alternatives(member, module)
    elif annotation is not Never:
        yield NoneType if annotation is None else annotation


@functools.cache
def _rule(annotation: Any, module: str, of_items: bool = False) -> _TypeRule:
    return _TypeRule(annotation, module, of_items)


@functools.cache
def _record(kind: type[attrs.AttrsInstance]) -> _Record:
    return _Record(kind)


@functools.cache
def _tuple_parts(annotation: Any, module: str, nested: bool) -> _Items | _TupleItems:
    """Return the parts of a tuple; a tuple in tuples may be there very often."""
    items = get_args(annotation)
    if len(items) == 2 and items[1] is ...:
        return _Items(_rule(items[0], module, True), nested)
    return _TupleItems([_rule(item, module) for item in items])


_ROOT = _rule(Program, __name__)
_NOTHING = _rule(Never, __name__)


def _is_well_formed(program: object) -> bool:
    """Say whether a program is well-formed, without saying where it is not."""
    seen: defaultdict[_Parts, set[int]] = defaultdict(set)
    first: _Generation = {}
    waiting = [(first, 0)]
    try:
        if not _sort([program], _ROOT, first):
            return False
        while waiting:
            generation, depth = waiting.pop()
            if depth > MAX_STEPS:
                return False
            following: _Generation = {}
            for parts, values in generation.items():
                fresh = _new(values, seen[parts]) if parts.repeats else values
                for rule, column in parts.columns(fresh):
                    target = following
                    if isinstance(column, list) and len(column) == _CHUNK:
                        target = dict[_Parts, list[object]]()
                        waiting.append((target, depth + 1))
                    if not _sort(column, rule, target):
                        return False
            if following:
                waiting.append((following, depth + 1))
    except (AttributeError, _MisfitError):  # a field is not set, a tuple too short
        return False
    return True


def _new(values: list[object], seen: set[int]) -> list[object]:
    """Return the values that were not seen before, each once."""
    by_identity = dict(zip(map(id, values), values, strict=True))
    if seen.isdisjoint(by_identity):
        fresh = list(by_identity.values())
    else:
        fresh = [value for key, value in by_identity.items() if key not in seen]
    seen.update(by_identity)
    return fresh


def _sort(column: Iterable[Any], rule: _TypeRule, following: _Generation) -> bool:
    """Say whether the classes of values are allowed; add those with parts by class."""
    if rule.is_text:
        try:
            "".join(column)  # four times as fast as a set of classes
        except TypeError:
            return False
        return True
    values = list(column)
    kinds = set(map(type, values))
    if kinds <= rule.leaves:
        return True
    groups: dict[type, list[object]] = {}
    for kind in kinds:
        parts = rule[kind]
        if kind in rule.leaves:
            continue
        if isinstance(parts, _Refusal):
            return False
        if len(kinds) == 1:
            group, first = values, values[0]
            is_first = map(operator.is_, values, itertools.repeat(first))
            if first is values[-1] and all(is_first):
                group = values[:1]
        else:
            if not groups:
                groups = {kind: [] for kind in kinds}
                for value in values:
                    groups[type(value)].append(value)
            group = groups[kind]
        if parts is not None:
            following.setdefault(parts, []).extend(group)
        elif _has_huge(group):
            return False
    return True


def _has_huge(numbers: list[Any]) -> bool:
    distinct = set(numbers)
    return bool(max(distinct) >= _LARGEST or min(distinct) <= -_LARGEST)


@attrs.frozen(eq=False)
class _PartPlace:
    """A value, and the way to it."""

    value: object
    rule: _TypeRule
    outer: "_PartPlace | None" = None
    step: PathStep = ""
    depth: int = 0


def _located(program: object) -> Iterator[MalformedPart]:
    """Yield the malformed parts of a program, up to a number of them, in its order."""
    waiting = [_PartPlace(program, _ROOT)]
    seen: set[tuple[_Parts, int]] = set()
    count = 0
    while waiting and count < _MOST_REPORTED:
        place = waiting.pop()
        value, rule = place.value, place.rule
        parts = rule[type(value)]
        if isinstance(parts, _Refusal):
            found = "nothing" if value is _ABSENT else type(value).__name__
            yield _report(place, rule.expected(), found)
        elif isinstance(value, int) and _has_huge([value]):
            yield _report(place, "an integer of at most 4000 digits", "a longer one")
        elif place.depth > MAX_STEPS:
            yield _report(place, f"nested at most {MAX_STEPS} deep", "deeper")
        else:
            if parts is not None and (parts, id(value)) not in seen:
                seen.add((parts, id(value)))
                inner = [
                    _PartPlace(part, rule, place, step, place.depth + 1)
                    for step, part, rule in parts.parts(value)
                ]
                waiting += reversed(inner)
            continue
        count += 1


def _report(place: _PartPlace, expected: str, found: str) -> MalformedPart:
    """Return the report of a value, as a part of the innermost owner around it."""
    field: list[PathStep] = []
    while place.outer is not None:
        field.append(place.step)
        place = place.outer
        if isinstance(place.value, Line | Input | ConstantInput):
            break
    owner = place
    path: list[PathStep] = []
    while place.outer is not None:
        path.append(place.step)
        place = place.outer
    steps = reversed(field)
    text = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
    return MalformedPart(
        tuple(reversed(path)), type(owner.value), text.removeprefix("."), found, expected
    )
