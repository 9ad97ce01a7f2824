"""Times, traffic and memory of each line of a program, as emitted code runs it."""

from wrapperir.profiling.clocks import CudaClock, HostClock, ProfileClock, clock_for
from wrapperir.profiling.measure import profile_program

__all__ = ["CudaClock", "HostClock", "ProfileClock", "clock_for", "profile_program"]
