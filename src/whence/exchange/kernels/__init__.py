"""The compiled hot loops of whence.ranges: one file per state machine or section of the standard."""

from whence.kernels import __path__

__all__ = ["__path__"]
