"""Kernels of whence.columns: Arrow's C data interface, texts by number, and the answers of a namer."""

from whence.kernels import __path__

__all__ = ["__path__"]
