"""Compiled parsers of maps and kallsyms."""

from whence.kernels import __path__

__all__ = ["__path__"]
