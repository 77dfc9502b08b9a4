"""The compiled hot loops of whence.elf: one file per state machine or section of the standard."""

from whence.kernels import __path__

__all__ = ["__path__"]
