"""The compiled hot loops of whence.profiles.flamegraph: one file per state machine or section of the standard."""

from whence.kernels import shared_object

__path__ = [shared_object(__file__)]
