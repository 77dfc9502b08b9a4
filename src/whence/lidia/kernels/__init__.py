"""Kernels of whence.lidia: reading, writing and rendering archives."""

from whence.kernels import __path__

__all__ = ["__path__"]
