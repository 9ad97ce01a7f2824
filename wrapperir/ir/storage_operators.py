"""Operators that look past a tensor's layout, at the storage that it is in."""

# Given a storage offset, or the storage itself.
_NAMES = """
as_strided as_strided_ as_strided_copy as_strided_scatter resize resize_ resize_as
resize_as_ set set_ set_data
"""

_OPERATORS = frozenset(f"aten.{name}" for name in _NAMES.split())


def counts_from_storage(operator: str) -> bool:
    """Say whether an operator counts from the start of its arguments' storage.

    Or replaces it.  ``operator`` has an overload, such as ``aten.as_strided.default``.
    In a pool, that start is not the tensor's own.
    """
    return operator.rpartition(".")[0] in _OPERATORS
