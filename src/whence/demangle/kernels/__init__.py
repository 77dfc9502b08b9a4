"""The compiled hot loops of whence.demangle: the walk through a mangled name of C++, and each name's way there."""

from whence.kernels import __path__

__all__ = ["__path__"]
