"""What a program built in memory may hold that its types do not allow."""


class MalformedError(Exception):
    """A field holds something that its declared type does not allow."""


def expect(value: object, kind: type | tuple[type, ...], what: str) -> None:
    """Hold a field to its kind.

    Raises:
        MalformedError: ``value`` is of another kind; ``what`` says what was wanted.
    """
    if not isinstance(value, kind):
        raise MalformedError(f"{value.__class__.__name__} in place of {what}")


def expect_whole(value: object, what: str) -> None:
    """Hold a field to ``int`` itself: a ``bool`` is one to Python, but not to any form.

    Raises:
        MalformedError: ``value`` is of another kind; ``what`` says what was wanted.
    """
    if type(value) is not int:
        raise MalformedError(f"{value.__class__.__name__} in place of {what}")
