"""The compiled hot loops of whence.unwind: one file per state machine or section of the standard."""

from whence.kernels import shared_object

__path__ = [shared_object(__file__)]
