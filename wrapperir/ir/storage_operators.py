"""Operators that look past a tensor's layout, at the storage that it is in."""

# Given a storage offset, or the storage itself.
_FROM_STORAGE = """
as_strided as_strided_ as_strided_copy as_strided_scatter resize resize_ resize_as
resize_as_ set set_ set_data
"""

# Where two arguments have one storage, they take the one for a view of the other.
_COMPARED = """
cholesky_inverse cholesky_solve geqrf lu_solve lu_unpack orgqr ormqr qr svd
triangular_solve
"""

_OPERATORS = frozenset(f"aten.{name}" for name in (_FROM_STORAGE + _COMPARED).split())
_LINEAR_ALGEBRA = ("aten.linalg_", "aten._linalg_")


def looks_at_storage(operator: str) -> bool:
    """Say whether an operator looks at the storage of its arguments.

    It counts from the storage's start, replaces it, or compares it with another's.  In a
    pool, the storage is that of everything placed there.  ``operator`` has an overload,
    such as ``aten.as_strided.default``.
    """
    name = operator.rpartition(".")[0]
    return name in _OPERATORS or name.startswith(_LINEAR_ALGEBRA)
