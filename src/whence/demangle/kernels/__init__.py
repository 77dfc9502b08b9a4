"""The compiled hot loop of whence.demangle: the walk through a mangled name of C++."""

from whence.kernels import __path__

__all__ = ["__path__"]
