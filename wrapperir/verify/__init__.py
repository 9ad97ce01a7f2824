"""The verifier: every certain fault of a program, at once, each with its place."""

from wrapperir.verify.program import verify

__all__ = ["verify"]
