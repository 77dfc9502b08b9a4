"""Compiled hot loops of whence.demangle: names to readable ones, and bounds of their length."""

from whence.kernels import __path__

__all__ = ["__path__"]
