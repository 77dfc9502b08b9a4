"""The compiled hot loops of whence.interpreters: one file per runtime."""

from whence.kernels import __path__

__all__ = ["__path__"]
