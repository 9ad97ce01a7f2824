"""What frontends call before they compile, so that work begins in the background."""

from typing import Protocol


class Prepare(Protocol):
    """Begins what loading programs needs, and nothing that has begun."""

    def __call__(self, *, is_new: bool) -> None:
        """Begin it; ``is_new`` says that a program is not kept and has to be emitted."""
        ...


def prepare_nothing(*, is_new: bool) -> None:
    """Begin nothing."""
