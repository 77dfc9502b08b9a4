"""Kernels: bytes of the ranges of a table."""

from whence.kernels import __path__

__all__ = ["__path__"]
