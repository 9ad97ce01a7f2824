"""Operators of PyTorch's dispatcher, by name: their schemas, effects and ``out`` variants.

Importing this loads no torch; looking an operator up does.
"""

from wrapperir.operators.effects import (
    UPDATE_STATISTICS,
    OutOverload,
    find_out_overload,
    is_pointwise,
    may_leave_out,
)
from wrapperir.operators.schema import (
    Kind,
    Schema,
    SchemaParameter,
    SchemaType,
    UnknownOperatorError,
    find_overload,
    find_schema,
    given_arguments,
    registered_operators,
    schema_of,
    split_operator,
)

__all__ = [
    "UPDATE_STATISTICS",
    "Kind",
    "OutOverload",
    "Schema",
    "SchemaParameter",
    "SchemaType",
    "UnknownOperatorError",
    "find_out_overload",
    "find_overload",
    "find_schema",
    "given_arguments",
    "is_pointwise",
    "may_leave_out",
    "registered_operators",
    "schema_of",
    "split_operator",
]
