"""Operators that do more to a tensor than to read and write its elements.

They use its storage past its layout, give it another layout, or keep it.
"""

from functools import lru_cache

# Given a storage offset, or the storage itself.
_FROM_STORAGE = """
as_strided as_strided_ as_strided_copy as_strided_scatter resize resize_ resize_as
resize_as_ set set_ set_data
"""

# They take two arguments with one storage for views of one tensor.
_COMPARED = """
cholesky_inverse cholesky_solve geqrf lu_solve lu_unpack orgqr ormqr qr svd
triangular_solve
"""

# Give their argument another layout or storage.
_RESHAPING = """
as_strided_ resize_ resize_as_ set_ set_data _resize_output_ t_ transpose_ swapaxes_
swapdims_ squeeze_ unsqueeze_ detach_ rename_ requires_grad_
"""

# The sizes of their results depend on data, so they resize an ``out`` argument.
_SIZED_BY_DATA = """
_ctc_loss _unique _unique2 argwhere bincount index linalg_lstsq masked_select nonzero
one_hot repeat_interleave unique_consecutive unique_dim unique_dim_consecutive
"""

# Only the sizes of their tensor argument matter.
_OF_SIZES = """
empty_like full_like new_empty new_empty_strided new_full new_ones new_zeros ones_like
rand_like randint_like randn_like zeros_like
"""

# Namespaces of PyTorch itself: their operators do not keep a tensor after the call.
_OWN = """
aten prim prims inductor inductor_prims rngprims quantized _quantized
quantized_decomposed sparse mkl mkldnn mkldnn_prepacked onednn xnnpack
"""

_OPERATORS = frozenset(f"aten.{name}" for name in (_FROM_STORAGE + _COMPARED).split())
_LAYOUT_CHANGING = frozenset(f"aten.{name}" for name in _RESHAPING.split())
_SIZING = frozenset(f"aten.{name}" for name in _SIZED_BY_DATA.split())
_SIZES_ONLY = frozenset(_OF_SIZES.split())
_OWN_NAMESPACES = frozenset(_OWN.split())
_LINEAR_ALGEBRA = ("aten.linalg_", "aten._linalg_")


@lru_cache(1024)
def looks_at_storage(operator: str) -> bool:
    """Say whether an operator looks at the storage of its arguments.

    It counts from the storage's start, replaces it, or compares it with another's.  In a
    pool, the storage is that of everything placed there.  ``operator`` has an overload,
    such as ``aten.as_strided.default``.
    """
    name = operator.rpartition(".")[0]
    return name in _OPERATORS or name.startswith(_LINEAR_ALGEBRA)


def changes_layout(operator: str) -> bool:
    """Say whether an operator gives a tensor that it writes another layout or storage."""
    name, _, overload = operator.rpartition(".")
    return name in _LAYOUT_CHANGING or (name in _SIZING and "out" in overload)


def is_sized_by_data(operator: str) -> bool:
    """Say whether the size of an operator's result depends on the values of tensors."""
    return operator.rpartition(".")[0] in _SIZING


def reads_elements(operator: str) -> bool:
    """Say whether an operator reads the elements of the tensors that it is given.

    Tensors that it writes (``out``) or returns views of do not count.
    """
    parts = operator.split(".")
    return len(parts) < 2 or parts[1] not in _SIZES_ONLY


def may_keep(operator: str) -> bool:
    """Say whether an operator may have its arguments after the call.

    An operator of another library may do so, and may change its arguments in any way.
    """
    return operator.partition(".")[0] not in _OWN_NAMESPACES


def needs_own_tensors(operator: str) -> bool:
    """Say whether arguments have to be tensors, with storages, that nothing else uses."""
    return looks_at_storage(operator) or changes_layout(operator) or may_keep(operator)
