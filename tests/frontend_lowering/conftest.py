"""What these tests lower and schedule is checked."""

from tests.lowering.checked_lowering import checked_lowering as checked_lowering
