"""Compiled search for needles in text."""

from whence.kernels import __path__

__all__ = ["__path__"]
