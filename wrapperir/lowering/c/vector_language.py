"""How a language like C spells vectors."""

from abc import abstractmethod
from collections.abc import Sequence

from wrapperir.ir import DType
from wrapperir.lowering.c.language import CLanguage
from wrapperir.lowering.scalar_op import ScalarOp


class VectorLanguage(CLanguage):
    """How a language spells vectors; :meth:`scalar` is the type of one."""

    width: int
    """Elements of a vector."""

    @abstractmethod
    def has(self, op: ScalarOp, source: DType, target: DType) -> bool:
        """Say whether an operator is one of vectors; ``source`` is its last operand's."""

    @abstractmethod
    def splat(self, text: str, dtype: DType) -> str:
        """Return a vector of one value."""

    @abstractmethod
    def load(self, element: str, dtype: DType) -> str:
        """Return the vector in memory that begins with an element."""

    @abstractmethod
    def store(self, element: str, dtype: DType, value: str) -> str:
        """Return the statement that stores a vector, to begin at an element."""

    @abstractmethod
    def pack(self, dtype: DType, values: Sequence[str]) -> str:
        """Return a vector of single values."""

    @abstractmethod
    def element(self, vector: str, dtype: DType, lane: int) -> str:
        """Return a single value of a vector."""
