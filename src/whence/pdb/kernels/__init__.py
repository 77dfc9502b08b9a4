"""The compiled hot loops of whence.pdb: type records and module streams."""

from whence.kernels import __path__

__all__ = ["__path__"]
