"""The compiled hot loops of whence.objects.pdb: the blocks of streams, and public symbols."""

from whence.kernels import __path__

__all__ = ["__path__"]
