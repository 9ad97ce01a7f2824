"""Objects that a graph is given and returns, and that pass around its program."""

from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

if TYPE_CHECKING:
    from wrapperir.emit import Loaded, Value


@frozen
class PassedResult:
    """A result of a graph at ``position``: an input, or an object.

    With ``scaled`` it is the input times the number that the program returns.
    """

    position: int
    given: int | None = None
    value: object = None
    scaled: bool = False


@define
class PassedObjects:
    """What a call of a program does with objects: removes, adds and returns them."""

    hidden: list[int] = field(factory=list[int])
    """Positions of inputs that the program does not see."""
    added: list[Any] = field(factory=list[Any])
    """Objects of the graph's own that its operators take: further inputs."""
    results: list[PassedResult] = field(factory=list[PassedResult])

    def around(self, call: "Loaded") -> "Loaded":
        """Return the callable of the graph for that of its program."""
        if not self.hidden and not self.added and not self.results:
            return call
        needed = {result.given for result in self.results if result.given is not None}

        def run(args: "list[Value]") -> "tuple[Value, ...]":
            objects: dict[int | None, Any] = {i: args[i] for i in needed}
            for position in self.hidden:
                args[position] = 0
            args.extend(self.added)
            results: list[Any] = list(call(args))
            for result in self.results:
                value = objects.get(result.given, result.value)
                if result.scaled:
                    value = results[result.position] * value
                results[result.position] = value
            return tuple(results)

        return run
