# Inductor says little of its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false
"""What an operator's schema says of its arguments: which it writes, which it returns."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from attrs import frozen

from wrapperir.ir.line import Argument
from wrapperir.ir.mentions import buffers_in


@frozen
class Signature:
    """Arguments, by position and name, that are written or shared with a result."""

    writes: tuple[tuple[int, str], ...] = ()
    aliases: tuple[tuple[int, str], ...] = ()

    def written(
        self, arguments: Sequence[Argument], keywords: Mapping[str, Argument]
    ) -> Iterator[str]:
        """Yield the names of the values that a call writes."""
        return _named(self.writes, arguments, keywords)

    def aliased(
        self, arguments: Sequence[Argument], keywords: Mapping[str, Argument]
    ) -> Iterator[str]:
        """Yield the names of the values that a call's result may share storage with."""
        return _named(self.aliases, arguments, keywords)


def signature_of(overload: Any, operator: str) -> Signature:
    """Return the signature of an operator, given as itself or by its full name."""
    if not isinstance(overload, torch._ops.OpOverload) or str(overload) != operator:
        namespace, name, overload_name = operator.split(".")
        overload = getattr(getattr(getattr(torch.ops, namespace), name), overload_name)
    return _signature(overload)


@lru_cache(maxsize=1024)
def _signature(overload: torch._ops.OpOverload) -> Signature:
    schema = overload._schema
    returned: set[str] = set()
    for value in schema.returns:
        if value.alias_info is not None:
            returned |= value.alias_info.before_set
    writes: list[tuple[int, str]] = []
    aliases: list[tuple[int, str]] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None:
            continue
        place = (position, argument.name)
        if argument.alias_info.is_write:
            writes.append(place)
        # What becomes a part of a list says so with a wildcard.
        after = argument.alias_info.after_set
        if argument.alias_info.before_set & returned or "*" in after:
            aliases.append(place)
    return Signature(tuple(writes), tuple(aliases))


def _named(
    places: tuple[tuple[int, str], ...],
    arguments: Sequence[Argument],
    keywords: Mapping[str, Argument],
) -> Iterator[str]:
    for position, name in places:
        if name in keywords:
            yield from buffers_in(keywords[name])
        elif position < len(arguments):
            yield from buffers_in(arguments[position])
