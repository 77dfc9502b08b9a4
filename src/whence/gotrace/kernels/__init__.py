"""Compiled loops over the events of Go traces."""

from whence.kernels import __path__

__all__ = ["__path__"]
