"""The verifier: every fault that is certain from a program alone, with its place."""

from wrapperir.verify.program import verify

__all__ = [
    "verify",
]
