"""The verifier: every fault that is certain from programs alone, with its place."""

from wrapperir.verify.program import verify
from wrapperir.verify.ranks import verify_ranks

__all__ = [
    "verify",
    "verify_ranks",
]
