"""How many examples a test draws: few by default, more for ``make fuzz``."""

from hypothesis import settings


def draws(usual: int, fuzz: int) -> int:
    """Return ``usual``, or ``fuzz`` where examples are new ones in each run.

    The default run draws the same examples every time: more of them find a fault once.
    """
    return usual if settings.get_current_profile_name() == "wrapperir" else fuzz
