"""The checks that a user selects."""

from attrs import frozen


@frozen(kw_only=True)
class CheckSelection:
    """The checks to run; ``None`` is all.

    ``examples`` is the number of drawn programs, and ``seed`` decides which they are.
    ``seconds`` is the time that one check may take, ``shrinking`` that to look for a
    smaller counterexample.
    """

    features: frozenset[str] | None = None
    cases: frozenset[str] | None = None
    devices: frozenset[str] | None = None
    examples: int = 25
    seed: int = 0
    seconds: float = 120
    shrinking: float = 60

    def has(self, feature: str, case: str | None = None) -> bool:
        """Return whether a check of a feature, or one case of it, is to run."""
        is_named = self.cases is None or case is None or case in self.cases
        return is_named and (self.features is None or feature in self.features)
